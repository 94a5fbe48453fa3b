"""One loop for many tables: order, failures, and pauses."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import (
    CorruptDataError,
    InvalidRequestError,
    OptionError,
    Reaper,
    SlateStore,
    TableNotFoundError,
)
from slatespark.format.paths import manifest_path
from slatespark.options import WriteOptions
from slatespark.table.read.planning.plan import SstFile
from slatespark.table.records.commit_record import COMMITS_DIR
from slatespark.table.retention.deletion_time import SKEW_MS
from slatespark.table.retention.expiry_plan import FileOutline
from slatespark.table.retention.reap_run import Reaping
from slatespark.table.retention.reap_survey import survey_file
from slatespark.table.stores import TableStores, open_stores
from slatespark.table.upkeep.reaper import ReapOutcome
from slatespark.table.upkeep.registered_table import OpenedTable, RegisteredTable
from slatespark.table.upkeep.table_loop import MAX_SLEEP_MS
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000
_names = itertools.count(1)


def new_table(clock: FakeClock, /, *hours: int, **properties: Any) -> SlateStore:
    """A table with a row written at each of these hours."""
    store = SlateStore.create(f"memory://reaper-{next(_names)}", **{"clock": clock, **properties})
    began_ms = clock.now_ms()
    for hour in hours:
        clock.advance(began_ms + hour * HOUR_MS - clock.now_ms())
        store.write(pa.table({"key": [b"%d" % hour], "value": [b"v"]}))
    return store


def looks(reaper: Reaper, until: int) -> list[tuple[int, ReapOutcome]]:
    """The outcome of each reap, and its time."""
    found: list[tuple[int, ReapOutcome]] = []
    clock = reaper._clock
    reaper.run(until=until, listener=lambda outcome: found.append((clock.now_ms(), outcome)))
    return found


def test_each_table_is_reaped_when_its_next_row_is_due() -> None:
    clock = FakeClock(START_MS)
    one = new_table(clock, 0, 3, retention="10h")
    two = new_table(clock, 2, retention="7h")
    reaper = Reaper([one.url, two.url], clock=clock, maxInterval="100h")
    found = looks(reaper, START_MS + 30 * HOUR_MS)
    reaped = [(at, outcome.url, outcome.report.rows) for at, outcome in found if outcome.report and outcome.report.rows]
    assert reaped == [
        (START_MS + 10 * HOUR_MS + SKEW_MS, one.url, 1),
        (START_MS + 12 * HOUR_MS + SKEW_MS, two.url, 1),
        (START_MS + 13 * HOUR_MS + SKEW_MS, one.url, 1),
    ]
    assert len(found) < 12
    assert clock.now_ms() == START_MS + 30 * HOUR_MS
    assert max(clock.slept_ms) <= MAX_SLEEP_MS
    assert one.scan(includeExpired=True).read_all().num_rows == two.scan(includeExpired=True).read_all().num_rows == 0


def test_reaps_respect_the_minimum_and_maximum_interval() -> None:
    clock = FakeClock(START_MS)
    rows = new_table(clock, retention="1h")
    for _ in range(10):  # one row a minute
        rows.write(pa.table({"key": [b"%d" % clock.now_ms()], "value": [b"v"]}))
        clock.advance(MINUTE_MS)
    lasting = new_table(clock, 0)
    reaper = Reaper([rows.url, lasting.url], clock=clock, minInterval="5m", maxInterval="30m")
    found = looks(reaper, START_MS + 90 * MINUTE_MS)
    for url, longest in ((rows.url, 30), (lasting.url, 30)):
        times = [at for at, outcome in found if outcome.url == url]
        gaps = [after - before for before, after in itertools.pairwise(times)]
        assert all(5 * MINUTE_MS <= gap <= longest * MINUTE_MS for gap in gaps)
    assert [outcome.report.rows for _, outcome in found if outcome.report and outcome.report.rows] == [1, 5, 4]
    assert len([None for _, outcome in found if outcome.url == lasting.url]) == 3


def test_a_failing_table_is_retried_with_backoff_and_stops_no_other() -> None:
    clock = FakeClock(START_MS)
    broken, sound = new_table(clock, 0, retention="1h"), new_table(clock, 0, retention="1h")
    store = open_stores(broken.url, storage={}).main
    latest = manifest_path(broken.detail().version)
    whole = bytes(store.get(latest))
    store.put(latest, [b"damaged"])
    reaper = Reaper([broken.url, sound.url], clock=clock, minInterval="1m", maxInterval="20m")
    first = reaper.runOnce()
    assert isinstance(first[0].error, CorruptDataError)
    assert first[0].report is None
    assert first[1].error is None
    found = looks(reaper, START_MS + 61 * MINUTE_MS + 30_000)
    tried = [(at - START_MS) // MINUTE_MS for at, outcome in found if outcome.url == broken.url]
    assert tried == [1, 3, 7, 15, 31, 51]
    assert [outcome.report.rows for _, outcome in found if outcome.url == sound.url and outcome.report][-1] == 1
    store.put(latest, [whole])
    clock.advance(20 * MINUTE_MS)
    (outcome,) = [outcome for outcome in reaper.runOnce() if outcome.url == broken.url]
    assert outcome.report is not None
    assert outcome.report.rows == 1


def test_an_error_of_any_kind_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def burst(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by accident")

    monkeypatch.setattr("slatespark.table.retention.reap_run.Reaping.step", burst)
    (outcome,) = Reaper(["memory://any"], clock=FakeClock(START_MS)).runOnce()
    assert "ZeroDivisionError: by accident" in str(outcome.error)
    assert isinstance(outcome.error and outcome.error.__cause__, ZeroDivisionError)


def test_file_facts_are_kept_between_reaps(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(START_MS)
    table = new_table(clock, 0, 5, retention="10h")
    store = open_stores(table.url, storage={}).main
    for meta in store.list(COMMITS_DIR):
        store.delete(meta.path)
    surveyed: list[str] = []

    def survey(stores: TableStores, file: SstFile, *, window_bytes: int) -> FileOutline:
        surveyed.append(str(file.id))
        return survey_file(stores, file, window_bytes=window_bytes)

    monkeypatch.setattr("slatespark.table.retention.reap_survey.survey_file", survey)
    reaper = Reaper([table.url], clock=clock)
    assert reaper.runOnce()[0].error is None
    assert len(surveyed) == 2
    clock.advance(5 * HOUR_MS + SKEW_MS)
    (outcome,) = reaper.runOnce()
    assert outcome.report is not None
    assert outcome.report.files_dropped == 1
    assert len(surveyed) == 2


def test_tables_can_be_added_and_removed() -> None:
    clock = FakeClock(START_MS)
    one, two = new_table(clock, 0, retention="1h"), new_table(clock, 0, retention="1h")
    reaper = Reaper(clock=clock, maxInterval="2h")
    assert reaper.runOnce() == ()
    reaper.run(until=START_MS + 1000)
    reaper.add(one.url)
    reaper.add(two.url)
    reaper.add(one.url)
    assert list(reaper.deadlines) == [two.url, one.url]
    reaper.remove(one.url)
    reaper.remove("memory://never-there")
    assert [outcome.url for outcome in reaper.runOnce()] == [two.url]
    assert reaper.deadlines == {two.url: START_MS + HOUR_MS + SKEW_MS}


def test_a_table_removed_during_its_reap_stays_removed() -> None:
    clock = FakeClock(START_MS)
    one = new_table(clock, 0, retention="1h")
    reaper = Reaper([one.url], clock=clock, progress=lambda *_: None)
    reaper.run(until=START_MS + HOUR_MS, listener=lambda outcome: reaper.remove(outcome.url))
    assert reaper.deadlines == {}


def test_stop_ends_a_run() -> None:
    clock = FakeClock(START_MS)
    reaper = Reaper([new_table(clock, 0, retention="1h").url], clock=clock)
    reaper.run(listener=lambda _: reaper.stop())
    assert clock.now_ms() == START_MS


def test_deadlines_of_a_custom_clock_are_not_waited_for() -> None:
    clock = FakeClock(START_MS)
    table = new_table(clock, clock="custom", retention="10ms")
    for tick in (1, 8, 30):
        table.write(pa.table({"key": [b"%d" % tick], "value": [b"v"]}), timestamp=tick)
    reaper = Reaper([table.url], clock=clock, minInterval="5m")
    (outcome,) = reaper.runOnce()
    assert outcome.report is not None
    assert (outcome.report.rows, outcome.report.next_deadline_ms, outcome.next_ms) == (2, 40, START_MS + 5 * MINUTE_MS)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"minInterval": 0}, "minInterval"),
        ({"minInterval": "2h"}, "maxInterval"),
        ({"maxInterval": "soon"}, "maxInterval"),
        ({"maxBatchRows": 0}, "maxBatchRows"),
        ({"maxBatchBytes": "much"}, "maxBatchBytes"),
        ({"options": {"compresion": "zstd"}}, "compression"),
        ({"clock": "custom"}, "clock"),
        ({"minIntervall": "5m"}, "minInterval"),
        ({"foo": 1}, "no option storage.foo"),
    ],
)
def test_wrong_arguments(given: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Reaper(["memory://any"], **given)


def test_invalid_paths(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="path"):
        Reaper([SlateStore])  # type: ignore[list-item]
    (outcome,) = Reaper([tmp_path / "nothing"], clock=FakeClock(START_MS)).runOnce()
    assert isinstance(outcome.error, TableNotFoundError)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The table of each pass, as it is begun."""
    found: list[str] = []
    step = Reaping.step

    def watched(reaping: Reaping) -> int | None:
        found.append(reaping.stores.url)
        return step(reaping)

    monkeypatch.setattr(Reaping, "step", watched)
    return found


