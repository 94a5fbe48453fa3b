"""The WAL in a scan of several splits: decoded once, each split with its own rows; files in the trees are not read."""

from __future__ import annotations

import pickle
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import CorruptDataError, SlateStore, SnapshotExpiredError
from slatespark.format import wal
from slatespark.format.codecs import Compression
from slatespark.format.manifest import Manifest
from slatespark.format.paths import wal_path
from slatespark.format.row import Row, RowKind
from slatespark.format.wal import decode_wal, decode_wal_files
from slatespark.kernels import decode_blocks
from slatespark.kernels.columns import RowColumns, Visibility
from slatespark.options import ReadOptions
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.storage.counted_store import RequestTally
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import Buffer
from slatespark.table.clock import SystemClock
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read import fetch, wal_tail
from slatespark.table.read.arrow import project
from slatespark.table.read.fetch import WAL_BYTES_AHEAD, WAL_FILES_AHEAD, fetch_wal_rows
from slatespark.table.read.key_lookup import fetch_key_lookup, fetch_lookup_tail, look_up_rows
from slatespark.table.read.planning.plan import Split
from slatespark.table.read.planning.sent_rows import MOST_NUMBER_BYTES
from slatespark.table.read.reader import ReadPlan, fetch_read_plan, run_read
from slatespark.table.read.scan_settings import ScanSettings
from slatespark.table.read.wal_tail import share_tail
from slatespark.table.snapshot import WalTail, fetch_wal_tail, without_flushed
from slatespark.table.stores import TableStores, open_stores
from tests.support.client import Client, ClientOptions, Location, Put
from tests.support.row_values import columns_to_rows
from tests.support.wal_files import encode_wal
from tests.unit.table.layers import new_stores

ROWS = 2000
TAIL_FILES = 4
SMALL = {"splitSize": "20k"}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2,000 rows in L0, and every tenth of them again in the WAL, in four files."""
    folder = tmp_path_factory.mktemp("live") / "db"
    with Client.open(Location.local(folder), ClientOptions()) as client:
        client.write([Put(b"%05d" % number, b"old" * 20) for number in range(ROWS)])
        client.flush_memtable()
        for part in range(TAIL_FILES):
            client.write([Put(b"%05d" % number, b"new" * 20) for number in range(10 * part, ROWS, 10 * TAIL_FILES)])
            client.flush_wal()
        client.close(flush=False)
    return folder


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each WAL file that a read decodes."""
    sizes: list[int] = []

    def counted(data: bytes) -> RowColumns:
        sizes.append(len(data))
        return decode_wal(data)

    def counted_files(files: list[bytes]) -> RowColumns | None:
        sizes.extend(map(len, files))
        return decode_wal_files(files)

    monkeypatch.setattr(fetch, "decode_wal", counted)
    monkeypatch.setattr(fetch, "decode_wal_files", counted_files)
    return sizes


def plan_of(folder: Path, **options: str) -> tuple[TableStores, ReadPlan]:
    stores = open_stores(str(folder), storage={})
    return stores, fetch_read_plan(stores, ReadOptions.parse({"path": str(folder), **options}), SystemClock())


def values(stores: TableStores, plan: ReadPlan) -> dict[bytes, bytes]:
    return {row["key"]: row["value"] for batch in run_read(stores, plan) for row in batch.to_pylist()}


EXPECTED = {b"%05d" % number: (b"old" if number % 10 else b"new") * 20 for number in range(ROWS)}


# --- once ------------------------------------------------------------------------------------------------------------


def test_the_tail_is_decoded_once_whatever_the_number_of_splits(live: Path, decoded: list[int]) -> None:
    stores, whole = plan_of(live)
    assert len(whole.splits) == 1
    assert values(stores, whole) == EXPECTED
    once = sum(decoded)
    decoded.clear()
    stores, plan = plan_of(live, **SMALL)
    assert len(plan.splits) > 5
    assert values(stores, plan) == EXPECTED
    assert (len(decoded), sum(decoded)) == (TAIL_FILES, once)


