"""The rows that a merge writes: target and source joined once, every row marked with its operation.

The join yields pairs (matched), rows of the source alone (not matched) and rows of the target alone (not matched by
source). Clauses of each kind are evaluated with only those columns in scope that they may use. Then rows of one key are
brought together, sorted for the load, and contradictions within a key raise an error inside the job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final, TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import DataType

from slatespark.errors import SchemaError
from slatespark.spark.expressions.assignments import Expression, expression, unchanged_key
from slatespark.spark.expressions.conditions import is_case_sensitive
from slatespark.spark.expressions.sql_text import find_operand
from slatespark.spark.expressions.stored_values import GivenValue, fit_values, sql_type
from slatespark.spark.frame_columns import cluster_by_key, quoted, quoted_if_needed, resolve_columns

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
_TIME: Final = "__slate_time"  # when the source says that a row was deleted

Clauses: TypeAlias = Sequence[MergeClause]


@dataclass(frozen=True)
class MergeSides:
    """The two sides of a merge.

    Attributes
    ----------
    target : the columns of the table that the merge needs, under its alias if it has one
    types : all columns of the table, in order
    key_columns : names of the key columns
    time_column : the column with the time of each row, which a deletion takes from the source; None without one
    """

    target: DataFrame
    source: DataFrame
    alias: str | None
    types: Mapping[str, DataType]
    key_columns: tuple[str, ...]
    time_column: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the table, in order."""
        return tuple(self.types)

    def source_time(self, name: str) -> str:
        """Return the source's column with the times of deletions; raises `SchemaError` if it lacks one."""
        try:
            return resolve_columns([name], self.source.columns, called="Column")[0]
        except SchemaError as exc:
            raise SchemaError(
                f"A whenMatchedDelete clause takes the time of a deletion from the source. {exc.args[0]}",
                todo="Add the column to the source, or give the option timestamp instead of timestampColumn.",
            ) from exc

    def with_columns(self, added: Mapping[str, DataType]) -> MergeSides:
        """Return the sides of a merge that adds columns to the table: its rows so far have nulls in them."""
        target = self.target.withColumns({name: F.lit(None).cast(kind) for name, kind in added.items()})
        return replace(self, target=target.alias(scope_of(self.alias)), types={**self.types, **added})


def scope_of(alias: str | None) -> str:
    """Return the name of the target's rows: the alias of the table, or one that no statement has."""
    return alias or f"{_OWN_NAMES}table"


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
    scope = _begin(joined, sides, clauses)
    scope = scope.judge(MATCHED, clauses, F.col(_IN_SOURCE) & F.col(_IN_TARGET))
    scope = scope.leave_target().judge(NOT_MATCHED, clauses, F.col(_IN_TARGET).isNull())
    scope = scope.leave_source().judge(BY_SOURCE, clauses, F.col(_IN_SOURCE).isNull())
    rows = _with_operation(scope, clauses)
    stays = F.col(OP_COLUMN) == _KEEP
    return _decide_keys(rows.where(~stays | _in_the_way(sides, clauses, unmatched_nulls)), sides, clauses)


def _join_kind(clauses: Clauses, unmatched_nulls: Sequence[str] | None) -> str:
    kinds = {clause.kind for clause in clauses}
    if NOT_MATCHED not in kinds:
        return "right" if BY_SOURCE in kinds else "inner"
    rows_that_stay = unmatched_nulls is None or len(unmatched_nulls) > 0  # inserts are checked against them
    return "full" if BY_SOURCE in kinds or rows_that_stay else "left"


def _in_the_way(sides: MergeSides, clauses: Clauses, unmatched_nulls: Sequence[str] | None) -> Column:
    """Return which of the rows that stay an insert could collide with."""
    if all(clause.kind != NOT_MATCHED for clause in clauses):
        return F.lit(False)
    if unmatched_nulls is None:
        return F.lit(True)
    nulls = [F.col(_result(sides.columns.index(name))).isNull() for name in unmatched_nulls]
    return reduce(Column.__or__, nulls, F.lit(False))


# --- the clause that applies to a row, and its new values -----------------------------------------------------------


