"""SlateTable: DataFrames in and out of a typed table."""

from __future__ import annotations

import datetime as dt
import shutil
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import LongType, StringType, StructType

from slatespark import (
    InvalidRequestError,
    OptionError,
    SchemaError,
    SlateStore,
    SlateTable,
    SstWriter,
    TableExistsError,
    TableNotFoundError,
    TransactionConflictError,
)
from slatespark.encoding.predicates import bind_filter, parse_filter
from slatespark.spark.expressions.conditions import is_filter
from slatespark.spark.frames.facts import DETAIL, FILES, HISTORY, RUNS, checkpoints_frame, history_frame
from slatespark.spark.frames.table_frames import TableFrames
from slatespark.spark.type_mapping import spark_schema
from slatespark.table.checkpoints.store import CheckpointFacts
from slatespark.table.inspection.versions import VersionFacts
from tests.support.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "tenant STRING, id BIGINT, name STRING, score DOUBLE"
KEYS = ["tenant", "id"]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "table")


@pytest.fixture
def table(spark: SparkSession, path: str) -> SlateTable:
    return SlateTable.create(spark, path, SCHEMA, KEYS)


def test_a_name_of_the_catalog_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidRequestError, match="forPath"):
        SlateTable.forName(spark, "orders")


def test_a_compaction_by_the_name_that_delta_has(spark: SparkSession, table: SlateTable) -> None:
    for number in range(2):
        table.write(people(spark, ("a", number, "x", 1.0)))
    report = table.optimize().where("tenant = 'a'").executeCompaction()
    assert [job.kind for job in report.jobs] == ["interval"]
    with pytest.raises(InvalidRequestError):
        table.optimize().executeZOrderBy("name")


def people(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), SCHEMA)


def only(frame: DataFrame) -> Row:
    [row] = frame.collect()
    return row


def stored(table: SlateTable, **options: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in table.toDF(**options).collect())


ADA, BOB, CID = ("a", 1, "Ada", 1.5), ("a", 2, "Bob", None), ("b", 1, "Cid", 0.5)


# --- create and open ------------------------------------------------------------------------------------------------


def test_a_table_is_created_from_ddl_or_a_struct(spark: SparkSession, tmp_path: Path) -> None:
    struct = StructType().add("id", LongType(), nullable=False).add("name", StringType())
    schemas: list[str | StructType] = ["id BIGINT NOT NULL, name STRING", struct]
    for number, schema in enumerate(schemas):
        table = SlateTable.create(spark, str(tmp_path / str(number)), schema, "id", defaultTtl="7d")
        assert table.toDF().dtypes == [("id", "bigint"), ("name", "string")]
        assert table.toDF().count() == 0
        assert only(table.detail())["properties"] == {"defaultTtl": "7d"}


def test_a_table_is_created_once(spark: SparkSession, path: str) -> None:
    assert not SlateTable.isSlateTable(path)
    assert not SlateTable.isSlateTable(spark, path)
    with pytest.raises(TableNotFoundError):
        SlateTable.forPath(spark, path)
    SlateTable.createIfNotExists(spark, path, SCHEMA, KEYS).write(people(spark, ADA))
    assert SlateTable.isSlateTable(path)
    assert SlateTable.isSlateTable(path=path)
    assert SlateTable.isSlateTable(spark, path)
    assert SlateTable.isSlateTable(spark, path=path)
    with pytest.raises(OptionError):
        SlateTable.isSlateTable(spark)
    with pytest.raises(TableExistsError):
        SlateTable.create(spark, path, SCHEMA, KEYS)
    assert stored(SlateTable.createIfNotExists(spark, path, SCHEMA, ["TENANT", "id"])) == [ADA]
    assert stored(SlateTable.forPath(spark, path)) == [ADA]
    with pytest.raises(InvalidRequestError, match="tenant"):
        SlateTable.createIfNotExists(spark, path, SCHEMA, "id")


