"""`retentionFrom=write`: the retention of a history table counts from the write, whatever the times of the rows."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from slatespark import OptionError, SlateStore, SstWriter
from tests.support.fake_clock import FakeClock

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
LONG_AGO_MS = NOW_MS - 4000 * DAY_MS

_numbers = count()


class Table:
    """A history table that keeps rows for two days after they are written."""

    def __init__(self, **properties: Any) -> None:
        self.clock = FakeClock(NOW_MS)
        given = {"history": True, "retention": "2d", "retentionFrom": "write", "clock": self.clock, **properties}
        self.store = SlateStore.create(f"memory://from-write-{next(_numbers)}", **given)

    def write(self, key: bytes, ts: int = LONG_AGO_MS, **options: Any) -> int:
        row = pa.table({"key": [key], "value": [b"v"], "ts": [ts]})
        return self.store.write(row, timestampColumn="ts", **options)

    def keys(self, **options: Any) -> list[bytes]:
        found: list[bytes] = self.store.scan(**options).read_all()["key"].to_pylist()
        return found

    def lasts(self, key: bytes, days: float) -> bool:
        """Whether a row is shown for just that long from now."""
        end = self.clock.now_ms() + int(days * DAY_MS)
        return key in self.keys(now=end - 1) and key not in self.keys(now=end)


def test_old_rows_are_shown_from_their_write_on() -> None:
    table = Table()
    table.write(b"a")
    assert table.lasts(b"a", 2)
    table.clock.advance(DAY_MS)
    table.write(b"b")
    table.store.write(pa.table({"key": [b"c"], "value": [b"v"]}), timestamp=LONG_AGO_MS)
    table.store.write(pa.table({"key": [b"d"], "value": [b"v"]}))
    for key in (b"b", b"c", b"d"):
        assert table.lasts(key, 2)
    assert table.lasts(b"a", 1)
    assert table.keys(timestampAsOf=LONG_AGO_MS) == [b"a", b"b", b"c"]
    assert table.keys(now=NOW_MS + 9 * DAY_MS, includeExpired=True) == [b"a", b"b", b"c", b"d"]


def test_by_default_it_counts_from_the_time_of_the_row() -> None:
    table = Table(retentionFrom="row")
    table.write(b"a")
    assert table.keys() == []


def test_writing_a_row_again_renews_it() -> None:
    table = Table()
    table.write(b"a")
    table.clock.advance(DAY_MS)
    table.write(b"a", LONG_AGO_MS + 1)
    assert table.lasts(b"a", 2)


def test_a_ttl_may_be_shorter_and_not_longer() -> None:
    table = Table()
    table.write(b"a", NOW_MS, ttl="1d")
    table.write(b"b", NOW_MS, ttl="9d")
    table.write(b"c", ttl="9d", ttlFrom="write")
    table.write(b"d", ttl="1d", ttlFrom="write")
    for key, days in [(b"a", 1), (b"b", 2), (b"c", 2), (b"d", 1)]:
        assert table.lasts(key, days)


def test_deletions_stay() -> None:
    table = Table()
    table.write(b"a")
    table.store.write(pa.table({"key": [b"a"], "ts": [NOW_MS]}), timestampColumn="ts", operation="delete")
    later = NOW_MS + 9 * DAY_MS
    assert table.keys(now=later, includeDeleted=True, timestampAsOf=NOW_MS) == [b"a"]


def test_transactions_and_ingested_files_do_the_same() -> None:
    table = Table()
    with table.store.begin() as txn:
        txn.write(pa.table({"key": [b"t"], "value": [b"v"]}))
    assert table.lasts(b"t", 2)
    files = [f"memory://from-write-files-{next(_numbers)}/{name}.sst" for name in ("timed", "plain")]
    timed = pa.table({"key": [b"i"], "value": [b"v"], "ts": [LONG_AGO_MS]})
    SstWriter(files[0]).write(timed, timestampColumn="ts")
    SstWriter(files[1]).write(pa.table({"key": [b"j", b"k"], "value": [b"v", b"v"]}))
    table.store.ingest(files)
    assert table.lasts(b"i", 2)
    assert table.lasts(b"j", 2)


def test_what_is_gone_goes_from_storage_with_a_compaction() -> None:
    """As every expired row of a history table: when the floor has passed its end."""
    table = Table(historyRetention="1d")
    table.write(b"a")
    table.clock.advance(4 * DAY_MS)
    table.store.compact(full=True)
    assert table.keys(readVersions="all") == []


def test_a_change_counts_for_rows_that_are_written_then() -> None:
    table = Table()
    table.write(b"a")
    table.store.setProperties(retention="5d")
    table.write(b"b")
    table.store.setProperties(retention="none")
    table.write(b"c")
    assert table.lasts(b"a", 2)
    assert table.lasts(b"b", 5)
    assert b"c" in table.keys(now=NOW_MS + 4000 * DAY_MS)


@pytest.mark.parametrize(
    "properties",
    [{"history": False}, {"clock": "custom"}, {"retentionFrom": "commit"}],
    ids=lambda given: next(iter(given)),
)
def test_properties_that_do_not_go_together(properties: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="retentionFrom"):
        Table(**properties)


def test_it_cannot_change() -> None:
    with pytest.raises(OptionError, match="retentionFrom"):
        Table().store.setProperties(retentionFrom="row")


def test_a_retention_near_64_bits_never_ends() -> None:
    store = SlateStore.create(
        "memory://retention-far/t", history=True, retentionFrom="write", retention="9223372036854775807ms"
    )
    store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    assert store.scan().read_all().num_rows == 1
    assert len(store.history(2**63 - 1)) == 3


@pytest.mark.parametrize("at_days", [None, -280, -1])
@pytest.mark.parametrize("reads_past", [False, True])
def test_rows_of_a_transaction_last_from_its_commit_on(at_days: int | None, *, reads_past: bool) -> None:
    table = Table()
    txn = table.store.begin(readTimestamp=NOW_MS - 290 * DAY_MS if reads_past else None)
    for key, options in {b"a": {}, b"b": {"ttl": "1d"}, b"c": {"ttl": "9d"}}.items():
        txn.write(pa.table({"key": [key], "value": [b"v"]}), **options)
    table.clock.advance(DAY_MS // 2)
    now_ms = table.clock.now_ms()
    committed_ms = now_ms if at_days is None else now_ms + at_days * DAY_MS
    txn.commit(timestamp=committed_ms)
    rows = {row["key"]: row for row in table.store.scan(readVersions="all", includeExpired=True).read_all().to_pylist()}
    ends = {key: round(row["_expire_ts"].timestamp() * 1000) for key, row in rows.items()}
    latest_ms = now_ms + 2 * DAY_MS
    assert ends == {
        b"a": latest_ms,
        b"b": min(committed_ms + DAY_MS, latest_ms),
        b"c": min(committed_ms + 9 * DAY_MS, latest_ms),
    }
