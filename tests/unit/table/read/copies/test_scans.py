"""Scans that read columnar copies: what they fetch, and what they pass over."""

from __future__ import annotations

import logging
import math
import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.format.columnar_copy import CopyBuilder
from slatespark.format.paths import COLUMNS_DIR, COMPACTED_DIR
from slatespark.format.ulid import Ulid
from slatespark.kernels.columns import Visibility
from slatespark.options import ReadOptions
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.columns.read import fetch_copy
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read import batch_cuts, materialise
from slatespark.table.read.arrow import Projection
from slatespark.table.read.copies import windows as copy_windows
from slatespark.table.read.copies.choice import NO_COPY, USED
from slatespark.table.read.copies.part import CopyPart
from slatespark.table.read.copies.rows import copy_rows, read_columns
from slatespark.table.read.merge.windows import LongKey
from slatespark.table.read.reader import fetch_read_plan
from slatespark.table.read.scan import scan_split, visible_windows
from slatespark.table.stores import TableStores
from tests.unit.table.read.copies.copied_table import GROUP, NAMES, ROWS, SCHEMA, Place, rows

# --- what is fetched --------------------------------------------------------------------------------------------------


def test_one_column_of_eight_costs_a_fraction(place: Place) -> None:
    place.scan(useCopies=False, columns="c3")
    [stored] = [file.info.data_bytes for file in _files(place)]
    assert place.bytes_of(COMPACTED_DIR) >= stored
    assert place.bytes_of(COLUMNS_DIR) == 0
    place.scan(columns="c3")
    place.scan(columns="c3")  # the footer is known
    assert place.bytes_of(COMPACTED_DIR) == 0
    assert 0 < place.bytes_of(COLUMNS_DIR) < place.store.head(place.path).size / 6
    assert place.check(columns="c3") == {USED: 1}


def _files(place: Place) -> list[Any]:
    return list(fetch_latest_manifest(TableStores(place.store, place.store))[1].ssts.values())


def test_a_filter_on_a_value_column_skips_row_groups(place: Place) -> None:
    groups = ROWS // GROUP
    place.scan(filter="c0 >= 0", columns="c0")
    place.scan(filter="c0 >= 0", columns="c0")
    whole = place.bytes_of(COLUMNS_DIR)
    found = place.scan(filter="c0 < 100", columns="c0")
    assert found
    assert place.bytes_of(COLUMNS_DIR) < 2 * whole / groups
    assert place.scan(filter="c0 < -1") == []
    assert place.bytes_of(COLUMNS_DIR) == 0
    assert place.check(filter="c5 = 600") == {USED: 1}


def test_a_range_of_keys_cuts_the_copy_by_rows(place: Place) -> None:
    place.scan(columns="c1")
    place.scan(columns="c1")
    whole = place.bytes_of(COLUMNS_DIR)
    condition = "tenant = 'a' AND id >= 100 AND id < 105"
    assert [row["id"] for row in place.scan(filter=condition, columns="id, c1")] == [100, 101, 102, 103, 104]
    assert place.bytes_of(COLUMNS_DIR) < whole
    assert place.check(filter=condition, columns="id, c1") == {USED: 1}
    assert place.check(filter="tenant = 'b'", columns="c1") == {USED: 1}
    assert place.check(splitSize="4k", columns="c1") == {USED: 1}
    assert place.check(splitSize="4k", order="desc", columns="c1") == {USED: 1}
    assert place.check(columns="c1, _key", metadataColumns="key") == {USED: 1}


def test_splits_end_between_row_groups(place: Place) -> None:
    place.scan(columns="c1")
    place.scan(columns="c1")
    whole = place.bytes_of(COLUMNS_DIR)
    plan = place.table.explain(columns="c1", splitSize="40k")
    assert plan.splits > 2
    place.scan(columns="c1", splitSize="40k")
    assert (
        place.bytes_of(COLUMNS_DIR) - whole < 100 * plan.splits
    )  # the seal is looked at more often, no row group read twice
    assert place.check(splitSize="40k", columns="c1") == {USED: 1}


