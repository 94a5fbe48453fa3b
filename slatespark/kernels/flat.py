"""FlatColumn: one column of a table for the row codecs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import InternalError

# Kinds of items; never stored.
BOOL: Final = 1  # uint8, 0 or 1
INT8: Final = 2
INT16: Final = 3
INT32: Final = 4
INT64: Final = 5
FLOAT32: Final = 6
FLOAT64: Final = 7
INT128: Final = 8  # two's complement, little-endian, as Arrow stores a decimal
BYTES: Final = 9  # any length

ITEM_BYTES: Final = {BOOL: 1, INT8: 1, INT16: 2, INT32: 4, INT64: 8, FLOAT32: 4, FLOAT64: 8, INT128: 16}


@dataclass(frozen=True, slots=True, eq=False)
class FlatColumn:
    """`n` items of one kind; items may be null.

    Attributes
    ----------
    kind : one of the kinds above
    data : uint8; consecutive items of fixed width (n * width bytes), or the concatenated bytes of all items
    offsets : (n + 1,) for BYTES, item i is `data[offsets[i]:offsets[i + 1]]`; int64 as input of a kernel, int32 as its
        output; else None
    valid : (n,) uint8, 0 for null; None if no item is null
    """

    kind: int
    data: NDArray[np.uint8]
    offsets: NDArray[Any] | None = None
    valid: NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return len(self.data) // ITEM_BYTES[self.kind] if self.offsets is None else len(self.offsets) - 1


def check_offsets(column: FlatColumn) -> None:
    """Raise `InternalError` if items of a column lie outside its data, as in an Arrow array that nobody validated."""
    offsets = column.offsets
    if offsets is None:
        return
    if not 0 <= offsets[0] <= offsets[-1] <= len(column.data) or (offsets[1:] < offsets[:-1]).any():
        raise InternalError(f"Offsets of a column do not ascend within its {len(column.data)} bytes.")


def check_spans(data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
    """Raise `InternalError` for a span outside the data."""
    if len(starts) and (int(starts.min()) < 0 or int(ends.max()) > len(data) or bool((starts > ends).any())):
        raise InternalError(f"Parts of values lie outside their {len(data)} bytes.")