def test_each_task_gets_its_own_rows_alone(live: Path) -> None:
    stores, plan = plan_of(live, **SMALL)
    shares = [split.wal for split in plan.splits if split.wal is not None]
    assert len(shares) == len(plan.splits)
    assert sum(map(len, shares)) == ROWS // 10
    sent = [pickle.dumps(split) for split in plan.splits]
    bare = [pickle.dumps(replace(split, wal=None)) for split in plan.splits]
    row_bytes = 5 + 60 + 2 + 8  # key, value, seq above the least, and the client's create_ts; all else is alike
    assert sum(map(len, sent)) - sum(map(len, bare)) < ROWS // 10 * row_bytes + 1500 * len(sent)
    arrived = replace(plan, splits=tuple(map(pickle.loads, sent)))
    assert values(stores, arrived) == EXPECTED


def test_a_tail_above_the_limit_is_decoded_by_each_split(live: Path, decoded: list[int]) -> None:
    stores, plan = plan_of(live, walBuffer="1k", **SMALL)
    assert [split.wal for split in plan.splits] == [None] * len(plan.splits)
    assert not decoded
    assert values(stores, plan) == EXPECTED
    assert len(decoded) == TAIL_FILES * len(plan.splits)


@pytest.mark.parametrize("limit", ["1k", "1m"])
def test_keys_and_ranges(live: Path, limit: str) -> None:
    store = SlateStore.open(str(live))
    found = store.scan(
        filter="key IN (X'3030303130', X'3030303131', X'3031393930', X'78')", splitSize="4k", walBuffer=limit
    ).read_all()
    assert found.column("value").to_pylist() == [b"new" * 20, b"old" * 20, b"new" * 20]
    found = store.scan(
        filter="key >= X'3030393935' AND key < X'3031303035'", splitSize="4k", walBuffer=limit
    ).read_all()
    assert dict(zip(*(found.column(name).to_pylist() for name in ("key", "value")), strict=True)) == {
        key: value for key, value in EXPECTED.items() if b"00995" <= key < b"01005"
    }


def test_look_ups_of_several_batches_decode_the_tail_once(live: Path, decoded: list[int]) -> None:
    stores, options = open_stores(str(live), storage={}), ReadOptions.parse({"path": str(live), "splitSize": "200k"})
    keys = [pa.table({"key": [b"%05d" % number for number in range(start, ROWS, 7)]}) for start in range(3)]
    for limit in (options.wal_buffer_bytes, 1):
        given = replace(options, wal_buffer_bytes=limit)
        plan = fetch_key_lookup(stores, given, SystemClock(), keys[0].schema, ["key"])
        decoded.clear()
        tail = fetch_lookup_tail(stores, plan)
        assert (len(decoded), tail is None) == ((TAIL_FILES, False) if limit > 1 else (0, True))
        for part in keys:
            found = pa.Table.from_batches(look_up_rows(stores, plan, part, tail), plan.schema)
            expected = [(key, EXPECTED[key]) for key in part["key"].to_pylist()]
            assert [*zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True)] == expected
        if limit > 1:  # else each part decodes it
            assert len(decoded) == TAIL_FILES
    decoded.clear()
    assert SlateStore.open(str(live)).lookup(keys[0], splitSize="200k").read_all().num_rows == len(keys[0])
    assert len(decoded) == TAIL_FILES


class WalPlace:
    """A table with one row in its trees, and WAL files after it that a test adds."""

    def __init__(self, url: str) -> None:
        self.store = SlateStore.create(url, mergeOperator="concat")
        self.store.write(pa.table({"key": [b"tree"], "value": [b"v"]}))
        self.stores = open_stores(url, storage={})
        _, manifest = fetch_latest_manifest(self.stores)
        self.seq, self.number = manifest.last_l0_seq, manifest.wal_id_last_seen

    def add(self, *rows: Row, compression: Compression = Compression.NONE) -> str:
        """Add a file, a fence if it has no rows, which get the next numbers; returns its path."""
        numbered = [replace(row, seq=self.seq + 1 + at) for at, row in enumerate(rows)]
        self.seq, self.number = self.seq + len(rows), self.number + 1
        path = wal_path(self.number)
        self.stores.wal.put(path, [encode_wal(numbered, compression=compression) if rows else b""])
        return path

    def rows(self) -> dict[bytes, bytes]:
        found = SlateStore.open(self.store.url).scan().read_all()
        return dict(zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True))