def test_splits_end_between_row_groups_that_share_their_first_key_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics of single columns cannot tell where such a group begins; the label of the copy does."""
    place = Place(monkeypatch)
    tenants = pa.array([f"t{number // 70:02d}" for number in range(ROWS)])
    place.table.write(rows(range(ROWS)).set_column(0, SCHEMA.field("tenant"), tenants))
    place.table.compact(full=True)
    place.scan(columns="c1")
    place.scan(columns="c1")
    whole = place.bytes_of(COLUMNS_DIR)
    splits = place.table.explain(columns="c1", splitSize="40k").splits
    assert splits > 2
    place.scan(columns="c1", splitSize="40k")
    assert place.bytes_of(COLUMNS_DIR) - whole < 100 * splits, "no row group is read twice, and no key"
    assert place.check(columns="c1", splitSize="40k") == {USED: 1}
    relabel(place, starts=None)  # as copies were written at first
    assert place.check(columns="c1", splitSize="40k") == {USED: 1}
    for tenant in set(tenants.to_pylist()):  # some lie in two row groups
        assert len(place.scan(filter=f"tenant = '{tenant}'", columns="c1")) == tenants.to_pylist().count(tenant)


def relabel(place: Place, **changes: Any) -> None:
    """Write the copy anew, with another label."""
    [file] = place.table.files()
    copy = fetch_copy(place.store, Ulid.parse(file.id))
    builder = CopyBuilder(copy.footer.schema)
    for number in range(copy.footer.metadata.num_row_groups):
        builder.add(copy.read_group(number, copy.footer.schema.names).to_batches())
    place.store.put(place.path, builder.finish(replace(copy.footer.label, **changes)))


def test_newer_rows_lie_above(place: Place) -> None:
    place.table.write(rows(range(0, ROWS, 100), add=1000))
    place.table.write(rows(range(ROWS - 3, ROWS + 3)), ttl="1h")
    place.table.delete("tenant = 'a' AND id IN (7, 8, 300)")
    place.table.deleteRange("tenant = 'b' AND id > 1500 AND id < 1600")
    assert place.check(columns="id, c1") == {USED: 1}
    assert place.check(filter="c1 > 4500", columns="id, c1") == {USED: 1}
    assert place.check(columns="c1, _key", metadataColumns="key") == {USED: 1}
    place.clock.advance(2 * 3_600_000)
    assert place.check(columns="id, c1") == {USED: 1}
    assert place.check(columns="id, c1", includeExpired=True) == {USED: 1}


def test_rows_past_retention_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(monkeypatch, retention="1h")
    place.table.write(rows(range(ROWS // 2)))
    place.clock.advance(3_000_000)
    place.table.write(rows(range(ROWS // 2, ROWS)))
    place.table.compact(full=True)
    assert len(place.scan(columns="c1")) == ROWS
    place.clock.advance(1_000_000)
    assert place.check(columns="c1") == {USED: 1}
    assert len(place.scan(columns="c1")) == ROWS // 2


@pytest.mark.parametrize("missing", [0, 1, -1])
def test_a_file_without_a_copy_among_others(monkeypatch: pytest.MonkeyPatch, missing: int) -> None:
    place = Place(monkeypatch)
    place.table.write(rows(range(ROWS)))
    place.table.compact(full=True, sstSize="32k")
    copies = [meta.path for meta in place.store.list(COLUMNS_DIR)]
    place.store.delete(copies[missing])
    wanted = {USED: len(copies) - 1, f"from SSTs: {NO_COPY}": 1}
    assert len(copies) > 2
    assert place.check(columns="c1") == wanted
    place.table.write(rows(range(0, ROWS, 100), 7))
    assert place.check(columns="c1") == wanted


def test_a_transaction_lays_its_own_rows_above(place: Place) -> None:
    transaction = place.table.begin()
    transaction.write(rows(range(3), add=5000))
    found = transaction.read(columns="id, c2").read_all().to_pylist()
    assert found == transaction.read(columns="id, c2", useCopies=False).read_all().to_pylist()
    assert [row["c2"] > 4999 for row in found[:4]] == [True, True, True, False]
    transaction.rollback()


def test_statistics_do_not_hide_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parquet's statistics leave NaN out, and to a filter it is larger than any number."""
    schema = pa.schema([("tenant", pa.string()), ("id", pa.int32()), ("w", pa.float64())])
    place = Place(monkeypatch, schema)
    values = [math.nan if number % 300 == 0 else number / 7 for number in range(ROWS)]
    place.table.write(pa.table({"tenant": ["a"] * ROWS, "id": range(ROWS), "w": values}, schema))
    place.table.compact(full=True)
    wanted = list(range(0, ROWS, 300))
    assert [row["id"] for row in place.scan(filter="w > 1e9", columns="id")] == wanted
    relabel(place, nans=None)  # as copies were written at first
    assert [row["id"] for row in place.scan(filter="w > 1e9", columns="id")] == wanted
    assert USED in dict(place.table.explain(filter="w > 1e9", columns="id").copies)


