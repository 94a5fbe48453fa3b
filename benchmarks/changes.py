"""What 1,000 upserts changed in a large typed table, against its full scan."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data import DataFolder
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.tasks import scan
from benchmarks.typed_rows import all_batches
from benchmarks.typed_schema import KEYS, SCHEMA
from benchmarks.worker import Sample, Stopwatch, Task
from slatespark import SlateStore

TITLE: Final = "Changes between two versions that differ by 1,000 upserts, against the full scan"
CHANGED: Final = 1000
LOADED_VERSION: Final = 3  # of the only load

SCAN: Final = "full scan"
NET: Final = "changes"
BLIND: Final = "changes, preImages=false"


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of a table of `rows` rows."""
    path = data.made(f"changes-{rows}", lambda path: _fill(path, rows))
    return Benchmark(
        alternatives=[
            Alternative(name=SCAN, task=Task.of(scan, path=path)),
            Alternative(name=BLIND, task=Task.of(changes, path=path, pre_images=False)),
            Alternative(name=NET, task=Task.of(changes, path=path, pre_images=True)),
        ],
        base=SCAN,
        targets=[
            Target(alternative=BLIND, against=SCAN, at_most=0.03),
            Target(alternative=NET, against=SCAN, at_most=0.06),
        ],
        notes=[
            f"{rows:,} rows of 8 columns, one load; then {CHANGED:,} of them upserted, spread over all keys.",
            "All columns are produced; finding the versions and planning count.",
        ],
        same=(),
        warm_ups=2,
    )


def _fill(path: Path, rows: int) -> None:
    store = SlateStore.create(str(path), SCHEMA, KEYS)
    loaded = store.write(all_batches(rows))
    assert loaded == LOADED_VERSION
    store.write(pa.Table.from_batches(_upserts(rows), SCHEMA), compression="none")


def _upserts(rows: int) -> Iterator[pa.RecordBatch]:
    """Yield every so many rows with another quantity."""
    passed = 0
    for batch in all_batches(rows):
        places = range(-passed % (rows // CHANGED), len(batch), rows // CHANGED)  # none, in some of the last batches
        chosen = batch.take(pa.array(places, pa.int64()))
        passed += len(batch)
        place = SCHEMA.get_field_index("quantity")
        yield chosen.set_column(place, SCHEMA.field(place), pc.add(chosen.column(place), 1).cast(pa.int32()))


# --- tasks ----------------------------------------------------------------------------------------------------------


def changes(path: str, pre_images: bool) -> Sample:
    """Drain the feed of the upserts."""
    store = SlateStore.open(path)
    given: dict[str, Any] = {"startingVersion": LOADED_VERSION, "startingBoundInclusive": False}
    with Stopwatch() as watch:
        rows = sum(len(batch) for batch in store.changes(preImages=pre_images, **given))
    return watch.sample(rows=rows)
