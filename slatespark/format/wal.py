"""WAL file: rows in commit order.

The layout is that of an SST without filter and statistics. Rows ascend by seq; the rows of one batch share a seq and
are sorted by key. A separator of the index is the 8-byte big-endian seq of the block's first row. An empty object is a
fence: it has no rows and is not decoded. Source: `docs/reference/format/wal.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from slatespark.errors import CorruptDataError
from slatespark.format.block_group import unpack_blocks
from slatespark.format.codecs import Buffer, Compression, encode_section
from slatespark.format.index import SstIndex, decode_index_section, encode_index_section
from slatespark.format.info import (
    FORMAT_VERSION,
    Footer,
    SstInfo,
    SstType,
    check_section_bounds,
    decode_footer,
    decode_info_section,
    encode_footer,
    encode_info_section,
    footer_range,
    info_range,
)
from slatespark.format.row import Row, rows_to_columns
from slatespark.kernels import decode_blocks, encode_blocks
from slatespark.kernels.columns import RowColumns

BLOCK_BYTES: Final = 65535  # the client's
SEQ_BYTES: Final = 8
_WHOLE_FILE: Final = 1 << 62


def decode_wal(data: Buffer) -> RowColumns:
    """Decode a WAL file; returns its rows in file order.

    Parameters
    ----------
    data : the whole object, not empty; may become `value_bytes` of the result without a copy

    Raises
    ------
    CorruptDataError : damaged, not a WAL file, or decreasing sequence numbers
    UnsupportedFormatError : unknown format version
    """
    view = memoryview(data)
    tail = footer_range(len(view))
    footer = decode_footer(view[tail.start : tail.end])
    span = info_range(footer, len(view))
    info = decode_info_section(view[span.start : span.end])
    check_section_bounds(info, footer.info_offset)
    if info.sst_type is not SstType.WAL:
        raise CorruptDataError("The SST is a compacted SST, expected a WAL file.")
    index = decode_index_section(view[info.index_offset : info.index_offset + info.index_len], info)
    blocks = unpack_blocks(
        np.frombuffer(view, np.uint8), index.block_edges(info), info.compression, limit_bytes=_WHOLE_FILE
    )
    rows = decode_blocks(blocks.data, blocks.starts, blocks.ends, version=footer.version, ordered=False)
    _check_seqs(rows)
    return rows


def _check_seqs(rows: RowColumns) -> None:
    falls = np.flatnonzero(rows.seqs[1:] < rows.seqs[:-1])
    if len(falls):
        at = int(falls[0])
        raise CorruptDataError(
            f"Row {at + 1} of the WAL file has seq {rows.seqs[at + 1]}, below the previous seq {rows.seqs[at]}."
        )


def encode_wal(
    rows: RowColumns | Sequence[Row], *, compression: Compression = Compression.NONE, block_size: int = BLOCK_BYTES
) -> bytes:
    """Return a WAL file.

    Requires: at least one row; seqs ascend, and the rows of one seq are sorted by key.
    """
    columns = rows if isinstance(rows, RowColumns) else rows_to_columns(rows)
    encoded = encode_blocks([columns], np.arange(len(columns), dtype=np.int64), block_size=block_size)
    octets = encoded.data.tobytes()
    bounds = zip(encoded.starts.tolist(), encoded.ends.tolist(), strict=True)
    sealed = [encode_section(octets[start:end], compression) for start, end in bounds]
    ends = np.cumsum([len(block) for block in sealed], dtype=np.int64)
    first_seqs = columns.seqs[encoded.first_rows].astype(">u8")
    index = SstIndex(
        block_offsets=np.append(np.zeros(1, np.int64), ends[:-1]),
        key_bytes=np.frombuffer(first_seqs.tobytes(), np.uint8),
        key_offsets=np.arange(0, SEQ_BYTES * (len(first_seqs) + 1), SEQ_BYTES, dtype=np.int64),
    )
    index_section = encode_index_section(index, compression)
    data_bytes = int(ends[-1])
    info = SstInfo(
        first_entry=first_seqs[:1].tobytes(),
        last_entry=None,
        index_offset=data_bytes,
        index_len=len(index_section),
        filter_offset=data_bytes,
        filter_len=0,
        compression=compression,
        sst_type=SstType.WAL,
    )
    footer = encode_footer(Footer(data_bytes + len(index_section), FORMAT_VERSION))
    return b"".join([*sealed, index_section, encode_info_section(info), footer])
