from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import OptionError, Reaper, SlateStore, TableNotFoundError, Upkeep
from slatespark.errors import CorruptDataError
from slatespark.format.paths import MANIFEST_DIR, WAL_DIR
from slatespark.options import WriteOptions
from slatespark.storage import open_store
from slatespark.table.compaction.report import CompactionReport
from slatespark.table.gc.report import VacuumReport
from slatespark.table.retention.reap_report import ReapReport
from slatespark.table.retention.reap_run import Reaping
from slatespark.table.stores import TableStores, open_stores
from slatespark.table.upkeep.duties import DUTIES, DutyContext, DutyOutcome
from slatespark.table.upkeep.registered_table import OpenedTable, RegisteredTable
from slatespark.table.upkeep.upkeep import UpkeepOutcome
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.support.named_clocks import NOON_MS

START_MS = 1_700_000_000_000
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000

_names = itertools.count()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START_MS)


def create(clock: FakeClock, **properties: Any) -> SlateStore:
    return SlateStore.create(f"memory://upkeep-{next(_names)}", clock=clock, **properties)


def put(table: SlateStore, *keys: int) -> None:
    table.write(pa.table({"key": [b"%04d" % key for key in keys], "value": [b"v"] * len(keys)}))


def keys(table: SlateStore) -> list[int]:
    return [int(key) for key in table.scan().read_all()["key"].to_pylist()]


def done(outcomes: tuple[UpkeepOutcome, ...] | list[UpkeepOutcome]) -> list[tuple[str, str | None]]:
    return [(outcome.url, outcome.duty) for outcome in outcomes if outcome.is_done]


def test_every_duty_once(clock: FakeClock) -> None:
    table = create(clock, retention="2h")
    for key in range(6):
        put(table, key)
    clock.advance(3 * HOUR_MS)
    put(table, 9)
    outcomes = Upkeep([table.url], clock=clock, minAge="1h").runOnce()
    assert Counter(outcome.duty for outcome in outcomes) == {"historyFloor": 1, "reap": 2, "compact": 1, "vacuum": 1}
    reports = [type(None), ReapReport, ReapReport, CompactionReport, VacuumReport]  # the last pass finds nothing
    assert [type(outcome.report) for outcome in outcomes] == reports
    assert done(outcomes) == [(table.url, "reap")]
    assert keys(table) == [9]


def test_merges_follow_each_other_in_turns(clock: FakeClock) -> None:
    one, two = create(clock, autoCompact="false"), create(clock, autoCompact="false")
    for table in (one, two):
        for key in range(20):
            put(table, key)
    outcomes = Upkeep([one.url, two.url], duties="compact", clock=clock).runOnce()
    made = [url for url, _ in done(outcomes)]
    assert made[:4] == [one.url, two.url] * 2  # neither waits for the end of the other
    assert keys(one) == list(range(20))


def test_passes_of_reaps_follow_each_other_in_turns(clock: FakeClock) -> None:
    one, two = (create(clock, retention="2h", autoCompact="false") for _ in range(2))
    for table in (one, two):
        put(table, *range(4))
    clock.advance(3 * HOUR_MS)
    for table in (one, two):  # a young operand, so that the file stays and its rows get tombstones
        table.write(pa.table({"key": [b"0000"], "value": [b"+"]}), operation="merge")
    told: list[tuple[str, str | None]] = []
    upkeep = Upkeep([one.url, two.url], duties="reap", clock=clock, maxBatchRows=1)
    upkeep.run(clock.now_ms() + 1000, listener=lambda outcome: told.append((outcome.url, outcome.duty)))
    assert told[:4] == [(one.url, "reap"), (two.url, "reap")] * 2
    assert [table.scan(mergeOperator="concat").read_all().num_rows for table in (one, two)] == [1, 1]


