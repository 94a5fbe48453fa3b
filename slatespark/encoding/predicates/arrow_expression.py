"""A pyarrow expression as a tree, and the part of it that a read can use, as the option `filter`.

pyarrow shows an expression as text alone, which is ambiguous. What it pickles is a file of Arrow: the columns are its
constants, and the metadata of the schema are its calls, from the outside in.

A chain of conditions is as many levels deep as it has terms, of which engines make thousands: nothing here recurses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
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
            return _read(_metadata(file.schema.serialize().to_pybytes()), file.get_batch(0))
    except (_UnknownError, pa.ArrowNotImplementedError, ValueError, OverflowError):
        return None


def columns_of(tree: Node) -> Iterator[str]:
    """Yield the names of the columns that a tree uses."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, Column):
            yield node.name
        elif isinstance(node, Call):
            pending.extend(reversed(node.arguments))


def find_filter(tree: Node, schema: pa.Schema) -> str | None:
    """Return conditions that all rows fulfil for which a tree is true; None if none are known."""
    return " AND ".join(_conditions(tree, schema)) or None


def _conditions(tree: Node, schema: pa.Schema) -> Iterator[str]:
    pending = [tree]
    while pending:
        node = pending.pop()
        match node:
            case Call("and_kleene" | "and", (left, right)):
                pending += (right, left)
            case Call("or_kleene" | "or" | "is_in"):
                if (found := _alternatives(node)) is not None:
                    yield from filter(None, [listed(*found, schema)])
            case Call("if_else", (_, chosen, Constant(None))):  # not true where the condition is not
                pending.append(chosen)
            case Call(function, (Column(name), Constant(value))) if function in _SIGNS:
                yield from filter(None, [compared(name, _SIGNS[function], value, schema)])
            case Call(function, (Constant(value), Column(name))) if function in _SIGNS:
                yield from filter(None, [compared(name, MIRRORED[_SIGNS[function]], value, schema)])


def _alternatives(tree: Node) -> tuple[str, list[object]] | None:
    """Return the only values of a column for which a tree is true; None if it is about anything else."""
    names: set[str] = set()
    found: list[object] = []
    pending = [tree]
    while pending:
        match pending.pop():
            case Call("equal", (Column(name), Constant(value))):
                names.add(name)
                found.append(value)
            case Call("is_in", (Column(name),), {"value_set": list(values)}):
                names.add(name)
                found += values
            case Call("if_else", (_, chosen, Constant(None))):
                pending.append(chosen)
            case Call("or_kleene" | "or", (left, right)):
                pending += (right, left)
            case _:
                return None
    return (names.pop(), found) if len(names) == 1 else None


@dataclass(slots=True)
class _OpenCall:
    """A call of which the end has not been read yet."""

    function: str
    arguments: list[Node] = field(default_factory=list)
    options: dict[str, object] | None = None


def _read(parts: Iterable[tuple[str, str]], constants: pa.RecordBatch) -> Node:
    """Read the node that the parts start with."""
    calls: list[_OpenCall] = []
    for kind, text in parts:
        if kind == "call":
            calls.append(_OpenCall(text))
            continue
        if kind == "options" and calls:
            calls[-1].options = constants.column(int(text))[0].as_py()
            continue
        node = _finished(calls.pop()) if kind == "end" and calls else _leaf(kind, text, constants)
        if not calls:
            return node
        calls[-1].arguments.append(node)
    raise _UnknownError("an expression without an end")


def _finished(call: _OpenCall) -> Call:
    return Call(call.function, tuple(call.arguments), call.options)


def _leaf(kind: str, text: str, constants: pa.RecordBatch) -> Node:
    if kind == "field_ref":
        return Column(text)
    if kind == "literal":
        return Constant(constants.column(int(text))[0].as_py())
    raise _UnknownError(kind)


def _metadata(message: bytes) -> Iterator[tuple[str, str]]:
    """Yield the metadata of a serialized schema, in order; pyarrow itself shows one value of each key."""
    root = Table(message, _MESSAGE_AT + Get(uoffset, message, _MESSAGE_AT))
    schema = Table(message, root.Indirect(root.Pos + root.Offset(_HEADER)))
    position = schema.Offset(_METADATA)
    for number in range(schema.VectorLen(position)):
        pair = Table(message, schema.Indirect(schema.Vector(position) + 4 * number))
        key, value = (pair.String(pair.Pos + pair.Offset(slot)) for slot in (_KEY, _VALUE))
        yield key.decode(), value.decode()
