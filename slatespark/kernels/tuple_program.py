"""What a key is made of, step by step: the program that both implementations of the tuple kernels follow.

Keys are those of FoundationDB's tuple layer. One step for each column, and for each part of a struct:

    key columns          program
    a INT, b STRING      INT32, TEXT
    a STRUCT<x, y>, b    STRUCT, x, y, END, b

A struct has a column of its own, a BOOL one of which only `valid` counts; END has none.
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
ESCAPE: Final = 0xFF  # behind a zero byte that is no end

# What NaN and -0.0 are written as, as bits.
NAN32: Final = 0x7FC0_0000
NAN64: Final = 0x7FF8_0000_0000_0000

# The largest magnitude of up to 8 bytes that has a code of its own; fdb's packages differ on the one above.
MAX_SHORT: Final = 2**64 - 2

MAX_PRECISION: Final = 38

# What else an entry of a program holds, above the kind.
_PRECISION_SHIFT: Final = 8
_REQUIRED_SHIFT: Final = 16

_MAX_ARROW_BYTES: Final = 2**31 - 1

# Bytes of an item at most, besides the bytes of strings.
_MOST_BYTES: Final = {BOOL: 1, INT8: 2, INT16: 3, INT32: 5, INT64: 9, FLOAT32: 5, FLOAT64: 9, INT128: 18} | {
    BYTES: 2,
    TEXT: 2,
    STRUCT: 2,
    END: 1,
}


class KeyStatus(IntEnum):
    """Why the bytes of a key are not the tuple that they should be."""

    FINE = 0
    WRONG_TYPE = 1  # another type code than the column has, or a null that may not be
    CUT_SHORT = 2  # the key ends inside an item, or before the last one
    OUT_OF_RANGE = 3  # a number that the column cannot hold
    NOT_CANONICAL = 4  # the same value has another key: leading zeros, -0.0, another NaN
    BAD_TEXT = 5  # no UTF-8
    TRAILING = 6  # bytes behind the last item


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a program.

    Attributes
    ----------
    kind : of an item, or STRUCT or END
    column : index of its column, -1 for END
    parts : of a STRUCT, how many steps it has, END included
    nested : whether it is inside a struct
    required : whether it is never absent, unless a struct around it is
    limit : largest number; the smallest is -limit - 1, or -limit of a decimal
    """

    kind: int
    column: int
    parts: int = 0
    nested: bool = False
    required: bool = False
    limit: int = 0

    @property
    def null_bytes(self) -> int:
        """Bytes of an absent item."""
        return 2 if self.nested else 1

    @property
    def most_bytes(self) -> int:
        """Bytes of an item at most, besides those of a string."""
        return max(_MOST_BYTES[self.kind], self.null_bytes)

    @property
    def column_kind(self) -> int:
        """The kind of its column."""
        return {TEXT: BYTES, STRUCT: BOOL}.get(self.kind, self.kind)


def program_entry(kind: int, *, precision: int = 0, required: bool = False) -> int:
    """Return a step as an entry of a program; the precision is that of a decimal."""
    return kind | precision << _PRECISION_SHIFT | required << _REQUIRED_SHIFT


def read_program(program: NDArray[np.int64]) -> list[Step]:
    """Return the steps of a program, checked."""
    entries: list[int] = program.tolist()
    steps: list[Step] = []
    opened: list[int] = []
    column = 0
    for number, entry in enumerate(entries):
        kind, precision, required = entry & 0xFF, entry >> _PRECISION_SHIFT & 0xFF, entry >> _REQUIRED_SHIFT
        precisions = range(1, MAX_PRECISION + 1) if kind == INT128 else range(1)
        if kind not in _MOST_BYTES or precision not in precisions or required not in (0, 1):
            raise InternalError(f"Step {number} of a key's program is {entry}.")
        if kind == END:
            if not opened:
                raise InternalError(f"Step {number} of a key's program ends no struct.")
            start = opened.pop()
            first = steps[start]
            steps[start] = replace(first, parts=number - start)
            steps.append(Step(END, -1, nested=True))
            continue
        limit = _limit(kind, precision)
        steps.append(Step(kind, column, nested=bool(opened), required=bool(required), limit=limit))
        column += 1
        if kind == STRUCT:
            opened.append(number)
    if opened:
        raise InternalError("A struct in a key's program has no end.")
    return steps


def _limit(kind: int, precision: int) -> int:
    if kind == INT128:
        return int(10**precision) - 1
    return (1 << (8 * ITEM_BYTES[kind] - 1)) - 1 if INT8 <= kind <= INT64 else 0


def check_columns(steps: Sequence[Step], columns: Sequence[FlatColumn]) -> int:
    """Return how many rows the columns have; refuse columns that are not those of the program."""
    kinds = [step.column_kind for step in steps if step.kind != END]
    if not columns or kinds != [column.kind for column in columns]:
        raise InternalError(f"Columns of kinds {[column.kind for column in columns]}, the key has {kinds}.")
    count = len(columns[0])
    for column in columns:
        data, offsets = column.data, column.offsets
        if len(column) != count or (column.valid is not None and len(column.valid) < count):
            raise InternalError(f"Key columns of {count} and {len(column)} rows.")
        if offsets is not None and not 0 <= offsets[0] <= offsets[-1] <= len(data):
            raise InternalError(f"Offsets of a key column do not fit its {len(data)} bytes.")
    return count


def refuse_item(
    steps: Sequence[Step], number: int, row: int, columns: Sequence[FlatColumn]
) -> InternalError | SchemaError:
    """Return the error for an item that cannot be encoded."""
    step, where = steps[number], f"column {sum(not step.nested for step in steps[: number + 1])} of the key"
    offsets, valid = columns[step.column].offsets, columns[step.column].valid
    if valid is not None and not valid[row]:
        return SchemaError(f"A field in {where} is null but must not be, in row {row} of the batch.")
    if offsets is not None and offsets[row + 1] < offsets[row]:
        return InternalError(f"Offsets of a key column descend at row {row}.")
    if step.kind == TEXT:
        return SchemaError(
            f"A string in {where} is no UTF-8, in row {row} of the batch.", todo="Make the column BINARY."
        )
    digits = len(str(step.limit))
    return SchemaError(f"A decimal in {where} has more than {digits} digits, in row {row} of the batch.")


def check_wanted(steps: Sequence[Step], wanted: NDArray[np.bool_]) -> None:
    """Refuse what does not say for each column whether it is wanted."""
    columns = sum(step.kind != END for step in steps)
    if len(wanted) != columns:
        raise InternalError(f"{len(wanted)} columns are named, the key has {columns}.")


def check_total(key_bytes: int) -> None:
    """Refuse keys whose strings might not fit one Arrow array."""
    if key_bytes > _MAX_ARROW_BYTES:
        raise InternalError(f"{key_bytes} bytes of keys are decoded at once, at most {_MAX_ARROW_BYTES} can be.")
