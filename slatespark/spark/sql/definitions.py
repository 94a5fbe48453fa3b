"""CREATE TABLE."""

from __future__ import annotations

import re
from typing import Any, Final

from slatespark.encoding.predicates.tokens import END, SIGN, STRING
from slatespark.errors import OptionError
from slatespark.options.values import normalize_name
from slatespark.spark.expressions.sql_text import cut_sql
from slatespark.spark.slate_table import SlateTable
from slatespark.spark.sql.replacements import AS_SELECT, CLONE
from slatespark.spark.sql.statement import FORMAT, Statement
from slatespark.spark.sql.tables import Catalog

_IN_LINE_KEY: Final = re.compile(r"\s+PRIMARY\s+KEY\s*\Z", re.IGNORECASE)
_ARGUMENTS: Final = ("cls", "spark", "path", "schema", "keyColumns")  # of SlateTable.create
_REFUSED: Final = ("COMMENT", "DEFAULT", "GENERATED", "CHECK", "REFERENCES", "UNIQUE", "COLLATE", "MASK")


def create_table(statement: Statement, name: tuple[str, ...], catalog: Catalog, *, if_not_exists: bool) -> None:
    """Run the rest of `CREATE TABLE`: `(columns, PRIMARY KEY (names)) [USING slate] [TBLPROPERTIES (...)]`."""
    columns: list[str] = []
    keys: list[str] = []
    at = statement.next
    if statement.next.is_word("AS", "USING", "TBLPROPERTIES", "LIKE"):
        raise statement.error("expected the columns, with their key", todo=AS_SELECT)
    if statement.next.is_word("SHALLOW", "DEEP", "CLONE"):
        raise statement.error("a clone is no statement", todo=CLONE)
    for part in _whole_types(statement.list_in_parentheses("a column")):
        _read_part(part, columns, keys)
    properties: dict[str, Any] = {}
    if statement.take("USING") and statement.name().lower() != FORMAT:
        raise statement.error(f"expected USING {FORMAT}")
    if statement.take("TBLPROPERTIES"):
        properties = _properties(statement)
    if statement.next.is_word("AS"):
        raise statement.error("a new table has no rows", todo="INSERT INTO it afterwards.")
    statement.end()
    if not keys:
        todo = "Add PRIMARY KEY (column, ...) to the columns: rows are stored and found by it."
        raise statement.error("the table has no key", at=at, todo=todo)
    create = SlateTable.createIfNotExists if if_not_exists else SlateTable.create
    create(catalog.spark, name[1], ", ".join(columns), keys, **{**properties, **catalog.storage})


def _whole_types(parts: list[str]) -> list[str]:
    """Return the parts between commas, those within `<...>` of a type put together again."""
    whole: list[str] = []
    for part in parts:
        if whole and _is_open(whole[-1]):
            whole[-1] += f",{part}"
        else:
            whole.append(part)
    return whole


def _is_open(text: str) -> bool:
    signs = [token.text for token in cut_sql(text) if token.kind == SIGN]
    return signs.count("<") > signs.count(">")


def _read_part(part: str, columns: list[str], keys: list[str]) -> None:
    """Read a column, or the key, of a list of columns."""
    read = Statement(part)
    if read.take("PRIMARY", "KEY"):
        named = [_one_name(text) for text in read.list_in_parentheses("a column")]
        read.end()
    elif inline := _IN_LINE_KEY.search(part):
        part = part[: inline.start()]
        named = [read.name()]
    else:
        named = []
    if named and keys:
        raise OptionError("sql: the table has two keys.", todo="Give one PRIMARY KEY (column, ...).")
    keys += named
    if read.next.kind != END:
        _refuse_others(part)
        columns.append(part)


def _refuse_others(part: str) -> None:
    """Refuse what Spark's own DDL would take for a column, but a table does not keep.

    The name of a field of a struct comes first within `<...>`, or after a comma there, and may be any word.
    """
    read = Statement(part)
    read.name()
    is_name = False
    while read.next.kind != END:
        if (read.next.is_word(*_REFUSED) and not is_name) or read.next.kind == STRING:
            raise read.error("a column has a name, a type and NOT NULL here")
        is_name = read.skip().is_sign("<", ",")


def _one_name(text: str) -> str:
    read = Statement(text)
    name = read.name()
    read.end()
    return name


def _properties(statement: Statement) -> dict[str, Any]:
    """Read `('name' = 'value', ...)`."""
    found: dict[str, Any] = {}
    for part in statement.list_in_parentheses("a property"):
        read = Statement(part)
        name = read.string() if read.next.kind == STRING else read.name()
        if normalize_name(name) in map(normalize_name, found):
            raise OptionError(f"sql: the property {name} is given twice.", todo="Give it once.")
        read.take_sign("=")
        found[name] = read.string() if read.next.kind == STRING else read.text_until(called="a value")
        read.end()
        if name in _ARGUMENTS:
            raise read.error(f"{name} is not a table property", at=statement.next)
    return found
