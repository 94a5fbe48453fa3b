"""Columnar copies: what they hold, which files have none, who writes, checks, counts and deletes them."""

from __future__ import annotations

import io
import itertools
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slatespark import InvalidRequestError, OptionError, SlateStore
from slatespark.errors import CorruptDataError
from slatespark.format.columnar_copy import CopyBuilder
from slatespark.format.paths import COLUMNS_DIR, copy_path
from slatespark.format.ulid import Ulid, make_ulid
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.columns.missing import AddCopy
from slatespark.table.columns.read import fetch_copy
from slatespark.table.columns.write import CopyRule
from slatespark.table.compaction.copies import lowest_files
from slatespark.table.compaction.merge import merge_range
from slatespark.table.compaction.state import fetch_state
from tests.support.fake_clock import FakeClock

HOUR_MS: Final = 3_600_000
SCHEMA: Final = pa.schema(
    [
        ("tenant", pa.string()),
        ("id", pa.int64()),
        ("price", pa.float64()),
        ("tags", pa.list_(pa.struct([("name", pa.string()), ("weight", pa.float32())]))),
        ("more", pa.map_(pa.string(), pa.decimal128(12, 3))),
    ]
)
_names = itertools.count()


class Place:
    """A typed table in memory, whose objects have the times of its clock."""

    def __init__(self, schema: pa.Schema | None = SCHEMA, keys: str | None = "tenant, id", **properties: Any) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(f"columns-{next(_names)}/db", self.clock.now_ms)
        given = {"versionRetention": "none", "autoCompact": False, **properties}
        self.table = SlateStore.create(self.store.url, schema, keyColumns=keys, clock=self.clock, **given)

    def write(self, numbers: range, price: float = 1.0, **options: Any) -> None:
        rows = [
            {
                "tenant": "a" if number % 2 else "b",
                "id": number,
                "price": float("nan") if number % 7 == 0 else price + number,
                "tags": None if number % 5 == 0 else [{"name": f"t{number}", "weight": float("nan")}, None],
                "more": [("k", number)] if number % 3 else None,
            }
            for number in numbers
        ]
        self.table.write(pa.Table.from_pylist(rows, schema=SCHEMA), **options)
        self.clock.advance(HOUR_MS)

    def copies(self) -> set[str]:
        return {meta.path for meta in self.store.list(COLUMNS_DIR)}

    def parquet(self) -> pa.Table:
        """The copies of the newest version's files, as any reader of Parquet sees them."""
        paths = [f"{COLUMNS_DIR}{file.id}.parquet" for file in self.table.files()]
        return pa.concat_tables(pq.read_table(io.BytesIO(bytes(self.store.get(path)))) for path in paths)

    def damage(self, path: str, at: int) -> None:
        data = bytearray(self.store.get(path))
        data[at] ^= 0x40
        self.store.put(path, [bytes(data)])


def shown(table: pa.Table) -> str:
    """The rows as text: NaN equals itself there."""
    return repr(table.to_pylist())


# --- what they hold ---------------------------------------------------------------------------------------------------


def test_a_copy_holds_the_rows_of_its_file() -> None:
    place = Place(columnar=True)
    place.write(range(60))
    place.write(range(30, 90), 7.0)
    place.table.write(pa.table({"tenant": ["a"], "id": [1]}), operation="delete")
    assert place.copies() == set()
    report = place.table.compact(full=True, sstSize=4096)
    assert len(report.copies) == len(place.copies()) > 1
    assert {copy.refused for copy in report.copies} == {None}
    assert sum(copy.rows for copy in report.copies) == 89
    expected = place.table.scan(metadataColumns="create_ts").read_all()
    assert shown(place.parquet()) == shown(expected)
    assert place.parquet().schema.names == [*SCHEMA.names, "_create_ts"]


def test_times_of_expiry_and_sequence_numbers_are_stored_where_there_are_any() -> None:
    place = Place(columnar="seq")
    place.write(range(10), ttl="7d")
    place.write(range(10, 20))
    place.table.compact(full=True)
    expected = place.table.scan(metadataColumns="create_ts, expire_ts, seq").read_all()
    names = [*SCHEMA.names, "_create_ts", "_expire_ts", "_seq"]
    assert place.parquet().schema.names == names
    assert shown(place.parquet()) == shown(expected.select(names))


