"""Updates: the rows that match a condition are read and written again with new values, in one commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from slatespark.encoding.exact_values import exact_value
from slatespark.encoding.plain_values import VALUE_ERRORS
from slatespark.encoding.row_codec import RowCodec
from slatespark.encoding.schema import find_name
from slatespark.encoding.type_names import sql_type
from slatespark.encoding.without_pandas import array_of
from slatespark.errors import InvalidRequestError, SchemaError
from slatespark.options import Call, ReadOptions
from slatespark.table.clock import Clock
from slatespark.table.commit.cooperate_option import refuse_cooperation
from slatespark.table.commit.idempotence import is_committed
from slatespark.table.commit.read_set import ReadSet
from slatespark.table.progress import Progress, reporting_rows
from slatespark.table.read.reader import fetch_read_plan, resolve_table, run_read
from slatespark.table.read.versions.read_point import ReadPoint
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.stores import TableStores
from slatespark.table.write.change_options import parse_change
from slatespark.table.write.load_run import load_batches
from slatespark.texts import listed


def update_where(
    stores: TableStores,
    clock: Clock,
    condition: str | None,
    assigned: Mapping[str, object],
    common: Mapping[str, Any],
    options: Mapping[str, Any],
    *,
    progress: Progress | None = None,
) -> CommitRecord | None:
    """Set columns of the rows that match a condition; None when there are none.

    Parameters
    ----------
    condition : condition in the grammar of the read option `filter`; None for all rows
    assigned : for each column, a Python value, a pyarrow scalar, or a pyarrow expression over the columns of the row
    common : options of reads and writes: path and storage
    options : further write options

    Raises
    ------
    OptionError
        When the condition cannot be parsed, or an option does not apply to an update.
    InvalidRequestError
        When a key column, or nothing, is set.
    SchemaError
        When a column does not exist, or a value does not fit it.
    TransactionConflictError
        When another commit changed the searched keys after the searched snapshot.
    CommitConflictError
        When a SlateDB client is active on the table, or other writers won every race.
    """
    write = parse_change(Call.UPDATE, common, options)
    refuse_cooperation(write, "update", "Upsert the new rows.")
    if is_committed(stores, write):
        return None
    read = ReadOptions.parse({**common, "filter": condition, "mergeOperator": write.merge_operator})
    point = ReadPoint(*resolve_table(stores, read, clock))
    values = NewValues.of(assigned, point.definition.codec())
    plan = fetch_read_plan(stores, read, clock, point=point)
    nothing = [pa.nulls(0, each.type) for each in plan.schema]
    empty = values.set_in(pa.RecordBatch.from_arrays(nothing, schema=plan.schema))
    rows = reporting_rows(map(values.set_in, run_read(stores, plan)), progress)
    return load_batches(stores, clock, empty.schema, rows, write, depends_on=ReadSet.of_plan(plan))


@dataclass(frozen=True, slots=True)
class NewValues:
    """The new values of an update.

    Attributes
    ----------
    constants, expressions : new values by the names of columns
    """

    constants: Mapping[str, pa.Scalar]
    expressions: Mapping[str, pc.Expression]

    @classmethod
    def of(cls, assigned: Mapping[Any, object], codec: RowCodec) -> Self:
        """Return the new values of a table's columns; case does not matter."""
        if not isinstance(assigned, Mapping):  # most often condition and set the wrong way round
            raise InvalidRequestError(
                f"update: set is of the type {type(assigned).__name__}.",
                why="It maps names of columns to values, and comes after the condition.",
                todo="Give set={'column': value}.",
            )
        if not assigned:
            raise InvalidRequestError("update sets nothing.", todo="Give set={'column': value}.")
        named: dict[str, object] = {}
        for given, value in assigned.items():
            name = find_name(codec.schema, given) if isinstance(given, str) else None
            if name is None:
                raise SchemaError(
                    f"update sets column {given}, which the table does not have.",
                    todo=f"Its columns are {listed(codec.schema.names)}.",
                )
            if name in codec.key_columns:
                raise InvalidRequestError(
                    f"update sets key column {name}.",
                    why="The key of a row cannot change.",
                    todo="Delete the row and write the new one.",
                )
            if name in named:
                raise SchemaError(f"update sets column {name} twice.", todo="Set it once.")
            named[name] = value
        expressions = {name: value for name, value in named.items() if isinstance(value, pc.Expression)}
        constants = {
            name: _constant(value, codec.schema.field(name)) for name, value in named.items() if name not in expressions
        }
        return cls(constants, expressions)

    def set_in(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with their new values; expressions see the old ones."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        columns |= {name: _repeated(value, len(batch)) for name, value in self.constants.items()}
        if self.expressions:
            columns |= _evaluated(batch, self.expressions)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _repeated(value: pa.Scalar, count: int) -> pa.Array:
    return pa.repeat(value, max(count, 1)).slice(0, count)  # pyarrow repeats no list zero times


def _constant(value: object, field: pa.Field) -> pa.Scalar:
    if isinstance(value, pa.Scalar):
        return value
    try:
        return array_of([exact_value(value, field.type, fills=True)], field.type)[0]
    except VALUE_ERRORS as exc:
        raise SchemaError(
            f"update sets column {field.name}, which is {sql_type(field)}, to {value!r}: {exc}.",
            todo="Give a value of that type, or a pyarrow expression.",
        ) from exc


def _evaluated(batch: pa.RecordBatch, expressions: Mapping[str, pc.Expression]) -> dict[str, pa.Array]:
    from pyarrow import acero  # which few programs need

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(pa.Table.from_batches([batch])))
    project = acero.Declaration("project", acero.ProjectNodeOptions(list(expressions.values()), list(expressions)))
    try:
        made = acero.Declaration.from_sequence([source, project]).to_table(use_threads=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError) as exc:
        raise SchemaError(
            f"update: the new values of {', '.join(expressions)} cannot be computed: {exc}.",
            todo="Use columns of the table, and functions that take their types.",
        ) from exc
    return {name: made.column(name).combine_chunks() for name in expressions}
