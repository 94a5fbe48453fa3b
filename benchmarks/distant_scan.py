"""A scan of a table behind a link, against the time that the link takes for its bytes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks.data import SEED, DataFolder
from benchmarks.distant_store import BYTES_PER_S, DistantStore, open_distant
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.worker import Sample, Stopwatch, Task
from slatespark import SlateStore
from slatespark.ranges import ByteRange

TITLE: Final = "Scan of a table behind a link, against the transfer of its bytes"
DELAYS_MS: Final = (0, 30, 100)
VALUE_BYTES: Final = 1000
PART_BYTES: Final = 8 << 20
KINDS: Final = {"files of 64 MiB": "64m", "one file": "8g"}

_SCHEMA: Final = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("value", pa.binary())])


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of a table of `rows` rows of 1,000 bytes."""
    paths = {kind: data.made(f"distant-{rows}-{size}", partial(load, rows, size)) for kind, size in KINDS.items()}
    return Benchmark(
        alternatives=[
            *(_task(_transfer(delay), transfer, paths["one file"], delay) for delay in DELAYS_MS),
            *(_task(_scan(kind, delay), scan, path, delay) for kind, path in paths.items() for delay in DELAYS_MS),
        ],
        base=_transfer(30),
        targets=[
            Target(alternative=_scan(kind, delay), against=_transfer(delay), at_most=1.3)
            for kind in KINDS
            for delay in DELAYS_MS
        ],
        notes=[
            f"{rows:,} rows of 1,000 random bytes, uncompressed, in one run; all share {BYTES_PER_S:,} bytes/s.",
            "The transfer has 32 requests of 8 MiB in flight.",
        ],
        same=(),
    )


def _transfer(delay_ms: int) -> str:
    return f"transfer alone, {delay_ms} ms"


def _scan(kind: str, delay_ms: int) -> str:
    return f"scan of {kind}, {delay_ms} ms"


def _task(name: str, function: Callable[..., Sample], path: Path, delay_ms: int) -> Alternative:
    return Alternative(name=name, task=Task.of(function, path=path, delay_ms=delay_ms), process="distant")


def load(rows: int, sst_size: str, path: Path) -> None:
    """Write the table."""
    generator = np.random.default_rng([SEED, 30])
    values = pa.py_buffer(generator.bytes(rows * VALUE_BYTES))
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(VALUE_BYTES), rows, [None, values])
    table = pa.table([pa.array(np.arange(rows)), fixed.cast(pa.binary())], schema=_SCHEMA)
    store = SlateStore.create(str(path), _SCHEMA, "id")
    store.write(table, mode="overwrite", sstSize=sst_size, compression="none")


# --- tasks ----------------------------------------------------------------------------------------------------------


def scan(path: str, delay_ms: int) -> Sample:
    """Drain all rows in a process that has opened the table."""
    store = open_distant(path, delay_ms)
    store.get(0)
    with Stopwatch() as watch:
        rows = sum(len(batch) for batch in store.scan())
    return watch.sample(rows=rows)


def transfer(path: str, delay_ms: int) -> Sample:
    """Read the same files with nothing else to do."""
    store = DistantStore(path, delay_ms / 1000)
    spans = [
        (meta.path, ByteRange(start, min(start + PART_BYTES, meta.size)))
        for meta in store.list_below("compacted/")
        for start in range(0, meta.size, PART_BYTES)
    ]
    with ThreadPoolExecutor(32) as pool, Stopwatch() as watch:
        size = sum(len(data) for data in pool.map(lambda each: store.get_range(*each), spans))
    return watch.sample(rows=size // VALUE_BYTES)
