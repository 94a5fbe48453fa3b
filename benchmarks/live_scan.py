"""A scan of a database whose client has not flushed its newest rows, against the same rows flushed."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from benchmarks.client import put_batches
from benchmarks.data import ONE_FILE_PER_FLUSH, DataFolder, make_batches, make_table, stored_bytes
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.spark_session import MASTER
from benchmarks.tasks import scan, spark_sums
from benchmarks.worker import Sample, Stopwatch, Task
from slatespark import SlateStore
from tests.support.client import Client, Location

TITLE: Final = "Scan of a database with rows in the WAL, against the same rows flushed"
LAYERS: Final = 4
SPLITS: Final = (1, 4, 16)


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of `rows` rows, a quarter of them in the WAL."""
    folder = data.made(f"live-{rows}", lambda path: _make(path, rows))
    live, flushed = folder / "live", folder / "flushed"
    tables = {"WAL": live, "flushed": flushed}
    size = stored_bytes(flushed / "compacted")
    calls: dict[str, tuple[Callable[..., Sample], dict[str, Any]]] = {
        "SlateStore": (scan, {}),
        "SlateStore, kept open": (scan_again, {}),
    }
    for count in SPLITS:
        options = {"splitSize": str(size // count + (1 << 20))}
        calls[f"Spark, {count} splits"] = spark_sums, {"sums": ["sum(length(key) + length(value))"], "options": options}
    alternatives = [
        Alternative(
            name=f"{name}, {kind}",
            task=Task.of(function, path=path, **given),
            process="spark" if function is spark_sums else None,
        )
        for name, (function, given) in calls.items()
        for kind, path in tables.items()
    ]
    return Benchmark(
        alternatives=alternatives,
        base="SlateStore, flushed",
        targets=[Target(alternative=f"{name}, WAL", against=f"{name}, flushed", at_most=1.1) for name in calls],
        notes=[
            f"{rows:,} rows of 16 + 100 bytes, {size / 1e6:.0f} MB in {LAYERS} runs; {rows // 4:,} of them written by "
            f"a client: in the WAL, {stored_bytes(live / 'wal') / 1e6:.0f} MB, or in L0; {MASTER}; warm page cache."
        ],
        warm_ups=3,  # the JVM goes on compiling for some rounds
    )


def _make(path: Path, rows: int) -> None:
    store = SlateStore.create(str(path / "live"))
    for part in range(LAYERS):
        store.write(make_batches(rows * 3 // 4 // LAYERS, part))
    options = replace(ONE_FILE_PER_FLUSH, wal=True, flush_interval="100ms")
    unflushed = [make_table(rows // 4, LAYERS)]
    asyncio.run(put_batches(Location.local(path / "live"), options, unflushed, in_wal=True))
    shutil.copytree(path / "live", path / "flushed")
    Client.open(Location.local(path / "flushed"), options).close(flush=True)


# --- tasks ----------------------------------------------------------------------------------------------------------


@cache
def _open(path: str) -> SlateStore:
    store = SlateStore.open(path)
    store.scan().read_all()
    return store


def scan_again(path: str) -> Sample:
    """Scan a table that stayed open since an earlier scan; planning counts."""
    store = _open(path)
    with Stopwatch() as watch:
        rows = sum(len(batch) for batch in store.scan())
    return watch.sample(rows=rows)
