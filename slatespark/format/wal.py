"""WAL file: rows in commit order.

The layout is that of an SST without filter and statistics. Rows ascend by seq; the rows of one batch share a seq and
are sorted by key. A separator of the index is the 8-byte big-endian seq of the block's first row. An empty object is a
fence: it has no rows and is not decoded. Source: `docs/reference/format/wal.md`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from slatespark.errors import CorruptDataError
from slatespark.format.block_group import unpack_blocks
from slatespark.format.codecs import Buffer
from slatespark.format.index import decode_index_section
from slatespark.format.info import (
    SstType,
    check_section_bounds,
    decode_footer,
    decode_info_section,
    footer_range,
    info_range,
)
from slatespark.kernels import decode_blocks
from slatespark.kernels.columns import RowColumns

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
        np.frombuffer(view, np.uint8),
        index.block_edges(info),
        index.encoded_bytes,
        info.compression,
        limit_bytes=_WHOLE_FILE,
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
