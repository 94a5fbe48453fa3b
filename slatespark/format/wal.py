"""WAL file: rows in commit order.

The layout is that of an SST without filter and statistics. Rows ascend by seq; the rows of one batch share a seq and
are sorted by key. A separator of the index is the 8-byte big-endian seq of the block's first row. An empty object is a
fence: it has no rows and is not decoded.

Clients up to 0.10 wrote an SST like those of the trees, with rows sorted by key; up to 0.13.0 a fence is an SST without
rows. Both are read. Source: `docs/reference/format/wal.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError
from slatespark.format.block_group import unpack_blocks
from slatespark.format.codecs import Buffer
from slatespark.format.index import decode_block_places, decode_index_section
from slatespark.format.info import (
    FOOTER_BYTES,
    Footer,
    SstInfo,
    SstType,
    check_section_bounds,
    decode_footer,
    decode_info_section,
    footer_range,
    info_range,
)
from slatespark.format.row import rows_to_columns
from slatespark.kernels import decode_blocks, take_rows
from slatespark.kernels.columns import RowColumns

SEQ_BYTES: Final = 8
INFO_BYTES: Final = 4 << 10  # of the end of a file, which nearly always hold footer and info
END_BYTES: Final = 256 << 10  # of the end of a file, which nearly always hold its index and last block too
OLD_FENCE_BYTES: Final = 160  # above the size of a fence that is an SST, in every codec
_OLD_VERSION: Final = 1  # of the blocks in files whose rows are sorted by key
_WHOLE_FILE: Final = 1 << 62


def decode_wal(data: Buffer) -> RowColumns:
    """Decode a WAL file; returns its rows in commit order, none of a fence.

    Parameters
    ----------
    data : the whole object, not empty; may become `value_bytes` of the result without a copy

    Raises
    ------
    CorruptDataError : damaged, not a WAL file, or decreasing sequence numbers
    UnsupportedFormatError : unknown format version
    """
    view = memoryview(data)
    footer, info = _decode_info(view, len(view))
    data = view[info.index_offset : info.index_offset + info.index_len]
    index = decode_index_section(data, info, may_be_empty=is_old_fence(info))
    if not len(index):
        return rows_to_columns(())
    return _decode_blocks(view, index.block_edges(info), index.encoded_bytes, info, footer.version)


def decode_wal_files(files: Sequence[Buffer]) -> RowColumns | None:
    """Decode some WAL files together, which takes little more than one of them; returns the rows of one after another.

    Parameters
    ----------
    files : whole objects in the order of their ids, at least one, none of them empty

    Returns
    -------
    None if they differ in compression or version, or an old client wrote one: only `decode_wal` can decode them then.

    Raises
    ------
    CorruptDataError, UnsupportedFormatError
        As `decode_wal` does of one of them, and if seqs do not grow from file to file. It does not say of which.
    """
    views = [memoryview(data) for data in files]
    heads = [_decode_info(view, len(view)) for view in views]
    kinds = {(info.compression, footer.version) for footer, info in heads}
    if len(kinds) > 1 or any(info.sst_type is not SstType.WAL for _, info in heads):
        return None
    [(compression, version)] = kinds
    sections = [
        view[info.index_offset : info.index_offset + info.index_len]
        for view, (_, info) in zip(views, heads, strict=True)
    ]
    places = decode_block_places(sections, [info for _, info in heads])
    # What follows the last block of a file is, to the next one, like padding.
    whole_bytes = places.ends - places.starts
    stored_bytes = np.where(places.encoded_bytes > 0, places.encoded_bytes, whole_bytes)
    if (stored_bytes > whole_bytes).any():
        raise CorruptDataError("a block overlaps the next one.")
    lengths = np.array([len(view) for view in views], np.int64)
    shifts = np.repeat(np.cumsum(lengths) - lengths, places.counts)
    edges = np.append(places.starts + shifts, places.ends[-1] + shifts[-1])
    data = np.concatenate([np.frombuffer(view, np.uint8) for view in views])
    blocks = unpack_blocks(data, edges, stored_bytes, compression, limit_bytes=_WHOLE_FILE)
    rows = decode_blocks(blocks.data, blocks.starts, blocks.ends, version=version, ordered=False)
    _check_seqs(rows)
    firsts = np.cumsum(places.counts[:-1])  # the first block of each file but the first
    later = np.searchsorted(rows.value_starts, blocks.starts[firsts])  # no block is without a row
    if (rows.seqs[later] == rows.seqs[later - 1]).any():
        raise CorruptDataError("A file starts with the seq that the one before it ends with.")
    return rows


def decode_first_seq(end: Buffer, object_bytes: int) -> int | None:
    """Return the sequence number of the first row of a WAL file.

    Parameters
    ----------
    end : the last bytes of the object, such as `INFO_BYTES`
    object_bytes : size of the whole object

    Returns
    -------
    None if these bytes do not tell, as those of old clients do not.

    Raises
    ------
    CorruptDataError, UnsupportedFormatError
    """
    found = _info_in_end(memoryview(end), object_bytes)
    return None if found is None else _first_seq(found[1])


def decode_last_block(end: Buffer, object_bytes: int) -> RowColumns | None:
    """Return the rows of the last block of a WAL file; parameters, None and errors as for `decode_first_seq`."""
    view = memoryview(end)
    missing = object_bytes - len(view)
    found = _info_in_end(view, object_bytes)
    if found is None or found[1].sst_type is not SstType.WAL or found[1].index_offset < missing:
        return None
    footer, info = found
    start = info.index_offset - missing
    index = decode_index_section(view[start : start + info.index_len], info)
    edges = index.block_edges(info)[-2:]
    if edges[0] < missing:
        return None
    return _decode_blocks(view, edges - missing, index.encoded_bytes[-1:], info, footer.version)


def is_old_fence(info: SstInfo) -> bool:
    """Tell whether a file in `wal/` is a fence of a client up to 0.13.0: it has neither rows nor room for any."""
    return info.sst_type is SstType.COMPACTED and info.first_entry is None and info.data_bytes == 0


def is_of_wal(info: SstInfo, version: int) -> bool:
    """Tell whether a file is of a kind that clients put into `wal/`; `version` is that of its blocks."""
    return info.sst_type is SstType.WAL or version == _OLD_VERSION or is_old_fence(info)


def _info_in_end(view: memoryview, object_bytes: int) -> tuple[Footer, SstInfo] | None:
    """Return footer and info; None if the bytes do not reach back to the info."""
    if len(view) < object_bytes and decode_footer(view[-FOOTER_BYTES:]).info_offset < object_bytes - len(view):
        return None
    return _decode_info(view, object_bytes)


def _decode_info(view: memoryview, object_bytes: int) -> tuple[Footer, SstInfo]:
    """Return footer and info of a WAL file, of which `view` are the last bytes."""
    missing = object_bytes - len(view)
    tail = footer_range(object_bytes)
    footer = decode_footer(view[tail.start - missing : tail.end - missing])
    span = info_range(footer, object_bytes)
    info = decode_info_section(view[span.start - missing : span.end - missing])
    check_section_bounds(info, footer.info_offset)
    if not is_of_wal(info, footer.version):
        raise CorruptDataError("The SST is a compacted SST, expected a WAL file.")
    return footer, info


def _first_seq(info: SstInfo) -> int | None:
    first = info.first_entry
    if info.sst_type is not SstType.WAL or first is None or len(first) != SEQ_BYTES:
        return None
    return int.from_bytes(first, "big")


def _decode_blocks(
    view: memoryview, edges: NDArray[np.int64], encoded_bytes: NDArray[np.int64], info: SstInfo, version: int
) -> RowColumns:
    """Decode some blocks; returns their rows in commit order. In files of old clients they are sorted by key."""
    is_sorted = info.sst_type is not SstType.WAL
    data = np.frombuffer(view, np.uint8)
    blocks = unpack_blocks(data, edges, encoded_bytes, info.compression, limit_bytes=_WHOLE_FILE)
    rows = decode_blocks(blocks.data, blocks.starts, blocks.ends, version=version, ordered=is_sorted)
    if is_sorted:
        return take_rows([rows], np.argsort(rows.seqs, kind="stable"))
    _check_seqs(rows)
    return rows


def _check_seqs(rows: RowColumns) -> None:
    falls = np.flatnonzero(rows.seqs[1:] < rows.seqs[:-1])
    if len(falls):
        at = int(falls[0])
        raise CorruptDataError(
            f"Row {at + 1} of the WAL file has seq {rows.seqs[at + 1]}, below the previous seq {rows.seqs[at]}."
        )
