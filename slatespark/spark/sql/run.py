"""`sql`: one statement, run here if it is about a SlateDB table, else by Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException

from slatespark.encoding.predicates.source_span import filter_error
from slatespark.encoding.predicates.tokens import NAME, QUOTED, Token
from slatespark.errors import OptionError
from slatespark.spark.frames.local_rows import local_frame
from slatespark.spark.sql import changes, definitions, inserts, upkeep
from slatespark.spark.sql.arguments import Arguments, with_literals
from slatespark.spark.sql.mentions import find_insert, find_tokens, mentions_path, mentions_using, unquoted_path
from slatespark.spark.sql.queries import instant_ms, run_query
from slatespark.spark.sql.replacements import replacement
from slatespark.spark.sql.statement import FORMAT, QUERY_BEGINS, Statement, names_path
from slatespark.spark.sql.tables import Catalog
from slatespark.spark.sql.variables import with_variables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from slatespark.spark.slate_table import SlateTable


def sql(spark: SparkSession, statement: str, args: Arguments | None = None, **storage: Any) -> DataFrame:
    """Run a statement of SQL: here if it is about a table of slatespark, otherwise as `spark.sql` does.

    Tables are named ``slate.`path` ``, or by a temporary view that shows one whole table. Understood are `INSERT`,
    `MERGE INTO`, `UPDATE`, `DELETE FROM`, `CREATE TABLE`, `DESCRIBE DETAIL`, `DESCRIBE HISTORY`, `RESTORE`, `OPTIMIZE`,
    `VACUUM`, and queries, also `VERSION AS OF` and `TIMESTAMP AS OF` (docs/reference/sql.md). Spark evaluates
    expressions and queries as they are written. A clause that is not understood is refused.

    Parameters
    ----------
    spark : the session that knows the temporary views, and runs what Spark runs
    statement : one statement; semicolons and comments may follow it
    args : values for its parameters, as in `spark.sql`: by name for `:name`, or a list for `?`
    storage : as for `SlateTable.forPath`, for tables that are named by their path

    Returns
    -------
    The rows of a query; facts, such as the jobs of `OPTIMIZE`; a DataFrame without columns for other statements.

    Raises
    ------
    OptionError
        When a statement about a SlateDB table cannot be understood; the message shows the place.
    SlateError
        As the method of `SlateTable` that does the work.

    Examples
    --------
    >>> import slatespark
    >>> _ = slatespark.sql(spark, f"CREATE TABLE slate.`{path}/boats` (id BIGINT, sails INT, PRIMARY KEY (id))")
    >>> _ = slatespark.sql(spark, f"INSERT INTO slate.`{path}/boats` VALUES (1, 2)")
    >>> _ = slatespark.sql(spark, f"UPDATE slate.`{path}/boats` SET sails = sails + 1 WHERE id = 1")
    >>> slatespark.sql(spark, f"SELECT sails FROM slate.`{path}/boats`").collect()
    [Row(sails=3)]
    """
    if not isinstance(statement, str):
        raise OptionError(f"sql: the statement is of the type {type(statement).__name__}.", todo="Give it as text.")
    catalog, statement = Catalog(spark, storage), _without_semicolons(with_variables(spark, statement))
    tokens = find_tokens(statement)
    if args:
        try:
            statement = with_literals(statement, tokens, args)
        except OptionError:
            if mentions_path(tokens):
                raise
            return spark.sql(statement, args=args)  # which takes more, and says itself what it does not take
        tokens = find_tokens(statement)
    with _naming_backticks(tokens):
        begin = find_insert(tokens)
        if begin is not None:
            return _insert_with(statement, begin, catalog, tokens)
        if tokens and (tokens[0].is_sign("(") or tokens[0].is_word(*QUERY_BEGINS)):
            return run_query(statement, catalog)
        try:
            read = Statement(statement)
        except OptionError:
            if mentions_path(tokens):
                raise
            return spark.sql(statement)
        return _run(read, catalog, statement, tokens)


def _insert_with(statement: str, begin: int, catalog: Catalog, tokens: Sequence[Token]) -> DataFrame:
    """Run `WITH name AS (...) INSERT ...`: the names belong to the query of the INSERT."""
    tables, read = statement[:begin], Statement(statement[begin:])
    begun = _begin(read)
    name = read.table() if begun in _INSERTS and read.next.kind in (NAME, QUOTED) else None
    table = None if name is None else catalog.find(name, needs_columns=True)
    if table is None:
        if mentions_path(tokens):
            todo = "Write INSERT INTO table WITH ... SELECT ..."
            raise read.error(f"no such statement on {FORMAT}.`path`", todo=todo)
        return catalog.spark.sql(statement)
    inserts.insert(read, table, catalog, overwrite=begun == "OVERWRITE", tables=tables)
    return _nothing(catalog.spark)


@contextmanager
def _naming_backticks(tokens: Sequence[Token]) -> Iterator[None]:
    """Say how a path is written where Spark has no table for a `slate.name` of a statement."""
    try:
        yield
    except PySparkException as exc:
        name = unquoted_path(tokens)
        if name is None or not _NOT_FOUND.search(str(exc)):
            raise
        what = f"Spark has no such table of a database {FORMAT}, or no such statement on it"
        raise filter_error(what, name.span, todo=f"Put a path in backticks: {FORMAT}.`path`.") from exc


# What Spark says of a table, of its database, and of statements that it does not have.
_NOT_FOUND: Final = re.compile(
    rf"""\[UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY\][^\n]*:\ {FORMAT}\b
      | \[TABLE_OR_VIEW_NOT_FOUND\][^`\n]*(?:`{FORMAT}`\.|`HISTORY`)
      | \[SCHEMA_NOT_FOUND\][^\n]*`{FORMAT}`\ cannot
      | \[PARSE_SYNTAX_ERROR\][^\n]*\ '(?:VACUUM|OPTIMIZE|RESTORE)'""",
    re.VERBOSE | re.IGNORECASE,
)


def _run(read: Statement, catalog: Catalog, statement: str, tokens: Sequence[Token]) -> DataFrame:
    """Run a statement that is not a query."""
    spark, begun, first = catalog.spark, _begin(read), read.next
    if begun is None or read.next.kind not in (NAME, QUOTED):  # such as DESCRIBE history, or VACUUM '/path'
        if mentions_path(tokens):
            todo = replacement(read if begun is None else Statement(statement))
            raise read.error(f"no such statement on {FORMAT}.`path`", at=first, todo=todo)
        return spark.sql(statement)
    name = read.table()
    if begun in _CREATIONS:
        if name is None or not names_path(name):
            _refuse_catalog_table(read, tokens)
            return spark.sql(statement)
        definitions.create_table(read, name, catalog, if_not_exists=begun != "CREATE")
        return _nothing(spark)
    table = None if name is None else catalog.find(name, needs_columns=begun not in _OF_WHOLE_TABLES)
    if table is None:
        if begun in _INSERTS and mentions_path(tokens):
            raise read.error(
                f"rows of {FORMAT}.`path` go into a table of Spark by a DataFrame",
                todo="Run the query with slatespark.sql, and call write.insertInto of its result.",
            )
        return spark.sql(statement)
    found = _run_on(table, read, catalog, begun)
    return _nothing(spark) if found is None else found


def _run_on(table: SlateTable, read: Statement, catalog: Catalog, begun: str) -> DataFrame | None:
    """Run the rest of a statement on an existing table; return its facts, if it has any."""
    spark = catalog.spark
    match begun:
        case "UPDATE":
            changes.update(read, table)
        case "DELETE":
            changes.delete(read, table)
        case "MERGE" | "MERGE AND EVOLVE":
            changes.merge(read, table, catalog, evolves=begun != "MERGE")
        case "INSERT" | "OVERWRITE":
            inserts.insert(read, table, catalog, overwrite=begun == "OVERWRITE")
        case "DETAIL":
            read.end()
            return table.detail()
        case "HISTORY":
            return upkeep.describe_history(read, table)
        case "RESTORE":
            return upkeep.restore(read, table, spark, lambda text: instant_ms(spark, text))
        case "OPTIMIZE":
            return upkeep.optimize(read, table, spark)
        case _:
            return upkeep.vacuum(read, table, spark)
    return None


_CREATIONS: Final = ("CREATE", "CREATE IF NOT EXISTS")
_INSERTS: Final = ("INSERT", "OVERWRITE")
# They look at no column, or add some: the table has others than its view from then on.
_OF_WHOLE_TABLES: Final = ("MERGE AND EVOLVE", "DETAIL", "HISTORY", "RESTORE", "OPTIMIZE", "VACUUM")
_BEGINNINGS: Final = (
    (("INSERT", "INTO", "TABLE"), "INSERT"),
    (("INSERT", "INTO"), "INSERT"),
    (("INSERT", "OVERWRITE", "TABLE"), "OVERWRITE"),
    (("INSERT", "OVERWRITE"), "OVERWRITE"),
    (("CREATE", "TABLE", "IF", "NOT", "EXISTS"), "CREATE IF NOT EXISTS"),
    (("CREATE", "TABLE"), "CREATE"),
    (("MERGE", "WITH", "SCHEMA", "EVOLUTION", "INTO"), "MERGE AND EVOLVE"),
    (("MERGE", "INTO"), "MERGE"),
    (("UPDATE",), "UPDATE"),
    (("DELETE", "FROM"), "DELETE"),
    (("DESCRIBE", "DETAIL"), "DETAIL"),
    (("DESC", "DETAIL"), "DETAIL"),
    (("DESCRIBE", "HISTORY"), "HISTORY"),
    (("DESC", "HISTORY"), "HISTORY"),
    (("RESTORE", "TABLE"), "RESTORE"),
    (("RESTORE",), "RESTORE"),
    (("OPTIMIZE",), "OPTIMIZE"),
    (("VACUUM",), "VACUUM"),
)


def _begin(read: Statement) -> str | None:
    """Read the words before the table's name; return the kind of statement, None if Spark runs it."""
    return next((kind for words, kind in _BEGINNINGS if read.take(*words)), None)


def _refuse_catalog_table(read: Statement, tokens: Sequence[Token]) -> None:
    """Refuse a table of Spark's catalog that would be in slatespark's format: Spark does not tell it the path."""
    if mentions_using(tokens):
        raise read.error(
            "a table of Spark's catalog cannot be in this format",
            todo=f"Name it by its path: CREATE TABLE {FORMAT}.`path` (...). For a name, create a temporary view of it.",
        )


def _without_semicolons(statement: str) -> str:
    """Return a statement without the semicolons that end it, and what is said behind them."""
    tokens = find_tokens(statement)
    while tokens and tokens[-1].is_sign(";"):
        statement = statement[: tokens.pop().span.start]
    return statement


def _nothing(spark: SparkSession) -> DataFrame:
    return local_frame(spark, "ignored INT", []).select()