def test_an_unfinished_creation_of_another_table_is_named(spark: SparkSession, path: str) -> None:
    SlateTable.create(spark, path, SCHEMA, "id")
    for later in ("manifest", "slatespark/commits"):  # as if the job had died before
        shutil.rmtree(Path(path) / later)
    with pytest.raises(TableExistsError, match="unfinished creation of another table"):
        SlateTable.createIfNotExists(spark, path, SCHEMA, KEYS)


def test_a_path_is_text_or_a_path_object(spark: SparkSession, tmp_path: Path) -> None:
    kinds = [pa.string(), pa.int64(), pa.string(), pa.float64()]
    place, files = tmp_path / "table", [tmp_path / "one.sst", tmp_path / "two.sst"]
    table = SlateTable.create(spark, place, SCHEMA, KEYS)
    assert SlateTable.isSlateTable(spark, place)
    assert SlateTable.isSlateTable(place)
    SlateTable.createIfNotExists(spark, place, SCHEMA, KEYS).write(people(spark, ADA))
    for file, row in zip(files, (BOB, CID), strict=True):
        columns = [pa.array([value], kind) for value, kind in zip(row, kinds, strict=True)]
        SstWriter(str(file), keyColumns=KEYS).write(pa.table(columns, table.toDF().columns))
    table.ingest(files[0])
    table.ingest(files[1:])
    assert stored(SlateTable.forPath(spark, place, walPath=place)) == [ADA, BOB, CID]
    assert stored(table.clone(tmp_path / "clone")) == [ADA, BOB, CID]
    assert stored(table.copyTo(tmp_path / "copy")) == [ADA, BOB, CID]
    first = tmp_path / "first"
    assert stored(table.copyTo(first, versionAsOf=3)) == [ADA]
    assert SlateTable.drop(spark, first, dryRun=True).dry_run
    assert SlateTable.drop(first).objects["sst"] == 1
    assert not SlateTable.isSlateTable(first)
    with pytest.raises(OptionError):
        SlateTable.drop(spark)


