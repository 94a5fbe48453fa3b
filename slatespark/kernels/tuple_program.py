"""Program of the tuple kernels: the parts of a key, one step each.

Keys use FoundationDB's tuple layer. There is one step for each column and for each field of a struct:

    key columns          program
    a INT, b STRING      INT32, TEXT
    a STRUCT<x, y>, b    STRUCT, x, y, END, b

A struct has a BOOL column of its own, of which only `valid` is significant; END has no column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import InternalError, SchemaError
from slatespark.kernels.flat import (
    BOOL,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    INT128,
    ITEM_BYTES,
    FlatColumn,
    check_offsets,
)

# Kinds of steps besides those of `flat`.
TEXT: Final = BYTES + 1  # a BYTES column of valid UTF-8
STRUCT: Final = 11
END: Final = 12

# Type codes on disk, do not change. Source: FoundationDB, design/tuple.md.
NULL_CODE: Final = 0x00  # followed by ESCAPE inside a struct
BYTES_CODE: Final = 0x01
TEXT_CODE: Final = 0x02
STRUCT_CODE: Final = 0x05
LONG_NEGATIVE_CODE: Final = 0x0B
ZERO_CODE: Final = 0x14  # an integer of n bytes has n more, or n less if it is negative
LONG_POSITIVE_CODE: Final = 0x1D
FLOAT_CODE: Final = 0x20
DOUBLE_CODE: Final = 0x21
FALSE_CODE: Final = 0x26
TRUE_CODE: Final = 0x27
ESCAPE: Final = 0xFF  # after a zero byte that is not a terminator

# Canonical bits of NaN. -0.0 is encoded as 0.0.
NAN32: Final = 0x7FC0_0000
NAN64: Final = 0x7FF8_0000_0000_0000

# The largest magnitude in the short form; FoundationDB's packages disagree on the next one.
MAX_SHORT: Final = 2**64 - 2

MAX_PRECISION: Final = 38

# Further fields of a program entry, above the kind.
_PRECISION_SHIFT: Final = 8
_REQUIRED_SHIFT: Final = 16

_MAX_ARROW_BYTES: Final = 2**31 - 1

# Largest size of an item, without the bytes of strings.
_MOST_BYTES: Final = {BOOL: 1, INT8: 2, INT16: 3, INT32: 5, INT64: 9, FLOAT32: 5, FLOAT64: 9, INT128: 18} | {
    BYTES: 2,
    TEXT: 2,
    STRUCT: 2,
    END: 1,
}


class KeyStatus(IntEnum):
    """Result of decoding a key."""

    FINE = 0
    WRONG_TYPE = 1  # type code of another type, or null in a required column
    CUT_SHORT = 2  # the key ends within an item, or before the last item
    OUT_OF_RANGE = 3  # a number that the column cannot hold
    NOT_CANONICAL = 4  # the value has another canonical key: leading zeros, -0.0, another NaN
    BAD_TEXT = 5  # not UTF-8
    TRAILING = 6  # bytes after the last item


@dataclass(frozen=True, slots=True)
class TupleStep:
    """One step of a program.

    Attributes
    ----------
    kind : type of the item, or STRUCT or END
    column : index of its column, -1 for END
    parts : for a STRUCT its number of steps, END included
    nested : whether it is inside a struct
    required : whether it is never null, unless an enclosing struct is
    limit : largest number; the smallest is -limit - 1, for decimals -limit
    """

    kind: int
    column: int
    parts: int = 0
    nested: bool = False
    required: bool = False
    limit: int = 0

    @property
    def null_bytes(self) -> int:
        """Size of a null."""
        return 2 if self.nested else 1

    @property
    def most_bytes(self) -> int:
        """Largest size of an item, without the bytes of a string."""
        return max(_MOST_BYTES[self.kind], self.null_bytes)

    @property
    def column_kind(self) -> int:
        """Kind of the column."""
        return {TEXT: BYTES, STRUCT: BOOL}.get(self.kind, self.kind)


def program_entry(kind: int, *, precision: int = 0, required: bool = False) -> int:
    """Return the program entry of a step; the precision is for decimals."""
    return kind | precision << _PRECISION_SHIFT | required << _REQUIRED_SHIFT


def read_program(program: NDArray[np.int64]) -> list[TupleStep]:
    """Decode and check a program."""
    entries: list[int] = program.tolist()
    steps: list[TupleStep] = []
    opened: list[int] = []
    column = 0
    for number, entry in enumerate(entries):
        kind, precision, required = entry & 0xFF, entry >> _PRECISION_SHIFT & 0xFF, entry >> _REQUIRED_SHIFT
        precisions = range(1, MAX_PRECISION + 1) if kind == INT128 else range(1)
        if kind not in _MOST_BYTES or precision not in precisions or required not in (0, 1):
            raise InternalError(f"Step {number} of a key's program is {entry}, which is invalid.")
        if kind == END:
            if not opened:
                raise InternalError(f"Step {number} of a key's program ends no struct.")
            start = opened.pop()
            first = steps[start]
            steps[start] = replace(first, parts=number - start)
            steps.append(TupleStep(END, -1, nested=True))
            continue
        limit = _limit(kind, precision)
        steps.append(TupleStep(kind, column, nested=bool(opened), required=bool(required), limit=limit))
        column += 1
        if kind == STRUCT:
            opened.append(number)
    if opened:
        raise InternalError("A struct in a key's program has no END.")
    return steps


def _limit(kind: int, precision: int) -> int:
    if kind == INT128:
        return int(10**precision) - 1
    return (1 << (8 * ITEM_BYTES[kind] - 1)) - 1 if INT8 <= kind <= INT64 else 0


def check_columns(steps: Sequence[TupleStep], columns: Sequence[FlatColumn]) -> int:
    """Return the number of rows; raises `InternalError` for columns that do not match the program."""
    kinds = [step.column_kind for step in steps if step.kind != END]
    if not columns or kinds != [column.kind for column in columns]:
        raise InternalError(f"Columns have the kinds {[column.kind for column in columns]}, the key has {kinds}.")
    count = len(columns[0])
    for column in columns:
        if len(column) != count or (column.valid is not None and len(column.valid) < count):
            raise InternalError(f"Key columns have {count} and {len(column)} rows.")
        check_offsets(column)
    return count


def item_error(steps: Sequence[TupleStep], number: int, row: int, columns: Sequence[FlatColumn]) -> SchemaError:
    """Return the error for an invalid item."""
    step, where = steps[number], f"column {sum(not step.nested for step in steps[: number + 1])} of the key"
    valid = columns[step.column].valid
    if valid is not None and not valid[row]:
        return SchemaError(f"A required field in {where} is null, in row {row} of the batch.")
    if step.kind == TEXT:
        return SchemaError(
            f"A string in {where} is not UTF-8, in row {row} of the batch.", todo="Make the column BINARY."
        )
    digits = len(str(step.limit))
    return SchemaError(f"A decimal in {where} has more than {digits} digits, in row {row} of the batch.")


def check_wanted(steps: Sequence[TupleStep], wanted: NDArray[np.bool_]) -> None:
    """Raise `InternalError` unless `wanted` has one entry per column."""
    columns = sum(step.kind != END for step in steps)
    if len(wanted) != columns:
        raise InternalError(f"The wanted mask has {len(wanted)} columns, the key has {columns}.")


def check_total(key_bytes: int) -> None:
    """Raise `InternalError` for keys whose strings might not fit into one Arrow array."""
    if key_bytes > _MAX_ARROW_BYTES:
        raise InternalError(f"A batch has {key_bytes} bytes of keys, expected at most {_MAX_ARROW_BYTES}.")
