"""Bulk writes: SlateStore, Spark, the real client's batched puts; Parquet for information."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.client import pairs_of, timed_puts
from benchmarks.data import ROW_GROUP_ROWS, DataFolder, make_table, stored_bytes
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.spark_session import MASTER, spark_session
from benchmarks.tasks import new_folder
from benchmarks.worker import Sample, Stopwatch, Task
from slatespark import SlateStore
from tests.support.client import ClientOptions, Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TITLE: Final = "Bulk write, against the SlateDB client's batched puts"
SPARK_PARTITIONS: Final = 2

SLATE: Final = "slate"
SPARK: Final = "spark slate"
CLIENT: Final = "client, batches of 1000 puts"


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of `rows` rows in one write."""
    source = data.parquet_parts(rows, SPARK_PARTITIONS)
    slate = [
        _task(SLATE, write_slate, rows=rows),
        _task("slate, sorted input", write_slate, rows=rows, in_order=True),
        _task("slate, snappy", write_slate, rows=rows, compression="snappy"),
        _task("slate, zstd", write_slate, rows=rows, compression="zstd"),
        _task("slate, writeBuffer 1g (no spill)", write_slate, rows=rows, writeBuffer="1g"),
        _task("pyarrow sort + parquet", write_parquet, rows=rows),
    ]
    spark = [
        _spark(SPARK, write_spark_slate, source),
        _spark(f"{SPARK}, after a pause", write_spark_slate, source, after_pause=True),
        _spark("spark parquet", write_spark_parquet, source),
        _spark("spark parquet, sorted", write_spark_parquet, source, in_order=True),
    ]
    client = [
        _task(CLIENT, write_client, rows=rows),
        _task(f"{CLIENT}, no WAL", write_client, rows=rows, wal=False),
    ]
    return Benchmark(
        alternatives=[*slate, *spark, *client],
        base=SLATE,
        targets=[
            *(Target(alternative=SLATE, against=peer.name, at_least=20) for peer in client),
            *(Target(alternative=SPARK, against=peer.name, at_least=20) for peer in client),
        ],
        notes=[
            f"{rows:,} rows of 16 + 100 bytes, unique keys in random order, one commit into an empty table.",
            "slate: from an Arrow table in memory; files are synced to disk (the client and Parquet do not sync).",
            "client: from Python objects made before; until the last memtable is flushed to L0; no compactor.",
            f"spark: {MASTER}, from a DataFrame of {SPARK_PARTITIONS} partitions cached before. Spark ends Python "
            "workers that were idle for a minute: after a pause they start anew, else a small write went before.",
        ],
    )


def _task(name: str, function: Callable[..., Sample], **given: Any) -> Alternative:
    is_slow = function is write_client
    return Alternative(
        name=name, task=Task.of(function, **given), max_rounds=3 if is_slow else None, warm_up=not is_slow
    )


def _spark(name: str, function: Callable[..., Sample], source: Path, **given: Any) -> Alternative:
    return Alternative(
        name=name,
        task=Task.of(function, source=source, **given),
        process="spark",
        prepare=Task.of(cache_source, source=source),
    )


# --- tasks ----------------------------------------------------------------------------------------------------------


@cache
def _rows(rows: int, *, in_order: bool = False) -> pa.Table:
    table = make_table(rows)
    return table.sort_by("key") if in_order else table


def write_slate(rows: int, *, in_order: bool = False, **options: Any) -> Sample:
    """Write a table with `SlateStore.write`."""
    table = _rows(rows, in_order=in_order)
    with new_folder() as folder:
        store = SlateStore.create(str(folder / "written"))
        with Stopwatch() as watch:
            store.write(table, **options)
        return watch.sample(rows=rows, stored_bytes=stored_bytes(folder))


def write_parquet(rows: int) -> Sample:
    """Sort a table and write it as snappy Parquet."""
    table = _rows(rows)
    with new_folder() as folder:
        with Stopwatch() as watch:
            pq.write_table(
                table.sort_by("key"), folder / "written", compression="snappy", row_group_size=ROW_GROUP_ROWS
            )
        return watch.sample(rows=rows, stored_bytes=stored_bytes(folder))


def write_client(rows: int, *, wal: bool = True) -> Sample:
    """Put all rows with the client, which flushes its WAL every 100 ms as by default."""
    batches = list(pairs_of(_rows(rows)))
    options = ClientOptions(wal=wal, flush_interval="100ms", min_filter_keys=1000, merge_operator=False)
    with new_folder() as folder:
        sample = asyncio.run(timed_puts(Location.local(folder / "written"), options, batches))
        return {**sample, "stored_bytes": stored_bytes(folder)}


@cache
def cache_source(source: str) -> None:
    """Read the rows into Spark's memory."""
    frame = _frame(source)
    frame.count()


@cache
def _frame(source: str) -> DataFrame:
    return spark_session().read.parquet(source).repartition(SPARK_PARTITIONS).persist()


def write_spark_slate(source: str, *, after_pause: bool = False) -> Sample:
    """Write the DataFrame as a table, with Python workers that run already unless it is after a pause."""
    frame = _frame(source)
    if not after_pause:
        with new_folder() as folder:
            frame.limit(100).repartition(SPARK_PARTITIONS).write.format("slate").mode("append").save(
                str(folder / "written")
            )
    with new_folder() as folder:
        with Stopwatch(children=True) as watch:
            frame.write.format("slate").mode("append").save(str(folder / "written"))
        return watch.sample(rows=frame.count(), stored_bytes=stored_bytes(folder))


def write_spark_parquet(source: str, *, in_order: bool = False) -> Sample:
    """Write the DataFrame as Parquet, sorted within each partition if asked."""
    frame = _frame(source)
    with new_folder() as folder:
        with Stopwatch(children=True) as watch:
            (frame.sortWithinPartitions("key") if in_order else frame).write.parquet(str(folder / "written"))
        return watch.sample(rows=frame.count(), stored_bytes=stored_bytes(folder))