# --- many small files ------------------------------------------------------------------------------------------------


def test_small_files_are_decoded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file costs about as much as its rows alone: its blocks are not unpacked and decoded by themselves."""
    place = WalPlace("memory://wal-tail/small")
    calls: list[int] = []

    def counted(*given: Any, **named: Any) -> RowColumns:
        calls.append(len(given[1]))
        return decode_blocks(*given, **named)

    monkeypatch.setattr(wal, "decode_blocks", counted)
    for number in range(300):
        place.add(Row(b"%03d" % number, 0, value=b"%d" % number))
        if number % 10 == 0:
            place.add()
    store = SlateStore.open(place.store.url)
    store.resolve()
    calls.clear()
    assert place.rows() == {b"tree": b"v"} | {b"%03d" % number: b"%d" % number for number in range(300)}
    assert calls == [1, 300]  # the last file tells how far the WAL goes
    calls.clear()
    assert SlateStore.open(place.store.url).get(b"007") == {"key": b"007", "value": b"7"}
    assert calls == [1, 300]


def test_an_operand_that_is_in_the_wal_and_in_a_tree_counts_once() -> None:
    place = WalPlace("memory://wal-tail/flushed")
    row = pa.table({"key": [b"sum"], "value": [b"1"]})
    place.store.write(row, operation="merge")
    _, manifest = fetch_latest_manifest(place.stores)
    place.seq, place.number = manifest.last_l0_seq - 1, manifest.wal_id_last_seen
    place.add(Row(b"sum", 0, RowKind.MERGE, b"1"), Row(b"other", 0, value=b"v"))
    assert place.rows() == {b"other": b"v", b"sum": b"1", b"tree": b"v"}
    plan = fetch_key_lookup(place.stores, ReadOptions.parse({"path": "-"}), SystemClock(), row.schema, ["key"])
    tail = fetch_lookup_tail(place.stores, plan)
    assert tail is not None
    found = pa.Table.from_batches(look_up_rows(place.stores, plan, row, tail), plan.schema)
    assert found["value"].to_pylist() == [b"1"]


@pytest.fixture(params=[1, 300, fetch.WAL_BATCH_BYTES])
def batch_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """What is decoded together: one file, a few, or all of them. Several groups are decoded on threads."""
    monkeypatch.setattr(fetch, "WAL_BATCH_BYTES", request.param)
    return int(request.param)


def test_small_files_of_all_kinds(batch_bytes: int) -> None:
    """Fences, two codecs, a later version, a deletion, a row that has expired, and operands of several files."""
    place = WalPlace(f"memory://wal-tail/kinds-{batch_bytes}")
    expected = {b"all": b"01234", b"again": b"new", b"lasting": b"v"}
    place.add(Row(b"again", 0, value=b"old"), Row(b"gone", 0, value=b"v"))
    for number in range(5):
        place.add(Row(b"all", 0, RowKind.MERGE, b"%d" % number), compression=Compression(2 * (number % 2)))
        place.add()
    place.add(Row(b"again", 0, value=b"new"), Row(b"gone", 0, RowKind.DELETE), Row(b"tree", 0, RowKind.DELETE))
    place.add(Row(b"lasting", 0, value=b"v", expire_ts_ms=1 << 50), Row(b"over", 0, value=b"v", expire_ts_ms=1000))
    assert place.rows() == expected


@pytest.mark.parametrize("place", [0, 7, 19])
def test_a_damaged_file_among_small_ones_is_named(place: int, batch_bytes: int) -> None:
    table = WalPlace(f"memory://wal-tail/damaged-{place}-{batch_bytes}")
    paths = [table.add(Row(b"%02d" % number, 0, value=b"v" * 30)) for number in range(20)]
    data = bytearray(table.stores.wal.get(paths[place]))
    data[10] ^= 1
    table.stores.wal.put(paths[place], [bytes(data)])
    with pytest.raises(CorruptDataError) as caught:
        table.rows()
    assert caught.value.path.endswith(paths[place])


def test_a_small_file_out_of_order_is_named(batch_bytes: int) -> None:
    table = WalPlace(f"memory://wal-tail/out-of-order-{batch_bytes}")
    paths = [table.add(Row(b"%02d" % number, 0, value=b"v")) for number in range(20)]
    table.stores.wal.put(paths[7], [encode_wal([Row(b"x", 1, value=b"v")])])
    with pytest.raises(CorruptDataError) as caught:
        table.rows()
    assert caught.value.path.endswith(paths[7])


# --- pinned ----------------------------------------------------------------------------------------------------------


def test_what_is_written_or_collected_after_planning_changes_nothing(tmp_path: Path) -> None:
    location = Location.local(tmp_path / "db")
    with Client.open(location) as client:
        client.write([Put(b"%03d" % number, b"v" * 100) for number in range(500)])
        client.flush_memtable()
        client.write([Put(b"000", b"pinned"), Put(b"499", b"pinned")])
        client.flush_wal()
        stores, plan = plan_of(tmp_path / "db", splitSize="10k")
        _, other = plan_of(tmp_path / "db", splitSize="10k", walBuffer="1")
        client.write([Put(b"000", b"later"), Put(b"abc", b"later")])
        client.flush_wal()
        for found in (values(stores, plan), values(stores, other)):
            assert (found[b"000"], found[b"499"], len(found)) == (b"pinned", b"pinned", 500)
        for number in plan.settings.wal.with_rows():
            stores.wal.delete(wal_path(number))
        assert values(stores, plan)[b"499"] == b"pinned"
        with pytest.raises(SnapshotExpiredError, match=r"wal/0"):
            values(stores, other)


@pytest.mark.parametrize(
    ("options", "has_values"),
    [
        ({"columns": "key"}, False),
        ({"columns": "key,_seq", "metadataColumns": "seq"}, False),
        ({"columns": "key", "filter": "key >= X'3030313030'"}, False),
        ({"columns": "key", "filter": "value = X'00'"}, True),
        ({"columns": "key", "mergeOperator": "concat"}, True),
        ({"columns": "value"}, True),
    ],
)
def test_values_are_sent_along_where_they_are_looked_at(
    live: Path, options: dict[str, str], *, has_values: bool
) -> None:
    stores, plan = plan_of(live, **options, **SMALL)
    shares = [split.wal for split in plan.splits if split.wal is not None]
    assert len(shares) > 5
    assert any(len(share.rows().value_bytes) for share in shares) is has_values
    _, whole = plan_of(live, **options)
    assert [split.wal for split in whole.splits] == [None]
    assert rows_of(stores, plan) == rows_of(stores, whole)


def rows_of(stores: TableStores, plan: ReadPlan) -> list[dict[str, Any]]:
    return [row for batch in run_read(stores, plan) for row in batch.to_pylist()]


def settings_of(wal: WalTail, limit_bytes: int) -> ScanSettings:
    """What a read of a raw table shows."""
    projection = project(ReadOptions.parse({"path": "t"}))
    return ScanSettings(Visibility(1000, 0), projection, None, wal, 0, 1 << 20, wal_buffer_bytes=limit_bytes)


def test_a_tail_that_decodes_to_more_than_the_limit_is_not_sent_along() -> None:
    stores = new_stores()
    rows = [Row(b"k%03d" % seq, seq, value=b"v" * 1000) for seq in range(1, 101)]
    data = encode_wal(rows, compression=Compression.ZSTD)
    stores.wal.put(wal_path(1), [data])
    tail = WalTail(1, 2, 100, sizes=(len(data),))
    splits = [Split(KeyRange(b"", b"k050"), ()), Split(KeyRange(b"k050", None), ())]
    assert len(data) < 10_000
    assert share_tail(stores, splits, settings_of(tail, 50_000)) == tuple(splits)
    shared = share_tail(stores, splits, settings_of(tail, 150_000))
    assert [len(split.wal) for split in shared if split.wal is not None] == [49, 51]


@pytest.mark.parametrize(("spare", "is_sent"), [(0, True), (-1, False)])
def test_many_tiny_rows_are_too_large_for_a_task(spare: int, is_sent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Spark limits is all that is sent; of tiny rows that is mostly numbers."""
    stores = new_stores()
    stores.wal.put(wal_path(1), [encode_wal([Row(b"%03d" % seq, seq) for seq in range(1, 101)])])
    splits = [Split(KeyRange(b"", b"051"), ()), Split(KeyRange(b"051", None), ())]
    monkeypatch.setattr(wal_tail, "MAX_SHARE_BYTES", 50 * (3 + MOST_NUMBER_BYTES) + spare)
    shared = share_tail(stores, splits, settings_of(WalTail(1, 2, 100, sizes=(1000,)), 10_000))
    assert [split.wal is not None for split in shared] == [is_sent, is_sent]


