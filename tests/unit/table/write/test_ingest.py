"""External SSTs: files of `SstWriter`, and their rows in the table that ingests them."""

from __future__ import annotations

from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slatespark import (
    CommitConflictError,
    CorruptDataError,
    InvalidRequestError,
    OptionError,
    SchemaError,
    SlateStore,
    SstWriter,
    UnsupportedFormatError,
)
from slatespark.format.codecs import Compression
from slatespark.format.external_sst import decode_external_sst, label_sst
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.format.sst import SstBuilder
from slatespark.options.values import MAX_TTL_MS
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.rows.external_label import ExternalLabel
from slatespark.units import MIN_MS
from tests.support.fake_clock import FakeClock
from tests.support.our_reads import our_rows, to_ms
from tests.support.timed_rows import SCHEMA, TIMED, Timed, VersionModel, stored_versions, timed_table

NOW_MS = 1_700_000_000_000
MADE_MS = NOW_MS - 5000  # by another clock, elsewhere

COLUMNS = TableDefinition("tuple", ("id",), "avro").with_schema(pa.schema([("id", pa.int64()), ("n", pa.int64())]))

_numbers = count()


def new_store(schema: pa.Schema | str | None = SCHEMA, **properties: Any) -> SlateStore:
    keys = None if schema is None else "id"
    clock = FakeClock(NOW_MS)
    return SlateStore.create(f"memory://ingest-{next(_numbers)}", schema, keys, **{"clock": clock, **properties})


def write_file(path: Path, rows: pa.Table, schema: pa.Schema | str | None = None, **options: Any) -> str:
    keys = "id" if "id" in rows.column_names else None
    writer = SstWriter(str(path), schema, keys, clock=FakeClock(MADE_MS))
    assert writer.write(rows, **options) <= rows.num_rows
    return str(path)


def pairs(*keys: bytes, value: bytes = b"v", **more: Any) -> pa.Table:
    return pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array([value] * len(keys), pa.binary()), **more})


# --- plain tables ---------------------------------------------------------------------------------------------------


def test_a_schema_as_text(tmp_path: Path) -> None:
    store = new_store("id BIGINT, name STRING NOT NULL")
    path = write_file(tmp_path / "one.sst", pa.table({"id": [1], "name": ["a"]}), "id BIGINT, name STRING NOT NULL")
    store.ingest(path)
    assert store.get(1) == {"id": 1, "name": "a"}


def test_rows_become_the_newest_ones_as_if_they_were_written_now(tmp_path: Path) -> None:
    store = new_store(None)
    store.write(pairs(b"a", b"b", b"c", value=b"old"))
    path = write_file(tmp_path / "one.sst", pairs(b"c", b"a", b"c", value=b"new"), ttl="1h")
    gone = write_file(tmp_path / "two.sst", pairs(b"b"), operation="delete")
    version = store.ingest([path, gone])
    assert [(row.key, row.value, row.seq, row.create_ts, row.expire_ts) for row in our_rows(store)] == [
        (key, b"new", 2, NOW_MS, NOW_MS + 3_600_000) for key in (b"a", b"c")
    ]
    [made] = [item for item in store.history() if item.version == version]
    assert (made.operation, made.rows) == ("ingest", {"delete": 1, "merge": 0, "put": 2})
    assert not store.verify().has_damage
    assert store.ingest(path) > version  # as often as one likes
    assert store.scan().read_all().num_rows == 2


def test_fixed_expiries_stay_and_a_timestamp_applies(tmp_path: Path) -> None:
    store = new_store(None)
    rows = pairs(b"a", b"b", gone=pa.array([NOW_MS + 5, None], pa.timestamp("ms")))
    store.ingest([write_file(tmp_path / "a.sst", rows, expireAtColumn="gone")])
    assert [(row.create_ts, row.expire_ts) for row in our_rows(store)] == [(NOW_MS, NOW_MS + 5), (NOW_MS, None)]
    path = write_file(tmp_path / "b.sst", pairs(b"a", b"b", ttl=[MAX_TTL_MS, 9]), ttlColumn="ttl")
    store.ingest(path, timestamp=NOW_MS + 10)
    assert [(row.create_ts, row.expire_ts) for row in our_rows(store)] == [
        (NOW_MS + 10, NOW_MS + 10 + MAX_TTL_MS),
        (NOW_MS + 10, NOW_MS + 19),
    ]


