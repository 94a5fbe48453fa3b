"""A stream into a table: slatespark's sink, Delta's, and Delta's MERGE in `foreachBatch`, which upserts."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data import SEED, DataFolder
from benchmarks.harness import Benchmark
from benchmarks.peers.scenario import OURS, Step, compare
from benchmarks.typed_rows import make_batch, parquet_parts

TITLE: Final = "Batches of a stream into a table: slatespark and delta"

_SMALL: Final = 1_000  # rows of a small batch; a large one has a tenth of the table's
_BATCHES: Final = (6, 4)  # of each size
_WARM_UP_BATCHES: Final = (3, 3)


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark; the table that the streams upsert has `rows` rows."""
    notes = [
        f"From Parquet files, one each batch. New rows go into an empty table, upserts into one of {rows:,} rows, a "
        "tenth of them new. 8 columns, 2 of them the key.",
        "delta: `writeStream.format('delta')` appends the new rows, a MERGE in `foreachBatch` upserts.",
        "seconds: the whole query; write_s: the median `addBatch` of its batches but the first two.",
    ]

    def steps(given: int) -> list[Step]:
        return _steps(data, given, _BATCHES if given == rows else _WARM_UP_BATCHES)

    return compare(steps, rows, "delta", (OURS, "delta"), notes)


def _steps(data: DataFolder, rows: int, counts: tuple[int, int]) -> list[Step]:
    steps = []
    for size, batches in zip((_SMALL, rows // 10), counts, strict=True):
        new, changed = (_files(data, rows, size, batches, is_new=is_new) for is_new in (True, False))
        steps += [
            Step(f"{batches} batches of {size:,} new rows", "stream", {"source": str(new), "loaded": None}),
            Step(
                f"{batches} batches of {size:,} upserts",
                "stream",
                {"source": str(changed), "loaded": str(parquet_parts(data, rows))},
            ),
        ]
    return steps


def _files(data: DataFolder, rows: int, size: int, batches: int, *, is_new: bool) -> Path:
    """Return a folder of Parquet files with a batch each."""

    def make(path: Path) -> None:
        path.mkdir()
        generator = np.random.default_rng([SEED, 13, size, is_new])
        for batch in range(batches):
            first = rows + batch * size
            numbers = np.arange(first, first + size)
            if not is_new:
                numbers[size // 10 :] = generator.choice(rows, size - size // 10, replace=False)
            pq.write_table(
                pa.Table.from_batches([make_batch(generator, generator.permutation(numbers))]),
                path / f"batch-{batch:03d}.parquet",
            )

    return data.made(f"stream-{'new' if is_new else 'upserts'}-{rows}-{size}-{batches}", make)
