"""Canonical types of columns: one Arrow type for each Spark type, and the conversion of other types to them.

Every schema below `spark/` is canonical.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Final

import pyarrow as pa
import pyarrow.types as kinds

from slatespark.errors import SchemaError

SPARK_METADATA: Final = b"SPARK::metadata::json"  # where pyspark keeps a field's metadata in Arrow
RESERVED_NAMES: Final = ("_key", "_seq", "_op", "_create_ts", "_expire_ts")  # columns that reads add

TIMESTAMP: Final = pa.timestamp("us", "UTC")
TIMESTAMP_NTZ: Final = pa.timestamp("us")
DURATION: Final = pa.duration("us")
TIME: Final = pa.time64("ns")

VARIANT: Final = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)

INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())  # from narrow to wide

# Types in each other: more than any data has, and well below what recursion takes.
MAX_NESTING: Final = 100

_MAX_PRECISION: Final = 38
_COMMENT: Final = "comment"


def is_variant(kind: pa.DataType) -> bool:
    """Tell whether a type is Spark's VARIANT: a struct of two binaries with a mark on `metadata`."""
    if not kinds.is_struct(kind) or {field.name for field in kind} != {"value", "metadata"}:
        return False
    marks = kind.field("metadata").metadata or {}
    return bool(marks.get(b"variant") == b"true")


# --- Arrow types -> canonical ones ----------------------------------------------------------------------------------


def canonical_schema(schema: pa.Schema, *, of_table: bool = True) -> pa.Schema:
    """Return the schema with the canonical type of each column.

    Raises
    ------
    SchemaError
        For a type without a counterpart in Spark, with the column, the type and an alternative. For a name that is
        empty, reserved, or equal to another one except for case.
    """
    if not isinstance(schema, pa.Schema):
        kind = type(schema).__name__
        raise SchemaError(f"{kind} is not a schema.", todo="Give a pyarrow Schema, or text: id BIGINT.")
    _check_names(schema.names, "The table")
    if taken := sorted({name.lower() for name in schema.names} & set(RESERVED_NAMES)):
        raise SchemaError(f"Column {taken[0]} has the name of a metadata column.", todo="Rename it.")
    return pa.schema([_canonical_field(field, field.name, of_table=of_table) for field in schema])


def canonical_type(kind: pa.DataType, where: str, depth: int = 0, *, of_table: bool = True) -> pa.DataType:
    """Return the canonical type for a type; raises `SchemaError`, in which `where` names the column.

    Parameters
    ----------
    depth : the number of types around it
    of_table : a table is to have it; in rows a part may be of the type null
    """
    _check_depth(depth, where)
    if kinds.is_null(kind) and not of_table:
        return kind
    plain = next((canonical for fits, canonical in _CANONICAL if fits(kind)), None)
    if plain is not None:
        return plain
    if kinds.is_decimal(kind):
        return _canonical_decimal(kind, where)
    if isinstance(kind, pa.BaseExtensionType):
        return canonical_type(kind.storage_type, where, depth, of_table=of_table)
    if kinds.is_dictionary(kind) or kinds.is_run_end_encoded(kind):
        return canonical_type(kind.value_type, where, depth, of_table=of_table)
    if is_variant(kind):
        return VARIANT
    if kinds.is_struct(kind):
        names = [field.name for field in kind]
        _check_names(names, f"Struct {where}")
        parts = [_canonical_field(field, f"{where}.{field.name}", depth + 1, of_table=of_table) for field in kind]
        return pa.struct(parts)
    if kinds.is_map(kind):
        key = canonical_type(kind.key_type, f"{where}.key", depth + 1, of_table=of_table)
        value = canonical_type(kind.item_type, f"{where}.value", depth + 1, of_table=of_table)
        return map_of(key, value, nullable=kind.item_field.nullable)
    if hasattr(kind, "value_field"):  # a list of any layout
        element = canonical_type(kind.value_type, f"{where}.element", depth + 1, of_table=of_table)
        return list_of(element, nullable=kind.value_field.nullable)
    raise _unsupported(where, kind)


def _check_depth(depth: int, where: str) -> None:
    if depth > MAX_NESTING:
        column = where.partition(".")[0]
        raise SchemaError(
            f"Column {column} nests more than {MAX_NESTING} types in each other.", todo="Store the inner ones as JSON."
        )


def list_of(element: pa.DataType, *, nullable: bool = True) -> pa.DataType:
    """Return the canonical list type."""
    return pa.list_(pa.field("element", element, nullable=nullable))


def map_of(key: pa.DataType, value: pa.DataType, *, nullable: bool = True) -> pa.DataType:
    """Return the canonical map type; `nullable` is for its values."""
    return pa.map_(pa.field("key", key, nullable=False), pa.field("value", value, nullable=nullable))