def test_a_ttl_from_the_write_counts_from_the_clock(tmp_path: Path) -> None:
    store = new_store(None)
    path = write_file(tmp_path / "a.sst", pairs(b"a"), ttl="1h", ttlFrom="write")
    store.ingest([path], timestamp=NOW_MS - 86_400_000)
    assert [(row.create_ts, row.expire_ts) for row in our_rows(store)] == [(NOW_MS - 86_400_000, NOW_MS + 3_600_000)]


@pytest.mark.parametrize("properties", [{"history": True}, {"clock": "custom"}])
def test_a_time_farther_from_that_of_the_file_than_64_bits_hold(properties: dict[str, Any], tmp_path: Path) -> None:
    store = new_store(None, **properties)
    path = write_file(tmp_path / "a.sst", pairs(b"a"), ttl="1h")
    store.ingest([path], timestamp=MIN_MS)
    (file,) = store.files()
    (row,) = store.dump(file.id, rows=2).content["rows"]  # reads show no time that far back
    assert (row["create_ts_ms"], row["expire_ts_ms"]) == (MIN_MS, MIN_MS + 3_600_000)


def test_a_file_does_not_mix_instants_and_ttls(tmp_path: Path) -> None:
    rows = pairs(b"a", b"b", gone=pa.array([NOW_MS + 5, None], pa.timestamp("ms")))
    with pytest.raises(OptionError):
        write_file(tmp_path / "a.sst", rows, expireAtColumn="gone", ttl="1h")
    store = new_store(None, history=True)
    store.ingest([write_file(tmp_path / "b.sst", rows, expireAtColumn="gone", ttl="1h", timestamp=NOW_MS - 9)])
    assert [row.expire_ts for row in our_rows(store)] == [NOW_MS + 5, NOW_MS - 9 + 3_600_000]


def test_operands_and_kinds_by_row(tmp_path: Path) -> None:
    store = new_store(None)
    store.write(pairs(b"a", b"b", value=b"1"))
    path = write_file(
        tmp_path / "a.sst",
        pairs(b"a", b"b", b"a", value=b"2", op=["merge", "delete", "merge"]),
        opColumn="op",
        mergeOperator="concat",
    )
    store.ingest(path)
    assert [(row.key, row.value) for row in our_rows(store)] == [(b"a", b"122")]


def test_a_large_file_is_cut_and_one_beyond_the_buffer_is_sorted_on_disk(tmp_path: Path) -> None:
    keys = [b"%05d" % (number * 7919 % 20_000) for number in range(20_000)]
    path = write_file(tmp_path / "a.sst", pairs(*keys), writeBuffer="64k", compression="zstd")
    store = new_store(None)
    store.ingest(path, sstSize="100k", writeBuffer="64k")
    assert store.scan().read_all()["key"].to_pylist() == sorted(keys)
    assert len(store.files()) > 3


def test_files_of_a_plain_table_may_not_share_keys(tmp_path: Path) -> None:
    store = new_store(None)
    one = write_file(tmp_path / "one.sst", pairs(b"a", b"c", b"e"))
    two = write_file(tmp_path / "two.sst", pairs(b"b", b"d"))
    three = write_file(tmp_path / "three.sst", pairs(b"d"))
    store.ingest([one, two])  # they overlap, which is no harm
    version = store.detail().version
    with pytest.raises(InvalidRequestError, match="key 64"):
        store.ingest([one, two, three])
    with pytest.raises(InvalidRequestError, match="path"):
        store.ingest([one, one])
    with pytest.raises(InvalidRequestError, match="path"):
        store.ingest([])
    assert store.detail().version == version


