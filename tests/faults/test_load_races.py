"""A load beside a client, and commits that fence the client in the meantime, or a clock that fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slatespark import InvalidRequestError, SlateStore, TransactionConflictError, UnavailableError
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import manifest_path
from slatespark.format.references import SortedRun, SstMap, SstView
from slatespark.format.row import Row
from slatespark.storage.local_store import LocalStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.cooperation import load_commit
from slatespark.table.cooperation.claimed_job import ClaimedJob
from slatespark.table.records.handed_loads import fetch_handed_loads
from slatespark.table.records.idempotent_writes import fetch_txn_record
from tests.faults.busy_database import our_pairs
from tests.faults.jobs import Pair, store_on, stores_of, table_of
from tests.simulation.coordinator import Coordinator
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.unit.table.layers import upload_rows

BASE: list[Pair] = [(b"k%02d" % number, b"base") for number in range(10)]
LOADED: list[Pair] = [(b"k03", b"loaded"), (b"k07", b"loaded")]


class SteppedClock(FakeClock):
    """A clock whose sleeper lets another process take a step."""

    def __init__(self, step: Callable[[], None], seed: int = 7) -> None:
        super().__init__(seed=seed)
        self.step, self.fails = step, False

    def now_ms(self) -> int:
        if self.fails:
            raise InvalidRequestError("clock: gps failed: TimeoutError.", todo="Make it return ms since 1970.")
        return super().now_ms()

    def sleep_ms(self, duration_ms: int) -> None:
        super().sleep_ms(duration_ms)
        self.step()


def test_rows_deleted_after_the_merge_stay_deleted(tmp_path: Path) -> None:
    """A range deletion cuts runs and keeps their ids, so a job on a run is valid, but what was merged is not."""
    SlateStore.create(str(tmp_path / "db"), autoCompact=False).write(table_of(BASE))
    store = LocalStore(tmp_path / "db")
    first, second = (Coordinator(store, FakeClock(seed=seed), sources=9) for seed in (1, 2))
    first.start()

    def delete_and_reopen() -> None:
        """Fence the client just before the job is listed, and open it again."""
        store_on(store, FakeClock(seed=3)).deleteRange(startKey=b"k05", ifClientActive="fence")
        second.start()

    load = store_on(FailingStore(store).run(delete_and_reopen, "create", "compactions/*"), SteppedClock(second.tick))
    load.write(table_of(LOADED), ifClientActive="cooperate")
    kept = [pair for pair in BASE if pair[0] < b"k05" and pair[0] != b"k03"]
    assert our_pairs(tmp_path / "db") == sorted([*kept, *LOADED])


def test_a_repetition_that_is_faster_takes_effect_once(tmp_path: Path) -> None:
    """It is committed, and a later write too, between the first attempt's search for it and its job."""
    SlateStore.create(str(tmp_path / "db"), autoCompact=False).write(table_of(BASE))
    store = LocalStore(tmp_path / "db")
    coordinator = Coordinator(store, FakeClock(seed=1), sources=9)
    coordinator.start()

    def write(to: ObjectStore, rows: list[Pair], seed: int, **options: Any) -> None:
        clock = SteppedClock(coordinator.tick, seed)
        store_on(to, clock).write(table_of(rows), ifClientActive="cooperate", **options)

    def overtake() -> None:
        write(store, LOADED, 2, txnAppId="nightly", txnVersion=7)
        write(store, [(b"k03", b"newer")], 3)

    write(FailingStore(store).run(overtake, "create", "compactions/*"), LOADED, 4, txnAppId="nightly", txnVersion=7)
    assert our_pairs(tmp_path / "db") == sorted({**dict(BASE), **dict(LOADED), b"k03": b"newer"}.items())