@pytest.mark.parametrize(
    ("schema", "keys", "message"),
    [
        ("id BIGINT, gone VOID", "id", "CAST"),
        ("id BIGINT, months INTERVAL YEAR TO MONTH", "id", "INT"),
        ("id BIGINT, s STRUCT<a: INTERVAL YEAR>", "id", r"s\.a"),
        ("id STRING COLLATE UTF8_LCASE", "id", "UTF8_LCASE"),
        ("id INTERVAL DAY TO SECOND", "id", "id"),
        ("id ARRAY<INT>", "id", "id"),
        ("id BIGINT", "nr", "nr"),
        ("no such schema", "id", "no such schema"),
        (7, "id", "schema"),
    ],
)
def test_what_no_table_holds_is_named(spark: SparkSession, path: str, schema: Any, keys: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        SlateTable.create(spark, path, schema, keys)
    assert not SlateTable.isSlateTable(path)


def test_char_and_varchar_are_strings(spark: SparkSession, path: str) -> None:
    table = SlateTable.create(spark, path, "id VARCHAR(3), c CHAR(2), a ARRAY<VARCHAR(4)>", "id")
    assert table.toDF().dtypes == [("id", "string"), ("c", "string"), ("a", "array<string>")]


def test_an_unknown_property_is_refused(spark: SparkSession, path: str) -> None:
    with pytest.raises(OptionError, match="defaultTtl"):
        SlateTable.create(spark, path, SCHEMA, KEYS, defaultTtll="7d")


# --- write and read -------------------------------------------------------------------------------------------------


def test_rows_are_upserted_or_replace_the_table(spark: SparkSession, table: SlateTable) -> None:
    table.write(people(spark, CID, BOB, ADA))
    assert stored(table) == [ADA, BOB, CID]
    table.write(people(spark, ("a", 1, "Ada L.", 2.0)))
    assert stored(table) == [("a", 1, "Ada L.", 2.0), BOB, CID]
    table.write(people(spark, BOB), mode="overwrite")
    assert stored(table) == [BOB]
    with pytest.raises(OptionError, match="mode"):
        table.write(people(spark, BOB), mode="ignore")


def test_columns_and_filters_of_a_read(spark: SparkSession, table: SlateTable) -> None:
    table.write(people(spark, ADA, BOB, CID))
    assert stored(table, columns=["name"], where="tenant = 'a' AND id > 1") == [("Bob",)]
    assert stored(table, columns=["name"], where=F.upper("name") == "CID") == [("Cid",)]
    assert table.alias("t").toDF().where("t.score > 1").count() == 1
    kept = table.alias("t").toDF("id", F.col("t.score") > 1)
    assert kept.columns == ["id"]
    assert kept.where("t.id IS NOT NULL").count() == 1
    for called in (table.alias("t").toDF, table.alias("t").begin().read):
        assert [row.name for row in called("name", "t.tenant = 'a' AND T.id > 1").collect()] == ["Bob"]
    assert table.toDF(metadataColumns="seq", columns=["_seq"]).columns == ["_seq"]
    with pytest.raises(SchemaError, match="nme"):
        table.toDF(columns=["nme"])
    with pytest.raises(OptionError, match="filter"):
        table.toDF(where="tenant = 'a' OR id = 1")
    with pytest.raises(OptionError, match="Unknown"):
        table.toDF(splitt=1)  # type: ignore[call-arg]


def test_columns_come_and_go(spark: SparkSession, table: SlateTable) -> None:
    table.write(people(spark, ADA))
    with pytest.raises(SchemaError, match="rank"):
        table.write(people(spark, BOB).withColumn("rank", F.lit(1)))
    table.write(people(spark, BOB).withColumn("rank", F.lit(1)), mergeSchema=True)
    table.dropColumns("score")
    assert table.toDF().columns == ["tenant", "id", "name", "rank"]
    rows = [row.rank for row in table.toDF().orderBy("id").collect()]
    assert rows == [None, 1]
    with pytest.raises(SchemaError, match="tenant"):
        table.dropColumns("tenant")


def test_a_row_is_found_by_its_key(spark: SparkSession, table: SlateTable) -> None:
    table.write(people(spark, ADA, BOB))
    assert table.get("a", 1) == {"tenant": "a", "id": 1, "name": "Ada", "score": 1.5}
    assert table.get("z", 1) is None
    with pytest.raises(InvalidRequestError, match="columns"):
        table.get("a")


def test_the_later_row_of_a_key_wins(spark: SparkSession, table: SlateTable) -> None:
    rows = spark.range(4000).selectExpr(
        "'a' AS tenant", "id % 100 AS id", "CAST(id AS STRING) AS name", "1.0D AS score"
    )
    table.write(rows.coalesce(1).repartition(1).union(rows.limit(0)))
    assert [int(row.name) for row in table.toDF().orderBy("id").collect()] == list(range(3900, 4000))


def test_sequence_column_decides_instead(spark: SparkSession, table: SlateTable) -> None:
    table.write(people(spark, ("a", 1, "old", 1.0), ("a", 1, "new", 3.0), ("a", 1, "mid", 2.0)), sequenceColumn="score")
    assert stored(table) == [("a", 1, "new", 3.0)]


def test_what_does_not_fit_is_refused_by_its_own_class(spark: SparkSession, table: SlateTable) -> None:
    table.write(people(spark, ADA))
    with pytest.raises(SchemaError, match="tenant"):
        table.write(people(spark, BOB).drop("tenant"))
    with pytest.raises(SchemaError, match="score"):
        table.write(people(spark, BOB).drop("score"))
    with pytest.raises(SchemaError, match="score"):
        table.write(people(spark, BOB).withColumn("score", F.lit("high")))
    with pytest.raises(OptionError, match="speed"):
        table.write(people(spark, BOB), speed=1)  # type: ignore[call-arg]
    with pytest.raises(InvalidRequestError, match="tenant"):
        table.write(people(spark, BOB), keyColumns=["id"])
    assert stored(table) == [ADA]


def test_not_null_columns_take_no_nulls(spark: SparkSession, path: str) -> None:
    table = SlateTable.create(spark, path, "id BIGINT NOT NULL, n INT NOT NULL", "id")
    with pytest.raises(SchemaError, match="n"):
        table.write(spark.sql("SELECT 1L AS id, CAST(NULL AS INT) AS n"))
    table.write(spark.sql("SELECT 1L AS id, 7 AS n"))
    assert table.get(1) == {"id": 1, "n": 7}


@pytest.mark.cluster
@pytest.mark.xdist_group("cluster")
def test_a_load_is_one_sorted_run_without_overlap(cluster: Cluster, path: str) -> None:
    script = """
from slatespark import SlateTable
table = SlateTable.create(spark, arguments["path"], "tenant STRING, id BIGINT, name STRING", ["tenant", "id"])
rows = spark.range(20000, numPartitions=4).selectExpr(
    "concat('t', id % 7) AS tenant", "hash(id) AS h", "id", "CAST(id AS STRING) AS name"
).orderBy("h").drop("h")
spark.conf.set("spark.sql.adaptive.enabled", "false")
spark.conf.set("spark.sql.shuffle.partitions", "3")
table.write(rows)
result = [
    [row.layer, row.startKey.hex(), None if row.endKey is None else row.endKey.hex(), row.rows]
    for row in table.files().collect()
]
"""
    files = cluster.run(script, path=path)
    assert len(files) >= 3
    assert len({layer for layer, *_ in files}) == 1
    assert sum(rows for *_, rows in files) == 20000
    assert all(left[2] <= right[1] for left, right in pairwise(files))
    keys = [
        (row["tenant"], row["id"]) for row in SlateStore.open(path).scan(columns="tenant,id").read_all().to_pylist()
    ]
    assert keys == sorted((f"t{number % 7}", number) for number in range(20000))


# --- delete ---------------------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_rows_are_deleted_by_any_condition(spark: SparkSession, table: SlateTable) -> None:
    rows = [("a" if n % 3 else "b", n, f"n{n % 5}", n / 2 if n % 4 else None) for n in range(40)]
    table.write(people(spark, *rows))
    table.delete("length(name) = 2 AND name LIKE '%1' OR id = 7")
    rows = [row for row in rows if not (row[2] == "n1" or row[1] == 7)]
    assert stored(table) == sorted(rows)
    table.delete(F.col("score") > 15)  # null is not true
    rows = [row for row in rows if not (row[3] is not None and row[3] > 15)]
    assert stored(table) == sorted(rows)
    table.alias("t").delete("t.tenant = 'b' AND t.id < 10")
    rows = [row for row in rows if not (row[0] == "b" and row[1] < 10)]
    assert stored(table) == sorted(rows)
    table.delete("id = -1")
    assert stored(table) == sorted(rows)
    table.delete()
    assert stored(table) == []


def test_a_delete_depends_on_what_it_read(spark: SparkSession, table: SlateTable, monkeypatch: Any) -> None:
    table.write(people(spark, ADA, BOB))
    begin = TableFrames.begin_change

    def begin_late(self: TableFrames, *narrowed: Any) -> Any:
        change = begin(self, *narrowed)
        SlateTable.forPath(spark, self.path).write(people(spark, CID))
        return change

    monkeypatch.setattr(TableFrames, "begin_change", begin_late)
    with pytest.raises(TransactionConflictError, match=f"tenant='{CID[0]}', id={CID[1]}"):
        table.delete("id = 1")
    assert stored(table) == [ADA, BOB, CID]
    table.delete(f"tenant = '{BOB[0]}' AND id = {BOB[1]}")  # the commit in between is of another key
    assert stored(table) == [ADA, CID]


def test_a_condition_is_a_filter_where_both_mean_the_same(spark: SparkSession) -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("name", pa.string())])
    assert is_filter("id < 7 AND name LIKE 'a%'", schema, spark)
    assert is_filter("at < '2026-01-01'", schema, spark)
    assert not is_filter("length(name) = 2", schema, spark)
    assert not is_filter("t.id < 7", schema, spark)
    assert not is_filter(F.col("id") < 7, schema, spark)
    berlin = spark.newSession()
    berlin.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    assert is_filter("id < 7", schema, berlin)
    assert not is_filter("at < '2026-01-01'", schema, berlin)
    berlin.conf.set("spark.sql.ansi.enabled", "false")
    assert not is_filter("id < 7", schema, berlin)