# --- history tables -------------------------------------------------------------------------------------------------


def test_versions_of_several_files_are_merged_by_time(tmp_path: Path) -> None:
    store, model = new_store(history=True), VersionModel()
    files = [
        [Timed(1, 30, "a"), Timed(1, 10, "b", ttl=7), Timed(2, 5, None)],
        [Timed(1, 20, "c"), Timed(2, 6, "d"), Timed(1, 30, "of the later file")],
        [Timed(3, 1, "e")],
    ]
    paths = [write_file(tmp_path / f"{n}.sst", timed_table(rows), SCHEMA, **TIMED) for n, rows in enumerate(files)]
    assert model.write(row for rows in files for row in rows)
    store.ingest(paths)
    assert stored_versions(store) == model.stored()
    with pytest.raises(CommitConflictError, match="id=1"):
        store.ingest(paths[:1])
    assert stored_versions(store) == model.stored()
    store.ingest(paths[2])  # as young as what is stored
    assert len(stored_versions(store)) == len(model.stored()) + 1


def test_rows_without_times_get_the_time_of_the_table(tmp_path: Path) -> None:
    store = new_store(history=True)
    rows = pa.table({"id": [1, 2], "name": ["a", "b"], "at": [0, 0]})
    paths = [write_file(tmp_path / f"{n}.sst", rows, SCHEMA, ttl=5) for n in range(2)]
    store.ingest(paths)
    versions = store.scan(readVersions="all").read_all().to_pylist()
    assert [(row["id"], to_ms(row["_create_ts"]), to_ms(row["_expire_ts"])) for row in versions] == [
        (1, NOW_MS, NOW_MS + 5),
        (2, NOW_MS, NOW_MS + 5),
    ]


def test_row_timestamps_need_a_history_table(tmp_path: Path) -> None:
    ways: list[dict[str, Any]] = [{**TIMED}, {"timestamp": 5, "opColumn": "op", "ttlColumn": "ttl"}]
    for number, options in enumerate(ways):
        path = write_file(tmp_path / f"{number}.sst", timed_table([Timed(1, 5, "a")]), SCHEMA, **options)
        with pytest.raises(InvalidRequestError, match=path):
            new_store().ingest(path)
        store = new_store(history=True)
        with pytest.raises(OptionError, match="timestamp"):
            store.ingest(path, timestamp=7)
        store.ingest(path)
        assert stored_versions(store) == [(1, 5, "a", None)]


# --- refused files ---------------------------------------------------------------------------------------------------


def test_a_file_for_another_table_is_refused(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "name": ["a"], "at": [5]})
    path = write_file(tmp_path / "a.sst", rows)
    store = new_store()
    store.ingest(path)
    with pytest.raises(SchemaError, match="tuple"):
        new_store(None).ingest(path)
    wider = new_store(SCHEMA.append(pa.field("more", pa.string())))
    with pytest.raises(SchemaError, match="more"):
        wider.ingest(path)
    wider.ingest(path, mergeSchema=True)
    assert wider.get(1) == {"id": 1, "name": "a", "at": 5, "more": None}
    narrow = new_store(SCHEMA.remove(2))
    with pytest.raises(SchemaError, match="mergeSchema=true"):
        narrow.ingest(path)
    narrow.ingest(path, mergeSchema=True)
    assert narrow.get(1) == {"id": 1, "name": "a", "at": 5}
    strict = new_store(pa.schema([SCHEMA.field(0), pa.field("name", pa.string(), nullable=False), SCHEMA.field(2)]))
    with pytest.raises(SchemaError, match="null"):
        strict.ingest(path)
    strict.ingest(write_file(tmp_path / "strict.sst", rows, strict.definition.schema))
    assert strict.get(1) == {"id": 1, "name": "a", "at": 5}


