"""Typed rows of the benchmarks: 8 columns, 2 of them the key; as Parquet parts, as a table and as sorted Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.data import BATCH_ROWS, SEED, DataFolder
from benchmarks.spark_session import spark_session
from benchmarks.typed_schema import KEYS, SCHEMA
from benchmarks.worker import Task, WorkerProcess

TENANTS: Final = 50
CITIES: Final = 5000
PARTS: Final = 8

_FIRST_MICROS: Final = 1_700_000_000_000_000
_TENANTS: Final = pa.array([f"tenant-{number:02d}" for number in range(TENANTS)])
_CITIES: Final = pa.array([f"city of {number:04d}" for number in range(CITIES)])
_LETTERS: Final = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)


def make_batches(rows: int, part: int, parts: int) -> Iterator[pa.RecordBatch]:
    """Yield one part of `rows` rows with unique keys, in random order; a tenth of the discounts are null."""
    generator = np.random.default_rng([SEED, 8, part])
    ids = generator.permutation(np.arange(part, rows, parts))
    for start in range(0, len(ids), BATCH_ROWS):
        yield make_batch(generator, ids[start : start + BATCH_ROWS])


def all_batches(rows: int, parts: int = PARTS) -> Iterator[pa.RecordBatch]:
    """Yield all parts of `rows` rows, one after the other."""
    for part in range(parts):
        yield from make_batches(rows, part, parts)


def sorted_table(rows: int) -> pa.Table:
    """Return all rows, in key order."""
    return pa.Table.from_batches(all_batches(rows), SCHEMA).sort_by([(name, "ascending") for name in KEYS])


def make_batch(generator: np.random.Generator, numbers: NDArray[np.int64]) -> pa.RecordBatch:
    """Return the rows of these numbers, in their order: a number decides about the key and the time."""
    count = len(numbers)
    columns = [
        *key_columns(numbers),
        _names(generator, count),
        _CITIES.take(pa.array(generator.integers(0, CITIES, count))),
        pa.array(generator.integers(1, 100, count, dtype=np.int32)),
        pa.array(np.round(generator.random(count) * 1000, 2)),
        pa.array(np.round(generator.random(count), 2), mask=generator.random(count) < 0.1),
        pa.array(_FIRST_MICROS + numbers * 1_000_003).cast(pa.timestamp("us", tz="UTC")),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def key_columns(numbers: NDArray[np.int64]) -> list[pa.Array]:
    """Return the tenants and ids of rows by number."""
    return [_TENANTS.take(pa.array(numbers % TENANTS)), pa.array(numbers // TENANTS * 7)]


def _names(generator: np.random.Generator, count: int) -> pa.Array:
    """Return words of 5 to 20 random letters."""
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(generator.integers(5, 21, count), out=offsets[1:])
    letters = _LETTERS[generator.integers(0, len(_LETTERS), int(offsets[-1]), np.uint8)]
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(letters)])


def parquet_parts(data: DataFolder, rows: int) -> Path:
    """Return a folder of snappy Parquet files, each a part in random order."""

    def make(path: Path) -> None:
        path.mkdir()
        for part in range(PARTS):
            with pq.ParquetWriter(path / f"part-{part}.parquet", SCHEMA) as writer:
                for batch in make_batches(rows, part, PARTS):
                    writer.write_batch(batch)

    return data.made(f"typed-parts-{rows}", make)


def loaded(data: DataFolder, rows: int) -> Path:
    """Return a folder with the rows as `slate`, one sorted load, and as `parquet`, sorted and snappy."""

    def make(path: Path) -> None:
        with WorkerProcess("spark typed load", data.scratch) as worker:
            worker.run(Task.of(load, source=parquet_parts(data, rows), path=path))

    return data.made(f"typed-{rows}", make)


# --- tasks ----------------------------------------------------------------------------------------------------------


def load(source: str, path: str) -> dict[str, Any]:
    """Load the rows both ways with Spark."""
    frame = spark_session().read.parquet(source)
    load_slate(frame, f"{path}/slate")
    load_parquet(frame, f"{path}/parquet")
    return {}


def load_slate(frame: Any, path: str) -> None:
    """Create a table and load a DataFrame, range-partitioned and sorted."""
    from slatespark import SlateTable

    SlateTable.create(spark_session(), path, frame.schema, list(KEYS)).write(frame)


def load_parquet(frame: Any, path: str) -> None:
    """Write a DataFrame as Parquet with the same distribution and order."""
    frame.repartitionByRange(*KEYS).sortWithinPartitions(*KEYS).write.parquet(path, compression="snappy")