@pytest.mark.parametrize(
    ("setting", "condition"),
    [
        ("spark.sql.legacy.consecutiveStringLiterals.enabled", "name = 'it''s'"),
        ("spark.sql.legacy.exponentLiteralAsDecimal.enabled", "big <> 9.007199254740993E15"),
    ],
)
def test_a_condition_to_which_a_setting_gives_another_meaning_is_no_filter(
    spark: SparkSession, setting: str, condition: str
) -> None:
    schema = pa.schema([("name", pa.string()), ("big", pa.float64())])
    session = spark.newSession()
    assert is_filter(condition, schema, session)
    session.conf.set(setting, "true")
    assert not is_filter(condition, schema, session)
    assert is_filter("name = 'its' AND big < 7", schema, session)


def test_a_delete_by_a_variable(spark: SparkSession, table: SlateTable) -> None:
    """Spark replaces it in the text."""
    table.write(people(spark, ADA, BOB, CID))
    spark.conf.set("slatespark.test.tenant", ADA[0])
    try:
        table.delete("tenant = '${slatespark.test.tenant}'")
    finally:
        spark.conf.unset("slatespark.test.tenant")
    assert stored(table) == [CID]


def test_a_filter_never_selects_fewer_rows_than_spark(spark: SparkSession) -> None:
    """Spark rounds numbers of many digits, and null is comparable with numbers outside the column's range."""
    kinds: list[pa.DataType] = [pa.int8(), pa.int32(), pa.int64(), pa.decimal128(10, 2), pa.decimal128(38, 10)]
    schema = pa.schema([(f"c{number}", kind) for number, kind in enumerate(kinds)])
    rows = pa.table([pa.array([None, 0, 1, -1], pa.int8()).cast(kind) for kind in kinds], schema=schema)
    literals = (
        "1 1.0 127 128 -129 1e300 2147483648 9223372036854775807 9223372036854775808 99999999999999999999 1.5 "
        "1.000000000000000001 1.0000000000000000001 0.99999999999999999999999999999999999999 1.00000000001"
    )
    shapes = "{c} = {x}|{c} < {x}|{x} <= {c}|{c} <=> {x}|{c} <> {x}|{c} IN ({x}, 1)|{c} NOT IN ({x}, 1)"
    texts = [text.format(c=name, x=x) for name in schema.names for x in literals.split() for text in shapes.split("|")]
    taken = [text for text in texts if is_filter(text, schema, spark)]
    assert 0.5 < len(taken) / len(texts) < 0.9
    for name in schema.names:  # one query for all would be too large to compile
        own = [text for text in taken if name in text]
        frame = spark.createDataFrame(rows.to_pylist(), spark_schema(schema))
        theirs = frame.select([F.expr(f"coalesce({text}, false)").alias(text) for text in own]).collect()
        for text, theirs_of in zip(own, zip(*theirs, strict=True), strict=True):
            passes = bind_filter(parse_filter(text), schema)
            mask = passes.mask({name: rows[name].combine_chunks()}).tolist()
            assert all(mine or not theirs for mine, theirs in zip(mask, theirs_of, strict=True)), text


