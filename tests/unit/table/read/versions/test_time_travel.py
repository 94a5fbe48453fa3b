"""Which version an instant belongs to: by commit times, by the table's own clock, and where versions are missing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from slatespark.errors import HistoryTrimmedError, OptionError
from slatespark.format.manifest import NO_TICK
from slatespark.format.paths import manifest_path
from slatespark.slate_store import SlateStore
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.read.versions import kept_versions
from slatespark.table.read.versions.kept_versions import KeptVersions, order_times
from slatespark.table.read.versions.time_travel import resolve_version
from slatespark.table.records import commit_batches
from tests.faults.jobs import table_of
from tests.support.fake_clock import FakeClock

START = 1_780_000_000_000
_names = itertools.count()


class Table:
    """A raw table whose clock, and that of its store, go on by a second with each step."""

    def __init__(self, **properties: Any) -> None:
        self.clock = FakeClock(START)
        name = f"time-travel-{next(_names)}"
        self.store_ahead_ms = 0
        self.files = MemoryStore(name, clock_ms=lambda: self.clock.now_ms() + self.store_ahead_ms)
        SlateStore.create(f"memory://{name}", **{"clock": self.clock, **properties})
        self.store = SlateStore.open(f"memory://{name}", clock=self.clock)
        self.times_ms: dict[int, int] = {1: self.clock.now_ms()}

    def write(self, *keys: str, **options: Any) -> int:
        self.clock.advance(1000)
        rows = pa.table({"key": [key.encode() for key in keys], "value": [b"v"] * len(keys)})
        version = self.store.write(rows, **options)
        self.times_ms[version] = self.clock.now_ms()
        return version

    def collect(self, *versions: int) -> None:
        for version in versions:
            self.files.delete(manifest_path(version))

    def at(self, time_ms: int) -> int:
        return resolve_version(self.store._stores, time_ms, self.clock)


@pytest.fixture
def table() -> Table:
    return Table()


def test_a_version_stands_until_the_next_one(table: Table) -> None:
    versions = [table.write("a"), table.write("b"), table.write("c")]
    for version in versions:
        assert table.at(table.times_ms[version]) == version
        assert table.at(table.times_ms[version] - 1) < version
    assert table.at(table.clock.now_ms()) == versions[-1]


def test_a_time_in_the_future(table: Table) -> None:
    version = table.write("a")
    table.clock.advance(5)
    assert table.at(table.clock.now_ms()) == version
    with pytest.raises(OptionError, match="future"):
        table.at(table.clock.now_ms() + 1)


def test_a_time_before_the_table(table: Table) -> None:
    table.write("a")
    assert table.at(START) == 1
    with pytest.raises(HistoryTrimmedError, match=rf"\({START - 1}\).*\({START}\)"):
        table.at(START - 1)


def test_a_time_whose_version_was_collected(table: Table) -> None:
    first, second = table.write("a"), table.write("b")
    table.collect(*range(1, second))
    assert table.at(table.times_ms[second]) == second
    with pytest.raises(HistoryTrimmedError, match=rf"\({table.times_ms[second]}\).*version {second}"):
        table.at(table.times_ms[first])


def test_the_claim_before_the_next_commit_stands_for_a_collected_version(table: Table) -> None:
    first, second = table.write("a"), table.write("b")
    table.collect(*range(1, first + 1))
    assert second == first + 2
    assert table.at(table.times_ms[first]) == first + 1  # the claim shows the same rows
    with pytest.raises(HistoryTrimmedError):
        table.at(table.times_ms[first] - 1)


def test_the_claim_does_not_stand_for_a_version_of_others(table: Table) -> None:
    """Without the record nobody knows since when the rows of the claim were there."""
    first, _ = table.write("a"), table.write("b")
    table.collect(*range(1, first + 1))
    table.files.delete(f"slatespark/commits/{first:020d}.json")
    with pytest.raises(HistoryTrimmedError, match="collected"):
        table.at(table.times_ms[first])


@pytest.mark.parametrize("change", ["write", "compact", "deleteRange", "overwrite"])
def test_a_version_stands_until_the_next_commit_whether_or_not_it_has_rows(change: str) -> None:
    """The evening before a nightly compaction stays readable after a vacuum."""
    clock = FakeClock()
    store = SlateStore.create(f"memory://time-travel/{change}", clock=clock, versionRetention="7d", autoCompact=False)
    nothing = pa.table({"key": pa.array([], pa.binary()), "value": pa.array([], pa.binary())})
    for key in (b"a", b"b"):
        store.write(pa.table({"key": [key], "value": [b"v"]}))
        clock.advance(3_600_000)
    evening_ms = clock.now_ms()
    clock.advance(3_600_000)
    if change == "write":
        store.write(pa.table({"key": [b"c"], "value": [b"v"]}))
    elif change == "compact":
        store.compact(full=True)
    elif change == "deleteRange":
        store.deleteRange(startKey=b"b", endKey=b"c")
    else:
        store.write(nothing, mode="overwrite")
    clock.advance(25 * 3_600_000)
    store.vacuum(minAge="0s", force=True)
    assert store.scan(timestampAsOf=evening_ms).read_all()["key"].to_pylist() == [b"a", b"b"]


def test_a_version_does_not_stand_for_a_collected_one_after_it(table: Table) -> None:
    first, second, third = table.write("a"), table.write("b"), table.write("c")
    table.collect(second - 1, second, third - 1)
    assert table.at(table.times_ms[second] - 1) == first  # nothing was committed between the two
    with pytest.raises(HistoryTrimmedError, match=f"{first} and {third}.*version {third}"):
        table.at(table.times_ms[second])
    table.files.delete(f"slatespark/commits/{second:020d}.json")
    with pytest.raises(HistoryTrimmedError):  # now nobody knows when it was
        table.at(table.times_ms[second] - 1)


def test_a_table_with_a_clock_of_its_own_goes_by_that() -> None:
    table = Table(clock="custom")
    first = table.write("a", timestamp=50)
    table.write("b", timestamp=50)
    third = table.write("c", timestamp=70)
    assert [table.at(time_ms) for time_ms in (49, 50, 69, 70)] == [first - 1, third - 1, third - 1, third]  # claims too
    with pytest.raises(OptionError, match="clock"):
        table.at(71)


def test_a_store_ahead_of_our_clock_does_not_hide_a_collected_version(table: Table) -> None:
    """The claim before it, which nobody recorded, was there before it, whatever the store says."""
    table.store_ahead_ms = 5000
    first, second, third = table.write("a"), table.write("b"), table.write("c")
    table.collect(second)
    assert table.at(table.times_ms[second]) == third - 1  # which shows the same rows
    assert table.at(table.times_ms[second] - 1) == first


@pytest.mark.parametrize("collected", [False, True])
def test_a_writer_whose_clock_is_behind_does_not_show_its_commit_early(table: Table, collected: bool) -> None:
    """Its commit came after that of the writer before it, whatever its clock says."""
    first, second = table.write("a"), table.write("b")
    table.clock.advance(-800)
    behind = table.store.write(pa.table({"key": [b"c"], "value": [b"v"]}))
    table.clock.advance(5000)
    table.store.createCheckpoint("x")  # a version above it, with the same rows
    table.collect(*(range(first + 1, behind + 1) if collected else ()))
    assert table.at(table.times_ms[second] - 500) == first
    assert table.at(table.times_ms[second]) >= behind


def test_times_of_two_clocks_are_put_in_order() -> None:
    numbers = [1, 2, 3, 4, 5, 6]
    stored = dict.fromkeys(numbers, 0) | {1: 15, 3: 90, 5: 99, 6: 55}
    assert order_times(numbers, {2: 10, 4: 40}, stored) == [10, 10, 40, 40, 99, 99]
    assert order_times(numbers, {2: 10, 4: 5, 6: 70}, stored) == [10, 10, 10, 10, 70, 70]
    assert order_times([1, 3, 5], {2: 10, 4: 40}, {1: 15, 3: 90, 5: 20}) == [10, 40, 40]  # collected ones count
    assert order_times([], {}, {}) == []


def test_only_records_of_versions_that_exist_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log has those of all commits ever made."""
    monkeypatch.setattr(commit_batches, "BATCH_RECORDS", 5)
    table = Table()
    for number in range(100):
        table.clock.advance(kept_versions.MAX_SET_BACK_MS // 10)
        table.write(f"{number}")
    store = SlateStore.open(table.store.url, clock=table.clock)
    everything = KeptVersions(store._stores).records
    assert len(everything) > 100
    newest = max(everything)
    table.collect(*range(1, newest - 1))
    kept = KeptVersions(store._stores)
    assert kept.numbers == [newest - 1, newest]
    assert 10 < len(kept.records) < 20, "a day and no more"
    assert kept.records.items() <= everything.items()
    assert table.at(table.times_ms[newest]) == newest


# --- a clock of the table's own -------------------------------------------------------------------------------------


def _own_time(**properties: Any) -> SlateStore:
    """A table with rows of the times 1 and 2."""
    url = f"memory://own-time-{next(_names)}/t"
    SlateStore.create(url, clock="custom", **properties)
    store = SlateStore.open(url)
    for time, key in enumerate((b"a", b"b"), 1):
        store.write(table_of([(key, b"1")]), timestamp=time)
    return store


_WITHOUT_TIME: dict[str, Callable[[SlateStore], object]] = {
    "restore": lambda store: store.restoreToVersion(3),
    "deleteRange": lambda store: store.deleteRange(keyPrefix=b"a"),
    "compact": lambda store: store.compact(full=True),
    "erase": lambda store: store.erase(b"a"),
    "nothing": lambda store: None,
}


@pytest.mark.parametrize("change", _WITHOUT_TIME.values(), ids=_WITHOUT_TIME.keys())
def test_a_commit_without_a_time_of_its_own(change: Callable[[SlateStore], object]) -> None:
    """Once versions were collected, each instant shows what it showed, or is refused."""
    store = _own_time()
    change(store)
    store.write(table_of([(b"c", b"1")]), timestamp=3)
    shown = {time: store.scan(timestampAsOf=time).read_all() for time in (2, 3)}
    store.write(table_of([(b"d", b"1")]), timestamp=4)
    store.vacuum("0s", force=True)
    for time, before in shown.items():
        try:
            assert store.scan(timestampAsOf=time).read_all() == before
        except HistoryTrimmedError:
            continue
    assert store.scan(timestampAsOf=4).read_all().num_rows > 0


def test_late_rows_are_not_shown_before_they_came() -> None:
    store = _own_time(history=True)
    store.createCheckpoint("one")
    store.write(table_of([(b"c", b"1")]), timestamp=100)
    store.write(table_of([(b"late", b"1")]), timestamp=5)
    store.createCheckpoint("two")
    store.write(table_of([(b"d", b"1")]), timestamp=200)
    store.vacuum("0s", force=True)
    copy = store.copyTo(f"memory://own-time-{next(_names)}/copy", timestampAsOf=50)
    assert copy.scan().read_all()["key"].to_pylist() == [b"a", b"b"]
    store.restoreToTimestamp(50)
    assert store.scan().read_all()["key"].to_pylist() == [b"a", b"b"]


_IN_THE_FUTURE: dict[str, Callable[[SlateStore], object]] = {
    "scan": lambda store: store.scan(timestampAsOf=5),
    "restore": lambda store: store.restoreToTimestamp(5),
    "compact": lambda store: store.compact(full=True, now=5),
}


@pytest.mark.parametrize("call", _IN_THE_FUTURE.values(), ids=_IN_THE_FUTURE.keys())
def test_the_future_of_a_table_without_a_time_yet(call: Callable[[SlateStore], object]) -> None:
    """No write has set the clock of the table: the error shows no time of it."""
    url = f"memory://own-time-{next(_names)}/t"
    SlateStore.create(url, clock="custom")
    with pytest.raises(OptionError) as refused:
        call(SlateStore.open(url))
    assert str(NO_TICK) not in str(refused.value)
