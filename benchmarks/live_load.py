"""A load into a database that a client writes to all the time, against the commit that fences the client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from benchmarks.client import put_batches
from benchmarks.data import ONE_FILE_PER_FLUSH, DataFolder, make_table
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.live_client import LiveWriter
from benchmarks.tasks import linked_copy
from benchmarks.worker import Sample, Stopwatch, Task
from slatespark import SlateStore
from slatespark.format.compactions import CompactionStatus, decode_compactions
from slatespark.format.paths import COMPACTIONS_DIR, COMPACTIONS_EXTENSION
from slatespark.table.cooperation.claimed_job import is_own_worker
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.stores import open_stores
from tests.support.client import Location

TITLE: Final = "A load beside a client that writes, against the commit that fences it"

ROWS_PER_S: Final = 1000
L0_FILES: Final = 3  # the client would merge four by itself
L0_BYTES: Final = 64 << 20
ROW_BYTES: Final = 130  # stored, about
WARM_S: Final = 2.0
ALONE_S: Final = 8.0
LOADED_PART: Final = 100  # of the data: keys that the database does not have

AT_REST: Final = "fencing, at rest"
QUICK: Final = "beside a client that polls every 0.2 s"
DEFAULT: Final = "beside a client with its defaults"
ALONE: Final = "the client alone"
ELSEWHERE: Final = "fencing, at rest, of another database"

_POLLS: Final = {"compactor_options.poll_interval": "200ms", "compactor_options.commit_compacted_interval": "200ms"}


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of a load of `rows` rows; half of them have keys that the database has."""
    l0_rows = L0_BYTES // ROW_BYTES // L0_FILES
    given = {"source": _database(data, rows, l0_rows), "rows": rows, "part_rows": l0_rows}
    return Benchmark(
        alternatives=[
            Alternative(name=AT_REST, task=Task.of(load_at_rest, **given)),
            Alternative(name=QUICK, task=Task.of(load_beside, **given, settings=_POLLS)),
            Alternative(name=DEFAULT, task=Task.of(load_beside, **given, settings={})),
            Alternative(name=ELSEWHERE, task=Task.of(load_elsewhere, **given)),
            Alternative(name=ALONE, task=Task.of(write_alone, **given)),
        ],
        base=AT_REST,
        targets=[
            *(Target(alternative=name, against=AT_REST, at_most=1.5) for name in (QUICK, DEFAULT)),
            *(Target(alternative=name, within_s=2, measure="claimed_s") for name in (QUICK, DEFAULT)),
            *(
                Target(alternative=name, against=peer, at_most=2, measure="put_p99_s")
                for peer in (ALONE, ELSEWHERE)
                for name in (QUICK, DEFAULT)
            ),
        ],
        notes=[
            f"{rows:,} rows of 16 + 100 bytes in random order, every second one with a key of the database, which",
            f"has a run of {rows:,} rows and {L0_FILES} L0 files of {L0_BYTES >> 20} MiB together.",
            f"The client, in another process, puts {ROWS_PER_S:,} rows/s with keys that the load does not have.",
            "Its coordinator looks for jobs every 5 s by default, and commits them every second.",
            "Of another database: the client shares the processor with the load, and nothing else.",
        ],
    )


def _database(data: DataFolder, rows: int, l0_rows: int) -> Path:
    def make_it(path: Path) -> None:
        location = Location.local(path)
        asyncio.run(put_batches(location, ONE_FILE_PER_FLUSH, [make_table(rows, 0)]))
        SlateStore.open(str(path)).compact(full=True)
        parts = [make_table(l0_rows, part) for part in range(1, 1 + L0_FILES)]
        asyncio.run(put_batches(location, ONE_FILE_PER_FLUSH, parts))
        _, manifest = fetch_latest_manifest(open_stores(str(path), storage={}))
        assert (len(manifest.l0), len(manifest.compacted)) == (L0_FILES, 1), "another layout was made"

    return data.made(f"live-{rows}-{l0_rows}", make_it)


