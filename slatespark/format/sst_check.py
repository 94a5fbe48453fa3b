"""The checksums of a whole SST: every section and block, without decoding a row.

Source: `docs/reference/format/sst.md`.
"""

from __future__ import annotations

import numpy as np

from slatespark.errors import CorruptDataError
from slatespark.format.block_group import check_blocks
from slatespark.format.codecs import Buffer
from slatespark.format.filter import decode_filter_section
from slatespark.format.index import decode_index_section
from slatespark.format.references import SstHandle
from slatespark.format.sst import open_sst
from slatespark.format.stats import decode_stats_section


def check_sst(data: Buffer, handle: SstHandle) -> None:
    """Verify all checksums of an SST, and that it is the file that a manifest describes.

    Raises
    ------
    CorruptDataError
        When a byte was changed, or the file is another one.
    UnsupportedFormatError
        When a later release wrote it.
    """
    view, info = memoryview(data), handle.info
    footer, own_info, layout = open_sst(view)
    if (own_info, footer.version) != (info, handle.format_version):
        raise CorruptDataError(
            "The file contradicts the manifest.",
            why="It was overwritten, or its manifest was.",
            todo="Run `slatespark verify` on the table.",
            offset=layout.info.start,
        )
    index = decode_index_section(view[layout.index.start : layout.index.end], info)
    if layout.filter is not None:
        decode_filter_section(view[layout.filter.start : layout.filter.end], info)
    if layout.stats is not None:
        decode_stats_section(view[layout.stats.start : layout.stats.end], info)
    check_blocks(np.frombuffer(view, np.uint8), index.block_edges(info), index.encoded_bytes)
