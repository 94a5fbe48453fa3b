"""Which statements go to Spark as they are; a stub of a session stands for it."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException

import slatespark
from slatespark import OptionError, TableNotFoundError

P = "slate.`/nowhere/t`"


class Session:
    """A session without a view, that returns what it is asked to run."""

    @property
    def catalog(self) -> Session:
        return self

    def getTable(self, name: str) -> None:  # noqa: N802  # Spark's name
        raise AnalysisException(f"no table {name}")

    def sql(self, text: str) -> str:
        return text


def run(statement: Any) -> Any:
    session: Any = Session()
    return slatespark.sql(session, statement)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM prod.db.orders VERSION AS OF 'audit-branch'",
        "SELECT * FROM events TIMESTAMP AS OF date_sub(current_date(), 1)",
        "SELECT * FROM events FOR VERSION AS OF 3 |> WHERE id = 1",
        "SELECT * FROM `größe` VERSION AS OF 1",
        "SELECT id FROM parts WHERE kind = 'slate.' |> LIMIT 1",
        "SELECT id -- slate.`x`, it's\nFROM parts /* '/* slate.`x` */ ' */ |> LIMIT 1",
        "SELECT id FROM parts WHERE a = r'\\' AND b = 'slate.`x`' AND c = 'it\\'s slate.`x`' |> LIMIT 1",
        "FROM slate.orders |> WHERE id = 1",
        "/* /* */ UPDATE */ VALUES ('slate.x', 'slate.`x`')",
        "TABLE slate.orders",
        "DESCRIBE history",
        "DESC history.events",
        "DESCRIBE HISTORY '/data/events'",
        "VACUUM '/data/events' RETAIN 168 HOURS",
        "OPTIMIZE '/data/events'",
        "INSERT INTO orders SELECT start, end FROM s",
        "INSERT INTO orders VALUES ('slate.`y`', größe)",
        "INSERT INTO orders VALUES ('slate.`y`')",
        "CREATE TABLE x USING parquet COMMENT 'see USING slate' AS SELECT 1",
        "SHOW TABLES LIKE 'slate.`x`'",
        "INSERT INTO slate.orders VALUES (1)",
        "DELETE FROM `slate`.orders WHERE id = 1",
        "CREATE TABLE slate.o2 (id INT) USING parquet",
        "VACUUM slate.orders",
    ],
)
def test_statements_about_other_tables_are_sparks(statement: str) -> None:
    assert run(statement) == statement


@pytest.mark.parametrize(
    "statement",
    [
        f"DROP TABLE {P}",
        f"INSERT INTO orders SELECT größe FROM {P}",
        f"INSERT INTO orders SELECT * FROM {P}",
        f"OPTIMIZE '/data/events' -- then\n, {P}",
        f"VALUES ((SELECT max(a) FROM {P}))",
        "DROP TABLE `slate`.`/nowhere/t`",
        "TRUNCATE TABLE `Slate` . `/nowhere/t`",
        "INSERT INTO orders SELECT * FROM `slate`.`/nowhere/t`",
        "CREATE TABLE x (id INT) USING /* here */ Slate",
        "CREATE TABLE x USING `slate` AS SELECT 1",
        "CREATE TABLE slate.x (id INT) USING slate",
        f"INSERT INTO slate.orders SELECT * FROM {P}",
    ],
)
def test_statements_about_ours_that_cannot_be_run_are_refused(statement: str) -> None:
    with pytest.raises(OptionError, match="sql: "):
        run(statement)


@pytest.mark.parametrize(
    ("statement", "instead"),
    [
        ("DROP TABLE @T", "SlateTable.drop"),
        ("DROP TABLE IF EXISTS @T", "SlateTable.drop"),
        ("TRUNCATE TABLE @T", "DELETE FROM"),
        ("ALTER TABLE @T ADD COLUMNS (a INT)", "mergeSchema"),
        ("ALTER TABLE @T SET TBLPROPERTIES ('a' = '1')", "setProperties"),
        ("CREATE OR REPLACE TABLE @T (id INT)", "CREATE TABLE"),
        ("CREATE TABLE @T AS SELECT 1 AS id", "keyColumns"),
        ("CREATE TABLE @T USING slate AS SELECT 1 AS id", "keyColumns"),
        ("CREATE TABLE @T (id INT, PRIMARY KEY (id)) AS SELECT 1 AS id", "INSERT INTO"),
        ("CREATE TABLE @T SHALLOW CLONE @T", "clone"),
        ("CREATE TEMPORARY VIEW v AS SELECT * FROM @T", "createOrReplaceTempView"),
        ("EXPLAIN SELECT * FROM @T", "explain"),
        ("CACHE TABLE v AS SELECT * FROM @T", "cache"),
        ("DESCRIBE TABLE @T", "DESCRIBE DETAIL"),
        ("SHOW TBLPROPERTIES @T", "DESCRIBE DETAIL"),
        ("GRANT SELECT ON @T TO ann", "SlateTable.forPath"),
        ("WITH q AS (SELECT 1) INSERT INTO orders SELECT * FROM @T", "WITH"),
    ],
)
def test_an_error_names_what_does_the_work(statement: str, instead: str) -> None:
    with pytest.raises(OptionError) as refused:
        run(statement.replace("@T", P))
    assert instead in str(refused.value)


@pytest.mark.parametrize("statement", ["SELECT * FROM @T", "DELETE FROM @T", "VACUUM @T", "TABLE @T"])
def test_the_format_may_be_in_backticks(statement: str) -> None:
    for named in (P, "`slate`.`/nowhere/t`", "`SLATE` . `/nowhere/t`"):
        with pytest.raises(TableNotFoundError, match="/nowhere/t"):
            run(statement.replace("@T", named))


def test_what_sqlglot_cannot_read_can_be_a_view() -> None:
    for rest in ("|> LIMIT 1", "WHERE (id =", f"WHERE {'(' * 3000}1 = 1{')' * 3000}"):
        with pytest.raises(OptionError, match="Make a temporary view"):
            run(f"SELECT * FROM {P} {rest}")


@pytest.mark.parametrize("statement", [None, b"SELECT 1", 5])
def test_a_statement_is_text(statement: Any) -> None:
    with pytest.raises(OptionError, match="text"):
        run(statement)
