"""External SST: a file of ours that no database lists yet, and that says itself of what table it is.

It is an SST like any other. The label is one more field of the header of its properties, so the file is told apart, and
read, from its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slatespark.errors import CorruptDataError
from slatespark.format.codecs import Buffer
from slatespark.format.info import (
    Footer,
    SstInfo,
    decode_footer,
    decode_info_section,
    encode_footer,
    encode_info_section,
    footer_range,
    info_range,
)
from slatespark.format.properties import SstProperties, decode_label, decode_properties, encode_properties
from slatespark.format.sst import layout_of


@dataclass(frozen=True, slots=True)
class ExternalSst:
    """What the end of an external SST says.

    Attributes
    ----------
    info, format_version : as a manifest would list them
    label : what its writer noted
    """

    info: SstInfo
    format_version: int
    properties: SstProperties
    label: Mapping[str, object]


def label_sst(data: Buffer, label: Mapping[str, object]) -> bytes:
    """Return a file of ours with a label; its sections stay where they are."""
    view = memoryview(data)
    footer, info, gap = _open(view)
    found = decode_properties(gap)
    if found is None:
        raise CorruptDataError("The SST has no properties to label.")
    front = bytes(view[: info.sections_end]) + encode_properties(*found, label)
    return b"".join((front, encode_info_section(info), encode_footer(Footer(len(front), footer.version))))


def decode_external_sst(data: Buffer) -> ExternalSst | None:
    """Return what a file says of itself; None for an SST that is not external.

    Raises
    ------
    CorruptDataError, UnsupportedFormatError
        When it is no SST, or damaged at its end.
    """
    footer, info, gap = _open(memoryview(data))
    label, found = decode_label(gap), decode_properties(gap)
    if label is None or found is None:
        return None
    return ExternalSst(info, footer.version, found[0], label)


def _open(view: memoryview) -> tuple[Footer, SstInfo, memoryview]:
    """Return footer, info and the bytes of the properties."""
    tail = footer_range(len(view))
    footer = decode_footer(view[tail.start : tail.end])
    span = info_range(footer, len(view))
    info = decode_info_section(view[span.start : span.end])
    gap = layout_of(info, footer, len(view)).gap
    return footer, info, view[gap.start : gap.end]
