"""The rows that a merge writes: target and source joined once, every row marked with its operation.

The join yields pairs (matched), rows of the source alone (not matched) and rows of the target alone (not matched by
source). Clauses of each kind are evaluated with only those columns in scope that they may use. Then rows of one key are
brought together, sorted for the load, and contradictions within a key raise an error inside the job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final, TypeAlias

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import DataType

from slatespark.errors import SchemaError
from slatespark.spark.expressions.assignments import Expression, expression, fit_values
from slatespark.spark.expressions.conditions import is_case_sensitive
from slatespark.spark.frame_columns import cluster_by_key, quoted, resolve_columns

MATCHED: Final = "matched"
NOT_MATCHED: Final = "notMatched"
BY_SOURCE: Final = "notMatchedBySource"

_CALLED: Final = {MATCHED: "whenMatched", NOT_MATCHED: "whenNotMatched", BY_SOURCE: "whenNotMatchedBySource"}


@dataclass(frozen=True)
class MergeClause:
    """One clause.

    Attributes
    ----------
    kind : the rows it applies to: `matched`, `notMatched` or `notMatchedBySource`
    action : `update`, `delete` or `insert`
    condition : selects some of these rows; None for all
    assigned : new values by column; None takes every column from the source
    """

    kind: str
    action: str
    condition: Expression | None = None
    assigned: Mapping[str, Expression] | None = None

    @property
    def name(self) -> str:
        """The name of the builder's method, without `All`."""
        return f"{_CALLED[self.kind]}{self.action.capitalize()}"


OP_COLUMN: Final = "__slate_op"
_PUT: Final = "put"
_DELETE: Final = "delete"
_KEEP: Final = "keep"  # a row that stays unchanged; inserts are checked against its key

_OWN_NAMES: Final = "__slate_"
_IN_SOURCE: Final = "__slate_in_source"
_IN_TARGET: Final = "__slate_in_target"
_CHOICE: Final = "__slate_choice"  # index of the clause that applies; null if none does

Clauses: TypeAlias = Sequence[MergeClause]


