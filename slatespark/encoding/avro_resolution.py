"""Resolution of writer schemas against the current columns: a program for the kernels, planned once for many rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from slatespark.encoding.arrow_columns import flat_kind
from slatespark.encoding.avro_schema import DAY_TIME_INTERVAL, SPARK, avro_name
from slatespark.errors import SchemaError, UnsupportedFormatError
from slatespark.kernels.avro_program import (
    ARRAY,
    BOOLEAN,
    DATA,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    MAP,
    MAX_DEPTH,
    NOT_NULLABLE,
    RECORD,
    TEXT,
    AvroNode,
    AvroStep,
    AvroWriter,
    DecodeProgram,
)
from slatespark.kernels.flat import BYTES
from slatespark.texts import listed
from slatespark.units import DAY_US

_WIRES: Final = {
    "boolean": BOOLEAN,
    "int": INT,
    "long": LONG,
    "float": FLOAT,
    "double": DOUBLE,
    "bytes": DATA,
    "string": TEXT,
}

_INT64: Final = (-(2**63), 2**63 - 1)
_RANGES: Final = {
    pa.int8(): (-(2**7), 2**7 - 1),
    pa.int16(): (-(2**15), 2**15 - 1),
    pa.int32(): (-(2**31), 2**31 - 1),
    pa.date32(): (-(2**31), 2**31 - 1),
    pa.time64("ns"): (0, DAY_US - 1),
}

# For the type of a column, the types that it can be read from: Avro type, and logical type (Avro's or slatespark's).
_READABLE: Final[dict[pa.DataType, frozenset[tuple[str, str]]]] = {
    pa.bool_(): frozenset({("boolean", "")}),
    pa.int8(): frozenset({("int", "")}),
    pa.int16(): frozenset({("int", "")}),
    pa.int32(): frozenset({("int", "")}),
    pa.int64(): frozenset({("int", ""), ("long", "")}),
    pa.float32(): frozenset({("int", ""), ("long", ""), ("float", "")}),
    pa.float64(): frozenset({("int", ""), ("long", ""), ("float", ""), ("double", "")}),
    pa.string(): frozenset({("string", "")}),
    pa.binary(): frozenset({("bytes", "")}),
    pa.date32(): frozenset({("int", "date")}),
    pa.timestamp("us", "UTC"): frozenset({("long", "timestamp-micros")}),
    pa.timestamp("us"): frozenset({("long", "local-timestamp-micros")}),
    pa.time64("ns"): frozenset({("long", "time-micros")}),
    pa.duration("us"): frozenset({("long", DAY_TIME_INTERVAL)}),
}


@dataclass(frozen=True, slots=True)
class DecodedColumn:
    """A requested column among the columns that a program decodes.

    Attributes
    ----------
    first : number of its first decoded column
    avro_types : the types that it was written as, for as many decoded columns; one None for a flat column
    """

    first: int
    avro_types: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class DecodePlan:
    """How to decode the requested columns from rows of any known writer.

    Attributes
    ----------
    program : what the kernels run; it decodes the columns of `columns` in order
    columns : the requested columns
    """

    program: DecodeProgram
    columns: tuple[DecodedColumn, ...]


def without_null(avro_type: Any) -> tuple[Any, int]:
    """Return a type without the null of its union, and the number of the null branch."""
    if not isinstance(avro_type, list):
        return avro_type, NOT_NULLABLE
    if len(avro_type) == 2 and "null" in avro_type:
        null_branch = avro_type.index("null")
        return avro_type[1 - null_branch], null_branch
    raise UnsupportedFormatError(
        f"The Avro union {avro_type} is not supported.", why="Only unions of null and one type are."
    )


def avro_node(avro_type: Any, depth: int = 0) -> AvroNode:
    """Return a type of a writer's schema in the form for kernels.

    Raises
    ------
    UnsupportedFormatError
        When it is not one of the types that `avro_schema` returns.
    """
    if depth >= MAX_DEPTH:
        raise UnsupportedFormatError(f"An Avro type is nested more than {MAX_DEPTH} levels deep.")
    kind, null_branch = without_null(avro_type)
    name = kind.get("type") if isinstance(kind, dict) else kind
    if isinstance(kind, dict):
        if name == "bytes" and kind.get("logicalType") == "decimal":
            return AvroNode(DECIMAL, null_branch)
        if name == "array" and "items" in kind:
            return AvroNode(ARRAY, null_branch, (avro_node(kind["items"], depth + 1),))
        if name == "map" and "values" in kind:
            return AvroNode(MAP, null_branch, (avro_node(kind["values"], depth + 1),))
        if name == "record" and kind.get("fields"):
            fields = tuple(avro_node(field["type"], depth + 1) for field in kind["fields"])
            return AvroNode(RECORD, null_branch, fields)
    if not isinstance(name, str) or name not in _WIRES:
        raise UnsupportedFormatError(f"The Avro type {avro_type} is not supported.")
    return AvroNode(_WIRES[name], null_branch)


def plan_decode(
    writers: Mapping[int, Mapping[str, Any]], fields: Sequence[pa.Field], wanted: Sequence[str]
) -> DecodePlan:
    """Return how to decode the columns `wanted` of `fields` from rows of any of the writers.

    Raises
    ------
    SchemaError
        When a column was written as a type that cannot be read as its current type.
    """
    chosen = _resolve_fields(wanted, fields)
    written = _written_types(writers.values())
    columns: list[DecodedColumn] = []
    kinds: list[int] = []
    for item in chosen:
        kind = flat_kind(item.type)
        avro_types: tuple[Any, ...] = (None,) if kind is not None else tuple(written.get(avro_name(item.name), ()))
        columns.append(DecodedColumn(len(kinds), avro_types))
        kinds += [BYTES if kind is None else kind] * len(avro_types)
    known = tuple(
        _plan_writer(fingerprint, schema, chosen, columns, len(kinds))
        for fingerprint, schema in sorted(writers.items())
    )
    return DecodePlan(DecodeProgram(tuple(kinds), known), tuple(columns))


def _resolve_fields(wanted: Sequence[str], fields: Sequence[pa.Field]) -> list[pa.Field]:
    known = {item.name: item for item in fields}
    for name in wanted:
        if name not in known:
            raise SchemaError(f"There is no value column {name!r}.", todo=f"Use {listed(list(known))}.")
    return [known[name] for name in wanted]


def _fields_of(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of a writer's schema, which may be any Avro schema."""
    if schema.get("type") != "record":
        raise UnsupportedFormatError(f"Rows of the Avro type {schema.get('type')} are not supported, only records are.")
    fields: list[dict[str, Any]] = schema["fields"]
    return fields