class TailPlace:
    """WAL files by hand, and the requests for them."""

    def __init__(self, *files: list[int]) -> None:
        self.stores = new_stores()
        self.sizes = []
        for number, seqs in enumerate(files, 1):
            data = encode_wal([Row(b"k%d" % seq, seq, value=b"v") for seq in seqs]) if seqs else b""
            self.stores.wal.put(wal_path(number), [data])
            self.sizes.append(len(data))
        last = max((seq for seqs in files for seq in seqs), default=0)
        self.tail = WalTail(1, len(files) + 1, last, sizes=tuple(self.sizes))

    def needed(self, above_seq: int) -> list[int]:
        tail = without_flushed(self.stores, self.tail, above_seq)
        found, everything = (fetch_wal_rows(self.stores, each, above_seq, ALL_KEYS) for each in (tail, self.tail))
        assert (found is None) is (everything is None)
        if found is not None and everything is not None:
            assert columns_to_rows(found) == columns_to_rows(everything)
        return tail.with_rows()


# --- files in the trees ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("above_seq", "needed"),
    [
        (0, [1, 3, 4, 6, 7]),
        (1, [1, 3, 4, 6, 7]),
        (2, [3, 4, 6, 7]),
        (3, [3, 4, 6, 7]),
        (4, [4, 6, 7]),
        (8, [6, 7]),
        (9, [6, 7]),  # a number was left out: only file 7 could tell that file 6 is not needed
        (10, [7]),
        (12, []),
    ],
)
def test_files_of_which_the_trees_have_all_rows_are_left_out(above_seq: int, needed: list[int]) -> None:
    place = TailPlace([1, 2], [], [3, 4], [5, 6, 6, 7], [], [8, 9], [11, 12])
    assert place.needed(above_seq) == needed


