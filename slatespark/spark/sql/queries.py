"""Queries on ``slate.`path` `` and on earlier versions of temporary views.

sqlglot finds where tables stand in the text. Each SlateDB table is replaced by the name of a DataFrame, and Spark
parses the rest as it was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from slatespark.encoding.predicates.source_span import SourceSpan, filter_error
from slatespark.encoding.predicates.tokens import Token
from slatespark.errors import InvalidRequestError, OptionError
from slatespark.spark.frame_columns import quoted
from slatespark.spark.slate_table.base import frames_of
from slatespark.spark.sql.mentions import find_tokens, mentions_path, starts_path, versioned_names
from slatespark.spark.sql.statement import ARGUMENT, FORMAT, Statement, names_path
from slatespark.spark.sql.tables import Catalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from slatespark.spark.slate_table import SlateTable
    from slatespark.spark.table_location import TableLocation

_MAKE_VIEW: Final = "Make a temporary view of the table, and name that in the query."


@dataclass(frozen=True)
class _TableMention:
    """A table in the text of a query: its name, and the characters `[start, end)` that name it."""

    name: tuple[str, ...]
    start: int
    end: int
    alias: str


def run_query(text: str, catalog: Catalog, *, before_read: Callable[[SlateTable], None] = lambda _: None) -> DataFrame:
    """Return the result of a query; Spark reads what is not a SlateDB table.

    A table that it names several times is read once: the states of two reads could differ.

    Parameters
    ----------
    before_read : called with each table of which the query reads the newest state, before it is read

    Raises
    ------
    OptionError
        When a query that may be about SlateDB tables cannot be parsed, or asks for a version in another way.
    """
    tokens = find_tokens(text)
    if not mentions_path(tokens) and not any(catalog.shows_ours(name) for name in versioned_names(tokens)):
        return catalog.spark.sql(text)
    text = _as_select(text, tokens)
    frames: dict[str, Any] = {}
    reads: list[tuple[TableLocation, dict[str, Any]]] = []
    pieces, at = list[str](), 0
    for mention in _mentions(text):
        table = catalog.find(mention.name, needs_columns=False) if _may_be_ours(text, mention) else None
        if table is None:
            continue
        _check_mention(text, mention)
        options, end = _version(text, mention, catalog.spark)
        is_newest = not options
        if len(mention.name) == 1:  # a read of an earlier version shows the columns of today
            options["columns"] = catalog.readable_columns(mention.name[0], table)
        read = frames_of(table).location(), options
        if read in reads:
            name = f"slate_{reads.index(read)}"
        else:
            if is_newest:
                before_read(table)
            name = f"slate_{len(reads)}"
            frames[name] = table.toDF(**options)
            reads.append(read)
        alias = f" AS {quoted(mention.name[0])}" if len(mention.name) == 1 and not mention.alias else ""
        pieces += [_escaped(text[at : mention.start]), f"{{{name}}}{alias}"]
        at = end
    if not frames:
        return catalog.spark.sql(text)
    return catalog.spark.sql("".join([*pieces, _escaped(text[at:])]), **frames)


def _as_select(text: str, tokens: Sequence[Token]) -> str:
    """Return a query in which each ``TABLE slate.`path` ``, which sqlglot does not read, is a SELECT."""
    for at in reversed(range(len(tokens))):
        if tokens[at].is_word("TABLE") and starts_path(tokens, at + 1):
            span = tokens[at].span
            text = f"{text[: span.start]}SELECT * FROM{text[span.end :]}"
    return text


def _may_be_ours(text: str, mention: _TableMention) -> bool:
    """Tell whether a table is named by its path, or by a name without dots and a version."""
    if names_path(mention.name):
        return text[mention.end - 1] == "`"
    return len(mention.name) == 1 and _is_versioned(text, mention.end)


def _is_versioned(text: str, at: int) -> bool:
    """Tell whether `VERSION AS OF` or `TIMESTAMP AS OF` comes next; there may be comments between the words."""
    words = [token.text.upper() for token in find_tokens(text[at:])[:4]]
    words = words[1:] if words[:1] == ["FOR"] else words
    return words[:1] in (["VERSION"], ["TIMESTAMP"]) and words[1:3] == ["AS", "OF"]


def instant_ms(spark: SparkSession, text: str) -> int:
    """Return the instant that a constant expression of Spark SQL stands for; text is read in the session's time zone.

    Raises
    ------
    OptionError
        When it is null.
    """
    found = spark.sql(f"SELECT unix_millis(CAST(({text}) AS TIMESTAMP_LTZ))").collect()[0][0]
    if found is None:
        raise OptionError(f"sql: {text} is not a timestamp.", todo="Write it like '2026-01-31 12:00:00'.")
    return int(found)


def _mentions(text: str) -> list[_TableMention]:
    """Return the tables that a query reads, in the order of the text."""
    tree, expressions = _parsed(text)
    shadowed = {cte.alias.lower() for cte in tree.find_all(expressions.CTE)}
    found = sorted(_tables(tree, expressions), key=lambda mention: mention.start)
    return [mention for mention in found if len(mention.name) > 1 or mention.name[0].lower() not in shadowed]


def _check_mention(text: str, mention: _TableMention) -> None:
    """Refuse a query in whose text a table is not where sqlglot says: another part would be replaced."""
    try:
        named = Statement(text[mention.start : mention.end])
        is_there = named.dotted_name() == mention.name
        named.end()
    except OptionError:
        is_there = False
    if not is_there:
        raise OptionError(
            f"sql: the table {'.'.join(mention.name)} was not found in the text of the query.", todo=_MAKE_VIEW
        )


def _tables(tree: Any, expressions: Any) -> Iterator[_TableMention]:
    for table in tree.find_all(expressions.Table):
        parts = table.parts if table.find_ancestor(expressions.Hint) is None else []  # a hint names what it is about
        if parts and all(isinstance(part, expressions.Identifier) and part.meta for part in parts):
            start, end = parts[0].meta["start"], parts[-1].meta["end"] + 1
            yield _TableMention(tuple(part.name for part in parts), start, end, table.alias)


def _parsed(text: str) -> tuple[Any, Any]:
    try:
        import sqlglot
        from sqlglot import expressions
    except ImportError as exc:
        raise InvalidRequestError(
            "Queries on slate.`path`, and on versions, are read by sqlglot, which is not installed.",
            todo="pip install sqlglot",
        ) from exc
    try:
        tree = sqlglot.parse_one(text, read="spark")
    except sqlglot.errors.ParseError as exc:
        raise _parse_error(text, exc.errors[0] if exc.errors else {}) from exc
    except sqlglot.errors.TokenError as exc:
        raise OptionError(f"sql: {exc}.") from exc
    except Exception as exc:  # its own mistakes; also a RecursionError, for what is nested too deep
        raise OptionError(
            "sql: this query cannot be parsed.",
            why=f"sqlglot, which looks for tables in it, failed with {type(exc).__name__}.",
            todo=_MAKE_VIEW,
        ) from exc
    if not isinstance(tree, expressions.Query):
        raise OptionError(f"sql: tables named {FORMAT}.`path` can be read by queries, not by this statement.")
    return tree, expressions


def _parse_error(text: str, details: Mapping[str, Any]) -> OptionError:
    before, found = str(details.get("start_context", "")), str(details.get("highlight", ""))
    start = text.find(before + found)
    start = len(text) if start < 0 else start + len(before)
    return filter_error("this cannot be parsed", SourceSpan(text, start, start + len(found), ARGUMENT), todo=_MAKE_VIEW)


def _version(text: str, mention: _TableMention, spark: SparkSession) -> tuple[dict[str, Any], int]:
    """Return the read options of a `VERSION AS OF` or `TIMESTAMP AS OF` behind a table's name, and the end of both."""
    if not _is_versioned(text, mention.end):
        return {}, mention.end
    rest = Statement(text[mention.end :])
    rest.take("FOR")
    if rest.take("VERSION"):
        rest.expect("AS", "OF")
        options: dict[str, Any] = {"versionAsOf": rest.whole_number()}
    else:
        rest.expect("TIMESTAMP")
        rest.expect("AS", "OF")
        options = {"timestampAsOf": instant_ms(spark, _literal(rest))}
    return options, mention.end + rest.position


def _literal(rest: Statement) -> str:
    """Read a time, as it was written: a string, `TIMESTAMP '...'`, `DATE '...'`, now, or any in parentheses."""
    if rest.next.is_sign("("):
        return rest.text_in_parentheses("a timestamp")
    start = rest.next.span.start
    if rest.take("CURRENT_TIMESTAMP") or rest.take("CURRENT_DATE") or rest.take("NOW"):
        if rest.take_sign("("):
            rest.expect_sign(")")
        return rest.text[start : rest.position]
    if not rest.take("TIMESTAMP"):
        rest.take("DATE")
    rest.string()
    return rest.text[start : rest.position]


def _escaped(text: str) -> str:
    """Return text in which PySpark finds no placeholder."""
    return text.replace("{", "{{").replace("}", "}}")
