"""Jobs of a client's scheduler that a worker of ours merges, without a client: what its filters may do."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from slatespark import (
    CommitConflictError,
    ExpireFilter,
    HistoryFloorFilter,
    OptionError,
    RetentionFilter,
    SlateStore,
    TransactionConflictError,
    UnavailableError,
)
from slatespark.format.compactions import Compaction, CompactionStatus, TieredSpec, WorkerSpec
from slatespark.format.paths import COMPACTED_DIR, sst_path
from slatespark.format.references import SortedRun, SstHandle, SstView
from slatespark.format.stats import SstStats
from slatespark.format.ulid import Ulid
from slatespark.table.clock import Clock, SystemClock, new_ulid
from slatespark.table.compaction import state, worker_session
from slatespark.table.compaction.merge import MergedRange, RangeTask, merge_range
from slatespark.table.compaction.ranges import run_here
from slatespark.table.compaction.retirement import may_retire_beside_client
from slatespark.table.compaction.worker import Worker
from slatespark.table.compaction.worker_report import WorkerOutcome
from slatespark.table.cooperation.claimed_job import ClaimedJob
from slatespark.table.log.compactions import create_compactions, fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest, publish_manifest
from slatespark.table.log.versioned_object import Version
from slatespark.table.read.fetch import fetch_stats
from slatespark.table.read.planning.plan import SstFile
from slatespark.table.records.filtered_jobs import FILTERED_DIR
from slatespark.table.stores import TableStores

DAY_MS = 86_400_000


class LongAgo(Clock):
    """Ten days behind."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 - 10 * DAY_MS


def rows(key: bytes, value: bytes) -> pa.Table:
    return pa.table({"key": [key], "value": [value]})


def two_old_runs(name: str, **properties: Any) -> SlateStore:
    old = SlateStore.create(f"memory://{name}", clock=LongAgo(), **properties)
    old.write(rows(b"a", b"base"))
    old.write(rows(b"z", b"old"))
    store = SlateStore.open(f"memory://{name}")
    store.write(rows(b"new", b"x"))  # so that the tick is the present
    return store


def schedule_oldest(store: SlateStore) -> None:
    """The client's scheduler wants the two oldest runs merged."""
    stores = store._stores
    manifest, listed = fetch_latest_manifest(stores).value, fetch_compactions(stores)
    oldest = tuple(sorted(manifest.run_ids())[1::-1])
    job = Compaction(new_ulid(SystemClock()), TieredSpec((), oldest, oldest[-1]), CompactionStatus.SCHEDULED)
    changed = replace(listed.value, compactor_epoch=manifest.compactor_epoch, jobs=(job,))
    create_compactions(stores, Version(listed.number + 1, changed))


def merge(store: SlateStore, hook: Callable[[], object] = lambda: None) -> WorkerOutcome:
    stores = store._stores

    def runner(tasks: Sequence[RangeTask]) -> Iterator[MergedRange]:
        yield from run_here(stores, SystemClock(), tasks)
        hook()

    schedule_oldest(store)
    [outcome] = Worker([store.url], filters=[RetentionFilter("1d")], runner=runner).runOnce()
    return outcome


def test_a_retention_filter_removes_old_rows() -> None:
    report = merge(two_old_runs("worker-retires")).report
    assert report is not None
    assert (report.rows_out, report.filters_waited) == (0, False)


def test_a_retention_filter_waits_where_operands_may_come() -> None:
    store = two_old_runs("worker-waits", mergeOperator="concat")
    store.write(rows(b"a", b"+1"), operation="merge")
    report = merge(store).report
    assert report is not None
    assert (report.rows_out, report.filters_waited) == (2, True)


def test_an_operand_that_comes_during_the_merge_ends_it() -> None:
    store = two_old_runs("worker-late-operand")
    operand = {"operation": "merge", "mergeOperator": "concat", "ifClientActive": "fence"}
    outcome = merge(store, lambda: store.write(rows(b"a", b"+1"), **operand))
    assert outcome.report is None
    assert isinstance(outcome.error, CommitConflictError)
    assert "merge operands were written" in str(outcome.error)


def test_outputs_stay_whose_hand_over_may_have_succeeded(monkeypatch: pytest.MonkeyPatch) -> None:
    store, hand_over = two_old_runs("worker-lost-answer"), ClaimedJob.hand_over

    def lose_the_answer(job: ClaimedJob, outputs: Sequence[SstHandle]) -> None:
        hand_over(job, outputs)
        raise UnavailableError("The answer was lost.")

    monkeypatch.setattr(ClaimedJob, "hand_over", lose_the_answer)
    schedule_oldest(store)
    [outcome] = Worker([store.url]).runOnce()
    assert isinstance(outcome.error, UnavailableError)
    (listed,) = fetch_compactions(store._stores).value.jobs
    assert listed.status is CompactionStatus.COMPACTED
    (output,) = listed.output_ssts
    assert store._stores.main.head(sst_path(output.id)).size > 0


