"""Reads of the past: the instant that judges expiry, tables of each kind, and what is refused."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.errors import HistoryTrimmedError, InvalidRequestError, OptionError, SnapshotExpiredError
from slatespark.format.paths import COMPACTED_DIR, manifest_path, wal_path
from slatespark.format.row import Row, RowKind
from slatespark.options import ReadOptions
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.inspection.resolution import Resolution
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.versions.resolve import resolve_snapshot
from slatespark.table.stores import TableStores
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.support.wal_files import encode_wal, forget_own_commits

START = 1_780_000_000_000
_names = itertools.count()


class Table:
    """A raw table in memory, with a clock that stands until it is told to go on."""

    def __init__(self, **properties: Any) -> None:
        self.clock = FakeClock(START)
        self.name = f"as-of-{next(_names)}"
        self.files = MemoryStore(self.name, clock_ms=self.clock.now_ms)
        SlateStore.create(f"memory://{self.name}", **{"clock": self.clock, **properties})
        self.store = SlateStore.open(f"memory://{self.name}", clock=self.clock)

    def put(self, *keys: str, **options: Any) -> int:
        self.clock.advance(1000)
        return self.store.write(
            pa.table({"key": [key.encode() for key in keys], "value": [b"v"] * len(keys)}), **options
        )

    def keys(self, **options: Any) -> str:
        return "".join(key.as_py().decode() for key in self.store.scan(**options).read_all()["key"])

    @property
    def last_seq(self) -> int:
        return fetch_latest_manifest(self.store._stores)[1].last_l0_seq


@pytest.fixture
def table() -> Table:
    return Table()


# --- expiry -----------------------------------------------------------------------------------------------------------


def test_a_row_that_lived_then_is_shown(table: Table) -> None:
    table.put("a", ttl=5000)
    alive_ms = table.clock.now_ms()
    seq, version = table.last_seq, fetch_latest_manifest(table.store._stores)[0]
    table.clock.advance(10_000)
    table.put("b")
    assert table.keys() == "b"
    assert table.keys(timestampAsOf=alive_ms + 4999) == "a"
    assert table.keys(timestampAsOf=alive_ms + 5000) == "", "expired by then"
    assert table.keys(versionAsOf=version) == "a", "at that version's tick"
    assert table.keys(seqAsOf=seq) == "", "at the query's now"
    assert table.keys(seqAsOf=seq, now=alive_ms) == "a"
    assert table.keys(timestampAsOf=alive_ms, now=alive_ms + 5000) == ""
    assert table.store.get(b"a", timestampAsOf=alive_ms) == {"key": b"a", "value": b"v"}
    assert table.store.get(b"a", seqAsOf=seq) is None


def test_a_tick_ahead_of_the_instant_judges_expiry(table: Table) -> None:
    """A client whose clock is ahead purges by it, and so did every read of then judge."""
    table.put("a", ttl=5000, timestamp=table.clock.now_ms() + 9000)
    then_ms = table.clock.now_ms()
    assert table.keys(timestampAsOf=then_ms) == "a"
    assert table.store.resolve(timestampAsOf=then_ms).now_ms == then_ms + 8000
    assert table.store.resolve(timestampAsOf=then_ms, now=then_ms).now_ms == then_ms


def test_the_times_of_a_read_may_be_text_and_datetimes(table: Table) -> None:
    table.put("a")
    then_ms = table.clock.now_ms()
    table.put("b")
    moment = datetime.fromtimestamp(then_ms / 1000, UTC)
    for given in (then_ms, str(then_ms), moment, moment.isoformat(), moment.replace(tzinfo=None).isoformat()):
        assert table.keys(timestampAsOf=given) == "a"


def test_a_clock_of_the_tables_own() -> None:
    table = Table(clock="custom")
    table.put("a", timestamp=10, ttl=5)
    seq = table.last_seq
    table.put("b", timestamp=14)
    assert table.keys(timestampAsOf=10) == "a"
    assert table.keys(seqAsOf=seq) == "a", "the newest tick is 14"
    table.put("c", timestamp=15)
    assert table.keys(timestampAsOf=14) == "ab"
    assert table.keys(timestampAsOf=15) == "bc"
    assert table.keys(seqAsOf=seq) == ""
    assert table.store.resolve(seqAsOf=seq).now_ms == 15
    assert table.store.resolve(timestampAsOf=14).now_ms == 14
    with pytest.raises(OptionError, match=r"00:00:00\.015Z"):
        table.keys(timestampAsOf=16)
    with pytest.raises(OptionError):
        table.keys(timestampAsOf=table.clock.now_ms())


def test_a_history_table_goes_by_the_times_of_its_rows() -> None:
    table = Table(history="true")
    table.clock.advance(10_000)
    at = [START + 1000, START + 3000, START + 2000]
    rows = {"key": [b"a", b"a", b"b"], "value": [b"old", b"new", b"v"], "at": pa.array(at, pa.int64())}
    version = table.store.write(pa.table(rows), timestampColumn="at")
    shown = [table.store.scan(timestampAsOf=time_ms).read_all()["value"].to_pylist() for time_ms in sorted(at)]
    assert shown == [[b"old"], [b"old", b"v"], [b"new", b"v"]]
    found = table.store.resolve(timestampAsOf=START + 2500)
    assert (found.version, found.as_of_ms, found.now_ms, found.rounded) == (
        version,
        START + 2500,
        START + 2500,
        False,
    )
    assert "2026-05-28T20:26:42.500Z, exact" in str(found)
    assert table.keys(versionAsOf=1) == ""
    with pytest.raises(HistoryTrimmedError, match="earliest"):
        table.keys(timestampAsOf=START + 999)
    with pytest.raises(OptionError, match="future"):
        table.keys(timestampAsOf=START + 10_001)


def test_the_present_of_a_history_table_with_a_clock_of_its_own_is_that_of_its_wal() -> None:
    table = Table(history="true", clock="custom")
    table.put("a", timestamp=10)
    with pytest.raises(OptionError, match="clock"):
        table.keys(timestampAsOf=20)
    manifest = fetch_latest_manifest(table.store._stores)[1]
    row = Row(b"b", manifest.last_l0_seq + 1, RowKind.PUT, b"v", 20, None)
    table.files.put(wal_path(manifest.replay_after_wal_id + 1), [encode_wal([row])])
    forget_own_commits(table.store)
    assert table.keys() == "ab"
    assert table.keys(timestampAsOf=20) == "ab"
    assert table.keys(timestampAsOf=19) == "a"
    with pytest.raises(OptionError, match=r"00:00:00\.020Z"):
        table.keys(timestampAsOf=21)


# --- what a read would see ------------------------------------------------------------------------------------------


def test_what_a_read_would_see(table: Table) -> None:
    first = table.put("a")
    then_ms, seq = table.clock.now_ms(), table.last_seq
    second = table.put("b")
    now_ms = table.clock.now_ms()
    resolve = table.store.resolve
    assert resolve() == Resolution(second, seq + 1, now_ms, None, now_ms, rounded=False, how="the newest state")
    assert resolve(versionAsOf=first).time_ms == resolve(versionAsOf=first).now_ms == then_ms
    exact, rounded = resolve(timestampAsOf=then_ms), resolve(timestampAsOf=then_ms + 7)
    assert (exact.version, exact.time_ms, exact.rounded) == (first, then_ms, False)
    assert (rounded.version, rounded.time_ms, rounded.rounded, rounded.now_ms) == (first, then_ms, True, then_ms + 7)
    assert "2026-05-28T20:26:41.007Z" in rounded.how
    as_of = resolve(seqAsOf=seq)
    assert (as_of.version, as_of.seq, as_of.rounded, as_of.now_ms) == (first, seq, False, now_ms)
    assert str(rounded) == (
        f"version {first} of 2026-05-28T20:26:41.000Z, sequence numbers up to {seq}, rounded down: the newest version "
        "committed at or before 2026-05-28T20:26:41.007Z; expiry evaluated at 2026-05-28T20:26:41.007Z"
    )
    assert str(resolve(versionAsOf=1)) == (  # before the first row there is no clock tick to judge by
        "version 1 of 2026-05-28T20:26:40.000Z, sequence numbers up to 0, exact: the version asked for"
    )


def test_claims_are_versions_too(table: Table) -> None:
    table.put("a")
    second = table.put("b")
    assert table.keys(versionAsOf=second - 1) == "a"
    assert table.store.resolve(versionAsOf=second - 1).seq == table.last_seq - 1


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"timestampAsOf": "yesterday"}, "timestampAsOf"),
        ({"timestampAsOf": ""}, "timestampAsOf"),
        ({"timestampAsOf": 1.5}, "timestampAsOf"),
        ({"timestampAsOf": 1 << 63}, "range"),
        ({"timestampAsOf": True}, "instant"),
        ({"seqAsOf": -1}, "seqAsOf"),
        ({"seqAsOf": "x"}, "seqAsOf"),
        ({"seqAsOf": 3}, "sequence"),
        ({"timestampAsOf": START + 2001}, "future"),
        ({"timestampAsOf": 0, "seqAsOf": 0}, "timestampAsOf"),
        ({"versionAsOf": 1, "timestampAsOf": 0}, "versionAsOf"),
        ({"seqAsOf": 1, "checkpoint": "x"}, "seqAsOf"),
    ],
)
def test_bad_input(table: Table, given: dict[str, Any], message: str) -> None:
    table.put("a")
    table.put("b")
    for read in (table.store.scan, table.store.resolve, table.store.detail, table.store.files):
        with pytest.raises(OptionError, match=message):
            read(**given)
    with pytest.raises(OptionError, match=message):
        table.store.get(b"a", **given)


def test_a_version_of_the_future(table: Table) -> None:
    with pytest.raises(InvalidRequestError, match="versionAsOf"):
        table.store.scan(versionAsOf=9)


def test_the_past_before_the_table(table: Table) -> None:
    table.put("a")
    with pytest.raises(HistoryTrimmedError):
        table.keys(timestampAsOf=START - 1)
    with pytest.raises(HistoryTrimmedError):
        table.keys(timestampAsOf=-(2**63))
    assert table.keys(timestampAsOf=START) == ""
    assert table.keys(seqAsOf=0) == ""


def test_a_collected_version_and_checkpoint(table: Table) -> None:
    first = table.put("a")
    table.put("b")
    table.files.delete(manifest_path(first))
    with pytest.raises(SnapshotExpiredError, match=str(first)):
        table.keys(versionAsOf=first)
    with pytest.raises(InvalidRequestError, match="'x'"):
        table.keys(checkpoint="x")


def test_a_file_that_was_collected(table: Table) -> None:
    table.put("a")
    then_ms = table.clock.now_ms()
    files = [meta.path for meta in table.files.list(COMPACTED_DIR)]
    table.put("b", mode="overwrite")
    for path in files:
        table.files.delete(path)
    with pytest.raises(SnapshotExpiredError, match="snapshot"):
        table.keys(timestampAsOf=then_ms)
    assert table.keys() == "b"


def test_a_version_that_is_collected_while_it_is_looked_for(table: Table) -> None:
    """The listing still had it."""
    first = table.put("a")
    seq = table.last_seq
    table.put("b")
    store, path = FailingStore(table.files), manifest_path(first)
    store.run(lambda: table.files.delete(path), "get", path)
    with pytest.raises(SnapshotExpiredError, match=str(first)):
        resolve_snapshot(TableStores(store, store), ReadOptions(path="", seq_as_of=seq), table.clock)


def test_a_commit_that_comes_while_a_time_is_looked_for(table: Table) -> None:
    """It may have been committed by the time that is asked for, so that time is of the future."""
    table.put("a")
    asked_ms = table.clock.now_ms() + 1000

    def commit() -> None:
        table.put("b")

    store = FailingStore(table.files)
    store.run(commit, "list", "slatespark/table/")
    with pytest.raises(OptionError, match="future"):
        resolve_snapshot(TableStores(store, store), ReadOptions(path="", timestamp_as_of_ms=asked_ms), table.clock)


# --- the sequence tracker -------------------------------------------------------------------------------------------


def test_points_of_the_tracker(table: Table) -> None:
    table.put("a")
    table.clock.advance(60_000)
    table.put("b")
    points = [(point.seq, point.time_ms) for point in table.store.sequences()]
    assert points == [(1, START + 1000), (2, START + 62_000)]
    found = table.store.timestampToSeq(START + 61_999)
    assert found is not None
    assert (found.seq, found.time_ms, found.rounded) == (1, START + 1000, True)
    found = table.store.timestampToSeq(START + 61_999, round="up")
    assert found is not None
    assert (found.seq, found.rounded) == (2, True)
    found = table.store.seqToTimestamp(2)
    assert found is not None
    assert (found.time_ms, found.rounded) == (START + 62_000, False)
    assert table.store.seqToTimestamp(3, round="UP") is None
    assert table.store.timestampToSeq("2020-01-01") is None


def test_bad_look_ups(table: Table) -> None:
    with pytest.raises(OptionError, match="sideways"):
        table.store.seqToTimestamp(1, round="sideways")
    with pytest.raises(OptionError, match="seq"):
        table.store.seqToTimestamp(-1)
    with pytest.raises(OptionError, match="noon"):
        table.store.timestampToSeq("noon")


def test_no_number_shows_half_of_a_commit() -> None:
    table = Table()
    table.put("a", "b")
    before = table.last_seq
    with table.store.begin() as transaction:
        transaction.write(pa.table({"key": [b"c"], "value": [b"v"]}))
        transaction.delete(keys=[(b"a",)])
    assert table.last_seq == before + 2
    assert (table.keys(seqAsOf=before), table.keys(seqAsOf=before + 2)) == ("ab", "bc")
    with pytest.raises(HistoryTrimmedError):
        table.keys(seqAsOf=before + 1)
