"""Which files a scan leaves out: each rule by itself, and in tables."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.format.info import SstInfo
from slatespark.format.properties import SstProperties
from slatespark.format.ulid import Ulid
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, Visibility
from slatespark.options import ReadOptions
from slatespark.table.clock import Clock, SystemClock
from slatespark.table.read.planning.plan import FileSlice, Layer, SstFile
from slatespark.table.read.planning.skipping import SkipRule, judge_file, skip_files
from slatespark.table.read.reader import fetch_read_plan
from slatespark.table.stores import OWN_ROOT, open_stores
from tests.support.client import Client, ClientOptions, Location, Put, Ttl
from tests.support.fake_clock import FakeClock

NOW_MS: Final = 1000
HOUR_MS: Final = 3_600_000
START_MS: Final = 1_700_000_000_000
_names = itertools.count(1)


# --- the rules ------------------------------------------------------------------------------------------------------

PUTS: Final = SstProperties(
    created_ms=0, min_create_ts=500, max_create_ts=600, min_expire_ts=None, max_expire_ts=None, min_seq=50, max_seq=60,
    puts=4, deletes=0, merges=0, any_flags=HAS_CREATE, all_flags=HAS_CREATE, all_versions=False,
)  # fmt: skip
TIMED: Final = replace(
    PUTS, min_expire_ts=900, max_expire_ts=1000, any_flags=HAS_CREATE | HAS_EXPIRE, all_flags=HAS_CREATE | HAS_EXPIRE
)
OPERANDS: Final = replace(PUTS, puts=0, merges=4, any_flags=HAS_CREATE | MERGE, all_flags=HAS_CREATE | MERGE)
KINDS: Final[dict[str, SstProperties | None]] = {
    "puts": PUTS,
    "expired": TIMED,
    "expiring": replace(TIMED, max_expire_ts=1001),
    "half": replace(TIMED, all_flags=HAS_CREATE),
    "tombstones": replace(PUTS, puts=0, deletes=4, any_flags=HAS_CREATE | TOMBSTONE, all_flags=HAS_CREATE | TOMBSTONE),
    "some-tombstones": replace(PUTS, deletes=4, any_flags=HAS_CREATE | TOMBSTONE, max_create_ts=100, min_create_ts=90),
    "old": replace(PUTS, min_create_ts=90, max_create_ts=100),
    "undated": replace(PUTS, min_create_ts=90, max_create_ts=100, all_flags=0),
    "old-operands": replace(OPERANDS, min_create_ts=90, max_create_ts=100),
    "operands": OPERANDS,
    "expired-operands": replace(
        OPERANDS,
        min_expire_ts=900,
        max_expire_ts=1000,
        any_flags=HAS_CREATE | HAS_EXPIRE | MERGE,
        all_flags=HAS_CREATE | HAS_EXPIRE | MERGE,
    ),
    "later": replace(PUTS, min_seq=101, max_seq=110),
    "unknown": None,
}
LATEST: Final = SkipRule(Visibility(max_seq=100, now_ms=NOW_MS))
RETIRING: Final = replace(LATEST, retired_ms=100)
INCLUDING_EXPIRED: Final = SkipRule(Visibility(max_seq=100, now_ms=NOW_MS, include_expired=True))
INCLUDING_DELETED: Final = SkipRule(Visibility(max_seq=100, now_ms=NOW_MS, include_deleted=True), retired_ms=100)
ALL: Final = SkipRule(Visibility(max_seq=100, now_ms=NOW_MS, all_versions=True))
AS_OF: Final = SkipRule(Visibility(max_seq=100, now_ms=0, max_create_ts_ms=499))
NO_FILE_PASSES: Final = replace(LATEST, may_pass=lambda known: False)


@pytest.mark.parametrize(
    ("rule", "layers", "kept"),
    [
        # absent: never read
        (LATEST, "later a-c | puts a-c", "puts a-c"),
        (ALL, "later a-c | puts a-c", "puts a-c"),
        (LATEST, "expired-operands a-c | puts a-c", "puts a-c"),
        (AS_OF, "puts a-c | old a-c", "old a-c"),
        (AS_OF, "undated a-c", "undated a-c"),
        (replace(AS_OF, visibility=replace(AS_OF.visibility, max_create_ts_ms=500)), "puts a-c", "puts a-c"),
        # masking: not read where nothing older lies below
        (LATEST, "expired a-c", ""),
        (LATEST, "expiring a-c", "expiring a-c"),
        (LATEST, "half a-c", "half a-c"),
        (LATEST, "tombstones a-c", ""),
        (LATEST, "expired a-c | puts d-f", "puts d-f"),
        (LATEST, "puts a-f | expired a-c", "puts a-f"),
        (LATEST, "expired a-c | expired a-c | tombstones b-d", ""),
        (LATEST, "expired a-c | unknown a-c", "expired a-c | unknown a-c"),
        (LATEST, "expired a-c | operands a-c", "expired a-c | operands a-c"),
        (LATEST, "expired a-c | expired-operands a-c | later a-c", ""),
        (LATEST, "operands a-c | expired a-c", "operands a-c"),
        (INCLUDING_EXPIRED, "expired a-c | tombstones a-c", "expired a-c"),
        (INCLUDING_DELETED, "expired a-c | tombstones e-f", "tombstones e-f"),
        (ALL, "expired a-c | tombstones a-c", "expired a-c | tombstones a-c"),
        # else only of the keys they share with it
        (LATEST, "expired a-k | puts c-d", "expired c-d | puts c-d"),
        (LATEST, "expired a-k | puts c-d, puts f-g", "expired c-g | puts c-d, puts f-g"),
        (LATEST, "expired c-d | puts a-k", "expired c-d | puts a-k"),
        (LATEST, "expired a-c, expired d-f | puts e-k", "expired e-f | puts e-k"),
        # two files of a run may share a key, the first of them has its newer versions
        (LATEST, "expired a-c, puts c-f", "expired c-c, puts c-f"),
        (LATEST, "puts a-c, expired c-f", "puts a-c"),
        # retention
        (LATEST, "old a-c", "old a-c"),
        (RETIRING, "old a-c", ""),
        (RETIRING, "undated a-c", "undated a-c"),
        (RETIRING, "old-operands a-c", ""),
        (RETIRING, "some-tombstones a-c", ""),
        (INCLUDING_DELETED, "some-tombstones a-c", "some-tombstones a-c"),
        (INCLUDING_DELETED, "old a-c", ""),
        (RETIRING, "old b-d | puts a-c", "old b-c | puts a-c"),
        (RETIRING, "puts a-c | old a-c", "puts a-c"),
        (RETIRING, "operands a-b | old b-c", "operands a-b | old b-c"),
        (RETIRING, "unknown a-c | old a-c", "unknown a-c | old a-c"),
        (RETIRING, "expired-operands a-c | old a-c", ""),
        (RETIRING, "old-operands a-c | old a-c", "old-operands a-c | old a-c"),
        (RETIRING, "tombstones a-c | operands d-e | old a-c", "operands d-e"),
        (replace(RETIRING, newest_may_fold=True), "old a-c", "old a-c"),
        (replace(RETIRING, newest_may_fold=True), "expired a-c", ""),
        # filters on metadata columns
        (NO_FILE_PASSES, "puts a-c", ""),
        (NO_FILE_PASSES, "operands a-c", "operands a-c"),
        (NO_FILE_PASSES, "operands a-c | puts a-c", "operands a-c | puts a-c"),
        (NO_FILE_PASSES, "puts a-c | unknown b-d", "puts b-c | unknown b-d"),
        (NO_FILE_PASSES, "unknown b-d | puts a-c", "unknown b-d | puts a-c"),
        (replace(NO_FILE_PASSES, newest_may_fold=True), "puts a-c", "puts a-c"),
        (replace(ALL, may_pass=lambda known: known.merges > 0), "puts a-c | operands a-c", "operands a-c"),
    ],
)
def test_rules(rule: SkipRule, layers: str, kept: str) -> None:
    known: dict[Ulid, SstProperties] = {}
    names: dict[Ulid, str] = {}
    given = [Layer(f"run {number}", _slices(text, known, names)) for number, text in enumerate(layers.split(" | "))]
    assert " | ".join(_shown(layer, names) for layer in skip_files(given, known, rule)) == kept


def test_where_deletions_are_shown_a_file_with_some_is_skipped_by_the_filter_alone() -> None:
    """And not for its age: the reason is that of the same read of a table without retention."""
    filtered, deletions = replace(INCLUDING_DELETED, may_pass=lambda _: False), KINDS["some-tombstones"]
    assert deletions is not None
    assert judge_file(deletions, filtered) == judge_file(deletions, replace(filtered, retired_ms=None))


def _slices(text: str, known: dict[Ulid, SstProperties], names: dict[Ulid, str]) -> tuple[FileSlice, ...]:
    slices = []
    for part in text.split(", "):
        name, keys = part.split()
        first, last = keys.encode().split(b"-")
        sst_id = Ulid(len(names))
        names[sst_id] = name
        if (properties := KINDS[name]) is not None:
            known[sst_id] = properties
        info = SstInfo(first, last, index_offset=10, index_len=5, filter_offset=10, filter_len=0)
        slices.append(FileSlice(SstFile(OWN_ROOT, sst_id, info, 2), info.key_range()))
    return tuple(slices)


def _shown(layer: Layer, names: dict[Ulid, str]) -> str:
    ends = [(part.keys.end or b"").decode().rstrip("\0") for part in layer.slices]
    return ", ".join(
        f"{names[part.file.id]} {part.keys.start.decode()}-{end}" for part, end in zip(layer.slices, ends, strict=True)
    )


def test_the_properties_of_these_tests_are_such_as_files_have() -> None:
    for name, properties in KINDS.items():
        assert properties is None or properties.is_consistent(), name


def test_open_ends_are_the_highest_keys() -> None:
    info = SstInfo(b"c", None, index_offset=10, index_len=5, filter_offset=10, filter_len=0)
    whole = FileSlice(SstFile(OWN_ROOT, Ulid(1), info, 2), info.key_range())
    for last, start in ((b"f", b"c"), (b"b", None)):
        other = SstInfo(b"a", last, index_offset=10, index_len=5, filter_offset=10, filter_len=0)
        old = FileSlice(SstFile(OWN_ROOT, Ulid(2), other, 2), other.key_range())
        kept = skip_files([Layer("newer", (whole,)), Layer("older", (old,))], {Ulid(1): TIMED}, LATEST)
        assert [layer.slices[0].keys.start for layer in kept] == [*([start] if start else []), b"a"]


# --- tables ---------------------------------------------------------------------------------------------------------


def new_store(clock: FakeClock, **properties: Any) -> SlateStore:
    return SlateStore.create(f"memory://skipping-{next(_names)}", clock=clock, **properties)


def put(store: SlateStore, keys: bytes, value: bytes = b"v", **options: Any) -> None:
    rows = {"key": [bytes([key]) for key in keys]}
    store.write(
        pa.table(rows if options.get("operation") == "delete" else {**rows, "value": [value] * len(keys)}), **options
    )


def read_files(store: SlateStore, clock: Clock, **options: Any) -> int:
    """How many files a scan opens."""
    plan = fetch_read_plan(open_stores(store.url, storage={}), ReadOptions.parse({"path": store.url, **options}), clock)
    return len({part.file.id for split in plan.splits for layer in split.layers for part in layer.slices})


def keys_of(store: SlateStore, **options: Any) -> bytes:
    return b"".join(store.scan(**options).read_all()["key"].to_pylist())


def test_expired_files_are_read_only_where_they_hide_something() -> None:
    clock = FakeClock(START_MS)
    store = new_store(clock)
    put(store, b"abc")
    put(store, b"def", ttl="1h")
    put(store, b"bc", ttl="2h")
    hours = [START_MS, START_MS + HOUR_MS, START_MS + 2 * HOUR_MS]
    assert [keys_of(store, now=now) for now in hours] == [b"abcdef", b"abc", b"a"]
    assert [read_files(store, clock, now=now) for now in hours] == [3, 2, 2]
    assert read_files(store, clock, now=hours[2], includeExpired=True) == 3
    assert read_files(store, clock, now=hours[2], readVersions="all") == 3
    assert read_files(store, clock, now=hours[2], endKey="62") == 1


def test_tombstones_with_nothing_below_are_not_read() -> None:
    clock = FakeClock(START_MS)
    store = new_store(clock)
    put(store, b"abc")
    put(store, b"xyz", operation="delete")
    put(store, b"c", operation="delete")
    assert (keys_of(store), read_files(store, clock)) == (b"ab", 2)
    assert (keys_of(store, includeDeleted=True), read_files(store, clock, includeDeleted=True)) == (b"abcxyz", 3)


def test_retired_files_are_not_read() -> None:
    clock = FakeClock(START_MS)
    store = new_store(clock, retention="1h")
    put(store, b"abc")
    clock.advance(HOUR_MS // 2)
    put(store, b"cd")
    clock.advance(HOUR_MS // 2)
    assert (keys_of(store), read_files(store, clock)) == (b"cd", 1)
    clock.advance(HOUR_MS)
    assert (keys_of(store), read_files(store, clock)) == (b"", 0)
    assert read_files(store, clock, includeExpired=True) == 2


def test_a_retired_row_is_read_for_the_operand_on_top_of_it() -> None:
    clock = FakeClock(START_MS)
    store = new_store(clock, retention="1h")
    put(store, b"ab", b"1")
    clock.advance(HOUR_MS)
    put(store, b"a", b"2", operation="merge")
    rows = store.scan(mergeOperator="concat").read_all().to_pylist()
    assert rows == [{"key": b"a", "value": b"12"}]


def test_filters_on_metadata_columns_skip_files() -> None:
    clock = FakeClock(START_MS)
    store = new_store(clock)
    for number, keys in enumerate((b"abc", b"def", b"ghi")):
        put(store, keys, ttl=None if number == 1 else f"{number + 1}h")
        clock.advance(HOUR_MS // 4)
    for condition, keys, files in (
        ("_seq > 1", b"defghi", 2),
        ("_seq = 2", b"def", 1),
        ("_seq BETWEEN 7 AND 9", b"", 0),
        ("_create_ts >= '2023-11-14T22:28:20Z'", b"defghi", 2),
        ("_create_ts < '2023-11-14T22:28:20Z'", b"abc", 1),
        ("_expire_ts IS NULL", b"def", 1),
        ("_expire_ts IS NOT NULL", b"abcghi", 2),
        ("_expire_ts > '2023-11-15T00:00:00Z'", b"ghi", 1),
        ("_expire_ts <> '2023-11-14T23:13:20Z'", b"ghi", 1),
        ("_seq > 1 AND _expire_ts IS NULL", b"def", 1),
        ("_seq > 1 AND key < X'65'", b"d", 1),
        ("_op = 'put'", b"abcdefghi", 3),
    ):
        found = keys_of(store, filter=condition), read_files(store, clock, filter=condition)
        assert found == (keys, files), condition


def test_a_filter_never_shows_what_a_newer_row_hides() -> None:
    clock = FakeClock(START_MS)
    store = new_store(clock)
    put(store, b"abc")
    put(store, b"bc")
    assert keys_of(store, filter="_seq = 1") == b"a"
    assert read_files(store, clock, filter="_seq = 1") == 2
    everything = store.scan(filter="_seq = 1", readVersions="all").read_all()
    assert everything["key"].to_pylist() == [b"a", b"b", b"c"]
    assert read_files(store, clock, filter="_seq = 1", readVersions="all") == 1


def test_instants_that_microseconds_cannot_hold_are_compared_as_they_are_shown(tmp_path: Path) -> None:
    location = Location.local(tmp_path / "db")
    with Client.open(location, ClientOptions()) as client:
        client.write([Put(key, b"v", Ttl(at_ms=(1 << 63) - 1)) for key in (b"a", b"b", b"c")])
        client.flush_memtable()
    clock = FakeClock(SystemClock().now_ms())
    store = SlateStore.open(str(location.folder), clock=clock)
    store.compact(full=True)  # what a file has of properties comes from us
    assert keys_of(store, filter="_expire_ts > '2200-01-01'") == b"abc"
    assert read_files(store, clock, filter="_expire_ts < '2200-01-01'") == 0


def test_one_row_of_a_snapshot_of_the_past_needs_one_file() -> None:
    clock = FakeClock(START_MS)
    store = new_store(clock)
    for keys in (b"abc", b"bcd", b"cde"):
        put(store, keys)
    assert (keys_of(store, seqAsOf=1), read_files(store, clock, seqAsOf=1)) == (b"abc", 1)


def test_files_of_later_timestamps_are_not_read_for_an_earlier_instant() -> None:
    clock = FakeClock(START_MS)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("ts", pa.int64())])
    store = SlateStore.create(f"memory://skipping-{next(_names)}", schema, "id", clock=clock, history=True)
    for ts in (1000, 2000, 3000):
        store.write(pa.table({"id": [1, 2], "ts": [ts, ts]}, schema=schema), timestampColumn="ts")
        clock.advance(10)
    for instant, shown, files in ((1000, 1000, 1), (1999, 1000, 1), (2000, 2000, 2), (3000, 3000, 3)):
        assert store.scan(timestampAsOf=instant).read_all()["ts"].to_pylist() == [shown, shown]
        assert read_files(store, clock, timestampAsOf=instant) == files
    first = store.scan(readVersions="intervals", filter="_seq = 1").read_all()
    assert first["_is_current"].to_pylist() == [False, False]  # what ended them is read, though no filter passes it


# --- random tables --------------------------------------------------------------------------------------------------