# --- what is passed over ----------------------------------------------------------------------------------------------


def test_reads_that_no_copy_answers_use_ssts(place: Place) -> None:
    for options in (
        {"readVersions": "all"},
        {"includeDeleted": True},
        {"ignoreUndecodable": True},
        {"columns": "c1, _seq", "metadataColumns": "seq"},
    ):
        [reason] = place.check(**options)
        assert reason != USED
    place.table.compact(columnar="seq")
    assert place.check(columns="c1", metadataColumns="true") == {USED: 1}


def test_copies_are_looked_for_as_the_property_or_the_option_says(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(monkeypatch, columnar=False)
    place.load()
    place.table.compact(columnar=True)
    listed: list[str] = []
    monkeypatch.setattr(MemoryStore, "list", _noted_list(listed))
    assert place.table.explain(columns="c1").copies == {}
    assert COLUMNS_DIR not in listed
    assert place.table.explain(columns="c1", useCopies=True).copies == {USED: 1}
    place.table.setProperties(columnar=True)
    assert place.table.explain(columns="c1").copies == {USED: 1}
    listed.clear()
    assert place.table.explain(columns="c1", useCopies=False).copies == {}
    keys = "tenant = 'a' AND id IN (3, 900)"  # they are looked up
    assert [row["id"] for row in place.scan(columns="id", filter=keys)] == [3, 900]
    assert COLUMNS_DIR not in listed


def _noted_list(listed: list[str]) -> Any:
    plain = MemoryStore.list

    def noted(store: MemoryStore, prefix: str, start_after: str = "") -> Any:
        listed.append(prefix)
        return plain(store, prefix, start_after)

    return noted


def test_a_copy_with_more_bytes_is_not_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CopyPart, "stored_bytes", 1 << 40)
    [reason] = place.check(columns="c1")
    assert "bytes" in reason


@pytest.mark.parametrize(("value_format", "is_used"), [("avro", True), ("json", False)])
def test_a_copy_of_an_older_schema(monkeypatch: pytest.MonkeyPatch, value_format: str, is_used: bool) -> None:
    narrow = pa.schema([("tenant", pa.string()), ("id", pa.int32()), ("v", pa.int16()), ("w", pa.float32())])
    place = Place(monkeypatch, narrow, valueFormat=value_format)
    numbers = range(ROWS)
    values = {"v": [number % 999 for number in numbers], "w": [number / 7 for number in numbers]}
    place.table.write(pa.table({"tenant": ["a"] * ROWS, "id": numbers, **values}, narrow))
    place.table.compact(full=True)
    wider = pa.table({"tenant": ["z"], "id": [1], "v": [1 << 40], "w": [0.5], "new": ["n"]})
    place.table.write(wider, mergeSchema=True)
    for columns in ("id, v", "w"):
        assert (USED in place.check(columns=columns)) is is_used
    assert (USED in place.check(columns="id, v, new")) is is_used
    assert place.check(filter="new IS NULL AND v > 990") == place.check(filter="new = 'n'")
    assert place.check(filter="v > 990", columns="id, v") == place.check(columns="id, v")
    place.table.compact(full=True)
    assert place.check(columns="id, v, new") == {USED: 1}


