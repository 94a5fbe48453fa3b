"""Which of several rows of one key wins by the option `sequenceColumn`: the one whose column is highest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
from numpy.typing import NDArray

from slatespark.encoding import arrow_compute as pc
from slatespark.errors import OptionError

MAX_DECIMAL_DIGITS: Final = 18  # their unscaled values fit 64 bits

_INT64_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Ranks:
    """The values of a column as numbers of the same order.

    Attributes
    ----------
    order : (n,) int64
    there : (n,) bool, False where the column is null, which is lower than every value
    """

    order: NDArray[np.int64]
    there: NDArray[np.bool_]

    def take(self, positions: NDArray[Any]) -> Ranks:
        """Return the ranks at some positions."""
        return Ranks(self.order[positions], self.there[positions])


def check_sequence_type(field: pa.Field) -> None:
    """Refuse a column type that `sequenceColumn` cannot order by; raises `OptionError`."""
    kind = field.type
    plain = (kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_date32, kinds.is_timestamp)
    short = kinds.is_decimal128(kind) and kind.precision <= MAX_DECIMAL_DIGITS
    if not short and not any(fits(kind) for fits in plain):
        raise OptionError(
            f"sequenceColumn: {field.name} is {kind}.",
            todo="Choose a number, a DECIMAL of up to 18 digits, a date, a timestamp or a boolean.",
        )


def rank_values(column: pa.Array | pa.ChunkedArray) -> Ranks:
    """Return the ranks of a column of a type that `check_sequence_type` accepts."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    there = array.is_valid().to_numpy(zero_copy_only=False)
    kind = array.type
    if kinds.is_floating(kind):
        return Ranks(_float_order(array), there)
    if kinds.is_decimal128(kind):
        words = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array)) : 2]
        return Ranks(np.where(there, words, 0), there)  # the low word is the number: it has at most 18 digits
    if kinds.is_date32(kind):
        array = array.cast(pa.int32())
    elif kinds.is_timestamp(kind):
        array = array.cast(pa.int64())
    filled = pc.fill_null(array.cast(pa.int64()), 0)
    return Ranks(filled.to_numpy(zero_copy_only=False).astype(np.int64), there)


def _float_order(array: pa.Array) -> NDArray[np.int64]:
    """Return integers of the order of floats: NaN above all, -0.0 equal to 0.0."""
    values = pc.fill_null(array.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0
    values = np.where(np.isnan(values), np.nan, values)
    bits = np.abs(values).view(np.int64)
    order: NDArray[np.int64] = np.where(np.isnan(values), _INT64_MAX, np.where(np.signbit(values), -bits, bits))
    return order


def order_repeats(
    first: NDArray[np.bool_], ranks: Ranks | None, times: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Return the order of rows in which those of a key are oldest first, and of equal times the winner is last.

    Parameters
    ----------
    first : (n,) True where a new key begins; rows of one key follow each other, a later row behind an earlier one
    ranks : (n,) of the rows; None where the later row wins
    times : (n,) of the rows; None where all are equal

    Returns
    -------
    (n,) positions; the rows of each key stay together, where they are.
    """
    order = np.arange(len(first), dtype=np.int64)
    if first.all():
        return order
    groups = np.cumsum(first)
    repeated = np.flatnonzero(~first | np.append(~first[1:], False))
    decisive: list[NDArray[Any]] = [] if ranks is None else [ranks.order[repeated], ranks.there[repeated]]
    decisive += [] if times is None else [times[repeated]]
    arranged = np.lexsort((*decisive, groups[repeated]))  # stable: a tie leaves the later row behind
    order[repeated] = repeated[arranged]
    return order
