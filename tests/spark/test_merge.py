"""Merge through SlateTable: one commit, Delta's rules, and errors of our own."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from slatespark import InvalidRequestError, OptionError, SchemaError, SlateStore, SlateTable, TransactionConflictError
from slatespark.spark.frames.table_frames import TableFrames
from slatespark.spark.merge.builder import SlateMergeBuilder
from slatespark.spark.merge.needs import find_target_filter, writes_every_row
from slatespark.spark.merge.rows import MergeClause
from tests.support.random_filters import Dice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "tenant STRING, id BIGINT, n INT NOT NULL, note STRING"
ON = "t.tenant = s.tenant AND t.id = s.id"
START = [("a", 1, 10, "one"), ("a", 2, 20, None), ("b", 1, 30, "three"), ("b", 2, 40, "four")]


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> SlateTable:
    table = SlateTable.create(spark, str(tmp_path / "table"), SCHEMA, ["tenant", "id"])
    table.write(rows_of(spark, *START))
    return table


def rows_of(spark: SparkSession, *rows: tuple[Any, ...], schema: str = SCHEMA) -> DataFrame:
    return spark.createDataFrame(list(rows), schema.replace(" NOT NULL", ""))


def merge(table: SlateTable, source: DataFrame, condition: Any = ON) -> SlateMergeBuilder:
    return table.alias("t").merge(source.alias("s"), condition)


def only(frame: DataFrame) -> Row:
    [row] = frame.collect()
    return row


def stored(table: SlateTable) -> list[tuple[Any, ...]]:
    path = only(table.detail())["url"]
    return [tuple(row.values()) for row in SlateStore.open(path).scan().read_all().to_pylist()]


def versions(table: SlateTable) -> int:
    return int(only(table.detail())["version"])


def test_a_schema_evolves_with_clauses_that_take_all(spark: SparkSession, table: SlateTable) -> None:
    source = rows_of(
        spark, ("a", 1, 11, "I", 1.5, "u"), ("c", 9, 90, None, None, "i"), schema=f"{SCHEMA}, Rate DOUBLE, tag STRING"
    )
    evolving = merge(table, source).withSchemaEvolution()
    evolving.whenMatchedUpdateAll().whenNotMatchedInsertAll().whenNotMatchedBySourceUpdate(
        "t.tenant = 'b'", {"n": "t.n + 1"}
    ).execute()
    assert table.toDF().columns == ["tenant", "id", "n", "note", "Rate", "tag"]
    assert stored(table) == [
        ("a", 1, 11, "I", 1.5, "u"),
        (*START[1], None, None),
        ("b", 1, 31, "three", None, None),
        ("b", 2, 41, "four", None, None),
        ("c", 9, 90, None, None, "i"),
    ]


def test_a_schema_stays_without_such_a_clause(spark: SparkSession, table: SlateTable) -> None:
    source = rows_of(spark, ("a", 1, 11, "I", 1.5), schema=f"{SCHEMA}, rate DOUBLE")
    merge(table, source).withSchemaEvolution().whenMatchedUpdate(set={"n": "s.n"}).execute()
    merge(table, source).whenMatchedUpdateAll().execute()
    assert stored(table) == [("a", 1, 11, "I"), *START[1:]]


def test_an_upsert_as_everybody_writes_it(spark: SparkSession, table: SlateTable) -> None:
    source = rows_of(spark, ("b", 1, 31, "III"), ("c", 9, 90, None))
    before = versions(table)
    merge(table, source).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert stored(table) == [START[0], START[1], ("b", 1, 31, "III"), START[3], ("c", 9, 90, None)]
    assert versions(table) == before + 2  # the claim and the commit
    assert only(table.history(1))["rows"]["put"] == 2


def test_an_upsert_where_spark_takes_quoted_names_for_patterns(spark: SparkSession, table: SlateTable) -> None:
    source = rows_of(spark, ("b", 1, 31, "III"), ("c", 9, 90, None))
    spark.conf.set("spark.sql.parser.quotedRegexColumnNames", "true")
    try:
        merge(table, source).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    finally:
        spark.conf.unset("spark.sql.parser.quotedRegexColumnNames")
    assert stored(table) == [START[0], START[1], ("b", 1, 31, "III"), START[3], ("c", 9, 90, None)]


@pytest.mark.smoke
def test_all_clauses_at_once(spark: SparkSession, table: SlateTable) -> None:
    source = rows_of(spark, ("a", 1, 0, "x"), ("a", 2, 5, "y"), ("b", 1, 1, "z"), ("c", 1, 1, "new"), ("c", 2, 2, "no"))
    (
        merge(table, source)
        .whenMatchedDelete(F.col("s.n") == 0)
        .whenMatchedUpdate("s.n > 3", {"n": "t.n + s.n", "t.note": F.upper("s.note")})
        .whenNotMatchedInsert("note <> 'no'", {"tenant": "s.tenant", "id": "id + 100", "n": "n"})
        .whenNotMatchedBySourceUpdate(set={"NOTE": "concat(note, '!')"})
        .execute()
    )
    assert stored(table) == [("a", 2, 25, "Y"), ("b", 1, 30, "three"), ("b", 2, 40, "four!"), ("c", 101, 1, None)]


def test_rows_of_the_source_that_change_one_row_are_refused(spark: SparkSession, table: SlateTable) -> None:
    twice = rows_of(spark, ("a", 1, 1, "p"), ("a", 1, 2, "q"))
    before = versions(table)
    with pytest.raises(InvalidRequestError, match='"tenant":"a","id":1') as info:
        merge(table, twice).whenMatchedUpdateAll().execute()
    assert type(info.value) is InvalidRequestError
    with pytest.raises(InvalidRequestError, match="match"):
        merge(table, twice).whenMatchedDelete("s.n = 1").whenMatchedDelete().execute()
    with pytest.raises(InvalidRequestError, match="insert"):
        merge(table, rows_of(spark, ("c", 1, 1, "p"), ("c", 1, 2, "q"))).whenNotMatchedInsertAll().execute()
    assert versions(table) == before
    merge(table, twice).whenMatchedUpdateAll("s.n = 2").execute()  # one of them changes it
    assert stored(table)[0] == ("a", 1, 2, "q")
    merge(table, twice).whenMatchedDelete().execute()  # gone in any case
    assert stored(table) == START[1:]


def test_an_insert_never_replaces_a_row(spark: SparkSession, table: SlateTable) -> None:
    source = rows_of(spark, ("a", 1, 99, "x"))
    with pytest.raises(InvalidRequestError, match='"id":1'):
        merge(table, source, "t.tenant = s.tenant AND t.n = s.n").whenNotMatchedInsertAll().execute()
    assert stored(table) == START
    replacing = merge(table, source, "t.n = s.n").whenNotMatchedInsertAll()
    replacing.whenNotMatchedBySourceDelete("t.id = 1").execute()  # the existing row is deleted
    assert stored(table) == [("a", 1, 99, "x"), START[1], START[3]]


def test_a_part_of_a_struct_is_no_column_of_its_name(spark: SparkSession, table: SlateTable) -> None:
    """The key that the condition compares is not the key that is inserted."""
    source = spark.sql(
        "SELECT named_struct('tenant', 'z', 'id', 9L) AS s, 'a' AS tenant, 1L AS id, 99 AS n, 'x' AS note"
    )
    for on in ("t.tenant = s.tenant AND t.id = s.id", "t.tenant = o.s.tenant AND t.id = o.s.id"):
        with pytest.raises(InvalidRequestError, match="insert"):
            table.alias("t").merge(source.alias("o"), on).whenNotMatchedInsertAll().execute()
    assert stored(table) == START


def test_a_row_keeps_its_key(spark: SparkSession, table: SlateTable) -> None:
    source = rows_of(spark, ("b", 7, 10, "x"))
    for value in ("s.id", "s.id + 1", "NULL"):
        with pytest.raises(InvalidRequestError, match="sets key column id to another value"):
            merge(table, source, "t.tenant = s.tenant AND t.id = 1").whenMatchedUpdate(set={"id": value}).execute()
    with pytest.raises(InvalidRequestError, match="sets key column id to another value"):
        merge(table, source).whenNotMatchedBySourceUpdate(set={"id": "id + 1"}).execute()
    with pytest.raises(InvalidRequestError, match="key"):
        merge(table, source, "t.n = s.n").whenMatchedUpdateAll().execute()
    assert stored(table) == START


def test_a_key_may_be_set_to_what_it_is(spark: SparkSession, table: SlateTable) -> None:
    source = rows_of(spark, ("a", 1, 11, "x"), ("c", 9, 9, "y"))
    every = {name: f"s.{name}" for name in source.columns}
    upsert = merge(table, source).whenMatchedUpdate(set=every).whenNotMatchedInsert(values=every)
    upsert.whenNotMatchedBySourceUpdate("t.id = 2 AND t.tenant = 'a'", {"id": "t.id + 0", "n": "0"}).execute()
    assert stored(table) == [("a", 1, 11, "x"), ("a", 2, 0, None), *START[2:], ("c", 9, 9, "y")]


def test_numbers_fit_their_columns_or_are_refused(spark: SparkSession, table: SlateTable) -> None:
    source = rows_of(spark, ("a", 1, 2**40, "x"), schema="tenant STRING, id INT, n BIGINT, note STRING")
    with pytest.raises(SchemaError, match="1099511627776"):
        merge(table, source).whenMatchedUpdateAll().execute()
    with pytest.raises(SchemaError, match=r"0.5"):
        merge(table, source).whenMatchedUpdate(set={"n": "t.n / 20.0D"}).execute()
    with pytest.raises(SchemaError, match="string"):
        merge(table, source).whenMatchedUpdate(set={"n": "s.note"}).execute()
    with pytest.raises(SchemaError, match="n"):
        merge(table, source).whenMatchedUpdate(set={"n": "NULL"}).execute()
    assert stored(table) == START
    merge(table, source).whenMatchedUpdate(set={"n": "s.n / pow(2, 38)", "note": "NULL"}).execute()
    assert stored(table)[0] == ("a", 1, 4, None)


def test_expressions_see_what_their_clause_may_use(spark: SparkSession, table: SlateTable) -> None:
    source = rows_of(spark, ("c", 1, 0, "x"), ("c", 2, 2, "x"))
    with pytest.raises(SchemaError, match=r"`t`\.`n`, which is no column of the source"):
        merge(table, source).whenNotMatchedInsertAll("t.n = 1").execute()
    with pytest.raises(SchemaError, match=r"`t`\.`n`, which is no column of the source"):
        merge(table, source).whenNotMatchedInsert(values={"tenant": "tenant", "id": "id", "n": "t.n"}).execute()
    with pytest.raises(SchemaError, match=r"`s`\.`n`, which is no column of the table"):
        merge(table, source).whenNotMatchedBySourceDelete("s.n = 1").execute()
    with pytest.raises(AnalysisException, match=r"(?i)ambiguous"):
        merge(table, source).whenMatchedDelete("n = 1").execute()
    # Evaluated only for the rows of the clause: elsewhere it would divide by zero.
    values = {"tenant": "tenant", "id": "id", "n": "2 div n"}
    merge(table, source).whenNotMatchedInsert("n > 0", values).execute()
    assert stored(table) == [*START, ("c", 2, 1, None)]


def test_rows_with_null_keys(spark: SparkSession, table: SlateTable) -> None:
    source = rows_of(spark, (None, 1, 1, "x"))
    merge(table, source).whenNotMatchedInsertAll().execute()
    assert stored(table) == [(None, 1, 1, "x"), *START]
    with pytest.raises(InvalidRequestError, match='"tenant":null'):
        merge(table, source).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    merge(table, source, "t.tenant <=> s.tenant AND t.id = s.id").whenMatchedDelete().execute()
    assert stored(table) == START


def test_source_and_target_may_be_the_same_table(spark: SparkSession, table: SlateTable) -> None:
    source = table.toDF().selectExpr("tenant", "id + 1 AS id", "n", "note")
    merge(table, source).whenMatchedUpdate(set={"n": "s.n"}).whenNotMatchedInsertAll().execute()
    assert stored(table) == [
        ("a", 1, 10, "one"),
        ("a", 2, 10, None),
        ("a", 3, 20, None),
        ("b", 1, 30, "three"),
        ("b", 2, 30, "four"),
        ("b", 3, 40, "four"),
    ]


def test_options_of_the_write(spark: SparkSession, table: SlateTable) -> None:
    source = rows_of(spark, ("a", 1, 11, "x"))
    merge(table, source).whenMatchedUpdateAll().execute(ttl="1d", compression="zstd")
    rows = table.toDF(metadataColumns="expire_ts").where("_expire_ts IS NOT NULL").collect()
    assert [row.n for row in rows] == [11]


def test_a_merge_depends_on_what_it_read(spark: SparkSession, table: SlateTable, monkeypatch: Any) -> None:
    begin: Callable[..., Any] = TableFrames.begin_change
    store = SlateStore.open(only(table.detail())["url"])

    def begin_late(self: TableFrames, *narrowed: Any) -> Any:
        change = begin(self, *narrowed)
        store.write(pa.table({"tenant": ["z"], "id": [1], "n": pa.array([1], pa.int32()), "note": ["late"]}))
        return change

    monkeypatch.setattr(TableFrames, "begin_change", begin_late)
    with pytest.raises(TransactionConflictError):
        merge(table, rows_of(spark, ("a", 1, 11, "x"))).whenMatchedUpdateAll().execute()
    assert stored(table) == [*START, ("z", 1, 1, "late")]
    source = rows_of(spark, ("a", 1, 11, "x"), ("b", 1, 11, "x"))
    merge(table, source, f"t.tenant = 'a' AND {ON}").whenMatchedUpdateAll().execute()  # reads nothing of tenant z
    assert stored(table)[:3] == [("a", 1, 11, "x"), *START[1:3]]


def test_an_upsert_by_the_whole_key_depends_on_what_it_writes(
    spark: SparkSession, table: SlateTable, monkeypatch: Any
) -> None:
    begin: Callable[..., Any] = TableFrames.begin_change
    store = SlateStore.open(only(table.detail())["url"])

    def begin_late(self: TableFrames, *narrowed: Any) -> Any:
        change = begin(self, *narrowed)
        store.write(pa.table({"tenant": ["z"], "id": [1], "n": pa.array([1], pa.int32()), "note": ["late"]}))
        return change

    monkeypatch.setattr(TableFrames, "begin_change", begin_late)
    source = rows_of(spark, ("a", 1, 11, "x"), ("c", 1, 11, "x"))
    merge(table, source).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    left = [("a", 1, 11, "x"), *START[1:], ("c", 1, 11, "x"), ("z", 1, 1, "late")]
    assert stored(table) == left
    builder = merge(table, rows_of(spark, ("a", 1, 12, "y"), ("z", 1, 12, "y")))
    with pytest.raises(TransactionConflictError, match="tenant='z', id=1"):
        builder.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert stored(table) == left


def test_merges_that_write_something_for_every_row_of_the_source() -> None:
    update, insert = MergeClause("matched", "update"), MergeClause("notMatched", "insert")
    some = MergeClause("matched", "delete", "t.id = 1")
    purge = MergeClause("notMatchedBySource", "delete", "t.id = 1")
    assert writes_every_row([update, insert])
    assert writes_every_row([insert, some, update])
    for clauses in (
        [update],
        [insert],
        [some, insert],
        [update, insert, purge],
        [update, insert, replace(purge, condition=None)],
    ):
        assert not writes_every_row(clauses)


def test_what_a_condition_says_of_the_target_alone(spark: SparkSession) -> None:
    """The filter never excludes a row that matches: the merge would leave that row unchanged."""
    matched, inserted = MergeClause("matched", "delete"), MergeClause("notMatched", "insert")
    schema = pa.schema([("tenant", pa.string()), ("id", pa.int64()), ("true", pa.bool_())])
    source = spark.range(1).select(F.lit("a").alias("tenant"), "id")

    def found(condition: Any, *clauses: MergeClause, alias: str | None = "t") -> str | None:
        return find_target_filter(condition, clauses or (matched,), source, alias, schema)

    assert found(f"t.tenant = 'a' AND {ON} and T.id IN (1, 2)") == "tenant = 'a' AND id IN (1, 2)"
    assert found("t.id < 5 AND t.nothing = 1 AND t.id = s.id AND 3 > t.id AND s.id > 1") == "id < 5"
    assert found("t.tenant = 'x' AND s.tenant = t.tenant", matched, matched) == "tenant = 'x'"
    for nothing in (
        ON,
        "t.id = 1 OR t.tenant = s.tenant AND t.id = 2",
        "NOT (t.id = 1 AND t.id = 2)",
        "(t.id = s.id OR t.id = 2)",
        "(SELECT t.id = 1 AND t.id = 2)",
        "t.true = id",
        "coalesce(t.id = 1 AND t.id = 2, true)",
        "s.tenant = 'b AND t.id = 2 AND c'",
        "CASE WHEN t.tenant = 'a' AND t.id = 1 THEN true END",
        "t.id = s.id -- AND t.id = 1",
        "coalesce(s.tenant = ')' AND t.id = 1 AND s.tenant = '(', true)",
        't.id = s.id AND s.tenant <> " AND t.id = 1 AND "',
        "s.tenant = '\\' AND t.id = 1 AND \\'",
        "s.`tenant AND t.id = 1 AND t` = 1",
        "array(t.id > 1 AND t.id = 1 AND s.id = 2)[0]",
        "t.id BETWEEN s.id AND 2",
        F.expr("t.id = 1"),
    ):
        assert found(nothing) is None, nothing
    assert found("t.tenant = 'a AND (b' AND s.tenant = ' OR ' AND t.id=1") == "tenant = 'a AND (b' AND id=1"
    assert found("t.tenant = 'it''s' AND s.tenant = 'b'") == "tenant = 'it''s'"
    assert found("(t.id = s.id AND (t.id = 2)) AND NOT (t.id = 1)") == "id = 2"
    assert found("t.id BETWEEN 1 AND 2 AND (t.id = s.id OR s.id = 1)") == "id BETWEEN 1 AND 2"
    assert found('`T`.`id`/* \' AND */= 1 AND s.`tenant AND t` = " AND t.id = 2" -- AND t.id = 3') == "`id` = 1"
    assert found("t.id = 1", matched, inserted) is None
    assert found("t.id = 1", MergeClause("notMatchedBySource", "delete")) is None
    assert found("t.id = 1", alias=None) is found("id.id = 1", alias="id") is None


def test_no_condition_matches_more_than_what_is_read_for_it(spark: SparkSession) -> None:
    """Random conditions, each with the filter that narrows its read, in one query of Spark."""
    dice = Dice(20)
    atoms = """
        t.tenant = 'a'|t.id = s.id|t.tenant = s.tenant|t.id > 1|t.tenant LIKE 'a%'|s.id = 1|s.note <> ')'|s.note = '('
        t.tenant <> ' AND t.id = 1 AND '|t.tenant <> 'it''s'|s.note <> " AND t.id = 1 AND "|t.id IN (1, 2)|t.id <> 3
        s.note <> '\\' AND t.id = 1 AND \\''|s.`AND t.id = 1 AND t` = 1|t.tenant <> ' OR '|t.id <> -1 /* ' */
        t.id BETWEEN 0 AND 1|CASE WHEN t.id = 1 AND s.id = 1 THEN true ELSE s.note IS NULL END|t.id /* AND ( */ > 0
        CAST(t.id AS STRING) = '1'|t.id::INT = 2|(t.tenant = 'a' AND s.note <> ')')|`t`.`id` = 2|t.id NOT IN (1, 3)
    """
    joined = "({0} AND {1})|{0} OR {1}|NOT ({0})|coalesce({0} AND {1} AND {2}, true)|array({0} AND {1})[0]"
    plain = [atom.strip() for atom in atoms.replace("\n", "|").split("|") if atom.strip()]
    schema = pa.schema([("tenant", pa.string()), ("id", pa.int64())])
    source = spark.createDataFrame(
        [("a", 1, "(", 1), ("b", 2, ")", 1), ("a", 2, "x", 2)],
        "tenant STRING, id INT, note STRING, `AND t.id = 1 AND t` INT",
    )
    target = spark.createDataFrame(
        [(tenant, n) for tenant in ("a", "b", "it's") for n in (1, 2)], "tenant STRING, id BIGINT"
    )

    def conjunct() -> str:
        parts = [dice.choice(plain) for _ in range(3)]
        return dice.choice(joined.split("|")).format(*parts) if dice.random() < 0.2 else parts[0]

    texts = [" AND ".join(conjunct() for _ in range(dice.randint(1, 4))) for _ in range(100)]
    narrowed = [find_target_filter(text, (MergeClause("matched", "delete"),), source, "t", schema) for text in texts]
    assert 10 < sum(text is not None for text in narrowed) < 90
    pairs = target.alias("t").crossJoin(source.alias("s"))
    read = [(text, found) for text, found in zip(texts, narrowed, strict=True) if found is not None]
    missed = [F.count_if(F.expr(f"({text}) AND NOT coalesce({_of_target(found)}, false)")) for text, found in read]
    [counts] = pairs.select(missed).collect()
    assert [item for item, count in zip(read, counts, strict=True) if count] == []


def _of_target(condition: str) -> str:
    """Return a filter on the target alone as a condition on both sides."""
    names = re.compile(r"('(?:[^']|'')*')|`?\b(tenant|id)\b`?")
    return names.sub(lambda found: found[1] or f"t.{found[2]}", condition)


def test_names_that_differ_by_their_case_alone(spark: SparkSession, table: SlateTable) -> None:
    source = rows_of(spark, ("a", 2, 99, "hit")).alias("T")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        both = table.alias("t").merge(source, "T.tenant = 'a' AND t.id = T.id")
        both.whenMatchedUpdate(set={"note": "'hit'"}).execute()
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert [row[:2] for row in stored(table) if row[3] == "hit"] == [("a", 2), ("b", 2)]


def test_errors_keep_their_class_where_spark_gives_them_none(spark: SparkSession, table: SlateTable) -> None:
    source = rows_of(spark, ("a", 2, 1, "one"), ("a", 2, 2, "two"))
    setting = "spark.sql.legacy.raiseErrorWithoutErrorClass"
    spark.conf.set(setting, "true")
    try:
        with pytest.raises(InvalidRequestError):
            merge(table, source).whenMatchedUpdateAll().execute()
    finally:
        spark.conf.unset(setting)


# --- what the builder refuses, without a job ------------------------------------------------------------------------


def test_clauses_that_nothing_reaches(spark: SparkSession, table: SlateTable) -> None:
    builder = merge(table, rows_of(spark, *START))
    with pytest.raises(InvalidRequestError, match="clause"):
        builder.execute()
    with pytest.raises(InvalidRequestError, match="whenMatchedDelete"):
        builder.whenMatchedUpdateAll().whenNotMatchedInsertAll().whenMatchedDelete("s.n = 1")
    with pytest.raises(InvalidRequestError, match="whenNotMatchedBySourceDelete"):
        builder.whenNotMatchedBySourceDelete().whenNotMatchedBySourceDelete()
    with pytest.raises(InvalidRequestError, match="whenMatchedUpdate"):
        builder.whenMatchedUpdate("s.n = 1")


def test_columns_that_are_not_there(spark: SparkSession, table: SlateTable) -> None:
    builder = merge(table, rows_of(spark, *START).drop("note"))
    with pytest.raises(SchemaError, match="note") as info:
        builder.whenMatchedUpdateAll().execute()
    assert "Key column" not in str(info.value)
    with pytest.raises(SchemaError, match="nope"):
        builder.whenMatchedUpdate(set={"nope": "1"}).execute()
    with pytest.raises(SchemaError, match="twice"):
        builder.whenMatchedUpdate(set={"n": "1", "t.N": "2"}).execute()
    with pytest.raises(InvalidRequestError, match="key"):
        builder.whenNotMatchedInsert(values={"tenant": "tenant", "n": "1"}).execute()


@pytest.mark.parametrize("name", ["__slate_choice", "__SLATE_op"])
def test_a_source_with_a_column_of_the_merge(spark: SparkSession, table: SlateTable, name: str) -> None:
    with pytest.raises(SchemaError):
        merge(table, rows_of(spark, *START).selectExpr("*", f"3 AS {name}")).whenMatchedUpdateAll().execute()


def test_a_source_with_two_columns_of_one_name(spark: SparkSession, table: SlateTable) -> None:
    source = rows_of(spark, *START)
    doubled = source.alias("s").join(source.selectExpr("tenant", "id AS ID", "9 AS N").alias("u"), "tenant")
    values = {"tenant": "s.tenant", "id": "s.id", "n": "u.n"}
    for builder in (
        merge(table, doubled).whenNotMatchedInsert(values=values),
        merge(table, doubled).whenMatchedDelete(),
    ):
        with pytest.raises(SchemaError, match="several columns id"):
            builder.execute()
    assert stored(table) == [*START]


@pytest.mark.parametrize("name", ["opColumn", "op_column", "operation"])
def test_a_merge_decides_itself_what_happens_to_a_row(spark: SparkSession, table: SlateTable, name: str) -> None:
    with pytest.raises(OptionError, match=f"{name} does not apply"):
        merge(table, rows_of(spark, *START)).whenMatchedUpdateAll().execute(**{name: "note"})
    merge(table, rows_of(spark, ("a", 1, 0, "x"))).whenMatchedUpdate(set={"n": "7"}).execute(opColumn=None)
    assert stored(table)[0] == ("a", 1, 7, START[0][3])


@pytest.mark.parametrize("condition", [None, True, [], ["id"]])
def test_a_condition_that_is_none_is_refused(spark: SparkSession, table: SlateTable, condition: object) -> None:
    """Spark would pair all rows, and a deletion of matched ones empty the table."""
    with pytest.raises(InvalidRequestError):
        table.merge(table.toDF(), condition)  # type: ignore[arg-type]


@pytest.mark.parametrize("condition", [True, 5, ["id"]])
def test_what_is_no_expression_is_refused_everywhere(table: SlateTable, condition: Any) -> None:
    merge = table.alias("t").merge(table.toDF().alias("s"), "t.tenant = s.tenant AND t.id = s.id")
    calls: list[Callable[[], object]] = [
        lambda: table.delete(condition),
        lambda: table.update(condition, {"n": "1"}),
        lambda: table.toDF(where=condition),
        lambda: table.begin().delete(condition),
        lambda: merge.whenMatchedDelete(condition),
        lambda: merge.whenNotMatchedInsertAll(condition),
    ]
    for call in calls:
        with pytest.raises(InvalidRequestError):
            call()
    with pytest.raises(OptionError):
        table.alias(condition)
    assert stored(table) == START


def test_names_of_columns_are_text(table: SlateTable) -> None:
    merge = table.merge(table.toDF().alias("s"), "true")
    for clause in (merge.whenMatchedUpdate, merge.whenNotMatchedInsert, merge.whenNotMatchedBySourceUpdate):
        with pytest.raises(InvalidRequestError):
            clause(None, {1: "5"})  # type: ignore[dict-item]


@pytest.mark.parametrize("rows", [None, [1], pa.table({"id": [1]})], ids=["none", "list", "arrow"])
def test_other_rows_than_those_of_spark_are_refused(table: SlateTable, rows: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: table.merge(rows, "true"),
        lambda: table.write(rows),
        lambda: table.lookup(rows),
        lambda: table.asOf(rows, "at"),
        lambda: table.begin().write(rows),
    ]
    for call in calls:
        with pytest.raises(InvalidRequestError):
            call()