def test_conditions_that_do_not_resolve_are_sparks_own_errors(spark: SparkSession, table: SlateTable) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match="nr"):
        table.delete("nr = 1")


# --- facts ----------------------------------------------------------------------------------------------------------


def test_facts_have_fixed_columns_also_when_there_are_none(spark: SparkSession, table: SlateTable) -> None:
    for _ in range(2):
        for frame, ddl in [
            (table.detail(), DETAIL),
            (table.history(), HISTORY),
            (table.files(), FILES),
            (table.runs(), RUNS),
        ]:
            expected = StructType.fromDDL(ddl)
            assert isinstance(expected, StructType)
            assert [(f.name, f.dataType) for f in frame.schema] == [(f.name, f.dataType) for f in expected]
            frame.collect()
        table.write(people(spark, ADA))
    assert table.history(1).count() == 1


@pytest.mark.smoke
def test_facts_say_what_happened(spark: SparkSession, table: SlateTable) -> None:
    table.setProperties(defaultTtl="90d")
    table.write(people(spark, ADA, BOB))
    table.delete("id = 2")
    detail = only(table.detail())
    assert detail["kind"] == "typed"
    assert detail["keyColumns"] == KEYS
    assert (detail["keyFormat"], detail["valueFormat"]) == ("tuple", "avro")
    assert detail["properties"] == {"defaultTtl": "90d"}
    last, *_, first = [row for row in table.history().collect() if row.operation != "claim"]
    assert first.operation == "create"
    assert last.rows["delete"] == 1
    assert last.version == detail["version"]
    assert last.timestamp.year >= 2024
    files = table.files().collect()
    assert sum(row.rows for row in files) == 3
    assert [(row.features, row.propertiesVersion) for row in files][-1] == (["create_ts", "ttl"], 1)
    assert (last.engine, last.files, last.filesRemoved) == ("slatespark", 1, 0)
    expiry = max(row.maxExpireTs for row in files if row.maxExpireTs) - dt.datetime.now()  # noqa: DTZ005, TID251
    assert 88 <= expiry.days <= 91
    assert table.runs().count() == len({row.layer for row in files})
    assert "tenant" in str(table)
    assert "tenant" in table._repr_html_()
    explained = table.explain(analyze=True, prices={"get": 0.0004})
    assert explained.rows == table.toDF().count()
    assert explained.measured is not None
    assert explained.measured in explained.estimated
    assert "price" in str(explained)


