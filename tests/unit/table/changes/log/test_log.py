"""The log of a table: writes of ours and of clients in order, and a refusal where any of them may be missing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from slatespark import HistoryTrimmedError, InvalidRequestError, OptionError, SlateStore
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import manifest_path, wal_path
from slatespark.format.properties import SstProperties
from slatespark.format.row import Row, RowKind
from slatespark.table.changes.log.cut import cut_log
from slatespark.table.changes.log.plan import LogPlan, fetch_log_plan
from slatespark.table.changes.log.positions import BEGINNING, LogPosition, LogTail, position_of
from slatespark.table.changes.log.scan import scan_log
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.records.commit_record import commit_path
from tests.support.fake_clock import FakeClock
from tests.support.wal_files import encode_wal

NAMES = itertools.count(1)


@dataclass
class Writer:
    """A client that writes to the WAL and never flushes."""

    store: SlateStore
    next_id: int = 0
    seq: int = 0

    def open(self) -> Writer:
        """Claim the next epoch, fence the WAL, and go on after the highest sequence number."""
        stores = self.store._stores
        tail, latest = LogTail(stores).poll(), fetch_latest_manifest(stores)
        claim = replace(latest.value, writer_epoch=latest.value.writer_epoch + 1, nonce=0)
        stores.main.put(manifest_path(latest.number + 1), [encode_manifest(claim)])
        self.next_id, self.seq = tail.wal + 1, tail.seq
        self._put(b"")
        return self

    def write(self, *batches: Sequence[tuple[str, str | None]], skips: int = 0) -> None:
        """Write some batches into one file; `skips` sequence numbers are left out before it."""
        self.seq += skips
        rows = []
        for batch in batches:
            self.seq += 1
            rows += [row(self.seq, key, value) for key, value in batch]
        self._put(encode_wal(rows))

    def _put(self, data: bytes) -> None:
        self.store._stores.wal.put(wal_path(self.next_id), [data])
        self.next_id += 1


def row(seq: int, key: str, value: str | None) -> Row:
    kind = RowKind.DELETE if value is None else RowKind.MERGE if value.startswith("+") else RowKind.PUT
    return Row(key.encode(), seq, kind, (value or "").encode(), 1000 + seq, None)


def new_store() -> SlateStore:
    return SlateStore.create(f"memory://log/{next(NAMES)}", clock=FakeClock(1_000_000), autoCompact=False)


def put(store: SlateStore, **rows: str) -> int:
    table = pa.table({"key": [key.encode() for key in rows], "value": [value.encode() for value in rows.values()]})
    return store.write(table, ifClientActive="fence") or 0


def log(store: SlateStore, start: int = 1, **options: Any) -> list[tuple[int, str, str, str | None]]:
    rows = store.changes(changes="log", startingVersion=start, **options).read_all().to_pylist()
    return [
        (row["_seq"], row["_change_type"], row["key"].decode(), row["value"] and row["value"].decode()) for row in rows
    ]


def plan_between(store: SlateStore, start: LogPosition, end: LogPosition) -> LogPlan:
    options = store._read_options({"readChangeFeed": True, "changes": "log"} | {"startingVersion": 1})
    return fetch_log_plan(store._stores, options, FakeClock(1_000_000), start, end)


def seqs(store: SlateStore, plan: LogPlan) -> list[int]:
    batches = [batch for split in plan.splits for batch in scan_log(store._stores, split, plan.settings)]
    return [seq for batch in batches for seq in batch.column("_seq").to_pylist()]


def test_writes_of_both_come_in_their_order() -> None:
    store = new_store()
    first = put(store, a="1", b="1")
    Writer(store).open().write([("a", "2"), ("c", "+x")], [("a", None)])
    second = put(store, a="3")
    Writer(store).open().write([("a", "4")])
    table = store.changes(changes="log", startingVersion=1).read_all()
    assert table.column_names == ["key", "value", "_change_type", "_commit_version", "_commit_timestamp", "_seq"]
    rows = table.to_pylist()
    assert log(store) == [
        (1, "upsert", "a", "1"),
        (1, "upsert", "b", "1"),
        (2, "upsert", "a", "2"),
        (2, "merge", "c", "+x"),
        (3, "delete", "a", None),
        (4, "upsert", "a", "3"),
        (5, "upsert", "a", "4"),
    ]
    # the second commit drained the WAL; the last write is in no version yet
    assert [row["_commit_version"] for row in rows] == [first, first, *[second] * 4, None]
    assert [round(row["_commit_timestamp"].timestamp() * 1000) for row in rows][2:5] == [1002, 1002, 1003]


def test_bounds_columns_and_filters_apply() -> None:
    store = new_store()
    first = put(store, a="1", b="1")
    Writer(store).open().write([("b", "2"), ("c", None), ("d", "2")])
    second = put(store, b="3")
    Writer(store).open().write([("b", "4")])
    assert [seq for seq, *_ in log(store, second)] == [2, 2, 2, 3, 4]
    assert log(store, second, startingBoundInclusive=False) == [(4, "upsert", "b", "4")]
    assert log(store, first, endingVersion=first) == [(1, "upsert", "a", "1"), (1, "upsert", "b", "1")]
    assert log(store, second + 1) == [(4, "upsert", "b", "4")]
    assert log(store, filter="key >= X'62' AND value > X'31'") == [
        (2, "upsert", "b", "2"),
        (2, "upsert", "d", "2"),
        (3, "upsert", "b", "3"),
        (4, "upsert", "b", "4"),
    ]
    assert [key for *_, key, _ in log(store, startKey=b"b", endKey=b"d")] == ["b", "b", "c", "b", "b"]
    assert log(store, splitSize=1) == log(store)
    found = store.changes(changes="log", startingVersion=first, columns="_seq,key", metadataColumns="seq,op")
    assert found.read_all().column_names == ["_seq", "key"]


def test_a_commit_comes_in_key_order_however_many_files_it_has() -> None:
    store = new_store()
    keys = [f"{number:03}" for number in range(60)]
    table = pa.table({"key": [key.encode() for key in keys], "value": [b"x" * 40] * len(keys)})
    store.write(table, sstSize="100", blockSize="1k")
    assert [key for *_, key, _ in log(store)] == keys
    assert [key for *_, key, _ in log(store, splitSize=1)] == keys


def test_numbers_that_a_writer_left_out_are_no_gap() -> None:
    store = new_store()
    put(store, a="1")
    writer = Writer(store).open()
    writer.write([("a", "2")])
    writer.write([("a", "3")], skips=5)
    assert [seq for seq, *_ in log(store)] == [1, 2, 8]


def test_numbers_that_are_left_out_over_a_fence_may_be_lost_writes() -> None:
    store = new_store()
    put(store, a="1")
    Writer(store).open().write([("a", "2")])
    last = put(store, a="3")
    Writer(store).open().write([("a", "4")], skips=1)
    with pytest.raises(HistoryTrimmedError):
        log(store)
    assert [seq for seq, *_ in log(store, endingVersion=last)] == [1, 2, 3]


@pytest.mark.parametrize("lost", [2, 3, 4])
def test_a_lost_wal_file_is_a_refusal_that_names_the_next_start(lost: int) -> None:
    store = new_store()
    put(store, a="1")
    writer = Writer(store).open()
    for value in "234":
        writer.write([("a", value)])
    second = put(store, a="5")
    ids = [writer.next_id - 3, writer.next_id - 2, writer.next_id - 1]
    store._stores.wal.delete(wal_path(ids[lost - 2]))
    with pytest.raises(HistoryTrimmedError, match=f"startingVersion={second - 1}|startingVersion={second},"):
        log(store)
    assert log(store, second, startingBoundInclusive=False) == []


def test_what_changed_without_writes_is_a_refusal() -> None:
    store = new_store()
    first = put(store, a="1", b="1")
    store.compact(full=True)
    assert [seq for seq, *_ in log(store)] == [1, 1]
    cut = store.deleteRange(startKey=b"b", endKey=b"c")
    assert cut is not None
    put(store, c="1")
    restored = store.restoreToVersion(first)
    put(store, d="1")
    for start in (1, cut, restored):
        with pytest.raises(HistoryTrimmedError):
            log(store, start)
    assert [key for *_, key, _ in log(store, restored + 1)] == ["d"]
    assert [key for *_, key, _ in log(store, first, endingVersion=first)] == ["a", "b"]


def test_a_trimmed_history_is_a_refusal() -> None:
    store = SlateStore.create(f"memory://log/{next(NAMES)}", history=True, clock=FakeClock(1_000), autoCompact=False)
    for time_ms in (1_000, 2_000):
        store.write(pa.table({"key": [b"a"], "value": [b"%d" % time_ms]}), timestamp=time_ms)
    trimmed = store.trimHistory(1_500)
    assert [row["value"] for row in store.scan().read_all().to_pylist()] == [b"1000"]
    with pytest.raises(HistoryTrimmedError):
        log(store)
    assert log(store, trimmed + 1) == []


def test_rows_of_a_commit_need_its_files() -> None:
    clock = FakeClock(1_000_000)
    store = SlateStore.create(f"memory://log/{next(NAMES)}", clock=clock, autoCompact=False)
    put(store, a="1")
    put(store, a="2")
    store.compact(full=True)
    assert [seq for seq, *_ in log(store)] == [1, 2]
    clock.advance(10 * 86_400_000)
    last = put(store, a="3")
    clock.advance(10 * 86_400_000)
    store.vacuum(minAge="0s", force=True, fences=True)
    with pytest.raises(HistoryTrimmedError):
        log(store)
    assert [seq for seq, *_ in log(store, last + 1)] == []


def test_a_commit_without_a_record_is_told_by_its_versions() -> None:
    store = new_store()
    put(store, a="1")
    second = put(store, a="2")
    store._stores.main.delete(commit_path(second))
    assert [seq for seq, *_ in log(store)] == [1, 2]
    store.compact(full=True)
    store._stores.main.delete(commit_path(store.resolve().version))
    with pytest.raises(HistoryTrimmedError):
        log(store)


def test_a_commit_without_a_record_may_have_dropped_rows_of_the_wal() -> None:
    store = new_store()
    created = store.resolve().version
    Writer(store).open().write([("a", "1"), ("b", "1")])
    store.deleteRange(startKey=b"b", endKey=b"c", ifClientActive="fence")
    store._stores.main.delete(commit_path(store.resolve().version))
    with pytest.raises(HistoryTrimmedError):
        log(store, created, startingBoundInclusive=False)


def test_a_restore_without_a_record_is_not_taken_for_a_write() -> None:
    store = new_store()
    first = put(store, a="1")
    store.deleteRange(startKey=b"a", endKey=b"b")
    cut = store.resolve().version
    restored = store.restoreToVersion(first)
    store._stores.main.delete(commit_path(restored))
    with pytest.raises(HistoryTrimmedError):
        log(store, cut, startingBoundInclusive=False)


def test_files_whose_properties_contradict_themselves_do_not_tell_that_they_are_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, true_json = new_store(), SstProperties.to_json
    monkeypatch.setattr(SstProperties, "to_json", lambda found: {**true_json(found), "min_seq": 1000})
    first = put(store, a="1")
    store.deleteRange(startKey=b"a", endKey=b"b")
    cut = store.resolve().version
    restored = store.restoreToVersion(first)
    store._stores.main.delete(commit_path(restored))
    with pytest.raises(HistoryTrimmedError):
        log(store, cut, startingBoundInclusive=False)


def test_a_tail_follows_the_wal_and_the_versions() -> None:
    store = new_store()
    put(store, a="1")
    tail = LogTail(store._stores)
    start = tail.poll()
    assert tail.poll() == start == position_of(store._stores, store.resolve().version)
    writer = Writer(store).open()
    writer.write([("a", "2")])
    second = tail.poll()
    assert (second.version, second.seq, second.wal) == (start.version + 1, start.seq + 1, writer.next_id - 1)
    for number in range(40):  # more than are asked for by name
        writer.write([("a", str(number))])
    assert tail.poll().seq == writer.seq
    version = put(store, a="3")
    end = tail.poll()
    assert (end.version, end.seq) == (version, writer.seq + 1)
    assert tail.poll() == end == LogTail(store._stores).poll()
    assert seqs(store, plan_between(store, second, end)) == list(range(second.seq + 1, end.seq + 1))
    with pytest.raises(InvalidRequestError):
        plan_between(store, end, start)


def test_batches_of_any_size_make_the_whole_log() -> None:
    store = new_store()
    put(store, a="1", b="1")
    writer = Writer(store).open()
    for number in range(5):
        writer.write([("a", str(number))], [("b", str(number))])
    put(store, c="1")
    Writer(store).open().write([("a", "9")])
    end = LogTail(store._stores).poll()
    whole = seqs(store, plan_between(store, BEGINNING, end))
    assert whole == [1, *range(1, 14)]
    for name, limit, count in (("max_rows", 1, 8), ("max_rows", 3, 7), ("max_bytes", 1, 8), ("max_rows", 100, 1)):
        found: list[int] = []
        position = BEGINNING
        batches = 0
        while position != end:
            plan = plan_between(store, position, end)
            upto = cut_log(store._stores, plan, **{name: limit})
            found += seqs(store, plan_between(store, position, upto))
            position, batches = upto, batches + 1
        assert found == whole
        assert batches == count


def test_a_batch_may_end_behind_a_commit_without_rows() -> None:
    """Such a commit takes a number too, and the next batch begins behind it."""
    store = new_store()
    put(store, a="1")
    put(store, b="1")
    store.compact(full=True)
    Writer(store).open().write([("c", "1")], [("d", "1")])
    put(store, e="1")
    end = LogTail(store._stores).poll()
    whole = seqs(store, plan_between(store, BEGINNING, end))
    for limit in range(1, len(whole) + 1):
        position, found = BEGINNING, list[int]()
        while position != end:
            upto = cut_log(store._stores, plan_between(store, position, end), max_rows=limit)
            found += seqs(store, plan_between(store, position, upto))
            position = upto
        assert found == whole


def test_options_of_the_other_kind_are_refused() -> None:
    store = new_store()
    with pytest.raises(OptionError):
        log(store, preImages=False)
    with pytest.raises(OptionError):
        log(store, expired="ignore")
    with pytest.raises(OptionError):
        log(store, pin="1h")


def test_a_typed_table_shows_deletions_by_key() -> None:
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64())])
    store = SlateStore.create(f"memory://log/{next(NAMES)}", schema, "id", clock=FakeClock(1_000_000))
    store.write(pa.table({"id": [1, 2], "n": [1, 2]}))
    store.delete("id = 1")
    rows = store.changes(changes="log", startingVersion=1, columns="_change_type,id,n").read_all().to_pylist()
    assert [tuple(row.values()) for row in rows] == [("upsert", 1, 1), ("upsert", 2, 2), ("delete", 1, None)]


def test_explain_names_what_the_log_reads() -> None:
    store = new_store()
    put(store, a="1")
    Writer(store).open().write([("a", "2")])
    found = store.explain("changes", changes="log", startingVersion=1, analyze=True)
    assert (found.files, found.wal_files, found.rows) == (1, 1, 2)
    assert found.measured is not None
    assert found.estimated.low.get <= found.measured.get <= found.estimated.high.get
