"""Jobs that a live client finishes without a worker, and jobs that others submit beside ours."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from slatedb import uniffi

from slatespark import CommitConflictError, SlateStore
from slatespark.format.compactions import Compactions, TieredSpec
from slatespark.format.manifest import Manifest
from slatespark.table.clock import SystemClock
from slatespark.table.cooperation.job_rules import spec_of_slice
from slatespark.table.cooperation.outcome import await_commit
from slatespark.table.cooperation.submission import Submitter
from slatespark.table.stores import open_stores
from tests.interop.test_cooperation import merged
from tests.support.client import ClientOptions, Location, Put
from tests.support.client_admin import _outcome, _submit, read_manifest
from tests.support.cooperative_loads import load_beside
from tests.support.effort import examples
from tests.support.live_client import LiveClient
from tests.support.observers import awaited

QUICK: dict[str, Any] = {"compactor_options.poll_interval": "20ms"}
MOVES = ClientOptions(
    compactor=True,
    settings={**QUICK, "compactor_options.worker": None, "compactor_options.enable_trivial_move": True},
)


def flushed(live: LiveClient, **rows: str) -> None:
    live.write([Put(key.encode(), value.encode()) for key, value in rows.items()])
    live.flush_memtable()


def rows_of(live: LiveClient) -> dict[str, str]:
    return {row.key.decode(): row.value.decode() for row in live.scan()}


# --- files that the client moves as they are --------------------------------------------------------------------------


def test_a_load_takes_further_runs_if_the_client_moves_the_views(database: Location) -> None:
    """Of one L0 view nothing has to be merged, so no worker gets a job; with the run below, one does."""
    with LiveClient(database, MOVES) as live:
        flushed(live, a="0", m="0", z="0")
        flushed(live, b="0", y="0")
        load_beside(database.folder, {b"c": b"load"})
        flushed(live, a="1", m="1")
        load_beside(database.folder, {b"a": b"load", b"n": b"load"}, clientTimeout="20s")
        expected = {"a": "load", "b": "0", "c": "load", "m": "1", "n": "load", "y": "0", "z": "0"}
        assert awaited(lambda: rows_of(live), expected) == expected
        assert live.is_open()


def test_where_no_files_share_keys_a_load_is_refused_by_name(database: Location) -> None:
    with LiveClient(database, MOVES) as live:
        flushed(live, a="0")
        flushed(live, b="0")
        with pytest.raises(CommitConflictError, match="enable_trivial_move"):
            load_beside(database.folder, {b"a": b"load"}, clientTimeout="500ms")
        assert rows_of(live) == {"a": "0", "b": "0"}
        flushed(live, a="1", b="1")
        flushed(live, a="2", b="2")
        load_beside(database.folder, {b"a": b"load"})
        assert awaited(lambda: rows_of(live), {"a": "load", "b": "2"}) == {"a": "load", "b": "2"}


def test_a_compaction_of_files_that_the_client_moves(database: Location) -> None:
    """It is done as well; with rules of our own it is refused."""
    with LiveClient(database, MOVES) as live:
        flushed(live, a="0")
        flushed(live, b="0")
        store = SlateStore.open(str(database.folder))
        [job] = store.compact(full=True, ifClientActive="cooperate").jobs
        assert job.version is not None
        assert (len(read_manifest(database).l0), len(read_manifest(database).compacted)) == (0, 1)
        assert rows_of(live) == {"a": "0", "b": "0"}


# --- jobs of others ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def submissions(location: Location, random: np.random.Generator) -> Iterator[None]:
    """Somebody else submits jobs on the newest runs all the time."""
    ended = threading.Event()

    def submit() -> None:
        while not ended.wait(float(random.random()) * 0.2):
            runs = [run.id for run in read_manifest(location).compacted][:2]
            sources = [uniffi.SourceId.SORTED_RUN(run) for run in runs]
            with contextlib.suppress(uniffi.Error):
                _submit(location, uniffi.CompactionSpec.TIERED(b"", sources, min(runs)))

    thread = threading.Thread(target=submit)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_a_job_that_is_submitted_right_before_a_hand_over_fails(tmp_path: Path) -> None:
    """The client may schedule it and commit ours at one look, and its worker finish it from the version before."""
    location = Location.local(tmp_path / "db")
    settings = {"compactor_options.poll_interval": "1s", "compactor_options.worker": None}
    with LiveClient(location, ClientOptions(compactor=True, settings=settings)) as live:
        flushed(live, a="0", b="0")
        load_beside(location.folder, {b"a": b"load"})
        stores = open_stores(str(location.folder), storage={})
        [run] = read_manifest(location).compacted
        with Submitter(stores, SystemClock()).job(plan_all_runs) as job:
            assert job is not None
            outputs = merged(stores, job)
            rival = _submit(location, uniffi.CompactionSpec.TIERED(b"", [uniffi.SourceId.SORTED_RUN(run.id)], run.id))
            job.hand_over(outputs)
            assert await_commit(job, outputs, timeout_ms=30_000) is not None
        assert _outcome(location, rival.id, time.monotonic() + 30) is uniffi.CompactionStatus.FAILED
        assert rows_of(live) == {"a": "load", "b": "0"}
        assert live.is_open()


def plan_all_runs(manifest: Manifest, listed: Compactions) -> TieredSpec:
    return spec_of_slice(manifest, listed, b"", l0=0, runs=(0, len(manifest.compacted)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(1)))
def test_loads_into_runs_for_which_others_submit_jobs(seed: int, tmp_path: Path) -> None:
    """The client's own worker takes them within milliseconds. A load is committed once, or refused."""
    worker = "compactor_options.worker"
    quick = {**QUICK, f"{worker}.compactions_poll_interval": "5ms", f"{worker}.max_concurrent_compactions": 1}
    location = Location.local(tmp_path / "db")
    with LiveClient(location, ClientOptions(compactor=True, settings=quick)) as live:
        expected: dict[str, str] = {}
        for number in range(2):
            expected |= {f"{key:02d}": f"{number}" for key in range(number, 30)}
            flushed(live, **{key: f"{number}" for key in expected if key >= f"{number:02d}"})
        load_beside(location.folder, {b"00": b"first"})
        expected["00"] = "first"
        with submissions(location, np.random.default_rng(seed)):
            for number in range(examples(2)):
                key = f"{number % 30:02d}"
                with contextlib.suppress(CommitConflictError):
                    load_beside(location.folder, {key.encode(): b"load %d" % number}, clientTimeout="4s")
                    expected[key] = f"load {number}"
        assert awaited(lambda: rows_of(live), expected) == expected
        assert live.is_open()
