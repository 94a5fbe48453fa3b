from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatespark import CorruptDataError, OptionError, SlateStore, SnapshotExpiredError
from slatespark.format.codecs import Compression
from slatespark.format.paths import wal_path
from slatespark.format.properties import SstProperties
from slatespark.format.row import Row, RowKind
from slatespark.options import ReadOptions
from slatespark.ranges import KeyRange
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import publish_definition
from slatespark.table.log.versioned_object import Version
from slatespark.table.read.plan import FileSlice, Layer, plan_layers
from slatespark.table.read.resolve import resolve_snapshot
from slatespark.table.records.commit_record import COMMITS_DIR
from slatespark.table.retention.expiry_run import report_expiry
from slatespark.table.retention.expiry_tally import ExpiryReport
from slatespark.table.stores import TableStores, external_roots, open_stores
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.support.fixture_databases import FIXTURES, FixtureDatabase, fixture_databases
from tests.unit.table.layers import new_stores, put_file
from tests.unit.table.retention.expiry_model import (
    DAY_MS,
    HORIZON_MS,
    HOUR_MS,
    Model,
    cut,
    publish_layers,
    report_parts,
    strip_properties,
)

NOW_MS = 500 * DAY_MS + 7 * HOUR_MS + 1234
WIDTHS = {"hour": HOUR_MS, "day": DAY_MS}
DATABASES = fixture_databases()
TRUE_JSON = SstProperties.to_json


def report(stores: TableStores, per: str | None = None, **options: Any) -> ExpiryReport:
    given = {"path": stores.url, "now": NOW_MS, **options}
    return report_expiry(stores, ReadOptions.parse(given), FakeClock(NOW_MS), per=per)


# --- against the model ----------------------------------------------------------------------------------------------


@st.composite
def tables(draw: st.DrawFn) -> tuple[TableStores, list[Layer], list[list[Row]]]:
    """Layers of files, ours and of other clients, some cut, and a WAL."""
    stores, seqs, layers = new_stores(), itertools.count(900, -1), []
    for _ in range(draw(st.integers(0, 3))):
        keys = sorted(draw(st.sets(st.binary(min_size=1, max_size=3), min_size=1, max_size=40)))
        # Neighbours tend to expire together, so that whole blocks and files do, too.
        tempo = draw(expiries())
        rows = [draw(versions(key, next(seqs), tempo)) for key in keys]
        edges = sorted({0, len(rows), *(at % len(rows) for at in draw(st.lists(st.integers(0, 40), max_size=2)))})
        slices = [part for a, b in itertools.pairwise(edges) for part in draw(slices_of(stores, rows[a:b]))]
        if slices:
            layers.append(Layer("run", tuple(slices)))
    # All of the first file is in the trees already, or nothing.
    wal = [
        [draw(versions(b"w%d" % number, 1001 + number, draw(expiries())))] if filled else []
        for number, filled in enumerate(draw(st.lists(st.booleans(), max_size=3)))
    ]
    publish_layers(stores, layers, wal)
    return stores, layers, wal


