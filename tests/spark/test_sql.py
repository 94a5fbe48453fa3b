"""`slatespark.sql`: statements on tables by path and by view, judged by what the table holds afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

import slatespark
from slatespark import (
    InvalidRequestError,
    OptionError,
    SchemaError,
    SlateError,
    SlateStore,
    TableExistsError,
    TransactionConflictError,
)
from slatespark.format.ulid import make_ulid
from slatespark.spark.frames.table_frames import TableFrames
from slatespark.spark.pyspark_api import working_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Run: TypeAlias = "Callable[[str], DataFrame]"


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Run:
    """Run a statement in which T is the table `(tenant, id, name, n)` with three rows."""
    path = tmp_path / "t{a}"  # braces must not confuse PySpark
    table = f"slate.`{path}`"
    slatespark.sql(
        spark,
        f"CREATE TABLE {table} (tenant STRING, id BIGINT NOT NULL, name STRING, n INT, m MAP<STRING, INT>, "
        "PRIMARY KEY (tenant, id)) USING slate TBLPROPERTIES ('defaultTtl' = '300d')",
    )
    slatespark.SlateTable.forPath(spark, path).write(
        spark.sql(
            "SELECT * FROM VALUES ('a', 1, 'x', 1), ('a', 2, 'y', 2), ('b', 1, 'z', 3) v(tenant, id, name, n)"
        ).selectExpr("*", "map('k', n) AS m")
    )
    return lambda text: slatespark.sql(spark, text.replace("@T", table))


def rows(run: Run, columns: str = "tenant, id, name, n") -> list[tuple[Any, ...]]:
    return [tuple(row) for row in run(f"SELECT {columns} FROM @T ORDER BY tenant, id").collect()]


FIRST = [("a", 1, "x", 1), ("a", 2, "y", 2), ("b", 1, "z", 3)]


def test_a_created_table_is_what_the_statement_says(run: Run, spark: SparkSession, tmp_path: Path) -> None:
    definition = SlateStore.open(tmp_path / "t{a}").definition
    assert definition.key_columns == ("tenant", "id")
    assert definition.properties == {"defaultTtl": "300d"}
    assert definition.schema is not None
    assert definition.schema.names == ["tenant", "id", "name", "n", "m"]
    assert not definition.schema.field("id").nullable
    with pytest.raises(TableExistsError):
        run("CREATE TABLE @T (id BIGINT PRIMARY KEY)")
    run("CREATE TABLE IF NOT EXISTS @T (tenant STRING, id BIGINT, PRIMARY KEY (tenant, id))")
    with pytest.raises(InvalidRequestError):
        run("CREATE TABLE IF NOT EXISTS @T (id BIGINT PRIMARY KEY)")


def test_fields_may_have_the_names_of_clauses(spark: SparkSession, tmp_path: Path) -> None:
    kind = "STRUCT<comment: STRING, check: INT, default: ARRAY<STRUCT<mask: INT, unique: INT>>>"
    slatespark.sql(spark, f"CREATE TABLE slate.`{tmp_path / 'named'}` (id BIGINT PRIMARY KEY, s {kind})")
    schema = SlateStore.open(tmp_path / "named").definition.schema
    assert schema is not None
    assert [field.name for field in schema.field("s").type] == ["comment", "check", "default"]


def test_updates_and_deletes(run: Run) -> None:
    run("UPDATE @T AS t SET t.n = t.n * 10, name = concat(name, '{b}, WHERE') WHERE t.tenant = 'a' AND n > 1;")
    assert rows(run) == [("a", 1, "x", 1), ("a", 2, "y{b}, WHERE", 20), ("b", 1, "z", 3)]
    run("delete from @T where tenant = 'a' and id in (1, 2)")
    assert rows(run) == [("b", 1, "z", 3)]
    run("UPDATE @T SET n = CASE WHEN n > 2 THEN 0 END")
    assert rows(run) == [("b", 1, "z", 0)]
    run("DELETE FROM @T")
    assert rows(run) == []


def test_inserts(run: Run) -> None:
    run("INSERT INTO @T VALUES ('c', 1, 'w', 4, NULL), ('a', 1, 'X', 5, map('k', 5))")
    assert rows(run) == [("a", 1, "X", 5), *FIRST[1:], ("c", 1, "w", 4)]
    run("INSERT INTO TABLE @T (n, `id`, TENANT) (SELECT n + 1, id, tenant FROM @T WHERE tenant = 'c');")
    assert rows(run)[-1] == ("c", 1, None, 5)
    run("INSERT INTO @T BY NAME SELECT 2 AS id, 'd' AS tenant")
    assert rows(run)[-1] == ("d", 2, None, None)
    run("INSERT INTO @T (tenant, id) WITH x AS (SELECT 'e' AS a) SELECT a, 3S FROM x")
    assert rows(run)[-1] == ("e", 3, None, None)
    run("INSERT INTO @T (tenant, id, name) VALUES ('f', 1, 'A roof of slate. Nice, a slate.`x`')")
    assert rows(run)[-1] == ("f", 1, "A roof of slate. Nice, a slate.`x`", None)
    run("INSERT INTO @T (TABLE @T)")
    assert run("TABLE @T UNION ALL TABLE @T").count() == 2 * len(rows(run))
    query = "SELECT start, end, CASE WHEN end > 1 THEN 2 END FROM VALUES ('g', 2) v(start, end)"
    run(f"INSERT INTO @T (tenant, id, n) {query}")
    assert rows(run)[-1] == ("g", 2, None, 2)


def test_inserts_that_replace(run: Run) -> None:
    run("INSERT INTO @T REPLACE WHERE tenant = 'a' AND id >= 2 SELECT tenant, id + 1, name, n, m FROM @T WHERE id = 2")
    assert rows(run) == [FIRST[0], ("a", 3, "y", 2), FIRST[2]]
    run("INSERT OVERWRITE TABLE @T (tenant, id) VALUES ('z', 9)")
    assert rows(run) == [("z", 9, None, None)]
    run("INSERT OVERWRITE @T SELECT * FROM @T LIMIT 0")
    assert rows(run) == []


@pytest.mark.parametrize(
    ("statement", "is_refused"),
    [
        ("INSERT OVERWRITE @T SELECT * FROM @T", True),
        ("INSERT INTO @T REPLACE WHERE tenant = 'z' SELECT 'z', id, name, n, m FROM @T", True),
        ("INSERT INTO @T SELECT tenant, id, name, n + 1, m FROM @T AS t", True),
        ("INSERT OVERWRITE @T SELECT * FROM @T VERSION AS OF 3", False),
        ("INSERT OVERWRITE @T VALUES ('c', 1, 'w', 4, NULL)", False),
    ],
)
def test_an_insert_of_what_it_reads_conflicts_with_later_commits(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, is_refused: bool
) -> None:
    """Rows that another writer commits after the query has read the table would be lost."""
    load, store = TableFrames.load, SlateStore.open(tmp_path / "t{a}")
    schema = store.definition.schema
    late = pa.Table.from_pylist([{"tenant": "z", "id": 9, "name": "late", "n": 9}], schema=schema)

    def load_late(frames: TableFrames, read: DataFrame, *args: Any, **options: Any) -> None:
        read.count()
        store.write(late)
        load(frames, read, *args, **options)

    monkeypatch.setattr(TableFrames, "load", load_late)
    if is_refused:
        with pytest.raises(TransactionConflictError):
            run(statement)
        assert rows(run) == [*FIRST, ("z", 9, "late", 9)]
    else:
        run(statement)
        assert ("z", 9, "late", 9) not in rows(run)


def test_times_without_an_offset_are_of_the_session(run: Run, spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "times"
    day = "ts >= TIMESTAMP '2024-01-01 00:00:00' AND ts < '2024-01-02'"
    slatespark.sql(spark, f"CREATE TABLE slate.`{path}` (ts TIMESTAMP, n INT, PRIMARY KEY (ts))")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        slatespark.sql(
            spark,
            f"INSERT INTO slate.`{path}` SELECT CAST(ts AS TIMESTAMP), n "
            "FROM VALUES ('2023-12-31 20:00:00', 1), ('2024-01-01 20:00:00', 2) AS v(ts, n)",
        )
        noon = "SELECT TIMESTAMP '2024-01-01 12:00:00', 9"
        slatespark.sql(spark, f"INSERT INTO slate.`{path}` REPLACE WHERE {day} {noon}")
        found = slatespark.sql(spark, f"SELECT string(ts) AS ts, n FROM slate.`{path}` ORDER BY ts").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert [tuple(row) for row in found] == [("2023-12-31 20:00:00", 1), ("2024-01-01 12:00:00", 9)]


def test_a_merge_with_every_clause(run: Run, spark: SparkSession) -> None:
    spark.sql("SELECT * FROM VALUES ('a', 1L, 0), ('a', 2L, 7), ('c', 9L, 5) v(tenant, id, n)").createOrReplaceTempView(
        "sql_changes"
    )
    run(
        """MERGE INTO @T AS t USING sql_changes AS s ON t.tenant = s.tenant AND t.id = s.id
        WHEN MATCHED AND s.n = 0 THEN DELETE
        WHEN MATCHED THEN UPDATE SET t.n = CASE WHEN s.n > 5 THEN t.n + s.n ELSE 0 END, name = 'up'
        WHEN NOT MATCHED THEN INSERT (tenant, id, name) VALUES (s.tenant, s.id, concat('new', ', ', s.n))
        WHEN NOT MATCHED BY SOURCE AND t.n = 3 THEN UPDATE SET n = t.n + 100
        WHEN NOT MATCHED BY SOURCE THEN DELETE"""
    )
    assert rows(run) == [("a", 2, "up", 9), ("b", 1, "z", 103), ("c", 9, "new, 5", None)]


def test_a_merge_of_a_query_and_of_the_table_itself(run: Run) -> None:
    run(
        "MERGE INTO @T t USING (SELECT tenant, id, 'old' AS name, n + 1 AS n, m FROM @T VERSION AS OF 3 WHERE n < 3) s "
        "ON t.tenant = s.tenant AND t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(run) == [("a", 1, "old", 2), ("a", 2, "old", 3), ("b", 1, "z", 3)]


def test_queries_read_versions_and_times(run: Run, spark: SparkSession) -> None:
    run("DELETE FROM @T WHERE tenant = 'a'")
    history = run("DESCRIBE HISTORY @T").selectExpr("version", "string(timestamp) AS timestamp").collect()
    assert [row.version for row in history] == [row.version for row in run("DESC HISTORY @T LIMIT 99").collect()]
    assert run("DESCRIBE HISTORY @T LIMIT 1").count() == 1
    assert rows(lambda text: run(text.replace("@T", "@T VERSION AS OF 3"))) == FIRST
    written = next(row.timestamp for row in history if row.version == 3)
    assert rows(lambda text: run(text.replace("@T", f"@T TIMESTAMP AS OF '{written}'"))) == FIRST
    asked = run(
        "WITH gone AS (SELECT t.id, t.tenant FROM @T FOR VERSION AS OF 3 AS t LEFT ANTI JOIN @T u USING (tenant, id)) "
        "SELECT (SELECT count(*) FROM @T) AS left_over, count(*) AS gone, '{}' AS braces FROM gone"
    )
    assert [tuple(row) for row in asked.collect()] == [(1, 2, "{}")]


def test_views_stand_for_their_table(run: Run, spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t{a}"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW sql_whole USING slate OPTIONS (path '{path}')")
    spark.read.format("slate").option("versionAsOf", 3).load(str(path)).createOrReplaceTempView("sql_past")
    spark.read.format("slate").load(str(path)).where("n > 1").createOrReplaceTempView("sql_part")
    run("UPDATE sql_whole SET n = sql_whole.n + 1 WHERE sql_whole.tenant = 'b'")
    assert rows(run)[2] == ("b", 1, "z", 4)
    old = run("SELECT sql_whole.n FROM sql_whole VERSION AS OF 3 WHERE sql_whole.tenant = 'b'").collect()
    assert [row.n for row in old] == [3]
    with pytest.raises(OptionError, match="versionAsOf"):
        run("DELETE FROM sql_past")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW sql_few (tenant STRING, n INT) USING slate OPTIONS (path '{path}')")
    with pytest.raises(OptionError, match="its columns are tenant, n, but"):
        run("DELETE FROM sql_few WHERE name = 'z'")
    few = run("SELECT * FROM sql_few VERSION AS OF 3")
    assert (few.columns, few.count()) == (["tenant", "n"], 3)
    with pytest.raises(Exception, match=r"sql_part|relation"):  # not a whole table, so it is Spark's
        run("DELETE FROM sql_part")
    with pytest.raises(Exception, match="sql_whole"):  # a name of the query's own hides the view
        run("WITH sql_whole AS (SELECT 1 AS n) SELECT n FROM sql_whole VERSION AS OF 3")
    assert len(rows(run)) == 3


def test_a_view_of_a_relative_path_is_the_table_that_it_reads(
    run: Run, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = os.path.relpath(tmp_path / "t{a}", working_folder(spark))
    spark.read.format("slate").load(place).createOrReplaceTempView("sql_relative")
    monkeypatch.chdir(tmp_path)
    run("UPDATE sql_relative SET n = 7 WHERE tenant = 'b'")
    assert rows(run)[2] == ("b", 1, "z", 7)


def test_a_view_of_a_relative_place_of_the_wal(
    run: Run, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SlateStore.create(tmp_path / "apart", "id BIGINT", "id", walPath=tmp_path / "logs")
    logs = os.path.relpath(tmp_path / "logs", working_folder(spark))
    spark.read.format("slate").option("walPath", logs).load(f"{tmp_path}/apart").createOrReplaceTempView("sql_apart")
    monkeypatch.chdir(tmp_path / "apart" / "manifest")
    run("INSERT INTO sql_apart VALUES (1)")
    assert list((tmp_path / "logs" / "wal").iterdir())


def test_a_view_outlives_a_new_column(run: Run, spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t{a}"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW sql_older USING slate OPTIONS (path '{path}')")
    evolve = (
        "MERGE WITH SCHEMA EVOLUTION INTO sql_older t USING (SELECT *, 'y' AS later FROM VALUES "
        "('a', 1L, 'x', @N, map('k', 1)) v(tenant, id, name, n, m)) s "
        "ON t.tenant = s.tenant AND t.id = s.id WHEN MATCHED THEN UPDATE SET *"
    )
    for number in (7, 8):
        run(evolve.replace("@N", str(number)))
        assert rows(run, "n, later")[0] == (number, "y")
    old = run("SELECT * FROM sql_older VERSION AS OF 3 ORDER BY tenant, id")
    assert [tuple(row)[:-1] for row in old.collect()] == FIRST
    assert run("DESCRIBE HISTORY sql_older LIMIT 2").count() == 2
    assert run("OPTIMIZE sql_older FULL").count() == 1
    assert run("VACUUM sql_older DRY RUN").count() > 0
    for statement in ("UPDATE sql_older SET n = 1", "INSERT INTO sql_older VALUES ('c', 1, 'w', 4, NULL)"):
        with pytest.raises(OptionError, match="those of the table are tenant, id, name, n, m, later"):
            run(statement)
    run("RESTORE TABLE sql_older TO VERSION AS OF 3")
    assert rows(run) == FIRST
    slatespark.SlateTable.forPath(spark, path).dropColumns("name")
    with pytest.raises(OptionError, match="those of the table are tenant, id, n, m, later"):
        run("SELECT id FROM sql_older VERSION AS OF 3")


def test_the_format_may_be_in_backticks(run: Run, tmp_path: Path) -> None:
    quoted = f"`slate`.`{tmp_path / 't{a}'}`"
    run(f"INSERT INTO {quoted} SELECT tenant, id, 'new', n, m FROM {quoted} AS t")
    run(f"MERGE INTO @T t USING {quoted} AS s ON t.tenant = s.tenant AND t.id = s.id WHEN MATCHED THEN DELETE")
    assert run(f"SELECT * FROM {quoted}").count() == 0


UNQUOTED = [
    "SELECT * FROM slate.orders AS o",
    "TABLE slate.orders",
    "SELECT * FROM `slate`.orders",
    "INSERT INTO slate.orders VALUES (1)",
    "UPDATE slate.orders SET a = 1",
    "DELETE FROM slate.orders",
    "CREATE TABLE slate.orders (id INT) USING parquet",
    "DESCRIBE HISTORY slate.orders",
    "VACUUM slate.orders",
    "MERGE INTO @T AS t USING slate.orders AS o ON t.id = o.id WHEN MATCHED THEN DELETE",
]


@pytest.mark.parametrize("statement", UNQUOTED)
def test_a_path_without_backticks_is_explained(run: Run, statement: str) -> None:
    with pytest.raises(OptionError, match="backticks") as caught:
        run(statement)
    assert ">>>orders<<<" in str(caught.value) or "after" in str(caught.value)


def test_a_table_of_a_database_of_that_name_is_sparks(run: Run, spark: SparkSession) -> None:
    spark.sql("CREATE DATABASE slate")
    try:
        run("CREATE TABLE slate.orders (id INT) USING parquet")
        run("INSERT INTO slate.orders VALUES (2)")
        for query in ("SELECT * FROM slate.orders", "TABLE slate.orders"):
            assert [row.id for row in run(query).collect()] == [2]
        run("DELETE FROM @T WHERE id IN (SELECT id FROM slate.orders)")
        assert rows(run) == [FIRST[0], FIRST[2]]
        with pytest.raises(OptionError, match="backticks"):
            run("SELECT * FROM slate.other")
    finally:
        spark.sql("DROP DATABASE slate CASCADE")


def test_upkeep(run: Run, tmp_path: Path) -> None:
    run("UPDATE @T SET n = 0")
    jobs = run("OPTIMIZE @T FULL").collect()
    assert [(job.rowsIn, job.rowsOut) for job in jobs] == [(6, 3)]
    files = run("VACUUM @T RETAIN 24 HOURS DRY RUN").collect()
    assert {file.action for file in files} == {"kept"}
    (restored,) = run("RESTORE TABLE @T TO VERSION AS OF 3").collect()
    assert rows(run) == FIRST
    assert SlateStore.open(tmp_path / "t{a}").detail().version == restored.version


def test_a_vacuum_deletes_what_is_as_old_as_it_says(run: Run, tmp_path: Path) -> None:
    written_s = tmp_path.stat().st_mtime - 30 * 3600  # the fixture wrote there a moment ago
    left_behind = tmp_path / "t{a}" / "compacted" / f"{make_ulid(int(written_s * 1000), 1)}.sst"
    left_behind.write_bytes(b"of no version")
    os.utime(left_behind, (written_s, written_s))
    for options, action in (
        ("RETAIN 31 HOURS", "kept"),
        ("RETAIN 29 HOURS DRY RUN", "would delete"),
        ("DRY RUN", "would delete"),
        ("RETAIN 29 HOURS", "deleted"),
    ):
        found = {file.path: file.action for file in run(f"VACUUM @T {options}").collect()}
        assert found[f"compacted/{left_behind.name}"] == action
        assert left_behind.exists() == (action != "deleted")
    assert rows(run) == FIRST


def test_hints_and_comments_of_a_query_stay(run: Run) -> None:
    found = run(
        "-- slate.`x`\n/* {} */ SELECT /*+ BROADCAST(t) */ max(t.n) AS n FROM @T /* here */ t -- VERSION AS OF 1"
    )
    assert [row.n for row in found.collect()] == [3]


def test_other_statements_are_sparks(run: Run) -> None:
    assert [row.n for row in run("SELECT 1 AS n").collect()] == [1]
    assert run("SHOW DATABASES").count() >= 1
    assert [row.a for row in run("VALUES ('of slate.', 1) AS v(a, b)").collect()] == ["of slate."]
    assert [row.n for row in run("SELECT $n FROM VALUES (1) v(`$n`)".replace("$n", "`$n` AS n", 1)).collect()] == [1]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE @T SET n = 1 WHERE id = 1 LIMIT 1 RETURNING id",
        "UPDATE @T SET n = DEFAULT",
        "UPDATE @T SET n = 1, N = 2",
        "UPDATE @T SOT n = 1",
        "UPDATE @T SET n = (1",
        "UPDATE @T SET id = 5",
        "UPDATE @T SET n = 'a' WHERE",
        "UPDATE @T SET unknown = 1",
        "UPDATE @T SET n = 1 other",
        "UPDATE @T SET n = 1 WHERE id = 1 LIMIT",
        "DELETE FROM @T WHERE id = 1 LIMIT",
        "DELETE FROM @T WHERE id = 1 AS x",
        "MERGE INTO @T t USING (SELECT 1 AS id) s ON t.id = s.id x WHEN MATCHED THEN DELETE",
        "MERGE INTO @T t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED AND n = 1 x THEN DELETE",
        "DELETE @T",
        "DELETE FROM @T USING x",
        "DELETE FROM @T WHERE name = 'open",
        "MERGE INTO @T USING x ON true",
        "MERGE INTO @T t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = 1 ELSE",
        "MERGE INTO @T t USING (SELECT 1 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (1, 2)",
        "MERGE INTO @T t USING (SELECT 1 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN DELETE",
        "MERGE /*+ hint */ INTO @T t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "CREATE TABLE slate.`/nowhere/x` (id BIGINT)",
        "CREATE TABLE slate.`/nowhere/x` (id BIGINT PRIMARY KEY) PARTITIONED BY (id)",
        "CREATE TABLE slate.`/nowhere/x` (id BIGINT PRIMARY KEY COMMENT 'x')",
        "CREATE TABLE slate.`/nowhere/x` (id BIGINT DEFAULT 1, PRIMARY KEY (id))",
        "CREATE TABLE slate.`/nowhere/x` (id BIGINT PRIMARY KEY) AS SELECT 1 AS id",
        "CREATE TABLE slate.`/nowhere/x` (id BIGINT PRIMARY KEY) TBLPROPERTIES ('defaultTlt' = '1d')",
        "CREATE TABLE slate.`/nowhere/x` (id BIGINT PRIMARY KEY) TBLPROPERTIES ('path' = '/elsewhere')",
        "CREATE OR REPLACE TABLE @T (id BIGINT PRIMARY KEY)",
        "CREATE TABLE named (id BIGINT) USING slate",
        "INSERT INTO @T SELECT 1",
        "INSERT INTO @T VALUES ('c', 1, 'w', 4)",
        "INSERT INTO @T (tenant, id, nam) VALUES ('c', 1, 'w')",
        "INSERT INTO @T (tenant, id, TENANT) VALUES ('c', 1, 'w')",
        "INSERT INTO @T (tenant, name) VALUES ('c', 'w')",
        "INSERT INTO @T (tenant, id, n) VALUES ('c', 1, map('k', 1))",
        "INSERT INTO @T (tenant, id, n) VALUES ('c', 1, 3000000000)",
        "INSERT INTO @T (tenant, id) PARTITION (x = 1) VALUES ('c', 1)",
        "INSERT INTO @T BY NAME SELECT 'c' AS tenant, 1 AS id, 1 AS other",
        "INSERT INTO @T",
        "INSERT INTO @T (tenant, id",
        "INSERT INTO @T (tenant, id) VALUES ('c', 1) x y",
        "INSERT INTO @T REPLACE WHERE n = 1 SELECT * FROM @T",
        "INSERT INTO @T REPLACE WHERE tenant = 'a' SELECT 'b' AS tenant, 2 AS id, 'x', 1, NULL",
        "INSERT OVERWRITE @T REPLACE WHERE tenant = 'a' SELECT * FROM @T",
        "INSERT @T SELECT * FROM @T",
        "INSERT INTO somewhere SELECT * FROM @T",
        "DELETE FROM @T WHERE id IN (SELECT id FROM @T)",
        "UPDATE @T SET n = (SELECT max(n) FROM @T)",
        "DROP TABLE @T",
        "OPTIMIZE @T ZORDER BY (id)",
        "OPTIMIZE @T WHERE n > 1",
        "VACUUM @T RETAIN 0 HOURS",
        "VACUUM @T LITE",
        "RESTORE TABLE @T TO VERSION AS OF 'x'",
        "RESTORE TABLE @T TO TIMESTAMP AS OF 'never'",
        "DESCRIBE HISTORY @T WHERE 1",
        "SELECT * FROM @T VERSION AS OF 'x'",
        "SELECT * FROM @T FRM x y",
        "CREATE TEMPORARY VIEW v AS SELECT * FROM @T",
        "EXPLAIN SELECT * FROM @T",
    ],
)
def test_what_is_not_understood_changes_nothing(run: Run, statement: str) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises((SlateError, PySparkException)) as caught:
        run(statement)
    if isinstance(caught.value, PySparkException):  # of an expression or query, which Spark reads
        assert type(caught.value).__name__ in ("AnalysisException", "ParseException", "DateTimeException")
    assert not Path("/nowhere").exists()
    assert rows(run) == FIRST


def test_a_source_that_lacks_a_column_is_refused(run: Run) -> None:
    with pytest.raises(SchemaError):
        run("MERGE INTO @T t USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *")


def test_a_cell_of_a_notebook(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shell = import_module("IPython.core.interactiveshell").InteractiveShell()
    shell.run_line_magic("load_ext", "slatespark")
    query = f"SELECT name FROM slate.`{tmp_path / 't{a}'}` WHERE n = 3"
    shell.run_cell_magic("slate", "found", query)
    assert [row.name for row in shell.user_ns["found"].collect()] == ["z"]
    capsys.readouterr()
    shell.run_cell_magic("slate", "", query)
    assert "|   z|" in capsys.readouterr().out
    with pytest.raises(InvalidRequestError):
        shell.run_cell_magic("slate", "not a name", query)


def test_arguments(run: Run, spark: SparkSession, tmp_path: Path) -> None:
    table = f"slate.`{tmp_path / 't{a}'}`"
    when = slatespark.SlateTable.forPath(spark, tmp_path / "t{a}").history(1).collect()[0].timestamp  # naive, local
    update = f"UPDATE {table} SET name = :name, n = n -:n WHERE tenant = :tenant"
    slatespark.sql(spark, update, args={"name": "it's {b}", "n": -1, "tenant": "a"})
    assert rows(run) == [("a", 1, "it's {b}", 2), ("a", 2, "it's {b}", 3), ("b", 1, "z", 3)]
    slatespark.sql(spark, f"DELETE FROM {table} WHERE name = ? OR n IS NULL", ["it's {b}"])
    assert rows(run) == [("b", 1, "z", 3)]
    query = f"SELECT count(*) FROM {table} TIMESTAMP AS OF :at WHERE id < :id"
    found = slatespark.sql(spark, query, {"at": when, "id": 2})
    assert found.collect()[0][0] == 2
    assert slatespark.sql(spark, "SELECT :x[1]", {"x": F.array(F.lit(1), F.lit(2))}).collect()[0][0] == 2
    with pytest.raises(OptionError, match="no argument"):
        slatespark.sql(spark, f"DELETE FROM {table} WHERE id = :id", {"x": 1})


def test_names_before_an_insert(run: Run) -> None:
    run("WITH q AS (SELECT 'c' AS tenant, 5 AS id), r AS (TABLE q) INSERT INTO @T (tenant, id) SELECT * FROM r")
    run("WITH q AS (SELECT * FROM @T WHERE tenant = 'c') INSERT INTO @T BY NAME SELECT tenant, id + 1 AS id FROM q;")
    assert rows(run) == [*FIRST, ("c", 5, None, None), ("c", 6, None, None)]
    with pytest.raises(OptionError, match="WITH"):
        run("WITH q AS (SELECT 1) INSERT INTO @T WITH r AS (SELECT 1) SELECT * FROM r")


def test_detail_and_now(run: Run) -> None:
    [detail] = run("DESCRIBE DETAIL @T").collect()
    assert detail.keyColumns == ["tenant", "id"]
    for now in ("current_timestamp()", "current_timestamp", "now()", "(now())"):
        assert run(f"SELECT count(*) FROM @T TIMESTAMP AS OF {now} AS t WHERE t.n > 1").collect()[0][0] == 2


def test_a_global_temporary_view(run: Run, spark: SparkSession, tmp_path: Path) -> None:
    slatespark.SlateTable.forPath(spark, tmp_path / "t{a}").toDF().createOrReplaceGlobalTempView("shared")
    try:
        run("DELETE FROM global_temp.shared WHERE shared.id = 1")
        run("UPDATE global_temp.shared AS s SET n = 7 WHERE s.id = 2")
        assert rows(run) == [("a", 2, "y", 7)]
    finally:
        spark.catalog.dropGlobalTempView("shared")