def test_other_files_are_refused(tmp_path: Path) -> None:
    store = new_store(None)
    store.write(pairs(b"a"))
    with pytest.raises(InvalidRequestError, match=r"gone\.sst"):
        store.ingest(str(tmp_path / "gone.sst"))
    (tmp_path / "text.sst").write_bytes(b"no SST at all, by any means")
    with pytest.raises(UnsupportedFormatError, match=r"text\.sst"):
        store.ingest(str(tmp_path / "text.sst"))
    table = tmp_path / "table"
    SlateStore.create(str(table)).write(pairs(b"a"))
    [found] = (table / "compacted").iterdir()
    with pytest.raises(InvalidRequestError, match="external"):
        store.ingest(str(found))


@pytest.mark.parametrize("at", [5, 5000, -600, -30, -5])
def test_a_damaged_file_changes_nothing(at: int, tmp_path: Path) -> None:
    path = tmp_path / "a.sst"
    write_file(path, pairs(*(b"%04d" % number for number in range(500))))
    data = bytearray(path.read_bytes())
    data[at] ^= 0x40
    path.write_bytes(data)
    store = new_store(None)
    version = store.detail().version
    with pytest.raises((CorruptDataError, InvalidRequestError), match=r"a\.sst"):
        store.ingest(str(path))
    assert store.detail().version == version


@pytest.mark.parametrize(
    ("definition", "row", "message"),
    [
        (TableDefinition(), Row(b"", 1, RowKind.PUT, b"v", create_ts_ms=1), "empty"),
        (TableDefinition(), Row(b"k", 1, RowKind.PUT, b"v"), "create_ts"),
        (COLUMNS, Row(b"\x15\x01", 1, RowKind.MERGE, b"v", create_ts_ms=1), "operand"),
    ],
)
def test_rows_that_no_writer_makes_change_nothing(
    definition: TableDefinition, row: Row, message: str, tmp_path: Path
) -> None:
    builder = SstBuilder(block_size=4096, compression=Compression.NONE, bloom_bits_per_key=0, created_ms=0)
    builder.add([rows_to_columns([row])], np.zeros(1, np.int64))
    label = ExternalLabel(definition, stamp_ms=1, has_instants=False)
    data = b"".join(map(bytes, builder.finish().parts))
    (tmp_path / "a.sst").write_bytes(label_sst(data, label.to_json()))
    store = new_store(definition.schema)
    version = store.detail().version
    with pytest.raises(CorruptDataError, match=rf"a\.sst.*{message}"):
        store.ingest(str(tmp_path / "a.sst"))
    assert store.detail().version == version


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ttl": "1h"}, "ttl"),
        ({"timestampColumn": "at"}, "timestampColumn"),
        ({"sstSizes": 5}, "sstSizes"),
        ({"sst_size": "1m"}, None),
    ],
    ids=str,
)
def test_options_of_an_ingest(options: dict[str, Any], message: str | None, tmp_path: Path) -> None:
    path, store = write_file(tmp_path / "a.sst", pairs(b"a")), new_store(None)
    if message is None:
        store.ingest(path, **options)
        return
    with pytest.raises(OptionError, match=message):
        store.ingest(path, **options)


