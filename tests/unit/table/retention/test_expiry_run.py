from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import CorruptDataError, OptionError, SlateStore, SnapshotExpiredError
from slatespark.format.paths import wal_path
from slatespark.format.properties import SstProperties
from slatespark.format.row import Row, RowKind
from slatespark.options import ReadOptions
from slatespark.ranges import KeyRange
from slatespark.table.heads import Heads
from slatespark.table.read.planning.plan import FileSlice, Layer, plan_layers
from slatespark.table.read.versions.resolve import resolve_snapshot
from slatespark.table.records.commit_record import COMMITS_DIR
from slatespark.table.retention.expiry_files import fetch_outline
from slatespark.table.retention.expiry_run import report_expiry
from slatespark.table.retention.expiry_tally import ExpiryReport
from slatespark.table.stores import TableStores, external_roots, open_stores
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.support.fixture_databases import FIXTURES, FixtureDatabase, fixture_databases
from tests.unit.table.layers import new_stores, put_file
from tests.unit.table.retention.expiry_model import (
    DAY_MS,
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
    return replace(stores, main=main, wal=main, heads=Heads()), main


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
    "given",
    [
        {"filter": "key = X'00'"},
        {"startKey": b"a"},
        {"endKey": b"a"},
        {"keyPrefix": b"a"},
        {"seqAsOf": 1},
        {"columns": ["key"]},
        {"includeExpired": True},
        {"includeDeleted": True},
        {"useCopies": False},
        {"startingVersion": 1},
    ],
)
def test_options_of_a_reads_rows_are_refused(given: dict[str, Any], tmp_path: Path) -> None:
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


def test_properties_that_contradict_themselves_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    stores = new_stores()
    monkeypatch.setattr(SstProperties, "to_json", lambda properties: {**TRUE_JSON(properties), "any_flags": 0})
    part = put_file(stores, rows_at(0, [NOW_MS, NOW_MS + 1]))
    publish_layers(stores, [Layer("run", (part,))])
    assert fetch_outline(stores, part.file).properties is None
    assert [found.rows for found in report(stores).parts] == [1, 1, 0]


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
