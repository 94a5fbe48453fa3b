"""Whether the columns of a write fit a table: checked before any task starts, and before anything is created."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Final

import pyarrow as pa
import pyarrow.types as kinds

from slatespark.encoding.column_types import canonical_type
from slatespark.encoding.exact_cast import can_cast, incompatible
from slatespark.encoding.row_codec import RAW_CODEC, RowCodec
from slatespark.encoding.schema import find_name
from slatespark.errors import OptionError, SchemaError
from slatespark.options import WriteOptions
from slatespark.table.write.row_expiry import check_expire_at_type, check_ttl_type
from slatespark.table.write.row_times import check_timestamp_type
from slatespark.table.write.rows import RowEncoder, check_takes_operands
from slatespark.table.write.sequence import check_sequence_type

WITH_COLUMNS: Final = ("avro", "json")  # value formats that hold any columns


def plan_encoder(schema: pa.Schema, codec: RowCodec, options: WriteOptions) -> RowEncoder:
    """Return how rows with these columns are written to a table.

    Parameters
    ----------
    schema : of the rows, any Arrow types
    codec : of the table, which has the columns that `mergeSchema` adds already

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
    sequence_column = _resolve_sequence(stored, codec, options)
    return RowEncoder(
        codec,
        options.operation,
        op_column,
        sequence_column,
        ttl_column=expiry["ttl_column"],
        expire_at_column=expiry["expire_at_column"],
        timestamp_column=timestamp_column,
    )


def check_distinct(schema: pa.Schema) -> None:
    """Refuse columns that are the same but for case; raises `SchemaError`."""
    if len({name.lower() for name in schema.names}) < len(schema.names):
        raise SchemaError(
            f"The columns are {', '.join(schema.names)}: one is there twice.",
            why="Names are compared without regard to case.",
            todo="Select and rename the columns before writing.",
        )


def resolve_op_column(schema: pa.Schema, options: WriteOptions) -> str | None:
    """Return `opColumn` as the rows spell it; raises `SchemaError` when it is missing or no text."""
    return _resolve_own(schema, "opColumn", options.op_column, _check_op_type)


def _check_op_type(field: pa.Field) -> None:
    if not (kinds.is_string(field.type) or kinds.is_large_string(field.type)):
        raise SchemaError(f"Column {field.name} is {field.type}, expected STRING.", todo="Cast it to STRING.")


def resolve_expiry_columns(schema: pa.Schema, options: WriteOptions) -> dict[str, str | None]:
    """Return `ttlColumn` and `expireAtColumn` as the rows spell them, under their names in `RowEncoder`.

    Raises
    ------
    SchemaError
        When one is missing, or of a type that says no time.
    """
    return {
        "ttl_column": _resolve_own(schema, "ttlColumn", options.ttl_column, check_ttl_type),
        "expire_at_column": _resolve_own(schema, "expireAtColumn", options.expire_at_column, check_expire_at_type),
    }


def resolve_timestamp_column(schema: pa.Schema, options: WriteOptions) -> str | None:
    """Return `timestampColumn` as the rows spell it; raises `SchemaError` when it is missing or says no time."""
    return _resolve_own(schema, "timestampColumn", options.timestamp_column, check_timestamp_type)


def _holds_time(name: str, codec: RowCodec, options: WriteOptions) -> bool:
    """Tell whether the times are stored as a column too: unless the table holds bytes alone, or no value is written."""
    if find_name(codec.schema, name) is not None:
        return True
    return codec.value_format in WITH_COLUMNS and options.operation != "delete"


def _resolve_own(schema: pa.Schema, option: str, wanted: str | None, check: Callable[[pa.Field], None]) -> str | None:
    """Return a column that says something of its row, as the rows spell it."""
    if wanted is None:
        return None
    name = find_name(schema, wanted)
    if name is None:
        raise SchemaError(f"{option}: there is no column {wanted}{_near(wanted, schema.names)}.")
    check(schema.field(name))
    return name


def _check_present(stored: Sequence[pa.Field], codec: RowCodec, options: WriteOptions) -> None:
    given = {field.name.lower() for field in stored}
    names = [field.name for field in stored]
    known = {name.lower() for name in codec.schema.names}
    extra = [name for name in names if name.lower() not in known]
    optional = options.merge_schema or options.operation == "delete"
    required = codec.key_columns if optional else codec.schema.names
    missing = [name for name in required if name.lower() not in given]
    if codec == RAW_CODEC:
        if extra or missing:
            raise SchemaError(
                f"The columns are {', '.join(names) or 'none'}; a raw table takes key and value, both BINARY.",
                todo="Say which columns are the key with keyColumns when the table is created, or select those two.",
            )
        return
    if extra:
        raise SchemaError(
            f"The table has no column {', '.join(extra)}{_near(extra[0], codec.schema.names)}.",
            todo="Leave it out, or set mergeSchema=true.",
        )
    if missing:
        key = missing[0] in codec.key_columns
        raise SchemaError(
            f"The rows lack the table's {'key ' if key else ''}column {', '.join(missing)}.",
            todo="Add it." if key else "Add it, or set mergeSchema=true to store nulls.",
        )


def _check_type(field: pa.Field, target: pa.Field) -> None:
    if kinds.is_null(field.type):
        return
    source = canonical_type(field.type, field.name)
    if not can_cast(source, target.type):
        raise incompatible(target.name, target.type, field.type)


def _resolve_sequence(stored: Sequence[pa.Field], codec: RowCodec, options: WriteOptions) -> str | None:
    wanted = options.sequence_column
    if wanted is None:
        return None
    name = find_name(codec.schema, wanted)
    if name is None:
        raise OptionError(
            f"sequenceColumn: the table has no column {wanted}{_near(wanted, codec.schema.names)}.",
            todo="Choose one of its columns.",
        )
    if name.lower() not in {field.name.lower() for field in stored}:
        raise OptionError(f"sequenceColumn: the rows lack the column {name}.", todo="Add it.")
    check_sequence_type(codec.schema.field(name))
    return None if name in codec.key_columns else name  # in the key it is the same for all rows of one key


def _near(name: str, names: Sequence[str]) -> str:
    """Return a hint at the nearest of some names."""
    lowered = {known.lower(): known for known in names}
    near = get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    return f" (did you mean {lowered[near[0]]}?)" if near else ""