def test_what_was_uploaded_goes_where_a_range_before_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    store = SlateStore.create("memory://worker-fails-late")
    for start in range(2):  # a file of random bytes cannot be compressed
        keys = [b"%05d" % number for number in range(start, 4000, 2)]
        store.write(pa.table({"key": keys, "value": [secrets.token_bytes(500) for _ in keys]}))
    before, later = store._stores.main.list(COMPACTED_DIR), threading.Event()

    def merged(stores: TableStores, clock: Clock, task: RangeTask, check: Callable[[], None]) -> MergedRange:
        if task.keys.start:
            found = merge_range(stores, clock, task, check)
            later.set()
            return found
        assert later.wait(30)
        raise UnavailableError("The first range failed.")

    monkeypatch.setattr(worker_session, "merge_range", merged)
    schedule_oldest(store)
    [outcome] = Worker([store.url], parallelism=2, options={"sstSize": "256k"}).runOnce()
    assert "first range" in str(outcome.error)
    assert store._stores.main.list(COMPACTED_DIR) == before


def test_files_are_asked_for_operands_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store = two_old_runs("worker-asks-once")
    for number in range(5):
        store.write(rows(b"more%d" % number, b"x"))
    for meta in store._stores.main.list_below("slatespark/commits/"):  # they tell as much of files of ours
        store._stores.main.delete(meta.path)
    asked = list[Ulid]()

    def counted(stores: TableStores, file: SstFile) -> SstStats | None:
        asked.append(file.id)
        return fetch_stats(stores, file)

    monkeypatch.setattr(state, "fetch_stats", counted)
    worker = Worker([store.url], filters=[RetentionFilter("1d")])
    counts = []
    for _ in range(2):
        schedule_oldest(store)
        [outcome] = worker.runOnce()
        assert outcome.error is None
        commit_as_client(store)
        counts.append(len(asked))
        asked.clear()
    assert counts[0] >= 8
    assert counts[1] <= 2, "only the sources of the job"
    store.write(rows(b"more0", b"+1"), operation="merge", mergeOperator="concat", ifClientActive="fence")
    (database,) = worker._databases.values()
    newest = state.fetch_state(store._stores, SystemClock(), None)
    assert not may_retire_beside_client(store._stores, newest, None, database.plain), "a new file is asked"


@pytest.mark.parametrize(
    "chosen",
    [ExpireFilter(now=0), RetentionFilter("1d", now=0), HistoryFloorFilter(0)],
    ids=["expire", "retention", "floor"],
)
def test_filters_with_an_instant_of_their_own_are_refused(chosen: Any) -> None:
    with pytest.raises(OptionError, match=type(chosen).__name__):
        Worker(filters=[chosen])


# --- what transactions notice -----------------------------------------------------------------------------------------


class DropZ:
    """Deletes the row with this key."""

    def decide(self, versions: pa.RecordBatch) -> pa.Array:
        return pc.if_else(pc.equal(versions["key"], b"z"), "tombstone", "keep")


class DropAll:
    def decide(self, versions: pa.RecordBatch) -> pa.Array:
        return pa.array(["tombstone"] * len(versions))


def commit_as_client(store: SlateStore) -> None:
    """The coordinator puts the outputs in the place of the sources, and the job leaves the list."""
    stores = store._stores
    listed = fetch_compactions(stores)
    (job,) = listed.value.jobs
    assert isinstance(job.spec, TieredSpec)
    number, manifest = fetch_latest_manifest(stores)
    tree = manifest.trees()[0]
    run = SortedRun(job.spec.destination, tuple(SstView(handle.id, handle.id) for handle in job.output_ssts))
    left = [run for run in tree.compacted if run.id not in job.spec.sorted_runs]
    compacted = (*left, *([run] if run.views else []))
    shown = {view.sst_id for run in compacted for view in run.views}
    ssts = manifest.ssts.adding(job.output_ssts).keeping(shown)
    committed = replace(manifest, ssts=ssts, nonce=0).with_trees([replace(tree, compacted=compacted)])
    publish_manifest(stores, number + 1, committed, manifest, SystemClock())
    create_compactions(stores, Version(listed.number + 1, replace(listed.value, jobs=())))


@pytest.mark.parametrize("filters", [[DropZ()], [DropAll()], [RetentionFilter("1d")]], ids=["z", "all", "retention"])
def test_transactions_notice_what_a_client_commits(filters: list[Any], request: pytest.FixtureRequest) -> None:
    store = two_old_runs(f"worker-removes-{request.node.name}")
    transaction = store.begin()
    assert transaction.getForUpdate([b"z"]).read_all().num_rows == 1
    schedule_oldest(store)
    [outcome] = Worker([store.url], filters=filters).runOnce()
    assert outcome.error is None
    commit_as_client(store)
    assert store.get(b"z") is None
    transaction.write(rows(b"z-copy", b"computed from z"))
    with pytest.raises(TransactionConflictError):
        transaction.commit()


class KeepAll:
    def decide(self, versions: pa.RecordBatch) -> pa.Array:
        return pa.array(["keep"] * len(versions))