def test_a_reap_that_loses_a_race_waits_before_it_goes_on(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    contested, other = (create(clock, retention="2h") for _ in range(2))
    for table in (contested, other):
        put(table, 1)
    clock.advance(3 * HOUR_MS)
    rival = SlateStore.open(contested.url, clock=FakeClock(clock.now_ms(), seed=7))
    watched = FailingStore(open_stores(contested.url, storage={}).main)
    operand = pa.table({"key": [b"0001"], "value": [b"+"]})
    watched.run(lambda: rival.write(operand, operation="merge"), "create", "slatespark/leases/*")
    steps: list[tuple[str, int]] = []
    step = Reaping.step

    def opened(place: RegisteredTable, options: Mapping[str, Any]) -> OpenedTable:
        stores = TableStores(watched, watched) if place.path == contested.url else open_stores(place.path, storage={})
        return OpenedTable(stores, WriteOptions.parse({"path": place.path, **options}))

    def noted(reaping: Reaping) -> int | None:
        steps.append((reaping.stores.url, clock.now_ms()))
        return step(reaping)

    monkeypatch.setattr(RegisteredTable, "open", opened)
    monkeypatch.setattr(Reaping, "step", noted)
    outcomes = Upkeep([contested.url, other.url], duties=["reap"], clock=clock).runOnce()
    assert [url for url, _ in steps] == [contested.url, other.url, other.url, contested.url]
    assert steps[3][1] > steps[2][1]
    assert len(clock.slept_ms) == 1
    assert done(outcomes) == [(other.url, "reap")]


def test_a_table_without_auto_compact_is_compacted(clock: FakeClock) -> None:
    table = create(clock, autoCompact=False, periodicCompactionInterval="10h")
    for key in range(40):
        put(table, key)
    assert len(table.runs()) == 40
    Upkeep([table.url], duties="compact", clock=clock).runOnce()
    assert len(table.runs()) < 8


@pytest.mark.parametrize("options", [{}, {"walPath": "table", "root": "."}])
def test_a_table_stays_where_it_was_when_it_was_added(
    clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    tables = [SlateStore.create(tmp_path / name / "table", clock=clock, retention="2h") for name in ("here", "there")]
    for table in tables:
        put(table, 1)
    clock.advance(3 * HOUR_MS)
    monkeypatch.chdir(tmp_path / "here")
    loops: list[Reaper | Upkeep] = [
        Upkeep("table", duties="reap", clock=clock, **options),
        Reaper("table", clock=clock, **options),
    ]
    monkeypatch.chdir(tmp_path / "there")
    assert [outcome.error for loop in loops for outcome in loop.runOnce()] == [None] * 3
    assert [len(table.files()) for table in tables] == [0, 1]


def test_a_stop_is_not_lost(clock: FakeClock) -> None:
    table = create(clock)
    upkeep = Upkeep([table.url], clock=clock)
    upkeep.stop()
    assert upkeep.runOnce() == ()
    assert len(upkeep.runOnce()) == 4
    upkeep.stop()
    upkeep.run()
    assert clock.now_ms() == START_MS


def test_a_stopped_round_goes_on_in_the_next_run(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(clock)
    upkeep = Upkeep([table.url], clock=clock)
    reap = DUTIES["reap"]

    def stop(visit: DutyContext) -> DutyOutcome:
        upkeep.stop()
        return reap(visit)

    monkeypatch.setattr("slatespark.table.upkeep.upkeep.DUTIES", {**DUTIES, "reap": stop})
    assert [outcome.duty for outcome in upkeep.runOnce()] == ["historyFloor", "reap"]
    seen: list[UpkeepOutcome] = []
    upkeep.run(START_MS + 1, listener=seen.append)
    assert [outcome.duty for outcome in seen] == ["compact", "vacuum"]


def test_an_idle_table_costs_one_request_per_look(clock: FakeClock, tmp_path: Path) -> None:
    table = SlateStore.create(str(tmp_path), clock=clock, retention="30d")
    put(table, 1)
    upkeep = Upkeep([tmp_path], clock=clock, minInterval="1m", maxInterval="1d")
    upkeep.run(START_MS + 2 * DAY_MS)
    outcomes: list[UpkeepOutcome] = []
    upkeep.run(START_MS + 3 * DAY_MS, listener=outcomes.append)
    # The look after a day without a change, and what a vacuum of a day's minimum age does four times a day, at most.
    assert len(outcomes) <= 4 + 4
    assert not done(outcomes)


def test_a_new_version_is_noticed(clock: FakeClock) -> None:
    table = create(clock)
    upkeep = Upkeep([table.url], duties=["compact"], clock=clock, minInterval="1m", maxInterval="1h")
    upkeep.run(START_MS + 5 * MINUTE_MS)
    for key in range(8):
        put(table, key)
    outcomes: list[UpkeepOutcome] = []
    upkeep.run(START_MS + 7 * MINUTE_MS, listener=outcomes.append)
    assert done(outcomes)[0] == (table.url, "compact")


def test_a_table_that_was_dropped_and_created_again_is_noticed(clock: FakeClock) -> None:
    table = create(clock)
    for key in range(20):
        put(table, key)
    upkeep = Upkeep([table.url], duties=["compact"], clock=clock, minInterval="1m", maxInterval="1h")
    upkeep.run(START_MS + 5 * MINUTE_MS)
    SlateStore.drop(table.url, force=True, clock=clock)
    again = SlateStore.create(table.url, clock=clock, autoCompact=False)
    for key in range(8):
        put(again, key)
    outcomes: list[UpkeepOutcome] = []
    upkeep.run(START_MS + 70 * MINUTE_MS, listener=outcomes.append)
    assert (table.url, "compact") in done(outcomes)


def test_a_changed_property_is_noticed(clock: FakeClock) -> None:
    table = create(clock)
    put(table, 1)
    upkeep = Upkeep([table.url], duties="reap", clock=clock, minInterval="1m", maxInterval="1h")
    upkeep.run(START_MS + 2 * MINUTE_MS)
    table.setProperties(retention="1m")
    upkeep.run(START_MS + 30 * MINUTE_MS)
    assert keys(table) == []
    assert not list(table.files())


def test_rows_are_reaped_when_they_are_due(clock: FakeClock) -> None:
    table = create(clock, retention="2h")
    put(table, 1)
    outcomes: list[UpkeepOutcome] = []
    upkeep = Upkeep([table.url], duties="reap", clock=clock, minInterval="1m", maxInterval="1d")
    upkeep.run(START_MS + 2 * HOUR_MS - 1, listener=outcomes.append)
    assert not done(outcomes)
    upkeep.run(START_MS + 2 * HOUR_MS + 3 * MINUTE_MS, listener=outcomes.append)
    assert done(outcomes) == [(table.url, "reap")]


def test_files_are_compacted_when_they_are_due(clock: FakeClock) -> None:
    table = create(clock, periodicCompactionInterval="10h")
    table.write(pa.table({"key": [b"k", b"l"], "value": [b"v", b"w"]}), ttl="1h")
    outcomes: list[UpkeepOutcome] = []
    upkeep = Upkeep([table.url], duties="compact", clock=clock, minInterval="1m", maxInterval="1d")
    upkeep.run(START_MS + 10 * HOUR_MS - 1, listener=outcomes.append)
    assert not done(outcomes)
    upkeep.run(START_MS + 12 * HOUR_MS, listener=outcomes.append)
    assert done(outcomes)
    assert sum(file.rows or 0 for file in table.files()) == 0


@pytest.mark.parametrize("fences", [False, True])
def test_fences_go_if_asked(*, fences: bool) -> None:
    clock = FakeClock(2_000_000_000_000)  # the store has a clock of its own, which is behind
    table = create(clock)
    for key in range(3):
        put(table, key)
    upkeep = Upkeep([table.url], clock=clock, duties="vacuum", fences=fences)
    wal = open_store(table.url)
    assert len(list(wal.list(WAL_DIR))) == 3
    upkeep.runOnce()
    assert len(list(wal.list(WAL_DIR))) == (1 if fences else 3), "the last one stays"
    assert keys(table) == [0, 1, 2]


def test_the_history_floor_follows(clock: FakeClock) -> None:
    table = create(clock, history=True, historyRetention="10d")
    rows = {"key": [b"a", b"a"], "value": [b"1", b"2"], "ts": [START_MS - DAY_MS, START_MS]}
    table.write(pa.table(rows), timestampColumn="ts")
    clock.advance(30 * DAY_MS)
    (outcome,) = Upkeep([table.url], duties="historyFloor", clock=clock).runOnce()
    assert outcome.is_done
    assert isinstance(outcome.report, int)
    assert abs(outcome.report - (START_MS + 20 * DAY_MS)) <= MINUTE_MS
    (outcome,) = Upkeep([table.url], duties="historyFloor", clock=clock).runOnce()
    assert not outcome.is_done


def test_what_fails_stops_nothing_else(clock: FakeClock) -> None:
    broken, sound = create(clock), create(clock)
    for key in range(8):
        put(sound, key)
    files = open_store(broken.url, {})
    newest = files.list(MANIFEST_DIR)[-1].path
    files.put(newest, [bytes(files.get(newest))[:-9]])
    upkeep = Upkeep(
        [broken.url, "memory://not-there", sound.url], duties="compact", clock=clock, minInterval="1m", maxInterval="1h"
    )
    outcomes = upkeep.runOnce()
    assert [type(outcome.error) for outcome in outcomes[:2]] == [CorruptDataError, TableNotFoundError]
    assert done(outcomes)[0] == (sound.url, "compact")
    seen: list[UpkeepOutcome] = []
    upkeep.run(START_MS + HOUR_MS, listener=seen.append)
    assert Counter(outcome.url for outcome in seen if outcome.error)[broken.url] <= 8  # with growing pauses


def test_beside_a_client_nothing_is_reaped(clock: FakeClock) -> None:
    table = create(clock, retention="1h")
    put(table, 1)
    clock.advance(DAY_MS)
    upkeep = Upkeep([table.url], duties=["reap", "vacuum"], clock=clock, options={"ifClientActive": "cooperate"})
    assert not done(upkeep.runOnce())


def test_tables_come_and_go(clock: FakeClock) -> None:
    table = create(clock)
    upkeep = Upkeep(clock=clock)
    assert upkeep.runOnce() == ()
    upkeep.add(table.url)
    assert list(upkeep.deadlines) == [table.url]
    upkeep.remove(table.url)
    upkeep.remove(table.url)
    assert upkeep.deadlines == {}
    assert upkeep.runOnce() == ()


def test_stop(clock: FakeClock) -> None:
    table = create(clock)
    upkeep = Upkeep([table.url], clock=clock)
    seen: list[UpkeepOutcome] = []

    def listen(outcome: UpkeepOutcome) -> None:
        seen.append(outcome)
        upkeep.stop()

    upkeep.run(START_MS + DAY_MS, listener=listen)
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"minInterval": 0}, "minInterval"),
        ({"minInterval": "2h"}, "maxInterval"),
        ({"minAge": "1m"}, "minAge"),
        ({"duties": "reep"}, "reap"),
        ({"duties": []}, "duties"),
        ({"maxBatchRows": 0}, "maxBatchRows"),
        ({"options": {"compresion": "zstd"}}, "compression"),
        ({"options": {"ttl": "3d"}}, "upkeep: ttl does not apply"),
        ({"options": {"startKey": "61"}}, "startKey"),
        ({"clock": "custom"}, "clock"),
        ({"minIntervall": "5m"}, "minInterval"),
        ({"foo": 1}, "no option storage.foo"),
    ],
)
def test_wrong_arguments(given: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Upkeep(["memory://any"], **given)


def test_the_clock_may_be_a_name() -> None:
    for kind in (Upkeep, Reaper):
        work = kind(["memory://any"], clock="tests.support.named_clocks:noon")
        assert work.deadlines == {"memory://any": NOON_MS}


def test_the_vacuum_is_that_of_the_store() -> None:
    for name in ("minAge", "fences"):
        own, of_store = (signature(call).parameters[name] for call in (Upkeep, SlateStore.vacuum))
        assert (own.default, own.annotation) == (of_store.default, of_store.annotation)


def test_a_clock_that_is_set_back_delays_no_duty(clock: FakeClock) -> None:
    table, told = create(clock), list[UpkeepOutcome]()
    put(table, 1)
    upkeep = Upkeep([table.url], duties="vacuum", clock=clock, minAge="1h")
    upkeep.run(clock.now_ms() + MINUTE_MS, listener=told.append)
    assert len(told) == 1
    clock.advance(-DAY_MS)
    upkeep.run(clock.now_ms() + HOUR_MS, listener=told.append)
    assert len(told) >= 4, "every quarter of an hour"
