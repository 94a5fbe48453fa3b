"""The real SlateDB client at its best from Python: batched puts, batched scans into Arrow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa
from slatedb import uniffi

from benchmarks.worker import Sample, Stopwatch
from tests.support.client import ClientOptions, Location

PUTS_PER_BATCH: Final = 1000

Pairs: TypeAlias = list[tuple[bytes, bytes]]


async def put_batches(
    location: Location, options: ClientOptions, tables: Iterable[pa.Table], *, in_wal: bool = False
) -> None:
    """Write tables, each followed by a flush of the memtable: one L0 file each, if the options let it hold so much.

    Parameters
    ----------
    in_wal : flush and close the WAL only
    """
    db = await _open(location, options)
    kind = uniffi.FlushType.WAL if in_wal else uniffi.FlushType.MEM_TABLE
    try:
        for table in tables:
            for pairs in pairs_of(table):
                await put_pairs(db, pairs)
            await db.flush_with_options(uniffi.FlushOptions(flush_type=kind))
    finally:
        await db.shutdown_with_options(uniffi.CloseOptions(flush_type=kind))


async def timed_puts(location: Location, options: ClientOptions, batches: Sequence[Pairs]) -> Sample:
    """Time the writing of all batches, until they are in L0; opening and closing do not count."""
    db = await _open(location, options)
    try:
        with Stopwatch() as watch:
            for pairs in batches:
                await put_pairs(db, pairs)
            await _flush(db)
    finally:
        await db.shutdown()
    return watch.sample(rows=sum(len(pairs) for pairs in batches))


def pairs_of(table: pa.Table) -> Iterator[Pairs]:
    """Yield the rows as Python objects, as many at a time as a batch of the client takes."""
    for batch in table.to_batches(max_chunksize=PUTS_PER_BATCH):
        yield list(zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True))


def scan_to_arrow(path: str, rows_per_call: int) -> Sample:
    """Time a scan into one Arrow batch per call; opening the reader does not count."""
    return asyncio.run(_scan(Location.local(path), rows_per_call))


async def _scan(location: Location, rows_per_call: int) -> Sample:
    builder = uniffi.DbReaderBuilder(location.path, location.object_store())
    builder.with_reader_mode(uniffi.ReaderMode.FOLLOW_LATEST())
    reader = await builder.build()
    rows = 0
    try:
        with Stopwatch() as watch:
            found = await reader.scan(uniffi.KeyRange(start=None, start_inclusive=True, end=None, end_inclusive=False))
            while taken := await found.next_batch(rows_per_call):
                keys = pa.array([row.key for row in taken], pa.binary())
                values = pa.array([row.value for row in taken], pa.binary())
                batch = pa.RecordBatch.from_arrays([keys, values], names=["key", "value"])
                rows += len(batch)
    finally:
        await reader.shutdown()
    return watch.sample(rows=rows)


async def _open(location: Location, options: ClientOptions) -> Any:
    builder = uniffi.DbBuilder(location.path, location.object_store())
    builder.with_settings(options.to_settings())
    return await builder.build()


async def open_client(location: Location, changed: Mapping[str, object]) -> Any:
    """Open a database with the client's own defaults, but for some settings by dotted name."""
    settings = uniffi.Settings.default()
    for name, value in changed.items():
        settings.set(name, json.dumps(value))
    builder = uniffi.DbBuilder(location.path, location.object_store())
    builder.with_settings(settings)
    return await builder.build()


async def put_pairs(db: Any, pairs: Pairs) -> None:
    """Write rows as one batch."""
    batch = uniffi.WriteBatch()
    for key, value in pairs:
        batch.put(key, value)
    await db.write(batch)


async def _flush(db: Any) -> None:
    await db.flush_with_options(uniffi.FlushOptions(flush_type=uniffi.FlushType.MEM_TABLE))
