"""Limits of what rows decode to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from slatespark.encoding import row_codec
from slatespark.encoding.row_codec import RAW_CODEC, RowCodec
from slatespark.errors import UnsupportedFormatError
from slatespark.kernels.columns import RowColumns

SCHEMA = pa.schema([("k", pa.binary()), ("v", pa.int32()), ("w", pa.string())])


def row_of(size: int) -> RowColumns:
    """One row; the pages of its value are never touched, so they cost nothing."""
    zero = np.zeros(1, np.int64)
    return RowColumns(
        key_bytes=np.frombuffer(b"k", np.uint8),
        key_offsets=np.array([0, 1]),
        seqs=np.ones(1, np.uint64),
        flags=np.zeros(1, np.uint8),
        create_ts=zero,
        expire_ts=zero,
        value_bytes=np.zeros(size, np.uint8),
        value_starts=zero,
        value_lengths=np.array([size]),
    )


@pytest.mark.parametrize("codec", [RAW_CODEC, RowCodec(SCHEMA, ("k",), "raw", "json")], ids=["raw", "json"])
def test_a_value_that_no_arrow_array_holds(codec: RowCodec) -> None:
    row, (key, value, *_) = row_of(row_codec.MAX_VALUE_BYTES + 1), codec.schema.names
    with pytest.raises(UnsupportedFormatError, match="6b"):
        codec.decode([row], np.zeros(1, np.int64), [key, value])
    assert codec.decode([row], np.zeros(1, np.int64), [key])[key].to_pylist() == [b"k"]