def test_a_raw_table_has_copies_of_keys_and_values() -> None:
    place = Place(None, None)
    place.table.write(pa.table({"key": [b"\xff", b"a"], "value": [b"", b"\0x"]}))
    assert [copy.refused for copy in place.table.compact(columnar=True).copies] == [None]
    assert place.parquet().select(["key", "value"]).to_pylist() == place.table.scan().read_all().to_pylist()


def test_row_groups_hold_many_rows_and_pages_have_indexes_and_no_blooms() -> None:
    schema = pa.schema([("id", pa.int64()), ("x", pa.int32())])
    place = Place(schema, "id", columnar=True)
    place.table.write(pa.table({"id": list(range(300_000)), "x": pa.array(range(300_000), pa.int32())}))
    place.table.compact(full=True)
    (path,) = place.copies()
    metadata = pq.read_metadata(io.BytesIO(bytes(place.store.get(path))))
    counts = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert sum(counts) == 300_000
    assert all(128 << 10 <= count < 256 << 10 for count in counts[:-1])
    column = metadata.row_group(0).column(1)
    assert column.compression == "ZSTD"
    assert column.has_column_index
    assert column.has_offset_index


# --- which files have one ---------------------------------------------------------------------------------------------


def test_copies_are_added_without_rewriting_files() -> None:
    place = Place()
    place.write(range(50))
    place.table.compact(full=True)
    before = [file.id for file in place.table.files()]
    plan = place.table.compact(columnar=True, dryRun=True)
    assert ([copy.sst for copy in plan.copies], place.copies()) == (before, set())
    report = place.table.compact(columnar=True)
    assert (len(report.jobs), [copy.sst for copy in report.copies]) == (0, before)
    assert [file.id for file in place.table.files()] == before
    assert place.table.compact(full=True, columnar=True).copies == ()


