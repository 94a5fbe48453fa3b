"""KeyBounds: the key ranges that a write replaces; all of its rows must lie in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.encoding import arrow_compute as pc
from slatespark.encoding.row_codec import Bytes, RowCodec
from slatespark.encoding.without_pandas import array_of, numpy_of
from slatespark.errors import InvalidRequestError
from slatespark.kernels import lower_bounds
from slatespark.ranges import KeyRange


@dataclass(frozen=True, slots=True)
class KeyBounds:
    """Key ranges.

    Attributes
    ----------
    ranges : ascending, not overlapping, none empty
    text : as the user gave them
    """

    ranges: tuple[KeyRange, ...]
    text: str

    def check(self, table: pa.Table, keys: Bytes, *, codec: RowCodec) -> None:
        """Refuse rows outside of the intervals.

        Parameters
        ----------
        table : the rows
        keys : of the rows: bytes and (n + 1,) offsets
        codec : of the table, to name a key

        Raises
        ------
        InvalidRequestError
            With their number and the key of one.
        """
        data, offsets = keys
        outside = np.flatnonzero(~self._inside(data, offsets))
        if len(outside):
            example = _key_text(
                table, int(outside[0]), bytes(data[offsets[outside[0]] : offsets[outside[0] + 1]]), codec
            )
            raise InvalidRequestError(
                f"{len(outside)} of {len(table)} rows lie outside {self.text}; one has the key {example}.",
                why="Only that interval is replaced.",
                todo="Filter the rows by the same condition, or widen it.",
            )

    def _inside(self, data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return for each key whether it lies in an interval: an odd number of bounds is at or below it."""
        bounds = self._bounds()
        joined = np.frombuffer(b"".join(bounds), np.uint8)
        below = lower_bounds(joined, np.cumsum([0, *map(len, bounds)], dtype=np.int64), data, offsets)
        buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(np.ascontiguousarray(data))]
        column = pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
        on_bound = numpy_of(pc.is_in(column, value_set=array_of(bounds, pa.large_binary())))
        inside: NDArray[np.bool_] = (below + on_bound) % 2 == 1
        return inside

    def _bounds(self) -> list[bytes]:
        """Return starts and ends in turn, ascending and distinct; ranges that touch share none."""
        bounds: list[bytes] = []
        for keys in self.ranges:
            if bounds and bounds[-1] == keys.start:
                bounds.pop()
            else:
                bounds.append(keys.start)
            if keys.end is not None:
                bounds.append(keys.end)
        return bounds


def _key_text(table: pa.Table, row: int, key: bytes, codec: RowCodec) -> str:
    if codec.is_raw:
        return key.hex()
    names = {name.lower(): name for name in table.column_names}
    values = ((name, table.column(names[name.lower()])[row]) for name in codec.key_columns if name.lower() in names)
    return ", ".join(f"{name}={value}" for name, value in values)
