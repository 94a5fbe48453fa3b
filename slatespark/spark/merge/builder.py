"""Delta's merge: a builder of clauses, executed as one join of target and source and one commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import DataType

from slatespark.display.progress import AskedProgress
from slatespark.errors import InvalidRequestError
from slatespark.options import Call
from slatespark.options.values import with_own_spelling
from slatespark.spark.expressions.assignments import Expression, checked, require_expression, resolve_names
from slatespark.spark.failures import own_errors
from slatespark.spark.frame_columns import require_frame, resolve_columns
from slatespark.spark.merge.needs import find_target_filter, find_unmatched_nulls, needed_columns, writes_every_row
from slatespark.spark.merge.rows import (
    BY_SOURCE,
    MATCHED,
    NOT_MATCHED,
    OP_COLUMN,
    Clauses,
    MergeClause,
    MergeSides,
    merge_rows,
    scope_of,
)
from slatespark.table.transaction.options import operator_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from slatespark.spark.frames.table_frames import TableFrames
    from slatespark.table.commit.read_set import ReadSet


class SlateMergeBuilder:
    """Clauses of a merge, as in `DeltaMergeBuilder`. Made by `SlateTable.merge`.

    Every method returns a new builder. Of several clauses of a kind the first whose condition is true applies; a clause
    without a condition must be the last of its kind: a further one is an `InvalidRequestError`.

    Examples
    --------
    >>> from slatespark import SlateTable
    >>> table = SlateTable.create(spark, f"{path}/seats", "id BIGINT, guest STRING", "id")
    >>> booked = spark.sql("SELECT explode(array(1L, 2L)) AS id, 'ann' AS guest")
    >>> merge = (table.alias("t").merge(booked.alias("s"), "t.id = s.id")
    ...     .whenMatchedUpdate("t.guest IS NULL", {"guest": "s.guest"})
    ...     .whenMatchedDelete("s.guest IS NULL")
    ...     .whenNotMatchedInsertAll())

    `merge.execute()` runs it.
    """

    def __init__(
        self,
        target: TableFrames,
        source: DataFrame,
        condition: Expression,
        clauses: tuple[MergeClause, ...] = (),
        *,
        evolves: bool = False,
        source_reads: ReadSet | None = None,  # of this table, before the source has read it
    ) -> None:
        require_frame(source, "merge")
        require_expression(condition)  # else Spark would pair all rows
        self._target, self._source, self._condition, self._clauses = target, source, condition, clauses
        self._evolves, self._source_reads = evolves, source_reads

    def withSchemaEvolution(self) -> SlateMergeBuilder:
        """Add columns of the source that the table lacks, if a clause with `All` takes every column from the source.

        Their types are those of the source. In rows that such a clause does not write, they are null.
        """
        return self._with_clauses(self._clauses, evolves=True)

    def whenMatchedUpdate(
        self,
        condition: Expression | None = None,
        set: Mapping[str, Expression] | None = None,  # noqa: A002  # Delta's
    ) -> SlateMergeBuilder:
        """Set columns of matched rows.

        Parameters
        ----------
        condition : which of them, a Column or SQL text over both sides; by default all
        set : for each column, the new value as SQL text or a Column over both sides; of a key column only
            what it is already

        Raises
        ------
        InvalidRequestError
            When nothing is set, or an earlier clause takes all rows.
        """
        return self._with(MergeClause(MATCHED, "update", condition, checked(set, "whenMatchedUpdate", "set")))

    def whenMatchedUpdateAll(self, condition: Expression | None = None) -> SlateMergeBuilder:
        """Set every column of matched rows to the source's column of the same name.

        Parameters
        ----------
        condition : which of them, a Column or SQL text over both sides; by default all
        """
        return self._with(MergeClause(MATCHED, "update", condition))

    def whenMatchedDelete(self, condition: Expression | None = None) -> SlateMergeBuilder:
        """Delete matched rows.

        Parameters
        ----------
        condition : which of them, a Column or SQL text over both sides; by default all
        """
        return self._with(MergeClause(MATCHED, "delete", condition))

    def whenNotMatchedInsert(
        self, condition: Expression | None = None, values: Mapping[str, Expression] | None = None
    ) -> SlateMergeBuilder:
        """Insert rows of the source that match no row.

        Parameters
        ----------
        condition : which of them, a Column or SQL text over the source; by default all
        values : for each column, a value as SQL text or a Column over the source; columns that are not named become
            null

        Raises
        ------
        InvalidRequestError
            When no values are given, or an earlier clause takes all rows.
        """
        return self._with(
            MergeClause(NOT_MATCHED, "insert", condition, checked(values, "whenNotMatchedInsert", "values"))
        )

    def whenNotMatchedInsertAll(self, condition: Expression | None = None) -> SlateMergeBuilder:
        """Insert rows of the source that match no row, with the columns of the same name.

        Parameters
        ----------
        condition : which of them, a Column or SQL text over the source; by default all
        """
        return self._with(MergeClause(NOT_MATCHED, "insert", condition))

    def whenNotMatchedBySourceUpdate(
        self,
        condition: Expression | None = None,
        set: Mapping[str, Expression] | None = None,  # noqa: A002  # Delta's
    ) -> SlateMergeBuilder:
        """Set columns of rows that no row of the source matches.

        Parameters
        ----------
        condition : which of them, a Column or SQL text over the table's columns; by default all
        set : for each column, the new value as SQL text or a Column over the table's columns; of a key column
            only what it is already

        Raises
        ------
        InvalidRequestError
            When nothing is set, or an earlier clause takes all rows.
        """
        assigned = checked(set, "whenNotMatchedBySourceUpdate", "set")
        return self._with(MergeClause(BY_SOURCE, "update", condition, assigned))

    def whenNotMatchedBySourceDelete(self, condition: Expression | None = None) -> SlateMergeBuilder:
        """Delete rows that no row of the source matches.

        Parameters
        ----------
        condition : which of them, a Column or SQL text over the table's columns; by default all
        """
        return self._with(MergeClause(BY_SOURCE, "delete", condition))

    def execute(self, *, progress: AskedProgress = "auto", **writeOptions: Any) -> None:
        """Run the merge in one commit.

        Parameters
        ----------
        progress : the progress bar; see `SlateTable.write`
        writeOptions : write options that apply to stored rows, such as `ttl` for updated and inserted rows. With
            `timestampColumn`, whenMatchedDelete takes the time of a deletion from the source's column of that name

        Raises
        ------
        InvalidRequestError
            When there is no clause; when several rows of the source change one row or insert one key; when a row would
            be inserted under the key of an existing row. Nothing was changed.
        SchemaError
            When a clause names a column that the table does not have, or the source lacks one.
        TransactionConflictError
            When another commit, after the merge read the table, changed keys that the merge depends on. In general
            these are all keys. An upsert by the whole key, whose last `whenMatched` and last `whenNotMatched` clause
            have no condition, depends on the keys that it writes. A merge with only `whenMatched` clauses depends on
            the keys that pass comparisons of the table's columns with literals, as in `t.tenant = 'a' AND t.id = s.id`.
        """
        if not self._clauses:
            raise InvalidRequestError("The merge has no clause.", todo="Add one, such as whenMatchedUpdateAll().")
        table = self._target
        with own_errors():
            if table.is_committed(writeOptions, Call.MERGE, "merge"):
                return
            schema = table.codec().schema
            narrowed = find_target_filter(self._condition, self._clauses, self._source, table.name, schema)
            operator = operator_of(writeOptions)
            change = table.begin_change(operator if narrowed is None else {**operator, "filter": narrowed})
            types = {field.name: field.dataType for field in change.rows.schema.fields}
            clauses = tuple(_resolve(clause, types, change.key_columns, table.name) for clause in self._clauses)
            sides = MergeSides(change.rows, self._source, table.name, types, change.key_columns)
            unmatched_nulls = find_unmatched_nulls(sides, self._condition, clauses)
            needed = needed_columns(sides, self._condition, clauses)
            sides = replace(sides, target=table.select(needed, narrowed, operator).alias(scope_of(table.name)))
            if self._evolves and (added := _new_columns(self._source, types, clauses)):
                sides = sides.with_columns(added)
                writeOptions["mergeSchema"] = True
            sides = replace(sides, time_column=_time_of_deletions(writeOptions, sides, clauses))
            if self._source_reads is not None:
                change = replace(change, reads=self._source_reads)
            elif unmatched_nulls is not None and writes_every_row(clauses):
                change = replace(change, reads=change.reads.of_written())
            changed = merge_rows(sides, self._condition, clauses, unmatched_nulls)
            options = {**writeOptions, "opColumn": OP_COLUMN}
            table.write_change(change, changed, "merge into", progress=progress, **options)

    # --- private helpers ----------------------------------------------------------------------------------------------

    def _with(self, clause: MergeClause) -> SlateMergeBuilder:
        if clause.condition is not None:
            require_expression(clause.condition)
        same = (known for known in self._clauses if known.kind == clause.kind)
        before = next((known for known in same if known.condition is None), None)
        if before is not None:
            raise InvalidRequestError(
                f"{clause.name} comes after {before.name} without a condition, so it never applies.",
                todo="Give the earlier clause a condition, or put it last.",
            )
        return self._with_clauses((*self._clauses, clause), evolves=self._evolves)

    def _with_clauses(self, clauses: tuple[MergeClause, ...], *, evolves: bool) -> SlateMergeBuilder:
        given = self._target, self._source, self._condition, clauses
        return SlateMergeBuilder(*given, evolves=evolves, source_reads=self._source_reads)


def _time_of_deletions(options: Mapping[str, Any], sides: MergeSides, clauses: Clauses) -> str | None:
    """Return the column of the table with the time of each row; None if that matters to no deletion."""
    given = with_own_spelling(options, ("timestampColumn",)).get("timestampColumn")
    deletes = [clause for clause in clauses if clause.action == "delete"]
    if given is None or not deletes:
        return None
    if any(clause.kind == BY_SOURCE for clause in deletes):
        raise InvalidRequestError(
            "A merge with timestampColumn cannot have the clause whenNotMatchedBySourceDelete.",
            why="No row of the source tells the time of such a deletion.",
            todo="Delete these rows with a merge of their own, and the option timestamp.",
        )
    return resolve_columns([given], sides.columns, called="timestampColumn")[0]


def _new_columns(source: DataFrame, types: Mapping[str, DataType], clauses: Clauses) -> dict[str, DataType]:
    """Return the columns that clauses with `All` take from the source, but that the table lacks."""
    if all(clause.assigned is not None or clause.action == "delete" for clause in clauses):
        return {}
    known = {name.lower() for name in types}
    return {field.name: field.dataType for field in source.schema.fields if field.name.lower() not in known}


def _resolve(
    clause: MergeClause, types: Mapping[str, DataType], key_columns: tuple[str, ...], alias: str | None
) -> MergeClause:
    """Return a clause whose assigned columns are spelled as in the table."""
    if clause.assigned is None:
        return clause
    nested = types if clause.action == "update" else None
    scope = scope_of(alias)
    assigned = resolve_names(clause.assigned, list(types), alias, called=clause.name, types=nested, scope=scope)
    if clause.action == "insert" and (missing := [name for name in key_columns if name not in assigned]):
        raise InvalidRequestError(
            f"{clause.name} gives no value for key column {missing[0]}.", todo="Give one for every key column."
        )
    return replace(clause, assigned=assigned)