def test_a_backlog_starves_no_other_table(steps: list[str]) -> None:
    clock = FakeClock(START_MS)
    long, short = (new_table(clock, retention="1h") for _ in range(2))
    for table, rows in ((long, 40), (short, 10)):
        table.write(pa.table({"key": [b"%02d" % number for number in range(rows)], "value": [b"v"] * rows}))
    clock.advance(HOUR_MS + SKEW_MS)
    for table in (long, short):
        table.write(pa.table({"key": [b"01"], "value": [b"+"]}), operation="merge")  # so that the files stay
    outcomes = Reaper([long.url, short.url], clock=clock, maxBatchRows=4).runOnce()
    assert [outcome.report.passes for outcome in outcomes if outcome.report] == [10, 3]
    assert steps == [long.url, short.url] * 4 + [long.url] * 7


@pytest.mark.parametrize("tables", [3, [3], None])
def test_what_is_no_table_is_refused(tables: Any) -> None:
    with pytest.raises(OptionError, match="table"):
        Reaper(tables)


def test_a_conflict_lets_the_other_tables_go_first(steps: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(START_MS)
    contested, other = (new_table(clock, 0, retention="1h") for _ in range(2))
    clock.advance(HOUR_MS + SKEW_MS)
    rival = SlateStore.open(contested.url, clock=FakeClock(clock.now_ms(), seed=7))
    watched = FailingStore(open_stores(contested.url, storage={}).main)
    operand = pa.table({"key": [b"0"], "value": [b"+"]})
    watched.run(lambda: rival.write(operand, operation="merge"), "create", "slatespark/leases/*")

    def opened(place: RegisteredTable, options: Any) -> OpenedTable:
        stores = TableStores(watched, watched) if place.path == contested.url else open_stores(place.path, storage={})
        return OpenedTable(stores, WriteOptions.parse({"path": place.path, **options}))

    monkeypatch.setattr(RegisteredTable, "open", opened)
    outcomes = Reaper([contested.url, other.url], clock=clock).runOnce()
    assert steps == [contested.url, other.url, other.url, contested.url]
    assert len(clock.slept_ms) == 1, "only when nothing else was left to do"
    assert [outcome.report.rows for outcome in outcomes if outcome.report] == [0, 1]
