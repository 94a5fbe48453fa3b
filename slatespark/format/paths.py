"""Names of the objects of a database, relative to its root, and parsing them back. Source: spec section 1."""

from __future__ import annotations

from typing import Final, Literal

from slatespark.errors import CorruptDataError
from slatespark.format.ulid import Ulid

MANIFEST_DIR: Final = "manifest/"
WAL_DIR: Final = "wal/"
COMPACTED_DIR: Final = "compacted/"
COMPACTIONS_DIR: Final = "compactions/"
GC_DIR: Final = "gc/"
DELETING_MARKER: Final = ".deleting"  # exists while an administrator deletes the whole database

MANIFEST_EXTENSION: Final = "manifest"
COMPACTIONS_EXTENSION: Final = "compactions"
SST_EXTENSION: Final = "sst"

_DIGITS: Final = 20  # as many as the largest u64 has
_U64_END: Final = 1 << 64


def _number(number: int) -> str:
    if not 0 <= number < _U64_END:
        raise ValueError(f"object numbers are unsigned 64-bit, got {number}")
    return f"{number:0{_DIGITS}d}"


def manifest_path(number: int) -> str:
    """Return the path of manifest `number`."""
    return f"{MANIFEST_DIR}{_number(number)}.{MANIFEST_EXTENSION}"


def wal_path(number: int) -> str:
    """Return the path of WAL file, or WAL fence, `number`."""
    return f"{WAL_DIR}{_number(number)}.{SST_EXTENSION}"


def sst_path(ulid: Ulid) -> str:
    """Return the path of a compacted SST (in L0 or in a sorted run, there is no difference)."""
    return f"{COMPACTED_DIR}{ulid}.{SST_EXTENSION}"


def compactions_path(number: int) -> str:
    """Return the path of version `number` of the compactor's state."""
    return f"{COMPACTIONS_DIR}{_number(number)}.{COMPACTIONS_EXTENSION}"


def boundary_path(name: Literal["manifest", "compactions"]) -> str:
    """Return the path of the object that says up to which number manifests or compactions files are dead."""
    return f"{GC_DIR}{name}.boundary"


def numbered(name: str, extension: str) -> int | None:
    """Return the number that a path or file name stands for, or None for a foreign object.

    Only the padded form counts: the client writes no other, and cannot open one that is listed under another name.

    Parameters
    ----------
    name : path or file name, `manifest/00000000000000000001.manifest`
    extension : the one expected, without its dot
    """
    stem, dot, found = name.rpartition("/")[2].partition(".")
    if not dot or found != extension or len(stem) != _DIGITS or not (stem.isascii() and stem.isdigit()):
        return None
    number = int(stem)
    return number if number < _U64_END else None


def sst_id(name: str) -> Ulid | None:
    """Return the id of the SST that a path or file name stands for, or None for a foreign object."""
    stem, dot, extension = name.rpartition("/")[2].partition(".")
    if not dot or extension != SST_EXTENSION:
        return None
    try:
        ulid = Ulid.parse(stem)
    except CorruptDataError:
        return None
    return ulid if str(ulid) == stem else None


def decode_boundary(data: bytes) -> int:
    """Return the number in a boundary object: decimal ASCII, nothing around it."""
    text = bytes(data)
    if not (0 < len(text) <= _DIGITS and text.isdigit() and int(text) < _U64_END):
        raise CorruptDataError(f"Boundary object holds {text[:32]!r}, expected a decimal 64-bit number.", offset=0)
    return int(text)


def encode_boundary(number: int) -> bytes:
    """Return the content of a boundary object."""
    return str(number).encode("ascii")