def _written_types(schemas: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the distinct types that each column was written as, by its Avro name."""
    found: dict[str, list[Any]] = defaultdict(list)
    for schema in schemas:
        for field in _fields_of(schema):
            avro_type, _ = without_null(field["type"])
            if avro_type not in found[field["name"]]:
                found[field["name"]].append(avro_type)
    return found


def _plan_writer(
    fingerprint: int,
    schema: Mapping[str, Any],
    chosen: Sequence[pa.Field],
    columns: Sequence[DecodedColumn],
    count: int,
) -> AvroWriter:
    by_name = {avro_name(item.name): (item, column) for item, column in zip(chosen, columns, strict=True)}
    steps: list[AvroStep] = []
    last = 0
    for field in _fields_of(schema):
        step = AvroStep(avro_node(field["type"]))
        if field["name"] in by_name:
            step = _plan_step(step.node, field["type"], *by_name[field["name"]])
            last = len(steps) + 1
        steps.append(step)
    present = {step.column for step in steps}
    missing = tuple(number for number in range(count) if number not in present)
    return AvroWriter(fingerprint, tuple(steps[:last]), last == len(steps), missing)


def _plan_step(node: AvroNode, avro_type: Any, item: pa.Field, column: DecodedColumn) -> AvroStep:
    kind, _ = without_null(avro_type)
    if flat_kind(item.type) is None:
        if node.wire < RECORD:
            raise _incompatible_type(item, kind)
        return AvroStep(node, column.first + column.avro_types.index(kind))
    if pa.types.is_decimal128(item.type):
        if node.wire != DECIMAL or kind.get("scale", 0) != item.type.scale:
            raise _incompatible_type(item, kind)
        largest = 10**item.type.precision - 1
        return AvroStep(node, column.first, -largest, largest)
    if _logical_type(kind) not in _READABLE[item.type]:
        raise _incompatible_type(item, kind)
    return AvroStep(node, column.first, *_RANGES.get(item.type, _INT64))


def _logical_type(avro_type: Any) -> tuple[str, str]:
    if not isinstance(avro_type, dict):
        return str(avro_type), ""
    return str(avro_type.get("type")), str(avro_type.get("logicalType") or avro_type.get(SPARK) or "")


def _incompatible_type(item: pa.Field, avro_type: Any) -> SchemaError:
    return SchemaError(f"Column {item.name} is {item.type} now, but rows were written as Avro type {avro_type}.")