@dataclass(frozen=True)
class MergeSides:
    """The two sides of a merge.

    Attributes
    ----------
    target : the columns of the table that the merge needs, under its alias if it has one
    types : all columns of the table, in order
    key_columns : names of the key columns
    """

    target: DataFrame
    source: DataFrame
    alias: str | None
    types: Mapping[str, DataType]
    key_columns: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the table, in order."""
        return tuple(self.types)

    def with_columns(self, added: Mapping[str, DataType]) -> MergeSides:
        """Return the sides of a merge that adds columns to the table: its rows so far have nulls in them."""
        target = self.target.withColumns({name: F.lit(None).cast(kind) for name, kind in added.items()})
        aliased = target if self.alias is None else target.alias(self.alias)
        return replace(self, target=aliased, types={**self.types, **added})


def merge_rows(
    sides: MergeSides, condition: Expression, clauses: Clauses, unmatched_nulls: Sequence[str] | None = None
) -> DataFrame:
    """Return the rows to write: the table's columns and `OP_COLUMN`, sorted for the load.

    Its job fails with the text of an `InvalidRequestError` if the merge is not allowed.

    Parameters
    ----------
    unmatched_nulls : see `find_unmatched_nulls`

    Raises
    ------
    SchemaError
        When the source lacks a column that a clause takes from it, a value does not have its column's type, or a
        column of the source is called like one that the merge adds, or like another one.
    """
    _check_names(sides.source)
    source = sides.source.withColumn(_IN_SOURCE, F.lit(True))
    target = sides.target.withColumn(_IN_TARGET, F.lit(True))
    joined = source.join(target, expression(condition), _join_kind(clauses, unmatched_nulls))
    scope = _Scope(joined.withColumn(_CHOICE, F.lit(None).cast("int")), sides).begin()
    scope = scope.judge(MATCHED, clauses, F.col(_IN_SOURCE) & F.col(_IN_TARGET))
    scope = scope.leave_target().judge(NOT_MATCHED, clauses, F.col(_IN_TARGET).isNull())
    scope = scope.leave_source().judge(BY_SOURCE, clauses, F.col(_IN_SOURCE).isNull())
    rows = _with_operation(scope.frame, sides, clauses)
    stays = F.col(OP_COLUMN) == _KEEP
    return _decide_keys(rows.where(~stays | _in_the_way(clauses, unmatched_nulls)), sides, clauses)


def _join_kind(clauses: Clauses, unmatched_nulls: Sequence[str] | None) -> str:
    kinds = {clause.kind for clause in clauses}
    if NOT_MATCHED not in kinds:
        return "right" if BY_SOURCE in kinds else "inner"
    rows_that_stay = unmatched_nulls is None or len(unmatched_nulls) > 0  # inserts are checked against them
    return "full" if BY_SOURCE in kinds or rows_that_stay else "left"


def _in_the_way(clauses: Clauses, unmatched_nulls: Sequence[str] | None) -> Column:
    """Return which of the rows that stay an insert could collide with."""
    if all(clause.kind != NOT_MATCHED for clause in clauses):
        return F.lit(False)
    if unmatched_nulls is None:
        return F.lit(True)
    nulls = [F.col(quoted(name)).isNull() for name in unmatched_nulls]
    return reduce(Column.__or__, nulls, F.lit(False))


# --- the clause that applies to a row, and its new values -----------------------------------------------------------


@dataclass(frozen=True)
class _Scope:
    """The joined rows with the decisions so far; its methods change which columns of target and source are in scope.

    New values are in columns of their own: keys start as the target's, values as null.
    """

    frame: DataFrame
    sides: MergeSides

    def begin(self) -> _Scope:
        sides = self.sides
        start = {
            _result(place): self._of_target(name) if name in sides.key_columns else F.lit(None).cast(kind)
            for place, (name, kind) in enumerate(sides.types.items())
        }
        return _Scope(self.frame.withColumns(start), sides)

    def judge(self, kind: str, clauses: Clauses, rows: Column) -> _Scope:
        """Evaluate the clauses of one kind on their rows."""
        numbered = [(index, clause) for index, clause in enumerate(clauses) if clause.kind == kind]
        if not numbered:
            return self
        chosen = self.frame.withColumn(_CHOICE, F.when(rows, _first_that_holds(numbered)).otherwise(F.col(_CHOICE)))
        made = [(index, self._made(clause)) for index, clause in numbered]
        results = {}
        for place, name in enumerate(self.sides.columns):
            result = F.col(_result(place))
            for index, values in made:
                if name in values:
                    result = F.when(F.col(_CHOICE) == index, values[name]).otherwise(result)
            results[_result(place)] = result
        return _Scope(chosen.withColumns(results), self.sides)

    def leave_target(self) -> _Scope:
        """Remove the target's columns from the scope; the source's keep their qualifier."""
        sides = self.sides
        source = [_column(sides.source, name) for name in sides.source.columns]
        hidden = [self._of_target(name).alias(_hidden(place)) for place, name in enumerate(sides.target.columns)]
        return _Scope(self.frame.select(*source, *hidden, *self._own()), sides)

    def leave_source(self) -> _Scope:
        """Remove the source's columns from the scope and bring the target's back."""
        sides = self.sides
        target = [F.col(_hidden(place)).alias(name) for place, name in enumerate(sides.target.columns)]
        frame = self.frame.select(*target, *self._own())
        return _Scope(frame if sides.alias is None else frame.alias(sides.alias), sides)

    def _own(self) -> list[Column]:
        results = [_result(place) for place in range(len(self.sides.columns))]
        return [F.col(name) for name in (_IN_SOURCE, _IN_TARGET, _CHOICE, *results)]

    def _of_target(self, name: str) -> Column:
        return _column(self.sides.target, name)

    def _made(self, clause: MergeClause) -> dict[str, Column]:
        """Return the new values of a clause by column."""
        sides = self.sides
        if clause.action == "delete":
            return {}
        if clause.assigned is None:
            names = _source_columns(sides.source, sides.columns, clause)
            assigned = {name: _column(sides.source, names[name]) for name in sides.columns}
        else:
            assigned = {name: expression(value) for name, value in clause.assigned.items()}
        values = fit_values(self.frame, assigned, self.sides.types, called=clause.name)
        if clause.action == "insert":
            return values
        for name in sides.columns:
            if name in values and name not in sides.key_columns:
                continue
            kept = F.col(quoted(name)) if clause.kind == BY_SOURCE else self._of_target(name)
            values[name] = _same_key(kept, values[name], name, clause) if name in values else kept
        return values


def _column(frame: DataFrame, name: str) -> Column:
    """Return a column by its name, quoted only if need be: `quotedRegexColumnNames` makes a pattern of a quoted one."""
    return frame[name if name.isidentifier() else quoted(name)]


def _check_names(source: DataFrame) -> None:
    """Raise `SchemaError` for a column of the source called like one that the merge adds, or like another one."""
    is_exact = is_case_sensitive(source.sparkSession)
    counts = Counter(name if is_exact else name.lower() for name in source.columns)
    for name in source.columns:
        if counts[name if is_exact else name.lower()] > 1:
            raise SchemaError(
                f"The source has several columns {name}.", todo="Rename one of them, or leave it out, with select."
            )
        if name.lower().startswith(_OWN_NAMES):
            raise SchemaError(
                f"The source has a column {name}.",
                why=f"Names that begin with {_OWN_NAMES} are those of columns that the merge adds.",
                todo="Rename the column, or leave it out.",
            )


def _source_columns(source: DataFrame, columns: Sequence[str], clause: MergeClause) -> dict[str, str]:
    """Return, for each column of the target, the source's column of the same name.

    Raises
    ------
    SchemaError
        When the source lacks one.
    """
    try:
        return dict(zip(columns, resolve_columns(columns, source.columns, called="Column"), strict=True))
    except SchemaError as exc:
        raise SchemaError(
            f"{clause.name}All takes every column of the table from the source. {exc.args[0]}",
            todo=f"Use {clause.name} and name the columns.",
        ) from exc


def _result(place: int) -> str:
    return f"__slate_result_{place}"


def _hidden(place: int) -> str:
    return f"__slate_target_{place}"


def _first_that_holds(numbered: Sequence[tuple[int, MergeClause]]) -> Column:
    """Return the index of the first clause whose condition is true; null if there is none."""
    chosen = F.lit(None).cast("int")
    for index, clause in reversed(numbered):
        holds = F.lit(True) if clause.condition is None else expression(clause.condition)
        chosen = F.when(holds, F.lit(index)).otherwise(chosen)
    return chosen


def _same_key(kept: Column, given: Column, name: str, clause: MergeClause) -> Column:
    """Return a key column that an update of all columns leaves unchanged; the job fails if it would change."""
    text = (
        f"InvalidRequestError: {clause.name}All would give a row another value in key column {name}. "
        "Match rows by all key columns, or name the columns to set."
    )
    return F.when(kept.eqNullSafe(given), kept).otherwise(F.raise_error(F.lit(text)))


# --- rows of one key ------------------------------------------------------------------------------------------------


def _with_operation(frame: DataFrame, sides: MergeSides, clauses: Clauses) -> DataFrame:
    """Return the new values under the names of the table's columns, with the operation and the choice."""
    operation = (
        F.when(_chosen(clauses, action="delete"), F.lit(_DELETE))
        .when(F.col(_CHOICE).isNotNull(), F.lit(_PUT))
        .when(F.col(_IN_TARGET), F.lit(_KEEP))
    )
    names = [F.col(_result(place)).alias(name) for place, name in enumerate(sides.columns)]
    return frame.select(*names, operation.alias(OP_COLUMN), F.col(_CHOICE)).where(F.col(OP_COLUMN).isNotNull())


