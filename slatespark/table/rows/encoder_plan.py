"""Checks that the columns of a write fit a table, before any task starts and before anything is created."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from slatespark.encoding.collations import require_byte_order
from slatespark.encoding.exact_cast import incompatible, takes_rows
from slatespark.encoding.row_codec import RAW_CODEC, WITH_COLUMNS, RowCodec
from slatespark.encoding.schema import find_name
from slatespark.errors import OptionError, SchemaError
from slatespark.options import WriteOptions
from slatespark.table.definition.columns import check_distinct, nearest_name, resolve_op_column, resolve_option_column
from slatespark.table.definition.table_definition import NO_DEFINITION, TableDefinition
from slatespark.table.rows.encoder import RowEncoder, check_takes_operands
from slatespark.table.rows.row_expiry import check_expire_at_type, check_ttl_type
from slatespark.table.rows.row_times import check_timestamp_type
from slatespark.table.rows.sequence import check_sequence_type
from slatespark.texts import listed


def plan_encoder(schema: pa.Schema, codec: RowCodec, options: WriteOptions, *, own_time: bool = False) -> RowEncoder:
    """Return how rows with these columns are written to a table.

    Parameters
    ----------
    schema : of the rows, any Arrow types
    codec : of the table, which has the columns that `mergeSchema` adds already
    own_time : whether the table has its own clock

    Raises
    ------
    SchemaError
        Naming the columns that are missing, too many, or of a type that the table cannot take.
    OptionError
        When `sequenceColumn` cannot be used.
    """
    check_distinct(schema)
    if options.operation == "merge":
        check_takes_operands(codec)
    op_column, expiry = resolve_op_column(schema, options), resolve_expiry_columns(schema, options)
    timestamp_column = resolve_timestamp_column(schema, options)
    apart = [op_column, *expiry.values()]
    if timestamp_column is not None and not _holds_time(timestamp_column, codec, options):
        apart.append(timestamp_column)
    stored = [field for field in schema if field.name not in apart]
    _check_present(stored, codec, options)
    needed = codec.key_columns if options.operation == "delete" else codec.schema.names
    targets = {target.name.lower(): target for target in codec.schema}
    for field in stored:
        target = targets[field.name.lower()]
        if target.name in needed:
            _check_type(field, target)
        if target.name in codec.key_columns:
            require_byte_order(field)
    sequence_column = _resolve_sequence(stored, codec, options)
    return RowEncoder(
        codec,
        options.operation,
        op_column,
        sequence_column,
        ttl_column=expiry["ttl_column"],
        expire_at_column=expiry["expire_at_column"],
        timestamp_column=timestamp_column,
        has_own_time=own_time,
    )


def resolve_expiry_columns(schema: pa.Schema, options: WriteOptions) -> dict[str, str | None]:
    """Return `ttlColumn` and `expireAtColumn` as the rows spell them, under their names in `RowEncoder`.

    Raises
    ------
    SchemaError
        When one is missing, or of a type that says no time.
    """
    return {
        "ttl_column": resolve_option_column(schema, "ttlColumn", options.ttl_column, check_ttl_type),
        "expire_at_column": resolve_option_column(
            schema, "expireAtColumn", options.expire_at_column, check_expire_at_type
        ),
    }


def resolve_timestamp_column(schema: pa.Schema, options: WriteOptions) -> str | None:
    """Return `timestampColumn` as the rows spell it; raises `SchemaError` when it is missing or says no time."""
    return resolve_option_column(schema, "timestampColumn", options.timestamp_column, check_timestamp_type)


def _holds_time(name: str, codec: RowCodec, options: WriteOptions) -> bool:
    """Tell whether the times are stored as a column too: unless the table holds bytes alone, or no value is written."""
    if find_name(codec.schema, name) is not None:
        return True
    return codec.value_format in WITH_COLUMNS and options.operation != "delete"


def _check_present(stored: Sequence[pa.Field], codec: RowCodec, options: WriteOptions) -> None:
    given = {field.name.lower() for field in stored}
    names = [field.name for field in stored]
    known = {name.lower() for name in codec.schema.names}
    extra = [name for name in names if name.lower() not in known]
    deletes = options.operation == "delete"
    may_lack = options.merge_schema or deletes  # columns that take nulls
    only_keys = deletes or options.op_column is not None  # any row may be a deletion
    required = [
        field.name
        for field in codec.schema
        if not may_lack or field.name in codec.key_columns or not (field.nullable or only_keys)
    ]
    missing = [name for name in required if name.lower() not in given]
    if codec == RAW_CODEC:
        if extra or missing:
            raise SchemaError(
                f"The columns are {listed(names) or 'none'}; a raw table takes key and value, both BINARY.",
                todo="Say which columns are the key with keyColumns when the table is created, or select those two.",
            )
        return
    if extra:
        raise SchemaError(
            f"The table has no column {listed(extra)}{nearest_name(extra[0], codec.schema.names)}.",
            todo="Leave it out: a deletion adds none." if deletes else "Leave it out, or set mergeSchema=true.",
        )
    if missing:
        _refuse_taken(missing, options)
        if keys := [name for name in missing if name in codec.key_columns]:
            raise SchemaError(
                f"The rows lack the table's key column {', '.join(keys)}.", todo="Add it: each row needs its whole key."
            )
        takes_nulls = all(codec.schema.field(name).nullable for name in missing)
        raise SchemaError(
            f"The rows lack the table's column {listed(missing)}.",
            todo="Add it, or set mergeSchema=true to store nulls." if takes_nulls else "Add it: it takes no nulls.",
        )


def _refuse_taken(missing: Sequence[str], options: WriteOptions) -> None:
    """Refuse an option that takes a column of the table from the rows."""
    taking = {
        "opColumn": options.op_column,
        "ttlColumn": options.ttl_column,
        "expireAtColumn": options.expire_at_column,
    }
    for name, column in taking.items():
        if column is not None and column.lower() in {each.lower() for each in missing}:
            raise SchemaError(
                f"{name} is {column}, which is a column of the table.",
                why="The column that it names is not stored.",
                todo="Give it in a column of another name.",
            )


def _check_type(field: pa.Field, target: pa.Field) -> None:
    if not takes_rows(target.type, field):
        raise incompatible(target.name, target.type, field.type)


def _resolve_sequence(stored: Sequence[pa.Field], codec: RowCodec, options: WriteOptions) -> str | None:
    wanted = options.sequence_column
    if wanted is None:
        return None
    name = find_name(codec.schema, wanted)
    if name is None:
        raise OptionError(
            f"sequenceColumn: the table has no column {wanted}{nearest_name(wanted, codec.schema.names)}.",
            todo="Choose one of its columns.",
        )
    if name.lower() not in {field.name.lower() for field in stored}:
        raise OptionError(f"sequenceColumn: the rows lack the column {name}.", todo="Add it.")
    check_sequence_type(codec.schema.field(name))
    return None if name in codec.key_columns else name  # in the key it is the same for all rows of one key


def lasting_columns(schema: pa.Schema, options: WriteOptions, current: TableDefinition) -> pa.Schema:
    """Return the columns without those that only say a time of their row.

    Parameters
    ----------
    current : of the table; `NO_DEFINITION` if there is no table
    """
    check_distinct(schema)
    apart = {*resolve_expiry_columns(schema, options).values()}
    value_format = (options.value_format or "avro") if current == NO_DEFINITION else current.value_format
    if value_format not in WITH_COLUMNS:
        apart.add(resolve_timestamp_column(schema, options))
    return pa.schema([field for field in schema if field.name not in apart])