def test_facts_with_times_that_python_cannot_tell_and_with_maps(spark: SparkSession) -> None:
    ends = [CheckpointFacts("a", None, 1, 5000, 10**15), CheckpointFacts("b", "weekly", 2, 6000, None)]
    shown = checkpoints_frame(spark, ends).selectExpr("id", "name", "version", "created", "expires").collect()
    assert [row.expires and row.expires.year for row in shown] == [9999, None]
    assert [(row.id, row.name, row.version, row.created.second) for row in shown] == [
        ("a", None, 1, 5),
        ("b", "weekly", 2, 6),
    ]
    versions = [VersionFacts(7, 5000, rows={"put": 3, "delete": 1}), VersionFacts(6, 4000)]
    assert [row.rows for row in history_frame(spark, versions).collect()] == [{"put": 3, "delete": 1}, {}]


# --- raw tables -----------------------------------------------------------------------------------------------------


def test_a_raw_table_is_a_slate_table_too(spark: SparkSession, path: str) -> None:
    SlateStore.create(path)
    table = SlateTable.forPath(spark, path)
    rows = spark.sql("SELECT CAST(CAST(id AS STRING) AS BINARY) AS key, X'00' AS value FROM range(10)")
    table.write(rows)
    table.delete("key >= X'35'")
    table.alias("t").merge(rows.alias("s"), "t.key = s.key").whenMatchedUpdate(
        "t.key = X'31'", {"value": "concat(s.value, X'01')"}
    ).whenNotMatchedInsertAll("key = X'39'").execute()
    expected = {b"0": b"\0", b"1": b"\0\1", b"2": b"\0", b"3": b"\0", b"4": b"\0", b"9": b"\0"}
    assert {bytes(row.key): bytes(row.value) for row in table.toDF().collect()} == expected
    assert table.get(b"9") == {"key": b"9", "value": b"\0"}