def expiries() -> st.SearchStrategy[st.SearchStrategy[int | None]]:
    """Strategies of expiry: all the same, near each other, anything."""
    limits = [-(2**63), 2**63 - 1, NOW_MS, NOW_MS + 1, NOW_MS - 1, NOW_MS // DAY_MS * DAY_MS + HORIZON_MS]
    near = st.integers(NOW_MS - 2 * HOUR_MS, NOW_MS + 4 * DAY_MS)
    one = st.one_of(st.none(), st.sampled_from(limits), near, st.integers(-(2**63), 2**63 - 1))
    return st.one_of(
        one.map(st.just),
        near.map(lambda at: st.integers(at, at + HOUR_MS // 2)),
        near.map(lambda at: st.one_of(st.none(), st.integers(at, at + 10))),
        st.just(one),
    )


@st.composite
def versions(draw: st.DrawFn, key: bytes, seq: int, tempo: st.SearchStrategy[int | None]) -> Row:
    kind = draw(st.sampled_from([RowKind.PUT, RowKind.PUT, RowKind.PUT, RowKind.MERGE, RowKind.DELETE]))
    if kind is RowKind.DELETE:
        return Row(key, seq, kind, create_ts_ms=seq)
    value = b"v" * draw(st.sampled_from([0, 1, 30, 200]))
    return Row(key, seq, kind, value, seq, draw(tempo))


@st.composite
def slices_of(draw: st.DrawFn, stores: TableStores, rows: Sequence[Row]) -> list[FileSlice]:
    """A file, visible wholly, in part, or in two parts."""
    part = put_file(
        stores,
        rows,
        block_size=draw(st.sampled_from([1, 100, 400, 4096])),
        compression=draw(st.sampled_from([Compression.NONE, Compression.ZSTD])),
    )
    if draw(st.integers(0, 2)) == 0:
        strip_properties(stores, part)
    bounds = sorted(draw(st.lists(st.binary(min_size=1, max_size=3), min_size=2, max_size=2)))
    shape = draw(st.sampled_from(["whole", "whole", "cut", "twice"]))
    if shape == "whole":
        return [part]
    halves = [KeyRange(b"", bounds[0]), KeyRange(bounds[1], None)]
    ranges = [KeyRange(*bounds)] if shape == "cut" else halves
    return [found for keys in ranges if not (found := cut(part, keys)).keys.is_empty()]


# Rows are created at about 900 to 1010.
retentions = st.sampled_from(
    [None, None, 0, NOW_MS - 950, NOW_MS - 1000, NOW_MS + HOUR_MS // 2, NOW_MS + 5 * DAY_MS, 2**63 - 950, 2**63 - 1]
)


@given(tables(), st.sampled_from(["hour", "day"]), st.sampled_from([1 << 16, 1 << 26]), retentions)
def test_the_report_matches_a_row_by_row_count(
    table: tuple[TableStores, list[Layer], list[list[Row]]], per: str, buffer: int, retention_ms: int | None
) -> None:
    stores, layers, wal = table
    if retention_ms is not None:
        publish_definition(stores, Version(1, TableDefinition(properties={"retention": str(retention_ms)})))
    model = Model(NOW_MS, WIDTHS[per], retention_ms)
    for layer in layers:
        for part in layer.slices:
            model.add_slice(stores, part)
    model.add_wal(stores, range(1, len(wal) + 1), 0)
    found = report(stores, per, readBuffer=buffer)
    assert report_parts(found) == model.parts()
    chosen = report(stores)
    assert report_parts(chosen) == report_parts(report(stores, chosen.per))
    store = SlateStore.open(stores.url)
    assert store.scan(readVersions="all", columns=["_seq"]).read_all().num_rows == found.rows


@pytest.mark.parametrize("database", DATABASES, ids=[database.name for database in DATABASES])
@pytest.mark.parametrize("per", ["hour", "day"])
def test_databases_of_the_client(database: FixtureDatabase, per: str) -> None:
    stores = open_stores(str(database.path), storage={"root": str(FIXTURES)})
    times = [row[5] for row in database.stored_rows() if row[5] is not None]
    now_ms = sorted(times)[len(times) // 2] if times else NOW_MS
    found = report(stores, per, now=now_ms)
    model = Model(now_ms, WIDTHS[per])
    snapshot = resolve_snapshot(stores, ReadOptions(path=stores.url), FakeClock())
    for layer in plan_layers(snapshot.manifest, external_roots(stores, snapshot.manifest)):
        for part in layer.slices:
            model.add_slice(stores, part)
    model.add_wal(stores, range(snapshot.wal.start, snapshot.wal.end), snapshot.manifest.last_l0_seq)
    assert report_parts(found) == model.parts()
    assert found.rows == len(database.stored_rows())


# --- what is read, and what is not ----------------------------------------------------------------------------------


def rows_at(start: int, expires: Sequence[int | None], *, seq: int = 900) -> list[Row]:
    """Rows of 100 bytes and more, about as many to a block as its size says."""
    return [
        Row(b"%06d" % (start + number), seq, RowKind.PUT, b"v" * 100, 1, expire)
        for number, expire in enumerate(expires)
    ]


def watched(stores: TableStores) -> tuple[TableStores, FailingStore]:
    main = FailingStore(stores.main)
    return replace(stores, main=main, wal=main), main


def test_files_that_expire_at_once_are_not_read_with_commit_records(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"), clock=FakeClock(NOW_MS))
    for number, ttl in enumerate(["1h", "5h", "none"]):
        keys = [b"%d-%05d" % (number, key) for key in range(2000)]
        store.write(pa.table({"key": keys, "value": [b"v" * 50] * 2000}), ttl=ttl)
    stores, calls = watched(store._stores)
    found = report(stores)
    assert [part.rows for part in found.parts] == [0, 2000, 2000, 2000]
    assert (found.files, found.files_read, found.blocks, found.blocks_read) == (3, 0, 0, 0)
    assert calls.count("*", "compacted/*") == 0
    assert found.stored_bytes == sum(part.file.data_bytes for part in _slices(stores))


def test_without_commit_records_file_properties_are_read(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"), clock=FakeClock(NOW_MS))
    store.write(pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"]}), ttl="1h")
    expected = report(store._stores)
    for damage in ("{", '{"committed_ms": 1}'):
        for record in (tmp_path / "t" / COMMITS_DIR).iterdir():
            record.write_text(damage)
        stores, calls = watched(store._stores)
        assert report(stores) == expected
        assert [call.operation for call in calls.matching("*", "compacted/*")] == ["head", "get_range"]


def _slices(stores: TableStores) -> list[FileSlice]:
    manifest = resolve_snapshot(stores, ReadOptions(path=stores.url), FakeClock()).manifest
    return [part for layer in plan_layers(manifest, {}) for part in layer.slices]


def test_only_mixed_blocks_are_read() -> None:
    stores = new_stores()
    days: list[int | None] = [NOW_MS + day * DAY_MS for day in range(10) for _ in range(2000)]
    days[11_000:11_003] = [None, NOW_MS, NOW_MS + 1]
    publish_layers(stores, [Layer("run", (put_file(stores, rows_at(0, days)),))])
    watching, calls = watched(stores)
    found = report(watching, "day")
    assert (found.rows, found.files_read) == (20_000, 1)
    assert found.blocks > 400
    assert found.blocks_read <= 10  # one where each day begins, and that of the odd rows
    outline, *blocks = calls.matching("get_range", "compacted/*")
    assert sum(call.size for call in blocks) < 11 * 4096
    assert outline.size < 20 * 4096
    assert report(stores, "hour").blocks_read == found.blocks_read
    strip_properties(stores, _slices(stores)[0])
    assert report_parts(report(stores, "day")) == report_parts(found)


def test_a_cut_reads_the_blocks_at_its_ends() -> None:
    stores = new_stores()
    whole = put_file(stores, rows_at(0, [NOW_MS + 1] * 5000))
    publish_layers(stores, [Layer("run", (cut(whole, KeyRange(b"001003", b"004007")),))])
    found = report(stores)
    assert (found.rows, found.blocks_read) == (3004, 2)


def test_the_wal_is_part_of_the_sums_and_reported() -> None:
    stores = new_stores()
    wal = [[], rows_at(0, [None, NOW_MS + 1], seq=1001), rows_at(0, [NOW_MS], seq=1002)]
    publish_layers(stores, [Layer("run", (put_file(stores, rows_at(0, [NOW_MS + 1])),))], wal)
    found = report(stores)
    assert [(part.state, part.rows, part.wal_rows) for part in found.parts] == [
        ("expired", 1, 1),
        ("expires", 2, 1),
        ("never", 1, 1),
    ]
    sizes = [stores.wal.head(wal_path(number)).size for number in (2, 3)]
    assert sum(part.wal_bytes for part in found.parts) == sum(sizes)
    assert found.stored_bytes == sum(sizes) + _slices(stores)[0].file.data_bytes


def test_no_rows_at_all(tmp_path: Path) -> None:
    found = SlateStore.create(str(tmp_path / "t"), clock=FakeClock(NOW_MS)).expiry()
    assert (found.rows, found.stored_bytes, found.per, found.now_ms) == (0, 0, "hour", NOW_MS)
    assert [part.state for part in found.parts] == ["expired", "never"]


# --- options --------------------------------------------------------------------------------------------------------


def test_versions_and_now(tmp_path: Path) -> None:
    clock = FakeClock(NOW_MS)
    store = SlateStore.create(str(tmp_path / "t"), clock=clock)
    first = store.write(pa.table({"key": [b"a"], "value": [b"1"]}), ttl="1h")
    clock.advance(2 * HOUR_MS)
    store.write(pa.table({"key": [b"a"], "value": [b"2"]}), ttl="1h")
    assert [part.rows for part in store.expiry().parts] == [1, 1, 0]  # the hidden version counts too
    older = store.expiry(versionAsOf=first)
    assert (older.version, older.now_ms) == (first, NOW_MS)
    assert [part.rows for part in older.parts] == [0, 1, 0]
    at_expiry = store.expiry("day", now=NOW_MS + 3 * HOUR_MS)
    assert [part.rows for part in at_expiry.parts] == [2, 0]
    assert [part.rows for part in store.expiry("day", now=NOW_MS + 3 * HOUR_MS - 1).parts] == [1, 1, 0]


def test_the_default_follows_the_last_expiry() -> None:
    for expire, per in [(NOW_MS + 3 * DAY_MS, "hour"), (NOW_MS + 3 * DAY_MS + HOUR_MS, "day"), (2**63 - 1, "day")]:
        for strip in (False, True):
            stores = new_stores()
            part = put_file(stores, rows_at(0, [NOW_MS, None, expire]))
            if strip:
                strip_properties(stores, part)
            publish_layers(stores, [Layer("run", (part,))])
            assert report(stores).per == per


@pytest.mark.parametrize(
    "given", [{"filter": "key = X'00'"}, {"startKey": b"a"}, {"endKey": b"a"}, {"keyPrefix": b"a"}]
)
def test_options_that_leave_rows_out_are_refused(given: dict[str, Any], tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"))
    with pytest.raises(OptionError, match=next(iter(given))):
        store.expiry(**given)
    with pytest.raises(OptionError, match="week"):
        store.expiry("week")


# --- bad bytes ------------------------------------------------------------------------------------------------------


def test_impossible_records_are_ignored(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"), clock=FakeClock(NOW_MS))
    store.write(pa.table({"key": [b"a"], "value": [b"1"]}), ttl="1h")
    expected = report(store._stores)
    [record] = [path for path in (tmp_path / "t" / COMMITS_DIR).iterdir() if '"puts"' in path.read_text()]
    text = record.read_text()
    for puts in ("-1", "0", str(1 << 63)):
        record.write_text(text.replace('"puts":1', f'"puts":{puts}'))
        assert report(store._stores) == expected
    record.write_text(text.replace('"min_expire_ts":', '"min_expire_ts":-' + "9" * 30))
    assert report(store._stores).rows == 1


def test_a_file_that_is_damaged_or_gone() -> None:
    stores = new_stores()
    part = put_file(stores, rows_at(0, [NOW_MS, NOW_MS + 1]))
    publish_layers(stores, [Layer("run", (part,))])
    data = bytes(stores.main.get(part.file.path))
    for at in (5, part.file.info.index_offset + 3, part.file.info.stats_offset + 3, len(data) - 5):
        stores.main.put(part.file.path, [data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]])
        with pytest.raises(CorruptDataError, match=part.file.path):
            report(stores)
    stores.main.put(part.file.path, [data[:3]])
    with pytest.raises(CorruptDataError, match=part.file.path):
        report(stores)
    stores.main.delete(part.file.path)
    with pytest.raises(SnapshotExpiredError, match=part.file.path):
        report(stores)


def test_properties_of_other_rows_are_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    stores = new_stores()
    monkeypatch.setattr(SstProperties, "to_json", lambda self: {**TRUE_JSON(self), "puts": 7})
    publish_layers(stores, [Layer("run", (put_file(stores, rows_at(0, [NOW_MS])),))])
    with pytest.raises(CorruptDataError, match="statistics"):
        report(stores)
