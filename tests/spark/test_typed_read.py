"""Spark reads typed tables: every type, columns and schemas, filters, several splits."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from slatespark import OptionError, SchemaError, SlateStore, SlateTable
from slatespark.spark.jobs.run_job import run_job
from slatespark.spark.type_mapping import arrow_schema
from tests.support.typed_tables import define, encoded, make_typed, write_raw

pytestmark = pytest.mark.spark

ROWS = 3000
SCHEMA = pa.schema(
    [
        pa.field("tenant", pa.string(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("amount", pa.float64()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
    ]
)
DEFINITION = define(SCHEMA, ["tenant", "id"])


def load(spark: SparkSession, path: Path | str, **options: Any) -> DataFrame:
    return spark.read.format("slate").options(**options).load(str(path))


def numbered(numbers: range) -> pa.Table:
    day = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return pa.table(
        {
            "tenant": [f"t{number // 1000}" for number in numbers],
            "id": [number - 1500 for number in numbers],
            "name": [None if number % 5 == 0 else f"name {number}" for number in numbers],
            "amount": [number / 4 for number in numbers],
            "at": [day + dt.timedelta(minutes=number) for number in numbers],
        },
        schema=SCHEMA,
    )


@pytest.fixture
def table(tmp_path: Path) -> SlateStore:
    """Two overlapping files of small blocks."""
    parts = numbered(range(0, ROWS, 2)), numbered(range(1, ROWS, 2))
    return make_typed(str(tmp_path / "table"), DEFINITION, *parts, blockSize=1024)


def test_splits_together_hold_every_row_once_in_key_order(spark: SparkSession, table: SlateStore) -> None:
    frame = load(spark, table.url, splitSize="20k")
    assert frame.rdd.getNumPartitions() > 3
    assert frame.schema.simpleString() == "struct<tenant:string,id:bigint,name:string,amount:double,at:timestamp>"
    assert [row.id for row in frame.collect()] == list(range(-1500, 1500))
    assert frame.selectExpr("sum(amount)", "count(name)").first() == (ROWS * (ROWS - 1) / 8, 2400)


def test_schemas_select_columns_in_any_order(spark: SparkSession, table: SlateStore) -> None:
    asked = spark.read.format("slate").schema("amount double, tenant string").load(table.url)
    assert asked.columns == ["amount", "tenant"]
    assert asked.first() == (0.0, "t0")
    assert spark.read.format("slate").schema("TENANT string, Id bigint").load(table.url).where("id = 7").count() == 1
    with_seq = spark.read.format("slate").option("metadataColumns", "seq").schema("_seq bigint, id bigint")
    assert with_seq.load(table.url).selectExpr("max(_seq)").first() == (2,)
    assert load(spark, table.url, columns="NAME,id").columns == ["name", "id"]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("amount float", "SchemaError: .*float"),
        ("amont double", r"SchemaError: .*amount\?"),
        ("amount double not null", "SchemaError: .*null"),
        ("amount double, Amount double", "SchemaError: .*twice|COLUMN_ALREADY_EXISTS"),
    ],
)
def test_schemas_that_do_not_fit(spark: SparkSession, table: SlateStore, schema: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        spark.read.format("slate").schema(schema).load(table.url).collect()


@pytest.mark.smoke
def test_filters_cut_what_is_read(spark: SparkSession, table: SlateStore) -> None:
    point = load(spark, table.url, filter="tenant = 't1' AND id IN (-500, 7, 499, 500)")
    assert [row.id for row in point.collect()] == [-500, 7, 499]
    assert point.rdd.getNumPartitions() == 1
    ranged = load(spark, table.url, filter="tenant IN ('t0', 't2') AND amount >= 100", splitSize="20k", columns="id")
    assert ranged.count() == 1600
    assert load(spark, table.url, filter="name IS NULL AND at < '2026-01-01 01:00:00'").count() == 12
    assert load(spark, table.url, filter="tenant = 't0' AND tenant = 't1'").count() == 0
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW typed USING slate OPTIONS (path '{table.url}', filter \"id = 3\")")
    assert spark.sql("SELECT name FROM typed").first() == ("name 1503",)


def test_wrong_filters_are_named(spark: SparkSession, table: SlateStore) -> None:
    with pytest.raises(Exception, match=r"OptionError: .*tenan"):
        load(spark, table.url, filter="tenan = 't1'").collect()
    with pytest.raises(Exception, match="OptionError: keyPrefix"):
        load(spark, table.url, keyPrefix="00").collect()


def test_rows_that_do_not_decode(spark: SparkSession, table: SlateStore) -> None:
    key = encoded(DEFINITION.codec(), numbered(range(8, 9)))["key"][0].as_py()
    write_raw(table.url, pa.table({"key": [key], "value": [b"\xc3\x01" + b"\x22" * 8]}))
    with pytest.raises(Exception, match=f"CorruptDataError: .*{table.url}.*{key.hex()}.*{'22' * 8}"):
        load(spark, table.url).selectExpr("sum(amount)").collect()
    assert load(spark, table.url, ignoreUndecodable=True).count() == ROWS - 1
    assert load(spark, table.url, columns="tenant,id").count() == ROWS


# --- types ----------------------------------------------------------------------------------------------------------

KEYED = "b BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INT, i8 BIGINT, f4 FLOAT, f8 DOUBLE, dec DECIMAL(20,3), s STRING, "
KEYED += "bin BINARY, d DATE, ts TIMESTAMP, ntz TIMESTAMP_NTZ, st STRUCT<x: INT, y: STRING>"
OTHERS = "v_dec DECIMAL(38,10), v_bin BINARY, v_date DATE, v_ts TIMESTAMP, v_ntz TIMESTAMP_NTZ, "
OTHERS += "v_gap INTERVAL DAY TO SECOND, v_time TIME(6), v_list ARRAY<STRUCT<a: INT, b: ARRAY<STRING>>>, "
OTHERS += "v_map MAP<STRING, BIGINT>, v_deep MAP<INT, STRUCT<m: MAP<STRING, DOUBLE>>>, v_var VARIANT, v_bool BOOLEAN, "
OTHERS += "v_byte TINYINT, v_short SMALLINT, v_float FLOAT"
MOMENT = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC)
LOCAL = MOMENT.replace(tzinfo=None)

KEY_VALUES: tuple[Any, ...] = (
    True,
    -128,
    300,
    -(2**31),
    2**63 - 1,
    1.5,
    -0.25,
    Decimal("-12345678901234567.891"),
    "é\0x",
    b"\0\xff",
)
KEY_VALUES += (dt.date(2026, 2, 28), MOMENT, LOCAL, {"x": 1, "y": "z"})
VALUES: tuple[Any, ...] = (Decimal("9" * 28 + ".1234567891"), b"", dt.date(1900, 1, 1), MOMENT)
VALUES += (LOCAL, dt.timedelta(days=-3, microseconds=1), dt.time(23, 59, 59, 999_999))
VALUES += ([{"a": 1, "b": ["x", None]}, None], [("k", 5), ("l", None)], [(7, {"m": [("pi", 3.14)]})])
VALUES += ({"value": b"\x0c\x01", "metadata": b"\x01\x00\x00"}, False, 5, -5, 0.5)


def struct(ddl: str) -> StructType:
    kind = StructType.fromDDL(ddl)
    assert isinstance(kind, StructType)
    return kind


@pytest.mark.smoke
def test_every_type_comes_as_spark_has_it(spark: SparkSession, tmp_path: Path) -> None:
    kind = struct(f"{KEYED}, {OTHERS}")
    schema = arrow_schema(kind)
    keys = [field.name for field in struct(KEYED).fields]
    row = dict(zip(schema.names, (*KEY_VALUES, *VALUES), strict=True))
    nothing = dict.fromkeys(schema.names) | {"i4": 1}
    rows = pa.Table.from_pylist([row, nothing], schema=schema)
    store = make_typed(str(tmp_path / "types"), define(schema, keys), rows)
    frame = load(spark, store.url)
    assert frame.schema == kind
    shown = frame.orderBy("i1").selectExpr("*", "v_var::string AS text").collect()
    assert len(shown) == 2
    empty, full = shown
    assert [empty[name] for name in schema.names if name != "i4"] == [None] * (len(schema.names) - 1)
    assert (full.i1, full.i8, full.f4, full.dec, full.s, bytes(full.bin), full.d) == (
        -128, 2**63 - 1, 1.5, Decimal("-12345678901234567.891"), "é\0x", b"\0\xff", dt.date(2026, 2, 28),
    )  # fmt: skip
    assert (full.ntz, tuple(full.st), full.v_dec, full.v_gap) == (LOCAL, (1, "z"), VALUES[0], VALUES[5])
    assert full.v_list == [(1, ["x", None]), None]
    assert (full.v_map, full.v_deep[7].m, full.text) == ({"k": 5, "l": None}, {"pi": 3.14}, "1")
    found = frame.where("i1 = -128").selectExpr(
        "unix_micros(ts)", "unix_micros(v_ts)", "v_time = TIME'23:59:59.999999'"
    )
    assert found.first() == (-1, -1, True)
    backwards = load(spark, store.url, columns=",".join(reversed(schema.names)))
    assert backwards.columns == schema.names[::-1]
    assert [row.i8 for row in backwards.collect()] == [None, 2**63 - 1]


def test_the_keys_of_a_frame_are_looked_up(spark: SparkSession, tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"), SCHEMA, "tenant,id")
    store.write(numbered(range(ROWS)))
    table = SlateTable.forPath(spark, str(tmp_path / "t")).alias("t")
    known = store.scan(columns=["tenant", "id"]).read_all().slice(10, 40).to_pylist()
    keys = [(row["id"], row["tenant"], "x") for row in known] * 2 + [(-1, "nobody", "x"), (None, "a", "x")]
    frame = spark.createDataFrame(keys, "ID INT, tenant STRING, other STRING")
    found = table.lookup(frame, columns=["name", "id"]).where("t.id < 0").orderBy("id").collect()
    wanted = {row["id"] for row in known}
    expected = [row for row in store.scan().read_all().sort_by("id").to_pylist() if row["id"] in wanted]
    assert [(row.name, row.id) for row in found] == [(row["name"], row["id"]) for row in expected]
    with pytest.raises(SchemaError, match="tenant"):
        table.lookup(frame.drop("tenant"))
    with pytest.raises(SchemaError):  # its distinct keys are not those of the table
        table.lookup(frame.selectExpr("tenant COLLATE UTF8_LCASE AS tenant", "id"))
    with pytest.raises(OptionError, match="lookup"):
        table.lookup(frame, startKey=b"a")
    few = spark.createDataFrame(pa.Table.from_pylist(known + known))
    tasks: list[int] = []
    action = table.lookup(few, columns=["tenant", "id"]).collect
    assert [
        row.asDict() for row in run_job(spark, action, progress=lambda _, done, total: tasks.append(total))
    ] == known
    assert tasks[-1] == 1
