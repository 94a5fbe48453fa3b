"""A load into a table behind a link, against the time that the link takes for its bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks.data import SEED, DataFolder, stored_bytes
from benchmarks.distant_store import BYTES_PER_S, DistantStore, open_distant
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.tasks import new_folder
from benchmarks.worker import Sample, Stopwatch, Task
from slatespark import SlateStore
from slatespark.format.paths import COMPACTED_DIR

TITLE: Final = "Load of a table behind a link, against the transfer of its bytes"
DELAYS_MS: Final = (0, 30, 100)
VALUE_BYTES: Final = 84
BATCH_ROWS: Final = 1_000_000
FILE_BYTES: Final = 64 << 20

_SCHEMA: Final = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("number", pa.int64()), pa.field("value", pa.binary())]
)


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of a load of `rows` rows in the order of their keys."""
    del data  # the rows are made in memory
    return Benchmark(
        alternatives=[
            *(_task(_transfer(delay), transfer, rows, delay) for delay in DELAYS_MS),
            *(_task(_load(delay), load, rows, delay) for delay in DELAYS_MS),
        ],
        base=_transfer(30),
        targets=[Target(alternative=_load(delay), against=_transfer(delay), at_most=1.5) for delay in DELAYS_MS],
        notes=[
            f"{rows:,} rows of two numbers and {VALUE_BYTES} random bytes, uncompressed, in one commit, by one task; "
            f"all requests share {BYTES_PER_S:,} bytes/s.",
            f"The transfer puts objects of {FILE_BYTES >> 20} MiB, one after the other, as many bytes as the load.",
        ],
        same=("stored_bytes",),
    )


def _transfer(delay_ms: int) -> str:
    return f"transfer alone, {delay_ms} ms"


def _load(delay_ms: int) -> str:
    return f"load, {delay_ms} ms"


def _task(name: str, function: Callable[..., Sample], rows: int, delay_ms: int) -> Alternative:
    return Alternative(name=name, task=Task.of(function, rows=rows, delay_ms=delay_ms), process="distant")


# --- tasks ----------------------------------------------------------------------------------------------------------


def load(rows: int, delay_ms: int) -> Sample:
    """Load the rows into a new table."""
    with new_folder() as folder:
        SlateStore.create(str(folder), _SCHEMA, "id")
        store = open_distant(str(folder), delay_ms)
        with Stopwatch() as watch:
            store.write(_batches(rows))
        return watch.sample(rows=rows, stored_bytes=stored_bytes(folder / COMPACTED_DIR))


def transfer(rows: int, delay_ms: int) -> Sample:
    """Put as many bytes with nothing else to do."""
    size = _loaded_bytes(rows)
    part = bytes(FILE_BYTES)
    with new_folder() as folder:
        store = DistantStore(str(folder), delay_ms / 1000)
        with Stopwatch() as watch:
            for number, start in enumerate(range(0, size, FILE_BYTES)):
                store.put(f"{COMPACTED_DIR}{number}", [part[: size - start]])
        return watch.sample(stored_bytes=stored_bytes(folder / COMPACTED_DIR))


@cache
def _loaded_bytes(rows: int) -> int:
    return int(load(rows, 0)["stored_bytes"])


def _batches(rows: int) -> Iterator[pa.RecordBatch]:
    values = pa.py_buffer(np.random.default_rng([SEED, 31]).bytes(BATCH_ROWS * VALUE_BYTES))
    for start in range(0, rows, BATCH_ROWS):
        count = min(BATCH_ROWS, rows - start)
        ids = np.arange(start, start + count)
        fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(VALUE_BYTES), count, [None, values])
        columns = [pa.array(ids), pa.array(ids * 3), fixed.cast(pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