@dataclass(frozen=True)
class _Scope:
    """The joined rows with the decisions so far; its methods change which columns of target and source are in scope.

    The values that clauses give are in columns of their own, each in the scope of its clause. What becomes of them is
    one SQL text per column: a wide merge would otherwise call the JVM for every column and clause.

    Attributes
    ----------
    positions : position of each column of the target that the merge needs
    given : values that each clause names, by the clause's index and by column
    """

    frame: DataFrame
    sides: MergeSides
    positions: Mapping[str, int]
    given: Mapping[int, Mapping[str, GivenValue]] = field(default_factory=dict)

    def judge(self, kind: str, clauses: Clauses, rows: Column) -> _Scope:
        """Evaluate the clauses of one kind on their rows."""
        numbered = [(index, clause) for index, clause in enumerate(clauses) if clause.kind == kind]
        if not numbered:
            return self
        with _naming_scope(kind):
            choice = F.when(rows, _first_that_holds(numbered)).otherwise(F.col(_CHOICE))
            frame, names = _with_values(self.frame.withColumn(_CHOICE, choice), kind, numbered)
            kinds = {part.name: part.dataType for part in frame.schema.fields}
        given = {
            index: {column: GivenValue(name, kinds[name]) for column, name in by_column.items()}
            for index, by_column in names.items()
        }
        return replace(self, frame=frame, given={**self.given, **given})

    def leave_target(self) -> _Scope:
        """Remove the target's columns from the scope; the source's keep their qualifier."""
        return self._without(self.sides.target)

    def leave_source(self) -> _Scope:
        """Remove the source's columns from the scope and bring the target's back."""
        left = self._without(self.sides.source)
        target = [f"{_of_target(position)} AS {quoted(name)}" for name, position in self.positions.items()]
        frame = left.frame.selectExpr("*", *target)
        return replace(left, frame=frame.alias(scope_of(self.sides.alias)))

    def _without(self, side: DataFrame) -> _Scope:
        return replace(self, frame=self.frame.drop(*[_column(side, name) for name in side.columns]))

    # --- new values ---------------------------------------------------------------------------------------------------

    def results(self, clauses: Clauses) -> list[str]:
        """Return the new values of the columns of the table as SQL text, each under the name `_result(position)`."""
        made = {index: self._made(index, clause) for index, clause in enumerate(clauses)}
        return [self._result(position, name, made) for position, name in enumerate(self.sides.columns)]

    def _result(self, position: int, name: str, made: Mapping[int, Mapping[str, str]]) -> str:
        sides = self.sides
        start = self._target(name) if name in sides.key_columns else f"CAST(NULL AS {sql_type(sides.types[name])})"
        cases = [f"WHEN {index} THEN {values[name]}" for index, values in made.items() if name in values]
        text = f"CASE {_CHOICE} {' '.join(cases)} ELSE {start} END" if cases else start
        return f"{text} AS {_result(position)}"

    def _target(self, name: str) -> str:
        return _of_target(self.positions[name])

    def _made(self, index: int, clause: MergeClause) -> dict[str, str]:
        """Return the new values of a clause by column."""
        sides = self.sides
        if clause.action == "delete":
            return fit_values(self._time_of_source(), sides.types, called=clause.name)
        given = self.given.get(index) or self._of_source(clause)
        values = fit_values(given, sides.types, called=clause.name)
        if clause.action == "insert":
            return values
        for name in sides.columns:
            if name not in values:
                values[name] = self._target(name)
            elif name in sides.key_columns:
                key, takes_all = self._target(name), clause.assigned is None
                values[name] = unchanged_key(key, values[name], name, called=clause.name, takes_all=takes_all)
        return values

    def _time_of_source(self) -> dict[str, GivenValue]:
        name = self.sides.time_column
        if name is None or name in self.sides.key_columns:
            return {}
        return {name: GivenValue(_TIME, self.frame.schema[_TIME].dataType)}

    def _of_source(self, clause: MergeClause) -> dict[str, GivenValue]:
        names = _source_columns(self.sides.source, self.sides.columns, clause)
        kinds = {part.name: part.dataType for part in self.sides.source.schema.fields}
        return {name: GivenValue(_of_source(position), kinds[names[name]]) for position, name in enumerate(names)}


def _column(frame: DataFrame, name: str) -> Column:
    """Return a column by its name."""
    return frame[quoted_if_needed(name)]


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


def _begin(joined: DataFrame, sides: MergeSides, clauses: Clauses) -> _Scope:
    """Return the scope of both sides; copies of their columns have names that no scope hides."""
    positions = {name: position for position, name in enumerate(sides.target.columns)}
    copies = {_of_target(position): _column(sides.target, name) for name, position in positions.items()}
    taken = enumerate(_taken_columns(sides, clauses))
    copies |= {_of_source(position): _column(sides.source, name) for position, name in taken}
    if sides.time_column is not None:
        copies[_TIME] = _column(sides.source, sides.source_time(sides.time_column))
    # Not by aliases: each is several calls of the JVM.
    return _Scope(joined.withColumns({_CHOICE: F.lit(None).cast("int"), **copies}), sides, positions)


def _taken_columns(sides: MergeSides, clauses: Clauses) -> list[str]:
    """Return the source's columns that clauses with `All` take, in the order of the table's; none without such ones."""
    taking = (clause for clause in clauses if clause.action != "delete" and clause.assigned is None)
    clause = next(taking, None)
    return [] if clause is None else list(_source_columns(sides.source, sides.columns, clause).values())


def _result(position: int) -> str:
    return f"__slate_result_{position}"


def _of_target(position: int) -> str:
    return f"__slate_target_{position}"