@cache
def _load(rows: int) -> pa.Table:
    """Return the rows of the load: keys of the database's run, and new ones, in random order."""
    own, new = make_table(rows, 0), make_table(rows, LOADED_PART)
    halves = [own.column("key").slice(0, rows // 2), new.column("key").slice(rows // 2)]
    keys = pa.chunked_array([chunk for half in halves for chunk in half.chunks])
    order = np.random.default_rng(1).permutation(rows)
    return pa.table({"key": keys.take(pa.array(order)), "value": new.column("value")}).combine_chunks()


# --- tasks ----------------------------------------------------------------------------------------------------------


def load_at_rest(source: str, rows: int, part_rows: int) -> Sample:
    """Load while no client has the database open: the commit takes it over."""
    table = _load(rows)
    with linked_copy(source) as path:
        store = SlateStore.open(str(path))
        with Stopwatch() as watch:
            store.write(table)
        return watch.sample(rows=_checked_rows(path, table))


def load_beside(source: str, rows: int, part_rows: int, settings: Mapping[str, object]) -> Sample:
    """Load while a client writes, and let it commit the load."""
    table = _load(rows)
    with linked_copy(source) as path, LiveWriter(path, settings) as live:
        with _writing(live, part_rows) as latencies:
            epochs = _epochs(path)
            store = SlateStore.open(str(path))
            with Stopwatch() as watch:
                store.write(table, ifClientActive="cooperate")
        assert live.is_open()
        assert _epochs(path) == epochs, "the client was fenced"
        live.close()
        return watch.sample(rows=_checked_rows(path, table), claimed_s=_claimed_s(path), **_percentiles(latencies))


def load_elsewhere(source: str, rows: int, part_rows: int) -> Sample:
    """Load into one database at rest, while a client writes to another one."""
    table = _load(rows)
    with linked_copy(source) as path, linked_copy(source) as other, LiveWriter(other) as live:
        store = SlateStore.open(str(path))
        with _writing(live, part_rows) as latencies, Stopwatch() as watch:
            store.write(table)
        live.close()
        return watch.sample(rows=_checked_rows(path, table), **_percentiles(latencies))


def write_alone(source: str, rows: int, part_rows: int) -> Sample:
    """Let the client write, and load nothing; then load, so that the rows can be compared."""
    with linked_copy(source) as path:
        with LiveWriter(path) as live:
            with _writing(live, part_rows) as latencies, Stopwatch() as watch:
                time.sleep(ALONE_S)
            live.close()
        SlateStore.open(str(path)).write(_load(rows))
        return watch.sample(rows=_checked_rows(path, _load(rows)), **_percentiles(latencies))


@contextmanager
def _writing(live: LiveWriter, part_rows: int) -> Iterator[list[float]]:
    """Let the client write; the list gets how long its puts took in the block."""
    live.start(rows_per_s=ROWS_PER_S, part=1, part_rows=part_rows)
    time.sleep(WARM_S)
    live.latencies()
    latencies: list[float] = []
    yield latencies
    latencies += live.latencies()
    live.stop()


def _percentiles(latencies: list[float]) -> dict[str, Any]:
    p50, p99 = np.percentile(latencies, [50, 99]).tolist()
    return {"put_p50_s": p50, "put_p99_s": p99, "put_max_s": max(latencies), "puts": len(latencies)}


def _epochs(path: Path) -> tuple[int, int]:
    manifest = fetch_latest_manifest(open_stores(str(path), storage={})).value
    return manifest.writer_epoch, manifest.compactor_epoch


def _claimed_s(path: Path) -> float:
    """Return how long the job of the load was claimed, by the times at which its states were written."""
    written: dict[CompactionStatus, float] = {}
    for file in sorted((path / COMPACTIONS_DIR).glob(f"*{COMPACTIONS_EXTENSION}"), key=lambda each: int(each.stem)):
        for job in decode_compactions(file.read_bytes()).jobs:
            if job.worker is not None and is_own_worker(job.worker):
                written.setdefault(job.status, file.stat().st_mtime)
    return written[CompactionStatus.COMPACTED] - written[CompactionStatus.RUNNING]


def _checked_rows(path: Path, load: pa.Table) -> int:
    """Return how many rows the database has, all of the load among them."""
    found = SlateStore.open(str(path)).scan().read_all()
    count = len(found)
    loaded = pa.concat_tables([found, load]).group_by(["key", "value"]).aggregate([]).num_rows
    assert loaded == count, "rows of the load are missing"
    return count
