"""External SST: a file written outside a database, to be ingested later. Its label describes the table of its rows.

It is an SST like any other. The label is an additional field in the header of its properties, so an external SST is
recognized, and read, from its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slatespark.errors import CorruptDataError
from slatespark.format.codecs import Buffer
from slatespark.format.info import Footer, SstInfo, encode_footer, encode_info_section
from slatespark.format.properties import SstProperties, decode_label, decode_properties, encode_properties
from slatespark.format.sst import open_sst


@dataclass(frozen=True, slots=True)
class ExternalSst:
    """The decoded end of an external SST.

    Attributes
    ----------
    info, format_version : as listed in a manifest
    label : description of the file by its writer
    """

    info: SstInfo
    format_version: int
    properties: SstProperties
    label: Mapping[str, object]


def label_sst(data: Buffer, label: Mapping[str, object]) -> bytes:
    """Add a label to an SST of slatespark; its sections keep their offsets."""
    view = memoryview(data)
    footer, info, gap = _open(view)
    found = decode_properties(gap)
    if found is None:
        raise CorruptDataError("The SST has no properties, so it cannot have a label.")
    front = bytes(view[: info.sections_end]) + encode_properties(*found, label)
    return b"".join((front, encode_info_section(info), encode_footer(Footer(len(front), footer.version))))


def decode_external_sst(data: Buffer) -> ExternalSst | None:
    """Decode the end of an external SST; None for other SSTs.

    Raises
    ------
    CorruptDataError, UnsupportedFormatError
        The file is not an SST, or its end is damaged.
    """
    footer, info, gap = _open(memoryview(data))
    return decode_external_end(info, footer.version, gap)


def decode_external_end(info: SstInfo, format_version: int, gap: Buffer) -> ExternalSst | None:
    """Return an external SST by its end; None for other SSTs.

    Parameters
    ----------
    gap : the bytes between its last section and its info

    Raises
    ------
    CorruptDataError
        The gap is damaged.
    """
    label, found = decode_label(gap), decode_properties(gap)
    if label is None or found is None:
        return None
    return ExternalSst(info, format_version, found[0], label)


def _open(view: memoryview) -> tuple[Footer, SstInfo, memoryview]:
    """Return footer, info and the gap with the properties."""
    footer, info, layout = open_sst(view)
    return footer, info, view[layout.gap.start : layout.gap.end]