@pytest.mark.parametrize("step", ["hand_over_together", "find_commit_of"])
def test_a_clock_that_fails_denies_no_load_that_was_handed_over(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SlateStore.create(str(tmp_path / "db"), autoCompact=False).write(table_of(BASE))
    store = LocalStore(tmp_path / "db")
    client = Coordinator(store, FakeClock(seed=1), sources=9)
    client.start()
    clock, original = SteppedClock(client.tick), getattr(load_commit, step)

    def fail_afterwards(*given: Any) -> Any:
        result = original(*given)
        clock.fails = step == "hand_over_together" or result is not None
        return result

    monkeypatch.setattr(load_commit, step, fail_afterwards)
    options: dict[str, Any] = {"ifClientActive": "cooperate", "txnAppId": "job", "txnVersion": 1}
    load = store_on(FailingStore(store), clock)
    if step == "hand_over_together":
        with pytest.raises(UnavailableError, match="may have taken write"):
            load.write(table_of(LOADED), **options)
        client.tick()
    else:
        load.write(table_of(LOADED), **options)
    assert our_pairs(tmp_path / "db") == sorted(dict(BASE + LOADED).items())
    clock.fails = False
    monkeypatch.undo()
    version = load.resolve().version
    assert load.write(table_of(LOADED), **options) == version
    assert load.resolve().version == version


@pytest.mark.parametrize("deleted", [[b"k03"], [key for key, _ in BASE]])
def test_a_transaction_notices_rows_that_a_load_deleted(deleted: list[bytes], tmp_path: Path) -> None:
    """Nothing lies below the rows that it is merged with: without its deletions, no row tells of it."""
    table = SlateStore.create(str(tmp_path / "db"), autoCompact=False)
    table.write(table_of(BASE))
    store = LocalStore(tmp_path / "db")
    client = Coordinator(store, FakeClock(seed=1), sources=9)
    client.start()
    with table.begin(ifClientActive="fence") as transaction:
        assert transaction.getForUpdate([b"k03"]).read_all().num_rows == 1
        deletes = table_of([(key, b"") for key in deleted]).append_column("op", [["delete"] * len(deleted)])
        load = store_on(FailingStore(store), SteppedClock(client.tick))
        load.write(deletes, ifClientActive="cooperate", opColumn="op")
        transaction.write(table_of([(b"k03", b"derived from what it was")]))
        with pytest.raises(TransactionConflictError, match="6b3033"):
            transaction.commit()
    assert our_pairs(tmp_path / "db") == [pair for pair in BASE if pair[0] not in deleted]


def test_a_transaction_notices_a_load_without_a_number_above_zero(tmp_path: Path) -> None:
    """Rows of a bulk load may have the number 0; a load that is merged with them has it too."""
    store = LocalStore(tmp_path / "db")
    (file,) = upload_rows(stores_of(store), [Row(key, 0, value=value) for key, value in BASE], FakeClock())
    run = SortedRun(0, (SstView(file.handle.id, file.handle.id),))
    store.put(manifest_path(1), [encode_manifest(Manifest(ssts=SstMap([file.handle]), compacted=(run,)))])
    client = Coordinator(store, FakeClock(seed=1), sources=9)
    client.start()
    with SlateStore.open(str(tmp_path / "db")).begin(ifClientActive="fence") as transaction:
        assert transaction.getForUpdate([b"k03"]).read_all().num_rows == 1
        load = store_on(FailingStore(store), SteppedClock(client.tick))
        load.write(table_of(LOADED), ifClientActive="cooperate")
        transaction.write(table_of([(b"k03", b"derived from what it was")]))
        with pytest.raises(TransactionConflictError, match="6b3033"):
            transaction.commit()
    assert our_pairs(tmp_path / "db") == sorted({**dict(BASE), **dict(LOADED)}.items())


def test_deletes_where_no_rows_are_left(tmp_path: Path) -> None:
    """The client ends their job without a version, so there is none to wait for."""
    SlateStore.create(str(tmp_path / "db"), autoCompact=False).write(table_of(BASE))
    store = LocalStore(tmp_path / "db")
    client = Coordinator(store, FakeClock(seed=1), sources=9)
    client.start()
    load = store_on(FailingStore(store), SteppedClock(client.tick))
    deletes = table_of(BASE).append_column("op", [["delete"] * len(BASE)])
    options: dict[str, Any] = {"ifClientActive": "cooperate", "opColumn": "op"}
    pair: dict[str, Any] = {"txnAppId": "job", "txnVersion": 1}
    version = load.write(deletes, **options)
    files = {meta.path for meta in store.list("compacted/")}
    assert load.write(deletes, **options) == load.write(deletes, **options, **pair) == version
    assert our_pairs(tmp_path / "db") == []
    assert {meta.path for meta in store.list("compacted/")} == files
    assert fetch_handed_loads(store) == []
    outcome = fetch_txn_record(store, "job", 1)
    assert outcome is not None
    assert outcome.manifest_id == version
    load.write(table_of(LOADED), ifClientActive="cooperate")
    load.write(deletes, **options, **pair)
    assert our_pairs(tmp_path / "db") == LOADED, "the pair had its effect before these rows came"


def test_a_clock_that_fails_denies_no_compaction_that_was_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = SlateStore.create(str(tmp_path / "db"), autoCompact=False)
    for rows in (BASE, LOADED):
        table.write(table_of(rows))
    store = LocalStore(tmp_path / "db")
    client = Coordinator(store, FakeClock(seed=1), sources=9)
    client.start()
    clock, hand_over = SteppedClock(client.tick), ClaimedJob.hand_over

    def fail_afterwards(job: ClaimedJob, outputs: Any) -> None:
        hand_over(job, outputs)
        clock.fails = True

    monkeypatch.setattr(ClaimedJob, "hand_over", fail_afterwards)
    with pytest.raises(UnavailableError, match="handed to the client"):
        store_on(FailingStore(store), clock).compact(full=True, ifClientActive="cooperate")
    client.tick()
    assert len(table.runs()) == 1
    assert our_pairs(tmp_path / "db") == sorted(dict(BASE + LOADED).items())
