"""Programs of the Avro kernels: types as nodes, fields as steps.

Never stored. `slatespark.encoding` compiles schemas to programs. Kernels interpret them row by row, so one compiled
function serves every schema (`docs/adr/0011-one-interpreter-for-all-values.md`).
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

# Layout of a value.
BOOLEAN: Final = 1
INT: Final = 2  # zigzag varint of 32 bits
LONG: Final = 3  # zigzag varint of 64 bits
FLOAT: Final = 4
DOUBLE: Final = 5
DATA: Final = 6  # length, bytes
TEXT: Final = 7  # length, UTF-8
DECIMAL: Final = 8  # length, two's complement, big-endian
RECORD: Final = 9  # the fields in order
ARRAY: Final = 10  # blocks: item count, items; the last has count 0
MAP: Final = 11  # blocks: pair count, pairs of key and item

NOT_NULLABLE: Final = -1
SKIPPED: Final = -1

MAX_DEPTH: Final = 256  # a column may nest 100 types, and a map takes two levels
MAX_VARINT_BYTES: Final = 10

# Status of a decoded row.
FINE: Final = 0
UNKNOWN_FINGERPRINT: Final = 1  # or the marker is missing
MALFORMED: Final = 2


class AvroNode(NamedTuple):
    """One type of a writer's schema.

    Attributes
    ----------
    wire : its layout
    null_branch : 0 or 1, the null branch of a union of null and this type; NOT_NULLABLE if it is not a union
    children : the fields of a RECORD, the items of an ARRAY or MAP. Every child takes at least one byte, which bounds
        the count of a block. No type contains itself, which bounds the depth.
    """

    wire: int
    null_branch: int = NOT_NULLABLE
    children: tuple[AvroNode, ...] = ()


class AvroStep(NamedTuple):
    """One field of a writer's schema and its target column.

    Attributes
    ----------
    node : its type
    column : number of the target column, or SKIPPED. A nested field is copied to a BYTES column as encoded, without the
        branch of its union.
    low, high : the column's range, both inclusive; for INT, LONG and DECIMAL, where low is `-high`
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
    fingerprint : unsigned 64-bit number
    steps : its fields up to the last wanted one
    whole : the steps cover all fields, so a row must end after them
    missing : columns that it does not have; they are null
    """

    fingerprint: int
    steps: tuple[AvroStep, ...]
    whole: bool = True
    missing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DecodeProgram:
    """Program of the decoder. Requires: each writer lists every column once, in a step or as missing.

    Attributes
    ----------
    kinds : kinds of the decoded columns
    writers : known writer schemas
    """

    kinds: tuple[int, ...]
    writers: tuple[AvroWriter, ...]


@dataclass(frozen=True, slots=True)
class EncodeProgram:
    """Program of the encoder: one node per column. Columns of nested types contain encoded bytes, which are copied.

    Attributes
    ----------
    fingerprint : unsigned 64-bit number; None for parts of values, which have neither marker nor fingerprint
    """

    fingerprint: int | None
    nodes: tuple[AvroNode, ...]


# Operations of the interpreters, by type of the field and kind of the column. The first ones are for decoding only.
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

# Operations of the encoder.
WRITTEN: Final = frozenset(TAKES.values()) - {INT_TO_FLOAT32, INT_TO_FLOAT64, WIDEN_FLOAT}


def text_error() -> InvalidRequestError:
    """Return the error for text that is not UTF-8."""
    return InvalidRequestError("A column has text that is not UTF-8.", todo="Make it BINARY, or repair the text.")


def flatten_nodes(nodes: Iterable[AvroNode]) -> Iterator[tuple[AvroNode, int]]:
    """Yield the nodes and then their descendants, each with the position of its first child.

    The children of a node are consecutive.
    """
    waiting = list(nodes)
    done = 0
    while done < len(waiting):
        yield waiting[done], len(waiting)
        waiting.extend(waiting[done].children)
        done += 1