_CANONICAL: Final[tuple[tuple[Callable[[pa.DataType], bool], pa.DataType], ...]] = (
    (kinds.is_boolean, pa.bool_()),
    (kinds.is_int8, pa.int8()),
    (lambda kind: kinds.is_int16(kind) or kinds.is_uint8(kind), pa.int16()),
    (lambda kind: kinds.is_int32(kind) or kinds.is_uint16(kind), pa.int32()),
    (lambda kind: kinds.is_int64(kind) or kinds.is_uint32(kind), pa.int64()),
    (lambda kind: kinds.is_float32(kind) or kinds.is_float16(kind), pa.float32()),
    (kinds.is_float64, pa.float64()),
    (lambda kind: kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind), pa.string()),
    (lambda kind: kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_binary_view(kind), pa.binary()),
    (kinds.is_fixed_size_binary, pa.binary()),
    (kinds.is_date, pa.date32()),
    (lambda kind: kinds.is_timestamp(kind) and kind.tz is not None, TIMESTAMP),
    (kinds.is_timestamp, TIMESTAMP_NTZ),
    (kinds.is_duration, DURATION),
    (kinds.is_time, TIME),
)

_ALTERNATIVES: Final[tuple[tuple[Callable[[pa.DataType], bool], str], ...]] = (
    (kinds.is_null, "Cast it to the intended type."),
    (kinds.is_uint64, "Cast it to BIGINT or DECIMAL(20,0)."),
    (kinds.is_interval, "Use INTERVAL DAY TO SECOND, or a number of months."),
    (kinds.is_union, "Use a struct with one field for each case, or VARIANT."),
)


def _canonical_field(field: pa.Field, where: str, depth: int = 0, *, of_table: bool = True) -> pa.Field:
    kind = canonical_type(field.type, where, depth, of_table=of_table)
    return pa.field(field.name, kind, nullable=field.nullable, metadata=_comment_of(field))


def _comment_of(field: pa.Field) -> dict[bytes, bytes] | None:
    """Return the comment. A table keeps no other metadata of Spark, whose effects we do not implement.

    Half a surrogate pair, as where a program cut the comment, is left out: a definition is stored as UTF-8.
    """
    try:
        comment = json.loads((field.metadata or {}).get(SPARK_METADATA, b"{}")).get(_COMMENT)
    except (ValueError, AttributeError, RecursionError):
        return None
    return comment_metadata(comment.encode(errors="ignore").decode()) if isinstance(comment, str) else None


def comment_metadata(comment: str) -> dict[bytes, bytes]:
    """Return the Arrow metadata of a field with a comment, as pyspark writes it."""
    return {SPARK_METADATA: json.dumps({_COMMENT: comment}).encode()}


def _canonical_decimal(kind: pa.DataType, where: str) -> pa.DataType:
    if kind.precision > _MAX_PRECISION or not 0 <= kind.scale <= kind.precision:
        raise SchemaError(
            f"Column {where} is {kind}.", todo="Cast it to DECIMAL(p,s) with p up to 38 and s from 0 to p."
        )
    return pa.decimal128(kind.precision, kind.scale)


def _unsupported(where: str, kind: pa.DataType) -> SchemaError:
    alternative = next((todo for fits, todo in _ALTERNATIVES if fits(kind)), "Cast it to a Spark type.")
    return SchemaError(f"Column {where} is {kind}, which a table cannot hold.", todo=alternative)


def _check_names(names: Collection[str], whose: str) -> None:
    if not names or not all(names):
        raise SchemaError(f"{whose} has no columns, or one without a name.", todo="Give each column a name.")
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.setdefault(name.lower(), name)) is not name:
            raise SchemaError(
                f"{whose} has the columns {other} and {name}.",
                why="Names are case-insensitive.",
                todo="Rename one of them.",
            )


def find_name(schema: pa.Schema, name: str) -> str | None:
    """Return a column's name as the schema spells it, ignoring case; None if there is no such column."""
    return next((known for known in schema.names if known.lower() == name.lower()), None)


def all_nullable(schema: pa.Schema) -> pa.Schema:
    """Return a canonical schema in which every column and every nested part is nullable."""
    return pa.schema([field.with_type(_nullable_type(field.type)).with_nullable(True) for field in schema])


def _nullable_type(kind: pa.DataType) -> pa.DataType:
    if kinds.is_struct(kind) and not is_variant(kind):
        return pa.struct([field.with_type(_nullable_type(field.type)).with_nullable(True) for field in kind])
    if kinds.is_map(kind):
        return map_of(kind.key_type, _nullable_type(kind.item_type))
    return list_of(_nullable_type(kind.value_type)) if kinds.is_list(kind) else kind