def test_what_is_not_known_leaves_nothing_out() -> None:
    place = TailPlace([1, 2], [3, 4], [5])
    assert without_flushed(place.stores, replace(place.tail, sizes=()), 3).with_rows() == [1, 2, 3]
    assert without_flushed(place.stores, WalTail(1, 1), 3).with_rows() == []
    assert without_flushed(place.stores, TailPlace([1]).tail, 0).with_rows() == [1]


def test_a_lagging_replay_point_costs_a_search_and_not_its_files() -> None:
    place = TailPlace(*([seq] for seq in range(1, 65)))
    tally = RequestTally()
    counted = place.stores.counted(tally)
    tail = without_flushed(counted, place.tail, 60)
    assert tail.with_rows() == [61, 62, 63, 64]
    assert tally.total.get <= 8
    fetch_wal_rows(counted, tail, 60, ALL_KEYS)
    assert tally.total.get <= 8 + 4


def test_files_that_a_client_has_flushed_meanwhile_are_not_read(tmp_path: Path, decoded: list[int]) -> None:
    """Our reader takes an older version that a checkpoint keeps, or a client that moves its replay point late."""
    with Client.open(Location.local(tmp_path / "db")) as client:
        for number in range(5):
            client.put(b"%d" % number, b"v")
            client.flush_wal()
        client.flush_memtable()
        client.close(flush=False)
    stores = open_stores(str(tmp_path / "db"), storage={})
    _, manifest = fetch_latest_manifest(stores)
    lagging = replace(manifest, replay_after_wal_id=0)
    tail = fetch_wal_tail(stores, lagging, None)
    assert tail.last_seq == manifest.last_l0_seq
    assert without_flushed(stores, tail, manifest.last_l0_seq).with_rows() == []


