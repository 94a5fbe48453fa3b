"""Jobs of ours that a live client's coordinator schedules and commits: the client stays open, and nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from slatedb import uniffi

from slatespark import CommitConflictError
from slatespark.format.compactions import Compaction, Compactions, CompactionStatus, TieredSpec, WorkerSpec
from slatespark.format.manifest import Manifest
from slatespark.format.references import SstHandle
from slatespark.format.row import Row, rows_to_columns
from slatespark.options import WriteOptions
from slatespark.ranges import ALL_KEYS
from slatespark.table.clock import SystemClock
from slatespark.table.compaction.client_job import plan_client_job
from slatespark.table.compaction.merge import MergeRules, RangeTask, merge_range
from slatespark.table.cooperation.claimed_job import ClaimedJob, SourcesGoneError
from slatespark.table.cooperation.following import after_commit
from slatespark.table.cooperation.job_list import JobList
from slatespark.table.cooperation.job_rules import as_failed, next_job_id, spec_of_slice, with_job
from slatespark.table.cooperation.outcome import await_commit
from slatespark.table.cooperation.submission import Submitter
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.log.versioned_object import Version
from slatespark.table.read.planning.layers import fetch_layers
from slatespark.table.rows.sorted_rows import SortedRows
from slatespark.table.rows.sst_upload import upload_sorted
from slatespark.table.stores import TableStores, open_stores
from tests.support.client import Client, ClientOptions, Location, Put, ScanRow, read_rows
from tests.support.client_admin import list_compactions
from tests.support.observers import awaited

HANDED_OVER = ClientOptions(compactor=True, settings={"compactor_options.worker": None})
COMPLETED, FAILED = uniffi.CompactionStatus.COMPLETED, uniffi.CompactionStatus.FAILED


def plan_all(manifest: Manifest, listed: Compactions) -> TieredSpec | None:
    tree = manifest.find_tree(b"")
    assert tree is not None
    if not tree.l0 and len(tree.compacted) < 2:
        return None
    return spec_of_slice(manifest, listed, b"", l0=len(tree.l0), runs=(0, len(tree.compacted)))


def merged(stores: TableStores, job: ClaimedJob) -> list[SstHandle]:
    manifest = job.found.value
    rules = MergeRules(manifest.last_l0_clock_tick, manifest.recent_snapshot_min_seq, drops_tombstones=True)
    options = WriteOptions.parse({"path": stores.url})
    task = RangeTask(ALL_KEYS, tuple(fetch_layers(stores, manifest)), rules, options, job.id.timestamp_ms)
    files = merge_range(stores, SystemClock(), task).files
    return [file.handle for file in files]


def fill(client: Client, batches: Sequence[int]) -> None:
    for number in batches:
        client.write([Put(b"%03d" % key, b"%d" % number) for key in range(number, 40)])
        client.flush_memtable()


@contextmanager
def live_database(folder: Path, options: ClientOptions = HANDED_OVER) -> Iterator[tuple[Client, TableStores]]:
    with Client.open(Location.local(folder), options) as client:
        fill(client, range(5))
        yield client, open_stores(str(folder), storage={})


def wait_for(location: Location, status: Any) -> None:
    deadline_s = time.monotonic() + 30
    while [job.status for job in list_compactions(location)] != [status]:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_a_job_of_ours_is_committed_by_the_client(tmp_path: Path) -> None:
    with live_database(tmp_path / "db") as (client, stores):
        expected = client.scan()
        epochs = {epochs_of(stores)}
        for _ in range(2):
            with Submitter(stores, SystemClock()).job(plan_all) as job:
                assert job is not None
                outputs = merged(stores, job)
                client.put(b"meanwhile", b"1")
                job.hand_over(outputs)
                version = await_commit(job, outputs, timeout_ms=30_000)
            number, manifest = fetch_latest_manifest(stores)
            assert version is not None
            assert version <= number
            assert [view.sst_id for run in manifest.compacted for view in run.views] == [file.id for file in outputs]
            assert [row for row in client.scan() if row.key != b"meanwhile"] == expected
            epochs.add(epochs_of(stores))
            fill(client, [0])
            expected = [row for row in client.scan() if row.key != b"meanwhile"]
        assert len(epochs) == 1, "nobody was fenced"
        client.flush_memtable()
        assert values(read_rows(client.location)) == values(client.scan())


def epochs_of(stores: TableStores) -> tuple[int, int]:
    manifest = fetch_latest_manifest(stores).value
    return manifest.writer_epoch, manifest.compactor_epoch


def values(rows: list[ScanRow]) -> dict[bytes, bytes]:
    return {row.key: row.value for row in rows}


def test_a_job_that_fails_leaves_a_client_that_goes_on(tmp_path: Path) -> None:
    with live_database(tmp_path / "db") as (client, stores):
        expected = client.scan()
        with pytest.raises(ZeroDivisionError), Submitter(stores, SystemClock()).job(plan_all):
            raise ZeroDivisionError
        wait_for(client.location, FAILED)
        assert client.scan() == expected
        with Submitter(stores, SystemClock()).job(plan_all) as job:
            assert job is not None
            outputs = merged(stores, job)
            job.hand_over(outputs)
            assert await_commit(job, outputs, timeout_ms=30_000) is not None
        wait_for(client.location, COMPLETED)
        assert client.scan() == expected


def test_without_a_coordinator_the_job_is_taken_back(tmp_path: Path) -> None:
    location = Location.local(tmp_path / "db")
    with live_database(location.folder):
        pass
    stores = open_stores(str(location.folder), storage={})
    with Client.open(location) as client:
        expected = client.scan()
        with pytest.raises(CommitConflictError), Submitter(stores, SystemClock(), timeout_ms=300).job(plan_all):
            pytest.fail("nobody answers")
        assert client.scan() == expected
    with Client.open(location, HANDED_OVER) as client:
        wait_for(location, FAILED)
        assert client.scan() == expected


def test_without_a_list_there_is_no_coordinator(tmp_path: Path) -> None:
    location = Location.local(tmp_path / "db")
    with Client.open(location) as client:
        client.put(b"a", b"1")
    stores = open_stores(str(location.folder), storage={})
    with pytest.raises(CommitConflictError), Submitter(stores, SystemClock()).job(plan_all):
        pytest.fail("nobody answers")


def test_a_result_that_nobody_commits_is_withdrawn(tmp_path: Path) -> None:
    """The client closed while we merged; the next one finds a job that it fails, and merges by itself."""
    location = Location.local(tmp_path / "db")
    with Client.open(location, HANDED_OVER) as client:
        fill(client, range(5))
        expected = client.scan()
        stores = open_stores(str(location.folder), storage={})
        with Submitter(stores, SystemClock()).job(plan_all) as job:
            assert job is not None
            client.close()
            outputs = merged(stores, job)
            job.hand_over(outputs)
            assert await_commit(job, outputs, timeout_ms=300) is None
    with Client.open(location, HANDED_OVER) as client:
        wait_for(location, FAILED)
        assert client.scan() == expected
        assert len(fetch_latest_manifest(stores).value.l0) == 5


def test_a_job_waits_for_those_of_the_client(tmp_path: Path) -> None:
    """Its scheduler has a job for all L0 views that no worker has taken yet."""
    options = ClientOptions(compactor=True, compact_by_itself=True, settings={"compactor_options.worker": None})
    with live_database(tmp_path / "db", options) as (client, stores):
        wait_for(client.location, uniffi.CompactionStatus.SCHEDULED)
        submitter = Submitter(stores, SystemClock(), timeout_ms=200)
        with pytest.raises(CommitConflictError, match="scheduled"), submitter.job(plan_all):
            pytest.fail("a second job on the same views")
        assert [job.status for job in list_compactions(client.location)] == [uniffi.CompactionStatus.SCHEDULED]


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_job_for_the_version_after_a_commit_fails_with_it(tmp_path: Path, *, is_committed: bool) -> None:
    """Without the run of that commit it would merge newer L0 views, and the client would lose the older ones."""

    def plan_behind(manifest: Manifest, listed: Compactions) -> TieredSpec | None:
        return spec_of_slice(manifest, listed, b"", l0=1, runs=(0, 1)) if len(manifest.l0) == 1 else None

    with live_database(tmp_path / "db") as (client, stores):
        jobs = JobList(stores, SystemClock())
        with Submitter(stores, SystemClock()).job(plan_all) as job:
            assert job is not None
            outputs = merged(stores, job)
            client.put(b"newer", b"1")
            client.flush_memtable()
            expected = client.scan()
            handed = replace(
                job.entry, status=CompactionStatus.COMPACTED, worker=WorkerSpec("client", 0), output_ssts=tuple(outputs)
            )
            latest = fetch_latest_manifest(stores).value
            behind = plan_behind(after_commit(latest, [handed]), jobs.refresh().value)
            assert behind is not None
            behind_id = next_job_id(latest, jobs.known, SystemClock())

            def both(listed: Compactions) -> Compactions:
                first = with_job(listed, handed if is_committed else as_failed(handed))
                return with_job(first, Compaction(behind_id, behind, CompactionStatus.SUBMITTED))

            jobs.edit(both)
            job.entry = handed
        expected_status = CompactionStatus.SCHEDULED if is_committed else CompactionStatus.FAILED
        awaited(lambda: getattr(jobs.find(behind_id), "status", None), expected_status)
        found = jobs.find(behind_id)
        assert found is not None
        assert found.status is expected_status
        assert len(fetch_latest_manifest(stores).value.l0) == (1 if is_committed else 6)
        assert client.scan() == expected
        assert client.is_open()


# --- what our own work never does, and why ----------------------------------------------------------------------------


def test_a_row_above_the_sources_is_not_seen_before_its_number(tmp_path: Path) -> None:
    """Not sound: the client shows the row once its own writes have reached the number, as if it were new then."""
    with live_database(tmp_path / "db") as (client, stores):
        with Submitter(stores, SystemClock()).job(plan_all) as job:
            assert job is not None
            outputs = merged(stores, job)
            last = job.found.value.last_l0_seq
            rows = [Row(b"|", last, value=b"at the sources"), Row(b"~", last + 2, value=b"ahead")]
            pieces = [SortedRows([rows_to_columns(rows)], np.arange(2, dtype=np.int64))]
            options = WriteOptions.parse({"path": stores.url})
            added = upload_sorted(stores.main, pieces, options, SystemClock(), job.id.timestamp_ms)
            outputs = [*outputs, *(file.handle for file in added)]
            job.hand_over(outputs)
            assert await_commit(job, outputs, timeout_ms=30_000) is not None
        assert awaited(lambda: client.get(b"|"), b"at the sources") == b"at the sources"
        assert client.get(b"~") is None
        client.put(b"000", b"one")
        client.put(b"000", b"two")
        assert client.get(b"~") == b"ahead"
        assert client.is_open()


def test_a_result_without_a_claim_is_lost_to_the_next_job_on_its_run(tmp_path: Path) -> None:
    """Not sound: the coordinator commits a job that it never saw, though another one has read the run before."""
    with live_database(tmp_path / "db") as (client, stores):
        jobs = JobList(stores, SystemClock())

        def hand(entry: Compaction, outputs: Sequence[SstHandle]) -> None:
            given = replace(entry, status=CompactionStatus.COMPACTED, output_ssts=tuple(outputs))
            jobs.edit(lambda listed: with_job(listed, given))

        with Submitter(stores, SystemClock()).job(plan_all) as job:
            assert job is not None
            outputs = merged(stores, job)
            job.hand_over(outputs)
            assert await_commit(job, outputs, timeout_ms=30_000) is not None
        client.put(b"~", b"flushed")
        client.flush_memtable()
        with Submitter(stores, SystemClock()).job(plan_run) as job:
            assert job is not None
            outputs = merged_sources(stores, job.found.value, job.entry)
            found = fetch_latest_manifest(stores).value
            spec = plan_all(found, jobs.refresh().value)
            assert spec is not None
            unclaimed = Compaction(next_job_id(found, jobs.known, SystemClock()), spec, CompactionStatus.COMPACTED)
            hand(unclaimed, merged_sources(stores, found, unclaimed))
            assert awaited(lambda: len(fetch_latest_manifest(stores).value.l0), 0) == 0
            assert client.get(b"~") == b"flushed"
            with pytest.raises(SourcesGoneError):  # our own work looks once more
                job.hand_over(outputs)
            hand(job.entry, outputs)
            assert awaited(lambda: client.get(b"~"), None) is None
        assert client.is_open()


def plan_run(manifest: Manifest, listed: Compactions) -> TieredSpec | None:
    return spec_of_slice(manifest, listed, b"", l0=0, runs=(0, 1))


def merged_sources(stores: TableStores, manifest: Manifest, job: Compaction) -> list[SstHandle]:
    """The outputs of a merge of what a job replaces."""
    assert isinstance(job.spec, TieredSpec)
    plan = plan_client_job(stores, Version(0, manifest), job.spec)
    rules = MergeRules(manifest.last_l0_clock_tick, manifest.recent_snapshot_min_seq, drops_tombstones=True)
    options = WriteOptions.parse({"path": stores.url})
    task = RangeTask(ALL_KEYS, tuple(plan.layers), rules, options, job.id.timestamp_ms)
    files = merge_range(stores, SystemClock(), task).files
    return [file.handle for file in files]
