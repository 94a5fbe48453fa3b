"""Writer schemas against the columns of now: what kernels are to do with each field, decided once for many rows."""

from __future__ import annotations

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

_WIRES: Final = {
    "boolean": BOOLEAN,
    "int": INT,
    "long": LONG,
    "float": FLOAT,
    "double": DOUBLE,
    "bytes": DATA,
    "string": TEXT,
}

_MICROS_PER_DAY: Final = 86_400_000_000
_INT64: Final = (-(2**63), 2**63 - 1)
_RANGES: Final = {
    pa.int8(): (-(2**7), 2**7 - 1),
    pa.int16(): (-(2**15), 2**15 - 1),
    pa.int32(): (-(2**31), 2**31 - 1),
    pa.date32(): (-(2**31), 2**31 - 1),
    pa.time64("ns"): (0, _MICROS_PER_DAY - 1),
}

# What values of a type of a column may have been written as: Avro type, and meaning, which is a logical type or ours.
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
class NestedType:
    """One way in which a column with parts was written: the writer's type, null taken out of its union."""

    described: Any


@dataclass(frozen=True, slots=True)
class Resolution:
    """How the wanted columns come out of rows of all known writers.

    Attributes
    ----------
    program : its columns are those of `places`, one behind the other
    places : for each wanted column, where it starts among the program's columns and how it was written there: one None
        for a flat column, any number of types for one with parts
    """

    program: DecodeProgram
    places: tuple[tuple[int, tuple[Any, ...]], ...]


def without_null(described: Any) -> tuple[Any, int]:
    """Return a type without the null of its union, and which branch that was."""
    if not isinstance(described, list):
        return described, NOT_NULLABLE
    if len(described) == 2 and "null" in described:
        null_branch = described.index("null")
        return described[1 - null_branch], null_branch
    raise UnsupportedFormatError(f"The Avro union {described} is not handled.", why="Only one of null and a type is.")


def avro_node(described: Any, depth: int = 0) -> AvroNode:
    """Return a type of a writer's schema as kernels want it.

    Raises
    ------
    UnsupportedFormatError
        When it is none of those that `avro_schema` gives.
    """
    if depth >= MAX_DEPTH:
        raise UnsupportedFormatError(f"An Avro type is nested more than {MAX_DEPTH} times.")
    kind, null_branch = without_null(described)
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
        raise UnsupportedFormatError(f"The Avro type {described} is not handled.")
    return AvroNode(_WIRES[name], null_branch)


def resolve(writers: Mapping[int, Mapping[str, Any]], fields: Sequence[pa.Field], wanted: Sequence[str]) -> Resolution:
    """Return how to decode `wanted` of the columns `fields` from rows of any of the writers.

    Raises
    ------
    SchemaError
        When a column was written as a type from which there is no way to its type now.
    """
    chosen = [_named(name, fields) for name in wanted]
    places: list[tuple[int, tuple[Any, ...]]] = []
    kinds: list[int] = []
    for item in chosen:
        kind = flat_kind(item.type)
        ways: tuple[Any, ...] = (None,) if kind is not None else tuple(_ways(writers.values(), item))
        places.append((len(kinds), ways))
        kinds += [BYTES if kind is None else kind] * len(ways)
    known = tuple(
        _writer(fingerprint, schema, chosen, places, len(kinds)) for fingerprint, schema in sorted(writers.items())
    )
    return Resolution(DecodeProgram(tuple(kinds), known), tuple(places))


def _named(name: str, fields: Sequence[pa.Field]) -> pa.Field:
    for item in fields:
        if item.name == name:
            return item
    raise SchemaError(f"There is no value column {name!r}.", todo=f"Use {', '.join(item.name for item in fields)}.")


def _fields_of(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of a writer's schema, which may be anything that is an Avro schema."""
    if schema.get("type") != "record":
        raise UnsupportedFormatError(f"Rows of the Avro type {schema.get('type')} are not handled, only records are.")
    fields: list[dict[str, Any]] = schema["fields"]
    return fields


def _ways(schemas: Iterable[Mapping[str, Any]], item: pa.Field) -> list[Any]:
    """Return the different types that a column with parts was written as."""
    found: list[Any] = []
    for schema in schemas:
        for field in _fields_of(schema):
            described, _ = without_null(field["type"])
            if field["name"] == avro_name(item.name) and described not in found:
                found.append(described)
    return found


def _writer(
    fingerprint: int,
    schema: Mapping[str, Any],
    chosen: Sequence[pa.Field],
    places: Sequence[tuple[int, tuple[Any, ...]]],
    columns: int,
) -> AvroWriter:
    named = {avro_name(item.name): (item, place) for item, place in zip(chosen, places, strict=True)}
    steps: list[AvroStep] = []
    last = 0
    for field in _fields_of(schema):
        step = AvroStep(avro_node(field["type"]))
        if field["name"] in named:
            item, (start, ways) = named[field["name"]]
            step = _step(step.node, field["type"], item, start, ways)
            last = len(steps) + 1
        steps.append(step)
    taken = {step.column for step in steps}
    missing = tuple(number for number in range(columns) if number not in taken)
    return AvroWriter(fingerprint, tuple(steps[:last]), last == len(steps), missing)


def _step(node: AvroNode, described: Any, item: pa.Field, start: int, ways: tuple[Any, ...]) -> AvroStep:
    kind, _ = without_null(described)
    if flat_kind(item.type) is None:
        if node.wire < RECORD:
            raise _unreadable(item, kind)
        return AvroStep(node, start + ways.index(kind))
    if pa.types.is_decimal128(item.type):
        if node.wire != DECIMAL or kind.get("scale", 0) != item.type.scale:
            raise _unreadable(item, kind)
        largest = 10**item.type.precision - 1
        return AvroStep(node, start, -largest, largest)
    if _meaning(kind) not in _READABLE[item.type]:
        raise _unreadable(item, kind)
    return AvroStep(node, start, *_RANGES.get(item.type, _INT64))


def _meaning(described: Any) -> tuple[str, str]:
    if not isinstance(described, dict):
        return str(described), ""
    return str(described.get("type")), str(described.get("logicalType") or described.get(SPARK) or "")


def _unreadable(item: pa.Field, described: Any) -> SchemaError:
    return SchemaError(f"Column {item.name} is {item.type} now, rows were written with Avro type {described}.")
