"""A pyarrow expression as a tree, and the part of it that a read can use, as the option `filter`.

pyarrow shows an expression as text alone, which is ambiguous. What it pickles is a file of Arrow: the columns are its
constants, and the metadata of the schema are its calls, from the outside in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from flatbuffers.encode import Get
from flatbuffers.packer import uoffset
from flatbuffers.table import Table

from slatespark.encoding.predicates.condition_text import MIRRORED, compared, listed

_SIGNS: Final = {"equal": "=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
_MESSAGE_AT: Final = 8  # behind the marker and the length of a message of Arrow's stream format
_HEADER, _METADATA, _KEY, _VALUE = 8, 8, 4, 6  # places of the fields in Arrow's Message.fbs and Schema.fbs


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the rows."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant."""

    value: object


@dataclass(frozen=True, slots=True)
class Call:
    """A function of Arrow, its arguments, and its options by name, if it has any."""

    function: str
    arguments: tuple[Node, ...]
    options: dict[str, object] | None = None


Node: TypeAlias = Column | Constant | Call


class _UnknownError(Exception):
    """An expression has a part that is not known here."""


def find_tree(expression: pc.Expression) -> Node | None:
    """Return an expression as a tree; None if it has parts that are not known here, such as fields of structs."""
    try:
        [data] = expression.__reduce__()[1]
        with pa.ipc.open_file(data) as file:
            parts = list(_metadata(file.schema.serialize().to_pybytes()))
            return _read(parts, 0, file.get_batch(0))[0]
    except (_UnknownError, pa.ArrowNotImplementedError, ValueError, OverflowError):
        return None


def columns_of(tree: Node) -> Iterator[str]:
    """Yield the names of the columns that a tree uses."""
    if isinstance(tree, Column):
        yield tree.name
    elif isinstance(tree, Call):
        for argument in tree.arguments:
            yield from columns_of(argument)


def find_filter(tree: Node, schema: pa.Schema) -> str | None:
    """Return conditions that all rows fulfil for which a tree is true; None if none are known."""
    return " AND ".join(_conditions(tree, schema)) or None


def _conditions(tree: Node, schema: pa.Schema) -> Iterator[str]:
    match tree:
        case Call("and_kleene" | "and", (left, right)):
            yield from _conditions(left, schema)
            yield from _conditions(right, schema)
        case Call("or_kleene" | "or" | "is_in"):
            if (found := _alternatives(tree)) is not None:
                yield from filter(None, [listed(*found, schema)])
        case Call("if_else", (_, chosen, Constant(None))):  # not true where the condition is not
            yield from _conditions(chosen, schema)
        case Call(function, (Column(name), Constant(value))) if function in _SIGNS:
            yield from filter(None, [compared(name, _SIGNS[function], value, schema)])
        case Call(function, (Constant(value), Column(name))) if function in _SIGNS:
            yield from filter(None, [compared(name, MIRRORED[_SIGNS[function]], value, schema)])


def _alternatives(tree: Node) -> tuple[str, list[object]] | None:
    """Return the only values of a column for which a tree is true; None if it is about anything else."""
    match tree:
        case Call("equal", (Column(name), Constant(value))):
            return name, [value]
        case Call("is_in", (Column(name),), {"value_set": list(values)}):
            return name, values
        case Call("if_else", (_, chosen, Constant(None))):
            return _alternatives(chosen)
        case Call("or_kleene" | "or", (left, right)):
            found, other = _alternatives(left), _alternatives(right)
            return (found[0], found[1] + other[1]) if found and other and found[0] == other[0] else None
    return None


def _read(parts: Sequence[tuple[str, str]], at: int, constants: pa.RecordBatch) -> tuple[Node, int]:
    """Read the node at a place, with all that belongs to it; return the place behind it, too."""
    kind, text = parts[at]
    if kind == "field_ref":
        return Column(text), at + 1
    if kind == "literal":
        return Constant(constants.column(int(text))[0].as_py()), at + 1
    if kind != "call":
        raise _UnknownError(kind)
    at += 1
    arguments: list[Node] = []
    options = None
    while parts[at][0] != "end":
        if parts[at][0] == "options":
            options, at = constants.column(int(parts[at][1]))[0].as_py(), at + 1
        else:
            argument, at = _read(parts, at, constants)
            arguments.append(argument)
    return Call(text, tuple(arguments), options), at + 1


def _metadata(message: bytes) -> Iterator[tuple[str, str]]:
    """Yield the metadata of a serialized schema, in order; pyarrow itself shows one value of each key."""
    root = Table(message, _MESSAGE_AT + Get(uoffset, message, _MESSAGE_AT))
    schema = Table(message, root.Indirect(root.Pos + root.Offset(_HEADER)))
    place = schema.Offset(_METADATA)
    for number in range(schema.VectorLen(place)):
        pair = Table(message, schema.Indirect(schema.Vector(place) + 4 * number))
        key, value = (pair.String(pair.Pos + pair.Offset(field)) for field in (_KEY, _VALUE))
        yield key.decode(), value.decode()
