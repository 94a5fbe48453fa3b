"""Whether two rows have equal values: by their bytes, and where these differ, by what they say in today's schema.

Some values are compared at a time: those of all keys of a lookup may be more than an array holds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slatespark.encoding.row_codec import WITH_COLUMNS, RowCodec
from slatespark.encoding.without_pandas import numpy_of
from slatespark.kernels import gather_values, value_lengths
from slatespark.kernels.columns import RowColumns
from slatespark.table.read.batch_cuts import cut_sizes


def same_values(sources: Sequence[RowColumns], left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for pairs of packed rows whether their values have the same bytes."""
    same: NDArray[np.bool_] = value_lengths(sources, left) == value_lengths(sources, right)
    indices = np.flatnonzero(same)
    for start, end in cut_sizes(value_lengths(sources, left[indices])):
        part = indices[start:end]
        same[part] = numpy_of(pc.equal(_values(sources, left[part]), _values(sources, right[part])))
    return same


def same_rows(
    sources: Sequence[RowColumns], left: NDArray[np.int64], right: NDArray[np.int64], codec: RowCodec
) -> NDArray[np.bool_]:
    """Return for pairs of packed puts of one key whether a read shows equal columns.

    A row that was written with an earlier schema is equal to its copy that was written with today's. Rows that do not
    decode are equal only in their bytes.
    """
    same = same_values(sources, left, right)
    indices = np.flatnonzero(~same)
    if len(indices) and codec.value_format in WITH_COLUMNS:
        lengths = value_lengths(sources, left[indices]) + value_lengths(sources, right[indices])
        for start, end in cut_sizes(lengths):
            part = indices[start:end]
            same[part] = _decode_equal(sources, left[part], right[part], codec)
    return same


def _decode_equal(
    sources: Sequence[RowColumns], left: NDArray[np.int64], right: NDArray[np.int64], codec: RowCodec
) -> NDArray[np.bool_]:
    names = [item.name for item in codec.value_fields]
    same = codec.decodable_mask(sources, left, names) & codec.decodable_mask(sources, right, names)
    indices = np.flatnonzero(same)
    if len(indices) and names:
        again = [_encoded(codec, sources, rows[indices], names) for rows in (left, right)]
        same[indices] = numpy_of(pc.equal(*again))
    return same


def _encoded(codec: RowCodec, sources: Sequence[RowColumns], rows: NDArray[np.int64], names: Sequence[str]) -> pa.Array:
    """Return the values of rows as today's schema encodes them."""
    columns = codec.decode(sources, rows, names)
    data, offsets = codec.encode_values(pa.table(columns))
    return pa.Array.from_buffers(pa.large_binary(), len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _values(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> pa.Array:
    offsets, data = gather_values(sources, rows)
    return pa.Array.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