def test_the_end_of_a_large_file_tells_its_bounds() -> None:
    stores = new_stores()
    rows = [Row(b"%06d" % seq, seq, value=bytes(300), create_ts_ms=1000 + seq) for seq in range(1, 3000)]
    stores.wal.put(wal_path(1), [encode_wal(rows)])
    tally = RequestTally()
    found = fetch_wal_tail(stores.counted(tally), Manifest(), None)
    assert (found.last_seq, found.tick_ms) == (2999, 3999)
    assert tally.total.read_bytes < 300 << 10


class FarWal(MemoryStore):
    """A store with latency: holds each answer back until as many files have been asked for as are expected."""

    def __init__(self, name: str, *, expected: int) -> None:
        super().__init__(name)
        self._expected, self._asked = expected, threading.Condition()
        self.asked = 0

    @property
    def is_remote(self) -> bool:
        """As a network has latency."""
        return True

    def get(self, path: str) -> Buffer:
        """Answer once enough files were asked for."""
        with self._asked:
            self.asked += 1
            self._asked.notify_all()
            assert self._asked.wait_for(lambda: self.asked >= self._expected, 60), f"only {self.asked} at a time"
        return super().get(path)


@pytest.mark.parametrize(
    ("file_bytes", "expected"), [(0, WAL_FILES_AHEAD + 1), (WAL_BYTES_AHEAD // 4, 4), (2 * WAL_BYTES_AHEAD, 1)]
)
def test_small_files_are_requested_together_and_large_ones_within_bounds(file_bytes: int, expected: int) -> None:
    far = FarWal(f"far-{file_bytes}", expected=expected)
    count = 2 * WAL_FILES_AHEAD
    for number in range(1, count + 1):
        far.put(wal_path(number), [encode_wal([Row(b"k%d" % number, number, value=b"v")])])
    tail = WalTail(1, count + 1, count, sizes=(file_bytes,) * count if file_bytes else (100,) * count)
    objects = fetch._wal_objects(replace(new_stores(), wal=far), tail)
    assert next(objects)[0] == 1
    assert far.asked == expected
    assert [number for number, _ in objects] == list(range(2, count + 1))


# --- the number of splits ---------------------------------------------------------------------------------------------


def test_rows_of_the_wal_count_as_stored_bytes(live: Path) -> None:
    stores, plan = plan_of(live)
    size = sum(part.file.data_bytes for layer in plan.layers for part in layer.slices)
    wal_bytes = sum(plan.settings.wal.sizes)
    assert wal_bytes > size // 20

    def splits(target_bytes: int, **options: str) -> int:
        _, found = plan_of(live, splitSize=str(target_bytes), **options)
        assert values(stores, found) == EXPECTED
        return len(found.splits)

    assert splits(size + wal_bytes) == 1
    assert splits(size) == 2, "the rows of the WAL are left for another one"
    assert splits(size, walBuffer="1k") == 1, "each split would decode all of the WAL"