def test_a_damaged_copy_and_one_of_an_older_schema_are_written_anew() -> None:
    place = Place()
    place.write(range(50))
    place.table.compact(columnar=True)
    (path,) = place.copies()
    sound = bytes(place.store.get(path))
    flipped = bytes([sound[-20] ^ 1])
    for data in (sound[:-1], sound[: len(sound) // 2], b"", sound[:-20] + flipped + sound[-19:]):
        place.store.put(path, [data])
        assert len(place.table.compact(columnar=True).copies) == 1
        assert place.table.compact(columnar=True).copies == ()
    wider = pa.table({"tenant": ["a"], "id": [500], "price": [1.0], "note": ["new"]})
    place.table.write(wider, mergeSchema=True)
    place.table.compact(full=True)
    place.table.compact(columnar=True)
    assert "note" in place.parquet().schema.names
    assert place.parquet().num_rows == 51


def test_only_lowest_runs_get_copies() -> None:
    place = Place(columnar=True)
    for number in range(5):
        place.write(range(number * 10, number * 10 + 20))
    assert place.table.compact(l0Only=True).copies == ()
    report = place.table.compact(columnar=True)
    lowest = [file.id for file in place.table.files() if file.layer == place.table.runs()[-1].name]
    assert {copy.sst for copy in report.copies} >= set(lowest)
    assert place.copies() == {f"{COLUMNS_DIR}{copy.sst}.parquet" for copy in report.copies}


@pytest.mark.parametrize("kind", ["merge", "delete"])
def test_files_that_no_copy_can_show_have_none(kind: str) -> None:
    place = Place(None, None, mergeOperator="concat")
    place.table.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    only = pa.table({"key": [b"b"], "value": [b"2"]})
    place.table.write(only, operation=kind, mode="overwrite")
    report = place.table.compact(columnar=True)
    assert place.copies() == set()
    reasons = [copy.refused for copy in report.copies]
    assert all(reasons)
    assert len(reasons) == len(place.table.files())


def test_a_file_that_a_compaction_made_is_reported_once() -> None:
    place = Place(None, None, mergeOperator="concat")
    for value in (b"1", b"2"):
        place.table.write(pa.table({"key": [b"a"], "value": [value]}), operation="merge")
    [file] = place.table.compact(full=True, columnar=True).copies
    assert file.refused is not None
    assert [file.id for file in place.table.files()] == [file.sst]


def test_a_history_table_has_no_copies() -> None:
    with pytest.raises(OptionError):
        Place(columnar=True, history=True)
    place = Place(history=True)
    with pytest.raises(OptionError):
        place.table.setProperties(columnar="true")
    with pytest.raises(InvalidRequestError):
        place.table.compact(columnar=True)


def test_a_wrong_value_of_the_option_is_refused() -> None:
    place = Place()
    for value in ("yes", 3, None):
        with pytest.raises(OptionError):
            place.table.compact(columnar=value)  # type: ignore[arg-type]
    place.table.setProperties(columnar=True)
    place.write(range(3))
    assert len(place.table.compact(full=True).copies) == 1


# --- damage -----------------------------------------------------------------------------------------------------------


def test_any_changed_byte_is_noticed() -> None:
    place = Place(pa.schema([("id", pa.int64())]), "id")
    place.table.write(pa.table({"id": [1, 2, 3]}))
    place.table.compact(columnar=True)
    (path,) = place.copies()
    sst_id, sound = Ulid.parse(place.table.files()[0].id), bytes(place.store.get(path))
    assert fetch_copy(place.store, sst_id).footer.label.rows == 3
    for at in range(len(sound)):
        place.damage(path, at)
        with pytest.raises(CorruptDataError):
            fetch_copy(place.store, sst_id)
        place.store.put(path, [sound])


def test_verify_compares_a_copy_with_its_file() -> None:
    place = Place(columnar="seq")
    place.write(range(40))
    place.write(range(40, 50), ttl="1d")
    place.table.compact(full=True)
    assert place.table.verify().findings == ()
    (path,) = place.copies()
    sound = bytes(place.store.get(path))
    place.damage(path, len(sound) // 2)
    (finding,) = place.table.verify().findings
    assert path in repr(finding)
    other = Place(columnar="seq")
    other.write(range(40), 3.0)
    other.write(range(40, 50), ttl="1d")
    other.table.compact(full=True)
    place.store.put(path, [bytes(other.store.get(*other.copies()))])
    assert len(place.table.verify().findings) == 1, "it is sound, but of another file"
    place.store.delete(path)
    assert place.table.verify().findings == ()


def test_verify_finds_a_sound_copy_of_other_rows() -> None:
    place = Place(columnar=True)
    place.write(range(40))
    place.table.compact(full=True)
    (path,) = place.copies()
    copy = fetch_copy(place.store, Ulid.parse(place.table.files()[0].id))
    for number, value in ((0, "c"), (39, "zz")):
        rows = copy.read_group(0)
        names = rows["tenant"].to_pylist()
        names[number] = value
        builder = CopyBuilder(copy.footer.schema)
        builder.add(rows.set_column(0, rows.schema.field(0), pa.array(names)).to_batches())
        place.store.put(path, builder.finish(copy.footer.label))
        assert len(place.table.verify().findings) == 1


def test_verify_finds_a_row_group_that_starts_elsewhere() -> None:
    place = Place(columnar=True)
    place.write(range(40))
    place.table.compact(full=True)
    (path,) = place.copies()
    copy = fetch_copy(place.store, Ulid.parse(place.table.files()[0].id))
    assert copy.footer.label.starts is not None
    builder = CopyBuilder(copy.footer.schema)
    builder.add(copy.read_group(0).to_batches())
    label = replace(copy.footer.label, starts=(copy.footer.label.starts[0] + b"x",))
    place.store.put(path, builder.finish(label))
    assert len(place.table.verify().findings) == 1


# --- life and death ---------------------------------------------------------------------------------------------------


def test_a_copy_goes_with_its_file() -> None:
    place = Place(columnar=True)
    place.write(range(40))
    place.table.compact(full=True)
    first = place.copies()
    place.write(range(20))
    place.table.compact(full=True)
    assert len(place.copies()) == 2
    place.table.vacuum("1h")
    assert place.copies() > first, "a version of the last hour shows its file"
    place.clock.advance(30 * HOUR_MS)
    report = place.table.vacuum("1h")
    assert not first & place.copies()
    assert [file.path for file in report.collected if file.kind == "columns"] == sorted(first)
    assert len(place.copies()) == 1
    assert place.table.verify().findings == ()


def test_an_orphan_of_a_crash_goes_once_it_is_old() -> None:
    place = Place()
    place.write(range(3))
    orphan = copy_path(make_ulid(place.clock.now_ms(), 5))
    place.store.put(orphan, [b"cut"])
    place.store.put(f"{COLUMNS_DIR}notes.txt", [b"of a user"])
    place.table.vacuum("1h")
    assert orphan in place.copies()
    place.clock.advance(2 * HOUR_MS)
    place.table.vacuum("1h")
    assert place.copies() == {f"{COLUMNS_DIR}notes.txt"}


def test_a_failed_compaction_leaves_no_copy() -> None:
    place = Place(columnar=True)
    place.write(range(10))
    place.write(range(10, 20))

    def runner(tasks: Any) -> Any:
        for task in tasks:
            yield merge_range(place.table._stores, place.clock, task)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place.table.compact(full=True, runner=runner)
    assert place.copies() == set()


def test_a_copy_of_a_file_that_is_replaced_meanwhile_is_removed_again() -> None:
    place = Place()
    place.write(range(10))
    state = fetch_state(place.table._stores, place.clock, None)
    (file,) = lowest_files(state.trees)
    place.table.compact(full=True, force=True)
    outcome = AddCopy(place.table._stores, CopyRule(state.definition.codec()))(file)
    assert outcome.refused is not None
    assert place.copies() == set()
    place.clock.advance(100 * HOUR_MS)
    place.table.vacuum("1h")
    assert AddCopy(place.table._stores, CopyRule(state.definition.codec()))(file).refused is not None


def test_erased_rows_leave_the_copies_too() -> None:
    place = Place(columnar=True)
    place.write(range(40))
    place.table.compact(full=True)
    proof = place.table.proveAbsent("a", 7)
    assert sorted(location.kind for location in proof.found if location.rows) == ["columns", "sst", "sst"]
    report = place.table.erase("a", 7)
    assert place.copies() == set()
    assert {location.kind for location in report.found if location.is_current} == set()
    assert "columns" not in {location.kind for location in report.found}
    assert place.table.proveAbsent("b", 8).rows > 0


def test_an_orphaned_copy_is_found_by_the_proof() -> None:
    place = Place(columnar=True)
    place.write(range(40))
    place.table.compact(full=True)
    (path,) = place.copies()
    data = bytes(place.store.get(path))
    place.table.erase("a", 7)
    place.store.put(path, [data])  # as by a process that was suspended
    (location,) = (found for found in place.table.proveAbsent("a", 7).found if found.kind == "columns")
    assert (location.kind, location.rows, location.is_kept) == ("columns", {"put": 1}, False)
    assert not any(found.kind == "columns" for found in place.table.proveAbsent("a", 1007).found)
    place.damage(path, 30)
    report = place.table.proveAbsent("a", 7)
    assert not report.gone
    assert [url.rpartition("/")[2] for url in report.unread] == [path.rpartition("/")[2]]
    place.clock.advance(30 * HOUR_MS)
    place.table.vacuum("1h")
    assert place.table.proveAbsent("a", 7).gone


@pytest.mark.parametrize(
    ("narrow", "wide", "keys", "wider_key"),
    [
        (pa.int32(), pa.int64(), [1, 2, 300], 5_000_000_000),
        (pa.decimal128(5, 2), pa.decimal128(12, 2), [Decimal("-1.50"), Decimal("2.25")], Decimal("1234567.89")),
        (pa.struct([("n", pa.int16())]), pa.struct([("n", pa.int64())]), [{"n": 1}, {"n": 2}], {"n": 5_000_000_000}),
    ],
    ids=["integers", "decimals", "structs"],
)
def test_the_proof_searches_copies_from_before_a_key_column_was_widened(
    narrow: pa.DataType, wide: pa.DataType, keys: list[Any], wider_key: Any
) -> None:
    table = Place(pa.schema([("k", narrow), ("v", pa.int32())]), "k", columnar=True).table
    table.write(pa.table({"k": pa.array(keys, narrow), "v": pa.array(range(len(keys)), pa.int32())}))
    table.compact(full=True)
    table.write(pa.table({"k": pa.array([wider_key], wide), "v": pa.array([9], pa.int32())}), mergeSchema=True)
    absent = {"n": 77} if pa.types.is_struct(wide) else 77
    assert table.proveAbsent(absent).gone
    for key in keys:
        proof = table.proveAbsent(key)
        assert {place.kind: place.rows for place in proof.found if place.rows}["columns"] == {"put": 1}
        assert proof.unread == ()


def test_the_proof_reports_a_copy_with_keys_of_another_type() -> None:
    place, other = (Place(pa.schema([("k", kind)]), "k", columnar=True) for kind in (pa.int64(), pa.string()))
    for each, key in ((place, 1), (other, "1")):
        each.table.write(pa.table({"k": [key]}))
        each.table.compact(full=True)
    [path], [foreign] = place.copies(), other.copies()
    place.store.put(path, [bytes(other.store.get(foreign))])
    report = place.table.proveAbsent(77)
    assert (report.gone, [url.rpartition("/")[2] for url in report.unread]) == (False, [path.rpartition("/")[2]])


# --- who knows of them ------------------------------------------------------------------------------------------------


def test_facts_count_them(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    table = SlateStore.create(place, pa.schema([("id", pa.int64())]), keyColumns="id", columnar=True)
    table.write(pa.table({"id": list(range(10))}))
    table.write(pa.table({"id": list(range(10))}))
    assert table.detail().copies == 0
    table.compact(full=True)
    (file,) = table.files()
    size = (tmp_path / "t" / COLUMNS_DIR / f"{file.id}.parquet").stat().st_size
    assert file.copy_bytes == size
    facts = table.detail()
    assert (facts.copies, facts.copy_bytes) == (1, size)
    dumped = table.dump(copy_path(Ulid.parse(file.id)))
    assert (dumped.kind, dumped.size, dumped.content["rows"]) == ("columns", size, 10)
    json.dumps(dumped.content["columns"])


def test_a_deep_copy_has_them_and_a_clone_does_without(tmp_path: Path) -> None:
    table = SlateStore.create(str(tmp_path / "t"), pa.schema([("id", pa.int64())]), keyColumns="id", columnar=True)
    table.write(pa.table({"id": list(range(10))}))
    table.compact(full=True)
    (file,) = table.files()
    path = copy_path(Ulid.parse(file.id))
    table.copyTo(str(tmp_path / "copy"))
    assert (tmp_path / "copy" / path).read_bytes() == (tmp_path / "t" / path).read_bytes()
    assert SlateStore.open(str(tmp_path / "copy")).verify().findings == ()
    table.clone(str(tmp_path / "clone"))
    clone = SlateStore.open(str(tmp_path / "clone"))
    assert clone.verify().findings == ()
    for is_dry in (True, False):
        [outcome] = clone.compact(columnar=True, dryRun=is_dry).copies
        assert (outcome.sst, outcome.rows) == (clone.files()[0].id, 0)
        assert outcome.refused == "it is of another database: compact the clone in full"
    assert clone.explain(useCopies=True).copies == {"from SSTs: the file is of another database": 1}
    assert clone.explain(useCopies=True, includeDeleted=True).copies == {"from SSTs: the read shows deletions": 1}
    assert clone.explain(useCopies=False).copies == {}
    clone.write(pa.table({"id": [3]}))
    assert [copy.rows for copy in clone.compact(full=True).copies] == [10]
    SlateStore.drop(str(tmp_path / "clone"))
    assert not SlateStore.drop(str(tmp_path / "t"), force=True).kept
    assert not (tmp_path / "t" / "slatespark").exists()


def test_the_label_names_columns_that_rows_hold_besides() -> None:
    place = Place(columnar=True)
    place.write(range(5))
    place.table.dropColumns("price")
    place.table.compact(full=True)
    [file] = place.table.files()
    assert fetch_copy(place.store, Ulid.parse(file.id)).footer.label.hidden == ("price",)
    plain = Place(columnar=True, valueFormat="json")
    plain.write(range(5))
    plain.table.compact(full=True)
    [file] = plain.table.files()
    assert fetch_copy(plain.store, Ulid.parse(file.id)).footer.label.hidden is None


def test_columns_too_deep_for_parquet_have_no_copy() -> None:
    """Arrow writes such a file, and does not read it."""
    levels: pa.DataType = pa.int32()
    for _ in range(99):
        levels = pa.struct([("inner", levels)])
    for schema, is_refused in ((pa.schema([("id", pa.int64()), ("v", levels)]), True), (levels.field(0).type, False)):
        given = schema if is_refused else pa.schema([("id", pa.int64()), ("v", schema)])
        store = SlateStore.create(f"memory://copies-{next(_deep)}", given, "id", columnar=True)
        store.write(pa.table({"id": [1], "v": pa.nulls(1, given.field("v").type)}, given))
        copies = store.compact(full=True, force=True).copies
        assert [copy.refused is not None for copy in copies[:1]] == [is_refused]
        assert not store.verify().findings


_deep = itertools.count()