def _decide_keys(rows: DataFrame, sides: MergeSides, clauses: Clauses) -> DataFrame:
    """Return the rows to write, sorted by key; the job fails if rows of one key contradict each other."""
    keys = [F.col(quoted(name)) for name in sides.key_columns]
    inserted, deleted = _chosen(clauses, kind=NOT_MATCHED), F.col(OP_COLUMN) == _DELETE
    counted = {
        "__slate_changes": _chosen(clauses, kind=MATCHED),
        "__slate_inserts": inserted,
        "__slate_stored": ~inserted,
        "__slate_deletes": deleted,
    }
    of_key = Window.partitionBy(*keys)
    counts = {name: F.count(F.when(which, F.lit(1))).over(of_key) for name, which in counted.items()}
    changes, inserts, stored, deletes = (F.col(name) for name in counts)
    several = F.lit(False) if _is_sole_delete(clauses) else changes > 1
    text = (
        F.when(several, F.lit("Several rows of the source match one row of the table, and change it"))
        .when(inserts > 1, F.lit("Several rows of the source insert one row"))
        .when(
            (inserts > 0) & (stored > 0) & (deletes == 0),
            F.lit("The merge inserts a row that the table has, but that its condition does not match"),
        )
    )
    key = F.to_json(F.struct(*keys), {"ignoreNullFields": "false"})
    todo = " Leave one row per key in the source, and match by all key columns."
    failure = F.raise_error(F.concat(F.lit("InvalidRequestError: "), text, F.lit(": "), key, F.lit("."), F.lit(todo)))
    operation = F.when(text.isNotNull(), failure.cast("string")).otherwise(F.col(OP_COLUMN))
    replaced = deleted & (inserts > 0)  # the row inserted under the key of a deleted one replaces it
    settled = cluster_by_key(rows, keys).withColumns(counts).where((F.col(OP_COLUMN) != _KEEP) & ~replaced)
    return settled.select(*[F.col(quoted(name)) for name in sides.columns], operation.alias(OP_COLUMN))


def _chosen(clauses: Clauses, *, kind: str | None = None, action: str | None = None) -> Column:
    """Return whether a clause of this kind or action was chosen."""
    indexes = [i for i, clause in enumerate(clauses) if kind in (None, clause.kind) and action in (None, clause.action)]
    return F.coalesce(F.col(_CHOICE).isin(indexes), F.lit(False))


def _is_sole_delete(clauses: Clauses) -> bool:
    """Tell whether several rows of the source may match one row, since it is deleted in any case."""
    matched = [clause for clause in clauses if clause.kind == MATCHED]
    return len(matched) == 1 and matched[0].action == "delete" and matched[0].condition is None
