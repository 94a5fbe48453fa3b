"""The parts of the target that a merge needs, from the text of its conditions; everything where that is unclear."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import DataType, IntegralType

from slatespark.errors import OptionError
from slatespark.spark.expressions.assignments import Expression
from slatespark.spark.expressions.conditions import is_case_sensitive, is_filter
from slatespark.spark.expressions.sql_text import (
    Tokens,
    cut_sql,
    find_names,
    is_name,
    is_same_operand,
    join_tokens,
    split_condition,
    split_equality,
)
from slatespark.spark.merge.rows import MATCHED, NOT_MATCHED, Clauses, MergeClause, MergeSides

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STAR: Final = re.compile(r"(?:^|[\s.(,])\*")
_CONSTANTS: Final = ("TRUE", "FALSE", "NULL")  # constants in a filter, even if columns have these names


def needed_columns(sides: MergeSides, condition: Expression, clauses: Clauses) -> list[str]:
    """Return the columns of the target to read: keys, those that updates keep, and those that expressions name.

    No column that is needed is missing; some may be unneeded.
    """
    expressions = list(_expressions(condition, clauses))
    names = [find_names(text) for text in expressions if isinstance(text, str)]
    columns = [str(column).lower() for column in expressions if not isinstance(column, str)]
    if None in names or any(_STAR.search(text) for text in columns):
        return list(sides.columns)
    kept = {
        name
        for clause in clauses
        if clause.action == "update" and clause.assigned is not None
        for name in set(sides.columns) - set(clause.assigned)
    }
    named = frozenset[str]().union(*filter(None, names))
    needed = kept | set(sides.key_columns)
    return [
        name for name in sides.columns if name in needed or name.lower() in named or _is_shown(name.lower(), columns)
    ]


def _is_shown(name: str, columns: Sequence[str]) -> bool:
    """Tell whether the text that a Column shows holds a name; that text is not SQL, so it is not cut into tokens."""
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    return any("`" in name or word.search(text) for text in columns)


def _expressions(condition: Expression, clauses: Clauses) -> Iterator[Expression]:
    yield condition
    for clause in clauses:
        if clause.condition is not None:
            yield clause.condition
        yield from (clause.assigned or {}).values()


def find_target_filter(
    condition: Expression, clauses: Clauses, source: DataFrame, alias: str | None, schema: pa.Schema
) -> str | None:
    """Return the parts of a condition that only concern the target, as the option `filter`; None if there are none.

    They may narrow the read only if every clause is about matched rows. The filter never excludes a row that matches.

    Parameters
    ----------
    alias : the alias of the target
    schema : the columns of the table
    """
    if alias is None or not isinstance(condition, str) or any(clause.kind != MATCHED for clause in clauses):
        return None
    if is_case_sensitive(source.sparkSession) or alias.lower() in map(str.lower, source.columns):
        return None
    texts = [join_tokens(part[2:]) for part in split_condition(condition) if _is_of_target(part, alias)]
    return " AND ".join(text for text in texts if is_filter(text, schema, source.sparkSession)) or None


def _is_of_target(part: Tokens, alias: str) -> bool:
    """Tell whether a part of a condition begins with a column of the target."""
    if len(part) < len(("alias", ".", "column")):
        return False
    return is_name(part[0], alias) and part[1].is_sign(".") and is_name(part[2]) and not part[2].is_word(*_CONSTANTS)


def writes_every_row(clauses: Clauses) -> bool:
    """Tell whether a merge writes one row for every row of the source, and no other.

    If target and source match by the whole key, such a merge depends only on the keys that it writes.
    """
    always = {clause.kind for clause in clauses if clause.condition is None}
    return always == {clause.kind for clause in clauses} == {MATCHED, NOT_MATCHED}


def find_unmatched_nulls(sides: MergeSides, condition: Expression, clauses: Clauses) -> tuple[str, ...] | None:
    """Return the key columns whose nulls match nothing, if the condition is equality of the whole key.

    A row can then be inserted under the key of a row that stays only if one of these columns is null.

    Returns
    -------
    None when the condition says anything else, inserts take their keys from elsewhere, or tokens do not settle it.
    """
    parts = split_condition(condition) if isinstance(condition, str) else []
    if sides.alias is None or len(parts) != len(sides.key_columns) or is_case_sensitive(sides.source.sparkSession):
        return None
    inserts = [clause for clause in clauses if clause.kind == NOT_MATCHED]
    signs: dict[str, str] = {}
    for part in parts:
        found = split_equality(part)
        if found is None:
            return None
        left, sign, right = found
        for own, other in ((left, right), (right, left)):
            key = _key_of_target(own, sides)
            if key is not None and _is_inserted(other, key, sides, inserts):
                signs[key] = sign
    if set(signs) != set(sides.key_columns):
        return None
    return tuple(key for key in sides.key_columns if signs[key] != "<=>")


def _key_of_target(operand: Tokens, sides: MergeSides) -> str | None:
    """Return the key column that an operand with the target's alias names; None if it names none."""
    qualifier, name = operand[0], operand[-1]
    if len(operand) != len(("alias", ".", "column")) or not is_name(qualifier, sides.alias):
        return None
    return next((key for key in sides.key_columns if is_name(name, key)), None)


def _is_inserted(operand: Tokens, key: str, sides: MergeSides, inserts: list[MergeClause]) -> bool:
    """Tell whether an operand is a column of the source that every insert stores unchanged in a key column."""
    if is_name(operand[0], sides.alias):
        return False
    if len(operand) > 1 and any(is_name(operand[0], name) for name in sides.source.columns):
        return False  # a field of a struct: it has the name of a column, but not its values
    if len(operand) > len(("alias", ".", "column")):
        return False
    try:
        [field] = sides.source.select(F.expr(join_tokens(operand))).schema.fields
    except AnalysisException:
        return False
    if not _same_values(field.dataType, sides.types[key]):
        return False
    return all(_inserts(clause, key, operand, field.name) for clause in inserts)


def _inserts(clause: MergeClause, key: str, operand: Tokens, name: str) -> bool:
    """Tell whether an insert stores an operand, which is the column `name` of the source, in a key column."""
    if clause.assigned is None:
        return name.lower() == key.lower()
    value = clause.assigned[key]
    try:
        return isinstance(value, str) and is_same_operand(cut_sql(value), operand)
    except OptionError:
        return False


def _same_values(kind: DataType, wanted: DataType) -> bool:
    """Tell whether values of one type are stored unchanged in a column of another type, or refused."""
    return kind == wanted or (isinstance(kind, IntegralType) and isinstance(wanted, IntegralType))
