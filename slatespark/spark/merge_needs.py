"""What of the target a merge needs, as far as the text of its conditions tells; where it tells nothing, everything."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import DataType, IntegralType

from slatespark.spark.conditions import is_case_sensitive, is_filter
from slatespark.spark.merge_rows import MATCHED, NOT_MATCHED, Clauses, Expression, MergeClause, MergeSides

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STAR: Final = re.compile(r"(?:^|[\s.(,])\*")
_AND: Final = re.compile(r"\s+and\s+", re.IGNORECASE)
_LITERAL: Final = re.compile(r"'[^']*'")
_NOT_JOINED: Final = re.compile(r"\b(?:or|not|case|between|exists|select)\b|--|/\*|[!|]", re.IGNORECASE)
_BRACKETS: Final = ("()", "[]", "{}")
_EQUAL: Final = re.compile(r"\s*([\w.]+)\s*(=|==|<=>)\s*([\w.]+)\s*", re.ASCII)


def needed_columns(sides: MergeSides, condition: Expression, clauses: Clauses) -> list[str]:
    """Return the columns of the target to read: keys, those that updates leave as they are, and those that are named.

    Whatever an expression refers to stands in its text, so no column that is needed is missing; some may be too many.
    """
    texts = [str(text).lower() for text in _expressions(condition, clauses)]
    if any(_STAR.search(text) for text in texts):
        return list(sides.columns)
    kept = {
        name
        for clause in clauses
        if clause.action == "update" and clause.assigned is not None
        for name in set(sides.columns) - set(clause.assigned)
    }
    needed = kept | set(sides.key_columns)
    return [name for name in sides.columns if name in needed or "`" in name or _is_named(name, texts)]


def _is_named(name: str, texts: Sequence[str]) -> bool:
    word = re.compile(rf"(?<!\w){re.escape(name.lower())}(?!\w)")
    return any(word.search(text) for text in texts)


def _expressions(condition: Expression, clauses: Clauses) -> Iterator[Expression]:
    yield condition
    for clause in clauses:
        if clause.condition is not None:
            yield clause.condition
        yield from (clause.assigned or {}).values()


def find_target_filter(
    condition: Expression, clauses: Clauses, source: DataFrame, alias: str | None, schema: pa.Schema
) -> str | None:
    """Return what a condition says of the target alone, as the option `filter`; None where no row may be left out.

    Only rows that match are needed where no clause is about others. Left out of the answer is whatever cannot be told
    from the text; nothing is told where names differ by their case, or quotes are none of literals.

    Parameters
    ----------
    alias : of the target
    schema : of the table
    """
    if alias is None or not isinstance(condition, str) or any(clause.kind != MATCHED for clause in clauses):
        return None
    if is_case_sensitive(source.sparkSession) or alias.lower() in map(str.lower, source.columns):
        return None
    own = re.compile(rf"\s*{re.escape(alias)}\.(.*)", re.IGNORECASE | re.DOTALL)
    texts = [found[1] for part in _conjuncts(condition) if (found := own.fullmatch(part))]
    return " AND ".join(text for text in texts if is_filter(text, schema, source.sparkSession)) or None


def _conjuncts(condition: str) -> list[str]:
    """Return what AND joins at the top of a condition; nothing where that cannot be told without parsing it."""
    bare = _LITERAL.sub(lambda found: "'" * len(found[0]), condition)  # nothing in a literal joins or brackets
    if condition.count("'") % 2 or any(sign in condition for sign in '"\\`') or _NOT_JOINED.search(bare):
        return []
    joints = list(_AND.finditer(bare))
    starts, ends = [0, *(joint.end() for joint in joints)], [*(joint.start() for joint in joints), len(bare)]
    parts = [slice(start, end) for start, end in zip(starts, ends, strict=True)]
    if any(bare[part].count(opening) != bare[part].count(closing) for part in parts for opening, closing in _BRACKETS):
        return []
    return [condition[part] for part in parts]


def writes_every_row(clauses: Clauses) -> bool:
    """Tell whether a merge writes something for every row of the source, and for no other row.

    If target and source match by the whole key, it then depends on nothing but the keys that it writes.
    """
    always = {clause.kind for clause in clauses if clause.condition is None}
    return always == {clause.kind for clause in clauses} == {MATCHED, NOT_MATCHED}


def find_unmatched_nulls(sides: MergeSides, condition: Expression, clauses: Clauses) -> tuple[str, ...] | None:
    """Return the key columns whose nulls match nothing, if target and source match by the whole key and nothing else.

    No row can then be inserted under the key of a row that stays, unless one of these columns is null.

    Returns
    -------
    None when the condition says anything else, inserts take their keys from elsewhere, or it cannot be told.
    """
    parts = _AND.split(condition) if isinstance(condition, str) else []
    if sides.alias is None or len(parts) != len(sides.key_columns) or is_case_sensitive(sides.source.sparkSession):
        return None
    inserts = [clause for clause in clauses if clause.kind == NOT_MATCHED]
    operators: dict[str, str] = {}
    for part in parts:
        found = _EQUAL.fullmatch(part)
        if found is None:
            return None
        for own, other in ((found[1], found[3]), (found[3], found[1])):
            key = _key_of_target(own, sides)
            if key is not None and _is_inserted(other, key, sides, inserts):
                operators[key] = found[2]
    if set(operators) != set(sides.key_columns):
        return None
    return tuple(key for key in sides.key_columns if operators[key] != "<=>")


def _key_of_target(text: str, sides: MergeSides) -> str | None:
    """Return the key column that a name with the target's alias in front says; None if it says none."""
    alias, _, name = text.partition(".")
    if alias.lower() != str(sides.alias).lower():
        return None
    return next((key for key in sides.key_columns if key.lower() == name.lower()), None)


def _is_inserted(text: str, key: str, sides: MergeSides, inserts: list[MergeClause]) -> bool:
    """Tell whether a name is a column of the source that every insert makes the key column, without a change."""
    qualifier, dot, _ = text.partition(".")
    if qualifier.lower() == str(sides.alias).lower():
        return False
    if text.count(".") > 1 or (dot and qualifier.lower() in map(str.lower, sides.source.columns)):
        return False  # part of a struct, which has the name of a column but not its values
    try:
        [field] = sides.source.select(F.expr(text)).schema.fields
    except AnalysisException:
        return False
    if not _same_values(field.dataType, sides.types[key]):
        return False
    for clause in inserts:
        value = field.name if clause.assigned is None else clause.assigned[key]
        wanted = key if clause.assigned is None else text
        if not isinstance(value, str) or value.strip().lower() != wanted.lower():
            return False
    return True


def _same_values(kind: DataType, wanted: DataType) -> bool:
    """Tell whether a value that is stored in another type is stored as it is, or refused."""
    return kind == wanted or (isinstance(kind, IntegralType) and isinstance(wanted, IntegralType))
