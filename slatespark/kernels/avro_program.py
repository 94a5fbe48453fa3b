"""What the kernels that write and read Avro values are told of schemas: types as nodes, fields as steps.

Only meaningful inside a process. `slatespark.encoding` makes programs of schemas; kernels interpret them row by row, so
that one compiled function serves every schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from slatespark.errors import InvalidRequestError
from slatespark.kernels.flat import BOOL, BYTES, FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, INT128

# Avro single-object encoding: these two bytes, 8 bytes of fingerprint little-endian, the body. On disk, do not change.
MARKER: Final = b"\xc3\x01"
HEAD_BYTES: Final = 10

# How a value is laid out.
BOOLEAN: Final = 1
INT: Final = 2  # zigzag varint of 32 bits
LONG: Final = 3  # zigzag varint of 64 bits
FLOAT: Final = 4
DOUBLE: Final = 5
DATA: Final = 6  # length, bytes
TEXT: Final = 7  # length, UTF-8
DECIMAL: Final = 8  # length, two's complement, big-endian
RECORD: Final = 9  # the fields one behind the other
ARRAY: Final = 10  # blocks: item count, items; the last has count 0
MAP: Final = 11  # blocks: pair count, pairs of key and item

NOT_NULLABLE: Final = -1
SKIPPED: Final = -1

MAX_DEPTH: Final = 64
MAX_VARINT_BYTES: Final = 10

# Of a row that was decoded.
FINE: Final = 0
UNKNOWN_FINGERPRINT: Final = 1  # or none: no marker
MALFORMED: Final = 2


class AvroNode(NamedTuple):
    """One type of a writer's schema.

    Attributes
    ----------
    wire : how it is laid out
    null_branch : 0 or 1, the branch that is null of a union of null and this type; NOT_NULLABLE where it is no union
    children : the fields of a RECORD, the items of an ARRAY or MAP. Every child takes a byte at least: so the count of
        a block has a bound. No type contains itself: so depth has one.
    """

    wire: int
    null_branch: int = NOT_NULLABLE
    children: tuple[AvroNode, ...] = ()


class AvroStep(NamedTuple):
    """One field of a writer's schema, and where it goes.

    Attributes
    ----------
    node : its type
    column : number of the column it goes to, or SKIPPED. A field with parts goes to a BYTES column as it lies there,
        without the branch of its union.
    low, high : the column's range, both included; of INT and LONG, and of DECIMAL, whose low is `-high`
    """

    node: AvroNode
    column: int = SKIPPED
    low: int = 0
    high: int = 0


@dataclass(frozen=True, slots=True)
class AvroWriter:
    """One writer's schema.

    Attributes
    ----------
    fingerprint : as an unsigned number of 64 bits
    steps : its leading fields; those behind the last one wanted are left out
    whole : the steps are all fields, so a row must end where they end
    missing : columns it does not have: they are null
    """

    fingerprint: int
    steps: tuple[AvroStep, ...]
    whole: bool = True
    missing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DecodeProgram:
    """What to make of rows. Requires: every column is named once by each writer, in a step or as missing.

    Attributes
    ----------
    kinds : of the columns that come out
    writers : whose rows are known
    """

    kinds: tuple[int, ...]
    writers: tuple[AvroWriter, ...]


@dataclass(frozen=True, slots=True)
class EncodeProgram:
    """What to write: one node for each column. Columns of types with parts hold bytes that are written as they are."""

    fingerprint: int
    nodes: tuple[AvroNode, ...]


# Steps of the interpreters: what a field of this type does with a column of this kind. Those of reading come first.
SKIP_VARINT: Final = 0
SKIP_FIXED: Final = 1
SKIP_BYTES: Final = 2
SKIP_NESTED: Final = 3
TAKE_BOOL: Final = 4
TAKE_INT8: Final = 5
TAKE_INT16: Final = 6
TAKE_INT32: Final = 7
TAKE_INT64: Final = 8
INT_TO_FLOAT32: Final = 9
INT_TO_FLOAT64: Final = 10
TAKE_4: Final = 11
TAKE_8: Final = 12
WIDEN_FLOAT: Final = 13
TAKE_TEXT: Final = 14
TAKE_BYTES: Final = 15
TAKE_DECIMAL: Final = 16
TAKE_NESTED: Final = 17

SKIPS: Final = {
    BOOLEAN: SKIP_FIXED,
    INT: SKIP_VARINT,
    LONG: SKIP_VARINT,
    FLOAT: SKIP_FIXED,
    DOUBLE: SKIP_FIXED,
    DATA: SKIP_BYTES,
    TEXT: SKIP_BYTES,
    DECIMAL: SKIP_BYTES,
    RECORD: SKIP_NESTED,
    ARRAY: SKIP_NESTED,
    MAP: SKIP_NESTED,
}

FIXED_BYTES: Final = {BOOLEAN: 1, FLOAT: 4, DOUBLE: 8}

_INTEGERS: Final = {
    INT8: TAKE_INT8,
    INT16: TAKE_INT16,
    INT32: TAKE_INT32,
    INT64: TAKE_INT64,
    FLOAT32: INT_TO_FLOAT32,
    FLOAT64: INT_TO_FLOAT64,
}
TAKES: Final = {
    (BOOLEAN, BOOL): TAKE_BOOL,
    **{(wire, kind): take for wire in (INT, LONG) for kind, take in _INTEGERS.items()},
    (FLOAT, FLOAT32): TAKE_4,
    (FLOAT, FLOAT64): WIDEN_FLOAT,
    (DOUBLE, FLOAT64): TAKE_8,
    (DATA, BYTES): TAKE_BYTES,
    (TEXT, BYTES): TAKE_TEXT,
    (DECIMAL, INT128): TAKE_DECIMAL,
    **{(wire, BYTES): TAKE_NESTED for wire in (RECORD, ARRAY, MAP)},
}

# Those that writing has too.
WRITTEN: Final = frozenset(TAKES.values()) - {INT_TO_FLOAT32, INT_TO_FLOAT64, WIDEN_FLOAT}


def refuse_text() -> InvalidRequestError:
    """Return the error for text that is none."""
    return InvalidRequestError("A column holds text that is no UTF-8.", todo="Make it BINARY, or repair the text.")


def flattened(nodes: Iterable[AvroNode]) -> Iterator[tuple[AvroNode, int]]:
    """Yield the nodes, and then what they consist of, each with the position of its first child.

    The children of one node follow each other.
    """
    waiting = list(nodes)
    done = 0
    while done < len(waiting):
        yield waiting[done], len(waiting)
        waiting.extend(waiting[done].children)
        done += 1
