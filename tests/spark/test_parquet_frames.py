"""`SlateTable.toDF` of tables with columnar copies: Spark's own reader of Parquet takes files, our tasks the rest."""

from __future__ import annotations

import contextlib
import io
import math
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from slatespark import SlateStore, SlateTable
from slatespark.format.columnar_copy import decode_end, end_range
from slatespark.format.paths import COLUMNS_DIR
from slatespark.spark.frames import parquet as parquet_frame
from slatespark.table.clock import SystemClock
from slatespark.table.columns import write as copy_writing
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.read import parquet_share
from tests.support.client import Client, Location
from tests.support.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

HOUR_MS = 3_600_000
SCHEMA = pa.schema(
    [
        ("t", pa.string()),
        ("id", pa.int64()),
        ("name", pa.string()),
        ("f", pa.float64()),
        ("n", pa.int32()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(9, 2)),
        ("parts", pa.struct([("a", pa.list_(pa.float32())), ("b", pa.map_(pa.string(), pa.int8()))])),
    ]
)
START = datetime(2020, 1, 1, tzinfo=UTC)


def rows(ids: range, factor: int = 1) -> pa.Table:
    return pa.Table.from_pylist([row(number, factor) for number in ids], SCHEMA)


def row(number: int, factor: int) -> dict[str, Any]:
    return {
        "t": "ab"[number % 2],
        "id": number,
        "name": None if number % 7 == 0 else f"n{number * factor}",
        "f": math.nan if number == 5 else number / 4,
        "n": number * factor,
        "at": START + timedelta(microseconds=number * 1_000_003),
        "price": Decimal(number * factor) / 100,
        "parts": {"a": [number / 2, None], "b": [(str(factor), number % 100)]},
    }


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_writing, "GROUP_ROWS", 1)
    monkeypatch.setattr(copy_writing, "WINDOW_BYTES", 1)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "day=1" / "a table")  # not a partition column


def compacted(place: str, schema: pa.Schema = SCHEMA, key_columns: str = "t, id", **properties: Any) -> SlateStore:
    return SlateStore.create(place, schema, key_columns, columnar=True, autoCompact=False, **properties)


def filled(place: str) -> SlateStore:
    """A table of several files, in which half of the rows of one end after an hour."""
    store = compacted(place)
    store.write(rows(range(400)))
    store.write(rows(range(100, 120)), ttl="1h")
    store.compact(full=True, blockSize="1k", sstSize="8k")
    return store


def shown(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))


def parquet_files(frame: DataFrame) -> set[str]:
    return {Path(path).stem for path in frame.inputFiles()}


def assert_same(table: SlateTable, *, files: int | None = None, **options: Any) -> None:
    """Compare with the rows of SSTs; `files` are read as Parquet, None for all of the newest version."""
    frame, plain = table.toDF(**options), table.toDF(**options, useCopies=False)
    assert frame.schema == plain.schema
    assert shown(frame) == shown(plain)
    assert len(parquet_files(frame)) == (len(table._store.files()) if files is None else files)


def test_a_compacted_table_is_read_as_parquet(spark: SparkSession, place: str) -> None:
    store, table = filled(place), SlateTable.forPath(spark, place)
    assert len(store.files()) > 3
    assert_same(table)
    assert_same(table, columns=["n", "f"])
    assert parquet_files(table.toDF()) == {str(file.id) for file in store.files()}
    assert table.explain().as_parquet == {"as Parquet": len(store.files())}
    assert "as Parquet" in str(table.explain())
    aliased = table.alias("x").toDF(where="n > 390").selectExpr("x.n", "x.parts.a[0] AS half")
    assert [(found.n, found.half) for found in aliased.orderBy("n").collect()] == [(n, n / 2) for n in range(391, 400)]


@pytest.mark.parametrize(
    "condition",
    [
        "f > 99.5",
        "f = 2.5",
        "f < 1",
        "t = 'a' AND id > 380",
        "name = 'n78'",
        "name IS NULL AND n < 20",
        "price >= 3.99",
    ],
)
def test_filters(spark: SparkSession, place: str, condition: str) -> None:
    """By text and by Spark; NaN is larger than any number, and Parquet's statistics leave it out."""
    filled(place)
    table = SlateTable.forPath(spark, place)
    expected = shown(table.toDF(where=condition, useCopies=False))
    assert 0 < len(expected) < 100
    assert shown(table.toDF(where=condition)) == expected
    assert shown(table.toDF().where(condition)) == expected
    assert parquet_files(table.toDF(where=condition))