def test_invalid_rows_are_refused_by_the_writer(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.sst", pairs(b"a"))
    before = Path(path).read_bytes()
    with pytest.raises(InvalidRequestError, match=r"a\.sst"):
        SstWriter(path).write(pairs(b"b"))
    assert Path(path).read_bytes() == before
    with pytest.raises(OptionError, match="ifClientActive"):
        SstWriter(str(tmp_path / "b.sst")).write(pairs(b"b"), ifClientActive="fence")
    with pytest.raises(InvalidRequestError, match="rows"):
        SstWriter(str(tmp_path / "b.sst")).write(pairs())
    with pytest.raises(SchemaError, match="missing"):
        SstWriter(str(tmp_path / "b.sst"), keyColumns="id").write(pairs(b"b"))
    with pytest.raises(OptionError, match="file"):
        SstWriter(f"{tmp_path}/").write(pairs(b"b"))
    assert not (tmp_path / "b.sst").exists()


def test_a_file_has_a_label(tmp_path: Path) -> None:
    path = Path(write_file(tmp_path / "a.sst", timed_table([Timed(1, 5, "a"), Timed(1, 6, "b")]), SCHEMA, **TIMED))
    end = decode_external_sst(path.read_bytes())
    assert end is not None
    assert (end.properties.puts, end.properties.min_create_ts, end.properties.max_create_ts) == (2, 5, 6)
    assert (end.label["stampMs"], end.label["instants"]) == (None, False)


D2, D4 = pa.decimal128(12, 2), pa.decimal128(10, 4)
STRICT, LOOSE = pa.struct([pa.field("p", pa.int64(), nullable=False)]), pa.struct([pa.field("p", pa.int64())])


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize(
    ("table_type", "file_type", "value"),
    [
        (D2, D4, "3.1234"),
        (D2, pa.int64(), 5),
        (pa.float32(), pa.int64(), 2**53 + 1),
        (STRICT, LOOSE, {"p": None}),
        (pa.list_(pa.field("element", pa.int64(), nullable=False)), pa.list_(pa.int64()), [None]),
        (pa.struct([pa.field("p", pa.int64())]), pa.struct([pa.field("P", pa.int64())]), {"P": 4}),
    ],
    ids=["scale", "integer for decimal", "integer for float", "null in a struct", "null in a list", "case of a field"],
)
def test_values_that_the_table_would_read_as_others(
    table_type: pa.DataType, file_type: pa.DataType, value: Any, merge: bool, tmp_path: Path
) -> None:
    """An ingest takes rows as they are stored; a write would cast them."""
    store = new_store(pa.schema([("id", pa.int64()), ("x", table_type)]))
    given = pa.array([Decimal(value) if isinstance(value, str) else value], file_type)
    file = str(tmp_path / "a.sst")
    SstWriter(file, pa.schema([("id", pa.int64()), ("x", file_type)]), "id").write(pa.table({"id": [1], "x": given}))
    with pytest.raises(SchemaError):
        store.ingest(file, mergeSchema=merge)
    assert store.scan().read_all().num_rows == 0


def test_floats_in_json_that_the_table_would_read_as_others(tmp_path: Path) -> None:
    store = new_store("id BIGINT, f DOUBLE", valueFormat="json")
    file = str(tmp_path / "a.sst")
    rows = pa.table({"id": [1], "f": pa.array([0.1], pa.float32())})
    SstWriter(file, "id BIGINT, f FLOAT", "id", valueFormat="json").write(rows)
    with pytest.raises(SchemaError, match="column f"):
        store.ingest(file, mergeSchema=True)


def test_keys_that_the_table_would_read_as_others(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"), pa.schema([("x", D2)]), "x")
    for number, kind in enumerate([D4, pa.int32()]):
        file = str(tmp_path / f"{number}.sst")
        SstWriter(file, pa.schema([("x", kind)]), "x").write(pa.table({"x": pa.array([Decimal(7)], D4).cast(kind)}))
        with pytest.raises(SchemaError):
            store.ingest(file)


def test_columns_that_a_file_lacks(tmp_path: Path) -> None:
    key = pa.field("id", pa.int64(), nullable=False)
    store = new_store(pa.schema([key, pa.field("x", pa.int64(), nullable=False)]))
    store.write(pa.table({"id": [1, 2], "x": [1, 2]}))
    puts, deletions = str(tmp_path / "puts.sst"), str(tmp_path / "deletions.sst")
    SstWriter(puts, pa.schema([key]), "id").write(pa.table({"id": [1]}))
    with pytest.raises(SchemaError):
        store.ingest(puts, mergeSchema=True)
    SstWriter(deletions, pa.schema([key]), "id").write(pa.table({"id": [1]}), operation="delete")
    store.ingest(deletions, mergeSchema=True)
    assert store.scan().read_all().to_pylist() == [{"id": 2, "x": 2}]
