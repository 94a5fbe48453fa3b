"""WAL files as the client writes them, for tests; slatespark itself only reads WAL files and creates empty fences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from slatespark.format.codecs import Compression, encode_section
from slatespark.format.index import SstIndex, encode_index_section
from slatespark.format.info import FORMAT_VERSION, Footer, SstInfo, SstType, encode_footer, encode_info_section
from slatespark.format.row import Row, rows_to_columns
from slatespark.format.wal import SEQ_BYTES
from slatespark.kernels import encode_blocks
from slatespark.kernels.columns import RowColumns
from slatespark.slate_store.base import OpenTable

BLOCK_BYTES: Final = 65535  # the client's


def encode_wal(
    rows: RowColumns | Sequence[Row], *, compression: Compression = Compression.NONE, block_size: int = BLOCK_BYTES
) -> bytes:
    """Encode a WAL file.

    Requires: at least one row; seqs ascend, and the rows of one seq are sorted by key.
    """
    columns = rows if isinstance(rows, RowColumns) else rows_to_columns(rows)
    encoded = encode_blocks([columns], np.arange(len(columns), dtype=np.int64), block_size=block_size)
    octets = encoded.data.tobytes()
    bounds = zip(encoded.starts.tolist(), encoded.ends.tolist(), strict=True)
    blocks = [encode_section(octets[start:end], compression) for start, end in bounds]
    ends = np.cumsum([len(block) for block in blocks], dtype=np.int64)
    first_seqs = columns.seqs[encoded.first_rows].astype(">u8")
    index = SstIndex(
        block_offsets=np.append(np.zeros(1, np.int64), ends[:-1]),
        key_bytes=np.frombuffer(first_seqs.tobytes(), np.uint8),
        key_offsets=np.arange(0, SEQ_BYTES * (len(first_seqs) + 1), SEQ_BYTES, dtype=np.int64),
        encoded_bytes=np.zeros(len(first_seqs), np.int64),
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
    return b"".join([*blocks, index_section, encode_info_section(info), footer])


def forget_own_commits(table: OpenTable) -> None:
    """Let a table look at the WAL again, for a test that adds a file without the epochs that a client claims first."""
    table._stores.heads._commits.clear()
