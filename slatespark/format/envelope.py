"""The envelope of manifests and `.compactions` files: a version of two bytes, big-endian, before a flatbuffer.

What a later release wrote is refused: a version that is not known, and to write an object again without its new fields.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Final

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.format.codecs import Buffer

NEWEST_VERSION: Final = 2  # on disk, do not change
# The client counts versions up from 1. Text, such as the error page of a proxy, begins with a far larger number.
_MOST_VERSIONS: Final = 255

_VERSION = struct.Struct(">H")


def open_envelope(data: Buffer, what: str) -> tuple[int, memoryview]:
    """Return the version of an object, 1 or 2, and its flatbuffer.

    Parameters
    ----------
    what : name of the object at the start of a sentence

    Raises
    ------
    CorruptDataError : too short, or no version that there may ever be
    UnsupportedFormatError : a later version
    """
    if len(data) <= _VERSION.size:
        raise CorruptDataError(f"{what} has {len(data)} bytes, expected more than {_VERSION.size}.", offset=0)
    (version,) = _VERSION.unpack_from(data)
    if not 1 <= version <= _MOST_VERSIONS:
        raise CorruptDataError(f"{what} begins with {bytes(data[:16])!r}, which is no version.", offset=0)
    if version > NEWEST_VERSION:
        raise UnsupportedFormatError(
            f"{what} has version {version}, expected 1 or {NEWEST_VERSION}.",
            why="A newer release wrote it.",
            todo="Upgrade slatespark.",
        )
    return version, memoryview(data)[_VERSION.size :]


def seal_envelope(flatbuffer: bytes | bytearray) -> bytes:
    """Return the object of a flatbuffer, always of the newest version."""
    return _VERSION.pack(NEWEST_VERSION) + flatbuffer


def refuse_unknown_fields(names: Collection[str], what: str) -> None:
    """Refuse to encode an object that had fields we do not know: they would be erased without a word.

    Parameters
    ----------
    names : names of the fields, as `verify` returns them
    what : the object, at the start of the sentence
    """
    if names:
        raise UnsupportedFormatError(
            f"{what} has fields that this release does not know: {', '.join(sorted(names))}.",
            why="A newer SlateDB client wrote it, and writing it again would erase them.",
            todo="Upgrade slatespark, or write with that client.",
        )