@pytest.mark.parametrize(
    "filters", [[], [KeepAll()], [RetentionFilter("1000d")]], ids=["without filters", "keeps all", "long retention"]
)
def test_a_compaction_that_removes_nothing_conflicts_with_nobody(
    filters: list[Any], request: pytest.FixtureRequest
) -> None:
    store = two_old_runs(f"worker-{request.node.name}")
    transaction = store.begin()
    assert transaction.getForUpdate([b"z"]).read_all().num_rows == 1
    schedule_oldest(store)
    [outcome] = Worker([store.url], filters=filters).runOnce()
    assert outcome.error is None
    commit_as_client(store)
    transaction.write(rows(b"z-copy", b"computed from z"))
    transaction.commit()
    assert store._stores.main.list(FILTERED_DIR) == []


# --- a refused compaction ---------------------------------------------------------------------------------------------


def history_table(name: str) -> SlateStore:
    store = SlateStore.create(f"memory://{name}", history=True)
    store.write(rows(b"a", b"1"))
    store.write(rows(b"a", b"2"))
    return store


def stored_floor(store: SlateStore) -> int | None:
    return store.definition.full_history_ts_low_ms


def test_beside_a_running_compaction_of_a_client_the_floor_stays() -> None:
    store = history_table("refused-beside-job")
    schedule_oldest(store)
    stores, worker = store._stores, WorkerSpec("foreign", SystemClock().now_ms())
    number, listed = fetch_compactions(stores)
    running = replace(listed.jobs[0], status=CompactionStatus.RUNNING, worker=worker)
    create_compactions(stores, Version(number + 1, replace(listed, jobs=(running,))))
    raised: dict[str, Any] = {"full": True, "filters": [HistoryFloorFilter(SystemClock().now_ms())]}
    with pytest.raises(CommitConflictError, match="is running"):
        store.compact(**raised)
    assert stored_floor(store) is None
    store.compact(**raised, ifClientActive="fence")
    assert stored_floor(store) is not None


def test_without_a_coordinator_the_floor_stays() -> None:
    store = history_table("refused-without-coordinator")
    with pytest.raises(CommitConflictError, match="no coordinator"):
        store.compact(
            full=True,
            filters=[HistoryFloorFilter(SystemClock().now_ms())],
            ifClientActive="cooperate",
            clientTimeout="50ms",
        )
    assert stored_floor(store) is None


def test_a_vacuum_deletes_the_record_with_the_versions() -> None:
    store = two_old_runs("worker-removals-vacuumed", versionRetention="none")
    schedule_oldest(store)
    Worker([store.url], filters=[DropZ()]).runOnce()
    assert fates(store) == ["kept"], "a client may still commit it"
    commit_as_client(store)
    assert fates(store) == ["kept"], "that version is the newest one"
    store.compact(full=True, force=True, ifClientActive="fence")
    assert fates(store) == ["kept"], "a reader of it may have begun"
    forget_versions(store)
    assert fates(store) == ["deleted"]
    assert store._stores.main.list(FILTERED_DIR) == []


def test_a_damaged_record_may_tell_of_any_commit_of_a_client() -> None:
    store = two_old_runs("worker-damaged-record", versionRetention="none")
    path = f"{FILTERED_DIR}{new_ulid(SystemClock())}-{1:016x}.json"
    store._stores.main.put(path, [b"damaged"])
    transaction = store.begin()
    assert transaction.getForUpdate([b"z"]).read_all().num_rows == 1
    schedule_oldest(store)
    Worker([store.url]).runOnce()
    commit_as_client(store)
    transaction.write(rows(b"z-copy", b"computed from z"))
    with pytest.raises(TransactionConflictError, match="removed"):
        transaction.commit()
    transaction.rollback()
    with store.begin() as again:
        again.getForUpdate([b"z"]).read_all()
        again.write(rows(b"z-copy", b"computed from z"))
    store.createCheckpoint("before")
    store.write(rows(b"later", b"x"))
    assert fates(store) == ["kept"], "an earlier version is left"
    forget_versions(store)
    assert fates(store) == ["deleted"]


def test_a_damaged_record_stays_while_a_client_may_commit_its_job() -> None:
    store = two_old_runs("worker-damaged-active", versionRetention="none")
    schedule_oldest(store)
    Worker([store.url], filters=[DropZ()]).runOnce()
    (meta,) = store._stores.main.list(FILTERED_DIR)
    store._stores.main.put(meta.path, [b"damaged"])
    for _ in range(2):
        assert fates(store) == ["kept"]


def forget_versions(store: SlateStore) -> None:
    """Let the next vacuum delete all versions but the newest one."""
    for point in store.checkpoints():
        store.deleteCheckpoint(point.id)
    store.write(rows(b"later", b"x"))


def fates(store: SlateStore) -> list[str]:
    report = store.vacuum("0s", force=True)
    return [file.action for file in report.files if file.path.startswith(FILTERED_DIR)]