@pytest.mark.parametrize(("value_format", "is_used"), [("avro", True), ("json", False)])
def test_a_column_that_was_added_later(monkeypatch: pytest.MonkeyPatch, value_format: str, is_used: bool) -> None:
    """JSON names no schema: what a client wrote may have had the column before the table had."""
    narrow = pa.schema([("tenant", pa.string()), ("id", pa.int32()), ("v", pa.int64())])
    place = Place(monkeypatch, narrow, valueFormat=value_format)
    place.table.write(pa.table({"tenant": ["a"] * ROWS, "id": range(ROWS), "v": range(ROWS)}, narrow))
    place.table.compact(full=True)
    wide = narrow.append(pa.field("new", pa.string()))
    place.table.write(pa.table({"tenant": ["z"], "id": [1], "v": [2], "new": ["n"]}, wide), mergeSchema=True)
    assert USED in place.check(columns="v")
    assert (USED in place.check(columns="new")) is is_used


def test_a_dropped_column_is_not_null_for_a_read_that_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The definition of a transaction is fixed when it begins, and copies may be written after."""
    place = Place(monkeypatch, columnar=False)
    place.load()
    transaction = place.table.begin()
    place.table.dropColumns("c7")
    place.table.compact(columnar=True)
    found = transaction.read(columns="c7", useCopies=True).read_all()
    assert found["c7"].null_count == 0
    assert found == transaction.read(columns="c7", useCopies=False).read_all()
    transaction.rollback()


def test_operands_above_need_the_values_of_the_sst(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore(f"copies-in-scans-{next(NAMES)}/db")
    table = SlateStore.create(store.url, columnar=True, mergeOperator="concat", autoCompact=False)
    keys = [b"%05d" % number for number in range(2000)]
    table.write(pa.table({"key": keys, "value": [b"x" * 50] * len(keys)}))
    table.compact(full=True)
    assert table.explain(columns="key").copies == {USED: 1}
    table.write(pa.table({"key": keys[::7], "value": [b"+"] * len(keys[::7])}), operation="merge")
    assert table.explain(columns="key").copies != {USED: 1}
    assert table.scan().read_all() == table.scan(useCopies=False).read_all()
    assert table.scan().read_all()["value"][0].as_py() == b"x" * 50 + b"+"


def test_a_long_key_keeps_the_columns_of_its_copy() -> None:
    projection = Projection(("value",))
    stored = pa.table({"key": pa.array([b"k"]), "value": pa.array([b"v"])})
    rows = copy_rows(stored, ["value"], projection, seq=1, with_keys=True)
    long = LongKey(b"k", iter([(rows, 0, 1)]))

    def one_window(cursors: Any) -> Iterator[LongKey]:
        yield long

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("slatespark.table.read.scan.whole_key_windows", one_window)
        [(sources, selection)] = visible_windows([], Visibility(max_seq=9, now_ms=0), None)
    assert read_columns(sources, selection.rows, ["value"], projection)["value"].to_pylist() == [b"v"]


# --- batches ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("above", [False, True])
def test_batches_of_copies_are_no_larger_than_others(monkeypatch: pytest.MonkeyPatch, above: bool) -> None:
    limit = 64 << 10
    for module in (batch_cuts, copy_windows):
        monkeypatch.setattr(module, "MAX_BATCH_BYTES", limit)
    monkeypatch.setattr(materialise, "SMALL_BATCH_BYTES", 0)
    parts = pa.list_(pa.int64())
    schema = pa.schema([("tenant", pa.string()), ("id", pa.int32()), ("text", pa.string()), ("parts", parts)])
    place = Place(monkeypatch, schema)

    def made(numbers: range, length: int) -> pa.Table:
        texts = [None if number % 7 == 0 else str(number % 10) * length for number in numbers]
        columns = [["t" * 50] * len(numbers), numbers, texts, [[number] * 10 for number in numbers]]
        return pa.table([pa.array(values, item.type) for values, item in zip(columns, schema, strict=True)], schema)

    place.table.write(made(range(1000), 1000))
    place.table.write(made(range(501, 502), 3 * limit))  # a group of small rows and of a large one
    place.table.compact(full=True)
    if above:
        place.table.write(made(range(0, 1000, 9), 500))
    for options in ({}, {"columns": "text"}, {"columns": "tenant"}, {"columns": "parts, id"}, {"filter": "id <> 3"}):
        batches = list(place.table.scan(**options, parallelism=1))
        assert all(batch.nbytes <= 1.1 * limit or len(batch) == 1 for batch in batches), options
        assert place.check(**options) == {USED: 1}


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "outer", "values"),
    [
        ("s.x", pa.struct([("x", pa.int64())]), [{"x": 10**6}]),
        ("s.x", pa.struct([("x", pa.string())]), [{"x": "far"}]),
        ("s.list.element", pa.list_(pa.int64()), [[10**6]]),
        ("s.key_value.value", pa.map_(pa.string(), pa.int64()), [[("k", 10**6)]]),
    ],
)
@pytest.mark.parametrize("is_first", [False, True])
def test_a_column_that_is_called_like_a_part_of_another(
    monkeypatch: pytest.MonkeyPatch, name: str, outer: pa.DataType, values: list[Any], is_first: bool
) -> None:
    """Row groups are not left out by the statistics of the other."""
    fields = [pa.field(name, pa.int64()), pa.field("s", outer)]
    keys = [pa.field("tenant", pa.string()), pa.field("id", pa.int64())]
    schema = pa.schema([*keys, *(fields if is_first else reversed(fields))])
    place = Place(monkeypatch, schema)
    columns = {"tenant": ["t"] * ROWS, "id": range(ROWS), name: range(ROWS), "s": pa.array(values * ROWS, outer)}
    place.table.write(pa.table({item.name: columns[item.name] for item in schema}, schema))
    place.table.compact(full=True)
    assert place.check(filter=f"`{name}` = 5", columns="id") == {USED: 1}
    assert place.scan(filter=f"`{name}` = 5", columns="id") == [{"id": 5}]


def test_a_store_with_latency_fetches_ahead(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = place.scan(useCopies=False, columns="id, c1")
    monkeypatch.setattr(MemoryStore, "is_remote", True)
    options: dict[str, Any] = {"columns": "id, c1", "readBuffer": "4k"}
    assert place.check(**options) == {USED: 1}
    with place.table.scan(**options) as batches:
        assert len(batches.read_next_batch())
    data = bytearray(place.store.get(place.path))
    data[len(data) // 2 : len(data) * 3 // 4] = bytes(len(data) * 3 // 4 - len(data) // 2)
    place.store.put(place.path, [bytes(data)])
    with caplog.at_level(logging.WARNING):
        assert place.scan(**options) == wanted
    assert len(caplog.records) == 1


def test_a_snapshot_reads_copies(place: Place) -> None:
    snapshot = place.table.snapshot()
    place.table.write(rows(range(9), add=1))
    place.fetched.clear()
    found = snapshot.scan(columns="c1").read_all()
    assert place.bytes_of(COLUMNS_DIR)
    assert found == snapshot.scan(columns="c1", useCopies=False).read_all()
    version = snapshot.version
    assert found == place.table.scan(columns="c1", versionAsOf=version).read_all()
    place.table.restoreToVersion(version)
    assert place.check(columns="c1") == {USED: 1}


def test_splits_take_their_copies_to_other_processes(place: Place) -> None:
    place.table.write(rows(range(3), add=9))
    options = ReadOptions.parse({"path": place.store.url, "columns": "id, c1", "splitSize": "64k"})
    plan = fetch_read_plan(TableStores(place.store, place.store), options, place.clock)
    splits, settings = pickle.loads(pickle.dumps((plan.splits, plan.settings)))
    assert all(split.copies for split in splits)
    stores = TableStores(MemoryStore(place.store.url.removeprefix("memory://")), place.store)
    found = pa.Table.from_batches(batch for split in splits for batch in scan_split(stores, split, settings))
    assert found.to_pylist() == place.scan(useCopies=False, columns="id, c1")