def _of_source(position: int) -> str:
    return f"__slate_source_{position}"


def _with_values(
    frame: DataFrame, kind: str, numbered: Sequence[tuple[int, MergeClause]]
) -> tuple[DataFrame, dict[int, dict[str, str]]]:
    """Return rows with the values that clauses of one kind name, and the columns where these are, by clause and column.

    Names and numbers, of which a wide table has many, are there once for all clauses. Everything else is evaluated only
    in rows of its clause, since it may fail in others.
    """
    shared, columns, names = dict[str, str](), list[Column](), dict[int, dict[str, str]]()
    for index, clause in numbered:
        for position, (column, value) in enumerate((clause.assigned or {}).items()):
            operand = find_operand(value) if isinstance(value, str) else None
            if operand is None:
                name = f"__slate_value_{index}_{position}"
                columns.append(F.when(F.col(_CHOICE) == index, expression(value)).alias(name))
            else:
                name = shared.setdefault(operand, f"__slate_value_{kind}_{len(shared)}")
            names.setdefault(index, {})[column] = name
    texts = [f"{operand} AS {name}" for operand, name in shared.items()]
    return frame.selectExpr("*", *texts).select("*", *columns), names


@contextmanager
def _naming_scope(kind: str) -> Iterator[None]:
    """Say which side a clause sees where it names a column of the other."""
    try:
        yield
    except AnalysisException as exc:
        if kind == MATCHED or not (exc.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
            raise
        name = (exc.getMessageParameters() or {}).get("objectName", "a column")
        side = "source" if kind == NOT_MATCHED else "table"
        raise SchemaError(
            f"A {_CALLED[kind]} clause names {name}, which is no column of the {side}.",
            why=f"Such a clause sees the {side} alone, since its rows match nothing.",
            todo=f"Use columns of the {side}.",
        ) from exc


def _first_that_holds(numbered: Sequence[tuple[int, MergeClause]]) -> Column:
    """Return the index of the first clause whose condition is true; null if there is none."""
    chosen = F.lit(None).cast("int")
    for index, clause in reversed(numbered):
        holds = F.lit(True) if clause.condition is None else expression(clause.condition)
        chosen = F.when(holds, F.lit(index)).otherwise(chosen)
    return chosen


# --- rows of one key ------------------------------------------------------------------------------------------------


def _with_operation(scope: _Scope, clauses: Clauses) -> DataFrame:
    """Return the new values, `_result(position)`, with the operation and the choice."""
    operation = (
        F.when(_chosen(clauses, action="delete"), F.lit(_DELETE))
        .when(F.col(_CHOICE).isNotNull(), F.lit(_PUT))
        .when(F.col(_IN_TARGET), F.lit(_KEEP))
    )
    rows = scope.frame.selectExpr(*scope.results(clauses), _CHOICE, _IN_TARGET)
    return rows.withColumn(OP_COLUMN, operation).where(F.col(OP_COLUMN).isNotNull())


def _decide_keys(rows: DataFrame, sides: MergeSides, clauses: Clauses) -> DataFrame:
    """Return the rows to write, sorted by key; the job fails if rows of one key contradict each other."""
    positions = {name: position for position, name in enumerate(sides.columns)}
    keys = [F.col(_result(positions[name])) for name in sides.key_columns]
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
    named = [key.alias(name) for key, name in zip(keys, sides.key_columns, strict=True)]
    key = F.to_json(F.struct(*named), {"ignoreNullFields": "false"})
    todo = " Leave one row per key in the source, and match by all key columns."
    failure = F.raise_error(F.concat(F.lit("InvalidRequestError: "), text, F.lit(": "), key, F.lit("."), F.lit(todo)))
    operation = F.when(text.isNotNull(), failure.cast("string")).otherwise(F.col(OP_COLUMN))
    replaced = deleted & (inserts > 0)  # the row inserted under the key of a deleted one replaces it
    settled = cluster_by_key(rows, keys).withColumns(counts).where((F.col(OP_COLUMN) != _KEEP) & ~replaced)
    results = settled.withColumn(OP_COLUMN, operation).selectExpr(*map(_result, positions.values()), OP_COLUMN)
    return results.toDF(*sides.columns, OP_COLUMN)


def _chosen(clauses: Clauses, *, kind: str | None = None, action: str | None = None) -> Column:
    """Return whether a clause of this kind or action was chosen."""
    indexes = [i for i, clause in enumerate(clauses) if kind in (None, clause.kind) and action in (None, clause.action)]
    return F.coalesce(F.col(_CHOICE).isin(indexes), F.lit(False))


def _is_sole_delete(clauses: Clauses) -> bool:
    """Tell whether several rows of the source may match one row, since it is deleted in any case."""
    matched = [clause for clause in clauses if clause.kind == MATCHED]
    return len(matched) == 1 and matched[0].action == "delete" and matched[0].condition is None