def test_newer_rows_lie_over_the_copies(spark: SparkSession, place: str) -> None:
    store, table = filled(place), SlateTable.forPath(spark, place)
    files = len(store.files())
    store.write(rows(range(50, 54), 3))
    store.write(rows(range(200, 202)).select(["t", "id"]), operation="delete")
    store.write(rows(range(300, 302), 5), ttl="2h")
    store.write(rows(range(1000, 1002)))
    now_ms = SystemClock().now_ms()
    for hours in (0, 1, 3):
        assert_same(table, files=files, now=now_ms + hours * HOUR_MS + 60_000)
    assert len(table.toDF(now=now_ms + 3 * HOUR_MS).collect()) == 400 - 20 - 2 - 2 + 2
    assert_same(table, files=files, now=now_ms + 3 * HOUR_MS, includeExpired=True)
    for condition in ("n >= 150 AND n < 160", "f > 99", "t = 'b' AND id < 60"):
        assert shown(table.toDF(where=condition)) == shown(table.toDF(where=condition, useCopies=False))
    counts = table.explain().as_parquet
    assert counts["as Parquet, but for the keys of newer rows"] > 0
    assert sum(counts.values()) == files


@pytest.mark.parametrize(
    ("tenants", "many_rows", "left_key"),
    [(4, 160, r"CASE WHEN .* THEN id#\d+L END"), (4, 161, r"id#\d+L"), (5, 160, r"xxhash64\(.*")],
)
def test_newer_rows_hide_those_of_equal_keys_alone(
    spark: SparkSession, place: str, monkeypatch: pytest.MonkeyPatch, tenants: int, many_rows: int, left_key: str
) -> None:
    """Rows are joined by the number as long as few of the newer ones share it, and else by a hash of all columns."""
    monkeypatch.setattr(parquet_frame, "_MANY_ROWS", many_rows)
    schema = pa.schema([("t", pa.string()), ("id", pa.int64()), ("v", pa.int64())])
    store, table = compacted(place, schema), SlateTable.forPath(spark, place)
    keys = [(tenant, number) for tenant in "abcdefgh" for number in range(20)]
    store.write(pa.table({"t": [t for t, _ in keys], "id": [n for _, n in keys], "v": range(len(keys))}, schema))
    store.compact(full=True)
    newer = "bcdefg"[:tenants]
    store.write(pa.table({"t": list(newer) * 2, "id": [7] * tenants + [9] * tenants, "v": range(2 * tenants)}, schema))
    assert_same(table, files=1)
    plan = explained(table.toDF())
    assert re.search(rf"Left keys \[1\]: \[{left_key}\]", plan)
    assert re.search(r"Join condition: .*t#\d+ >= .*t#\d+ <= ", plan), "keys with one number or hash are told apart"


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()])
@pytest.mark.parametrize("max_bits", [0, parquet_frame._MAX_BITS])
def test_keys_of_one_number(
    spark: SparkSession, place: str, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, max_bits: int
) -> None:
    """Negative ones, both ends, neighbours, and numbers of the same last digits; with bits of them, and without."""
    monkeypatch.setattr(parquet_frame, "_MANY_ROWS", 1)
    monkeypatch.setattr(parquet_frame, "_MAX_BITS", max_bits)
    schema = pa.schema([("id", kind), ("v", pa.int64())])
    store, table = compacted(place, schema, "id"), SlateTable.forPath(spark, place)
    end = 1 << (kind.bit_width - 1)
    old = sorted({-end, 1 - end, *range(-70, 70), end // 2, end // 2 - 64, end // 2 + 1, end - 2, end - 1})
    store.write(pa.table({"id": old, "v": [0] * len(old)}, schema))
    store.compact(full=True)
    newer = [-end, -65, -64, -1, 0, 63, 64, end // 2, end - 1]
    store.write(pa.table({"id": newer[::2], "v": [1] * len(newer[::2])}, schema))
    store.write(pa.table({"id": pa.array(newer[1::2], kind)}), operation="delete")
    assert_same(table, files=1)
    shown_ids = {found.id: found.v for found in table.toDF().collect()}
    assert shown_ids == {number: int(number in newer) for number in old if number not in newer[1::2]}


@pytest.mark.parametrize(("limit", "bound"), [("_FEW_BYTES", 10), ("_FEW_ROWS_BYTES", 10), ("_FEW_BYTES", 1 << 20)])
def test_few_newer_rows_need_no_task_in_python(
    spark: SparkSession, place: str, monkeypatch: pytest.MonkeyPatch, limit: str, bound: int
) -> None:
    store, table = filled(place), SlateTable.forPath(spark, place)
    files = len(store.files())
    store.write(rows(range(50, 60), 3))
    store.write(rows(range(1000, 1002)))
    monkeypatch.setattr(parquet_frame, limit, bound)
    assert_same(table, files=files)
    assert_same(table, files=files, where="n > 390")
    assert ("MapInArrow" in explained(table.toDF())) == (bound == 10)


def test_rows_of_the_wal_lie_over_the_copies(spark: SparkSession, place: str) -> None:
    store, table = filled(place), SlateTable.forPath(spark, place)
    files, codec = len(store.files()), resolve_definition(store._stores).codec()
    data, _ = codec.encode_values(rows(range(50, 51), 9))
    with Client.open(Location.local(place)) as client:
        client.put(codec.encode_key(["a", 50]), data.tobytes())
        client.flush_wal()
        assert_same(table, files=files)
        assert [found.n for found in table.toDF(where="n = 450").collect()] == [450]


def explained(frame: DataFrame) -> str:
    """The physical plan of Spark."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        frame.explain("formatted")
    return text.getvalue()


@pytest.mark.parametrize("limit", ["SHADOW_BYTES", "LEAST_SHADOW_BYTES"])
def test_many_newer_rows_lie_over_none(
    spark: SparkSession, place: str, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """They are many absolutely, or as a share of what Spark would read."""
    store, table = filled(place), SlateTable.forPath(spark, place)
    store.write(rows(range(0, 20, 2), 3))
    monkeypatch.setattr(parquet_share, limit, 10)
    counts = table.explain().as_parquet
    assert set(counts) == {"as Parquet", "many newer rows, or operands, may lie above"}
    assert_same(table, files=counts["as Parquet"])


def test_retention(spark: SparkSession, place: str) -> None:
    store = compacted(place, retention="10h")
    store.write(rows(range(10)))
    store.compact(full=True)
    table, now_ms = SlateTable.forPath(spark, place), SystemClock().now_ms()
    assert_same(table, now=now_ms)
    assert_same(table, files=0, now=now_ms + 11 * HOUR_MS)  # no file is read at all
    store.write(rows(range(20, 300)))
    store.compact(full=True, sstSize="100m")
    assert_same(table, now=now_ms + 9 * HOUR_MS)


@pytest.mark.parametrize(("ends_by", "column"), [("ttl", "_expire_ts"), ("retention", "_create_ts")])
def test_a_row_is_gone_at_its_very_end(spark: SparkSession, place: str, ends_by: str, column: str) -> None:
    store = compacted(place, **({"retention": "1h"} if ends_by == "retention" else {}))
    store.write(rows(range(50)), **({"ttl": "1h"} if ends_by == "ttl" else {}))
    store.write(rows(range(50, 100)), ttl="3h")
    store.compact(full=True)
    times = store.scan(metadataColumns="create_ts, expire_ts").read_all()[column]
    last_ms = pc.min(times.cast(pa.int64())).as_py() // 1000 + (HOUR_MS if ends_by == "retention" else 0)
    table = SlateTable.forPath(spark, place)
    for now_ms, count in ((last_ms - 1, 100), (last_ms, 50)):
        assert_same(table, now=now_ms)
        assert table.toDF(now=now_ms).count() == count


def test_it_keeps_the_version_of_the_call(spark: SparkSession, place: str) -> None:
    store, table = filled(place), SlateTable.forPath(spark, place)
    version, frame = store.resolve().version, table.toDF()
    before = shown(frame)
    store.write(rows(range(0, 400, 3), 9))
    store.compact(full=True, blockSize="1k", sstSize="8k")
    assert shown(frame) == before == shown(table.toDF(versionAsOf=version))
    assert_same(table)


def test_schemas_change(spark: SparkSession, place: str) -> None:
    """Columns that were added later are null; a column that became wider is not read as Parquet."""
    store, table = filled(place), SlateTable.forPath(spark, place)
    files = len(store.files())
    wider = rows(range(2000, 2002)).append_column("extra", pa.array(["e", None]))
    store.write(wider, mergeSchema=True)
    assert_same(table, files=files)
    store.dropColumns("name")
    assert_same(table, files=files)
    place_of_n = SCHEMA.get_field_index("n")
    longer = rows(range(4000, 4002)).drop_columns(["name"])
    longer = longer.set_column(place_of_n - 1, "n", longer.column("n").cast(pa.int64()))
    store.write(longer, mergeSchema=True)
    assert_same(table, files=0, columns=["n"])
    assert_same(table, files=files, columns=["f"])
    store.compact(full=True, blockSize="1k", sstSize="8k")
    assert_same(table)


def test_what_is_read_from_ssts(spark: SparkSession, place: str) -> None:
    store, table = filled(place), SlateTable.forPath(spark, place)
    given: dict[str, Any]
    for options in (
        {"metadataColumns": "create_ts"},
        {"where": "t = 'a' AND id = 4"},
        {"where": 'f > 1e0 AND name > "n3"'},
        {"versionAsOf": store.resolve().version - 1},
    ):
        assert_same(table, files=0, **options)
        given = {("filter" if name == "where" else name): value for name, value in options.items()}
        assert "as Parquet" not in table.explain(**given).as_parquet
    store.setProperties(columnar=False)
    assert_same(table, files=0)
    store.setProperties(columnar=True)
    store.deleteRange("t = 'a' AND id < 40")
    store.deleteRange("t = 'b' AND id >= 380")
    assert table.explain().as_parquet["a part of the file is not visible"] > 0
    assert_same(table, files=table.explain().as_parquet["as Parquet"])
    store._stores.main.delete(f"{COLUMNS_DIR}{store.files()[1].id}.parquet")
    assert table.explain().as_parquet == {"most stored bytes are those of other files": len(store.files())}
    assert_same(table, files=0)


@pytest.mark.parametrize("setting", ["recordLevelFilter.enabled", "aggregatePushdown"])
def test_settings_by_which_parquet_compares_in_its_own_way(spark: SparkSession, place: str, setting: str) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    store = compacted(place, pa.schema([("id", pa.int64()), ("f", pa.float32())]), "id")
    store.write(
        pa.table({"id": range(300), "f": pa.array([(0.0, -0.0, 1.0)[n % 3] for n in range(300)], pa.float32())})
    )
    store.compact(full=True)
    table = SlateTable.forPath(session, place)
    assert_same(table, files=1, where="f = 0")
    session.conf.set(f"spark.sql.parquet.{setting}", "true")
    assert table.toDF(where="f = 0").count() == len(table.toDF(where="f = 0").collect()) == 200
    assert table.explain().as_parquet == {f"spark.sql.parquet.{setting} is set": 1}


@pytest.fixture
def lenient(spark: SparkSession) -> SparkSession:
    """A session that skips what it cannot read."""
    session = spark.newSession()
    session.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    session.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    return session


def test_no_damage_passes_for_no_rows(lenient: SparkSession, place: str) -> None:
    store, table = filled(place), SlateTable.forPath(lenient, place)
    copies = store._stores.main.list(COLUMNS_DIR)
    data = bytearray(store._stores.main.get(copies[0].path))
    chunk = decode_end(data[end_range(data, len(data)).start :]).metadata.row_group(0).column(SCHEMA.names.index("n"))
    data[chunk.data_page_offset + chunk.total_compressed_size - 1] ^= 1  # the end of a page
    store._stores.main.put(copies[0].path, [bytes(data)])
    with pytest.raises(Exception, match="FAILED_READ_FILE"):
        table.toDF().collect()
    assert len(table.toDF(useCopies=False).collect()) == 400
    store._stores.main.put(copies[0].path, [bytes(data[:-3])])  # this is noticed when the read is planned
    assert_same(table, files=len(copies) - 1)
    frame = table.toDF()
    store._stores.main.delete(copies[1].path)
    with pytest.raises(Exception, match="FAILED_READ_FILE"):
        frame.collect()
    assert shown(table.toDF()) == shown(table.toDF(useCopies=False))


@pytest.mark.parametrize(
    ("kind", "value", "is_parquet"),
    [
        (pa.timestamp("us"), datetime(1500, 1, 1), True),  # noqa: DTZ001
        (pa.date32(), datetime(1200, 2, 3).date(), True),  # noqa: DTZ001
        (pa.binary(), b"\xff\0", True),
        (pa.int8(), -7, True),
        (pa.float32(), -0.0, True),
        (pa.duration("us"), timedelta(days=-3, microseconds=7), False),
        (pa.time64("ns"), datetime(1, 1, 1, 23, 59, 59, 999_999).time(), False),  # noqa: DTZ001
    ],
)
def test_types(spark: SparkSession, place: str, kind: pa.DataType, value: Any, is_parquet: bool) -> None:
    schema = pa.schema([("k", kind), ("v", kind)]) if is_parquet else pa.schema([("k", pa.int8()), ("v", kind)])
    store = compacted(place, schema, "k")
    table, keys = SlateTable.forPath(spark, place), [value] if is_parquet else [1]
    store.write(pa.table({"k": pa.array(keys, schema.field("k").type), "v": pa.array([value], kind)}))
    store.compact(full=True)
    assert_same(table, files=int(is_parquet))
    if not is_parquet:
        return
    store.write(pa.table({"k": pa.array(keys, kind), "v": pa.array([None], kind)}))
    assert [found.v for found in table.toDF().collect()] == [None]
    assert_same(table, files=0 if pa.types.is_floating(kind) else 1)


def test_nulls_in_keys(spark: SparkSession, place: str) -> None:
    schema = pa.schema([("k", pa.string()), ("v", pa.int64())])
    store, table = compacted(place, schema, "k", keyFormat="tuple"), SlateTable.forPath(spark, place)
    keys = [None, "a", "b", *map(str, range(99))]
    store.write(pa.table({"k": keys, "v": range(len(keys))}, schema))
    store.compact(full=True)
    for newer in (["a"], [None, "b"]):
        store.write(pa.table({"k": newer, "v": [9] * len(newer)}, schema))
        assert_same(table, files=1)


def test_nulls_in_one_of_two_key_columns(spark: SparkSession, place: str) -> None:
    schema = pa.schema([("t", pa.string()), ("id", pa.int64()), ("v", pa.int64())])
    store, table = compacted(place, schema, "t, id", keyFormat="tuple"), SlateTable.forPath(spark, place)
    keys = [(tenant, number) for tenant in (None, "a") for number in range(20)]
    store.write(pa.table({"t": [t for t, _ in keys], "id": [n for _, n in keys], "v": range(len(keys))}, schema))
    store.compact(full=True)
    store.write(pa.table({"t": [None, "a"], "id": [3, 4], "v": [100, 101]}, schema))
    assert_same(table, files=1)
    expected = {(t, n): at for at, (t, n) in enumerate(keys)} | {(None, 3): 100, ("a", 4): 101}
    found = table.toDF().collect()
    assert ({(row.t, row.id): row.v for row in found}, len(found)) == (expected, len(keys))


SCRIPT = """
from slatespark import SlateTable
table = SlateTable.forPath(spark, arguments["path"])
frame, slate = table.toDF(), spark.read.format("slate").option("useCopies", "true").load(arguments["path"])
result = [len(frame.inputFiles()), *sorted(map(repr, frame.select("n", "f").collect()))]
plain = sorted(map(repr, slate.select("n", "f").collect()))
assert result[1:] == plain == sorted(map(repr, table.toDF(useCopies=False).select("n", "f").collect()))
"""


@pytest.mark.cluster
def test_in_a_cluster(cluster: Cluster, place: str) -> None:
    store = filled(place)
    files = len(store.files())
    store.write(rows(range(60, 70), 3))
    found = cluster.run(SCRIPT, path=place)
    assert found[0] == files
    assert len(found) == 401


@pytest.mark.parametrize("newer", ["deleted", "filtered"])
def test_newer_layers_without_rows_to_show(spark: SparkSession, tmp_path: Path, newer: str) -> None:
    """The rest is empty, also of nested types."""
    store = SlateStore.create(str(tmp_path / "t"), SCHEMA, "id", columnar=True, autoCompact=False)
    store.write(rows(range(100)))
    store.compact(full=True)
    table = SlateTable.forPath(spark, tmp_path / "t")
    if newer == "deleted":
        table.delete("id = 5")
        assert table.toDF().count() == table.toDF(useCopies=False).count() == 99
    else:
        store.write(rows(range(203, 204)))
        assert table.toDF(where="id >= 0 AND name IS NOT NULL").count() == 85


@pytest.mark.parametrize("key_columns", ["k.1", "k.1,id", "k.1,x y", "k.1,x y,id"])
def test_names_that_a_setting_of_spark_takes_for_patterns(spark: SparkSession, place: str, key_columns: str) -> None:
    schema = pa.schema([("k.1", pa.string()), ("id", pa.int64()), ("x y", pa.string()), ("n", pa.int32())])
    store, table = compacted(place, schema, key_columns), SlateTable.forPath(spark, place)

    def write(ids: range, n: int, x: str | None = "x") -> None:
        found = [{"k.1": f"k{number}", "id": number % 2, "x y": x, "n": n} for number in ids]
        store.write(pa.Table.from_pylist(found, schema))

    write(range(400), 1)
    store.compact(full=True)
    write(range(5), 2)
    spark.conf.set("spark.sql.parser.quotedRegexColumnNames", "true")
    try:
        assert_same(table, files=1)
        write(range(390, 402), 3, None)
        assert_same(table, files=1)
    finally:
        spark.conf.unset("spark.sql.parser.quotedRegexColumnNames")
