"""The end of an SST of which only the object is known: footer, info, and the gap with slatespark's properties."""

from __future__ import annotations

from dataclasses import dataclass

from slatespark.format.info import Footer, SstInfo, decode_footer, decode_info_section, footer_range, info_range
from slatespark.format.sst import SstLayout, layout_of
from slatespark.storage.object_store import ObjectStore
from slatespark.table.stores import object_context


@dataclass(frozen=True, slots=True)
class SstEnd:
    """The decoded end of an SST.

    Attributes
    ----------
    size : size of the object, in bytes
    gap : the bytes between the last section and the info
    """

    size: int
    footer: Footer
    info: SstInfo
    gap: bytes

    @property
    def layout(self) -> SstLayout:
        """Where the parts of the file are."""
        return layout_of(self.info, self.footer, self.size)


def fetch_end(store: ObjectStore, path: str) -> SstEnd:
    """Return the end of an SST; reads no rows.

    Raises
    ------
    FileNotFoundError
        When there is no such object.
    CorruptDataError, UnsupportedFormatError
        When it is no SST, or damaged; the message names the object.
    """
    size = store.head(path).size
    with object_context(store, path):
        footer = decode_footer(store.get_range(path, footer_range(size)))
        info = decode_info_section(store.get_range(path, info_range(footer, size)))
        gap = layout_of(info, footer, size).gap
        return SstEnd(size, footer, info, bytes(store.get_range(path, gap)) if len(gap) else b"")
