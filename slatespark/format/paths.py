"""Names of the objects of a database, relative to its root, and their parsers.

Source: `docs/reference/format/objects.md`.
"""

from __future__ import annotations

from typing import Final, Literal

from slatespark.errors import CorruptDataError
from slatespark.format.ulid import Ulid

MANIFEST_DIR: Final = "manifest/"
WAL_DIR: Final = "wal/"
COMPACTED_DIR: Final = "compacted/"
COMPACTIONS_DIR: Final = "compactions/"
GC_DIR: Final = "gc/"
COLUMNS_DIR: Final = "slatespark/columns/"  # the columnar copies of SSTs, which only slatespark makes
# In or below these are all objects of a table, and the temporary files that a killed writer may leave.
TABLE_FOLDERS: Final = (MANIFEST_DIR, WAL_DIR, COMPACTED_DIR, COMPACTIONS_DIR, GC_DIR, "slatespark/")
DELETING_MARKER: Final = ".deleting"  # exists while an administrator deletes the whole database

MANIFEST_EXTENSION: Final = "manifest"
COMPACTIONS_EXTENSION: Final = "compactions"
SST_EXTENSION: Final = "sst"
COPY_EXTENSION: Final = "parquet"

_EXTENSIONS: Final = {MANIFEST_DIR: MANIFEST_EXTENSION, COMPACTIONS_DIR: COMPACTIONS_EXTENSION, WAL_DIR: SST_EXTENSION}
_DIGITS: Final = 20  # digits of the largest u64
_U64_END: Final = 1 << 64


def _number(number: int) -> str:
    if not 0 <= number < _U64_END:
        raise ValueError(f"object number is {number}, expected an unsigned 64-bit number")
    return f"{number:0{_DIGITS}d}"


def manifest_path(number: int) -> str:
    """Return the path of manifest `number`."""
    return f"{MANIFEST_DIR}{_number(number)}.{MANIFEST_EXTENSION}"


def wal_path(number: int) -> str:
    """Return the path of WAL file, or WAL fence, `number`."""
    return f"{WAL_DIR}{_number(number)}.{SST_EXTENSION}"


def sst_path(ulid: Ulid) -> str:
    """Return the path of a compacted SST, in L0 or in a sorted run."""
    return f"{COMPACTED_DIR}{ulid}.{SST_EXTENSION}"


def copy_path(ulid: Ulid) -> str:
    """Return the path of the columnar copy of an SST."""
    return f"{COLUMNS_DIR}{ulid}.{COPY_EXTENSION}"


def compactions_path(number: int) -> str:
    """Return the path of version `number` of the compactor's state."""
    return f"{COMPACTIONS_DIR}{_number(number)}.{COMPACTIONS_EXTENSION}"


def boundary_path(name: Literal["manifest", "compactions"]) -> str:
    """Return the path of the boundary object; manifests or compactions files up to its number are dead."""
    return f"{GC_DIR}{name}.boundary"


def numbered(name: str, extension: str) -> int | None:
    """Return the number in a path or file name, or None for a foreign object.

    Only the padded form counts: the client writes no other, and cannot open an object with another name.

    Parameters
    ----------
    name : path or file name, `manifest/00000000000000000001.manifest`
    extension : the expected one, without the dot
    """
    stem, dot, found = name.rpartition("/")[2].partition(".")
    if not dot or found != extension or len(stem) != _DIGITS or not (stem.isascii() and stem.isdigit()):
        return None
    number = int(stem)
    return number if number < _U64_END else None


def sst_id(name: str) -> Ulid | None:
    """Return the SST id in a path or file name, or None for a foreign object."""
    return _ulid_in(name, SST_EXTENSION)


def copy_id(name: str) -> Ulid | None:
    """Return the id of the SST in the path or file name of its columnar copy, or None for a foreign object."""
    return _ulid_in(name, COPY_EXTENSION)


def _ulid_in(name: str, expected: str) -> Ulid | None:
    stem, dot, extension = name.rpartition("/")[2].partition(".")
    if not dot or extension != expected:
        return None
    try:
        ulid = Ulid.parse(stem)
    except CorruptDataError:
        return None
    return ulid if str(ulid) == stem else None


def is_object(path: str) -> bool:
    """Tell whether a path is that of an object of a database, other than those below `slatespark/`."""
    folder = path[: path.rfind("/") + 1]
    if folder == COMPACTED_DIR:
        return sst_id(path) is not None
    if folder in _EXTENSIONS:
        return numbered(path, _EXTENSIONS[folder]) is not None
    return path in (DELETING_MARKER, boundary_path("manifest"), boundary_path("compactions"))


def decode_boundary(data: bytes) -> int:
    """Decode a boundary object: a decimal ASCII number and nothing else."""
    text = bytes(data)
    if not (0 < len(text) <= _DIGITS and text.isdigit() and int(text) < _U64_END):
        raise CorruptDataError(f"Boundary object contains {text[:32]!r}, expected a decimal 64-bit number.", offset=0)
    return int(text)


def encode_boundary(number: int) -> bytes:
    """Encode a boundary object."""
    return str(number).encode("ascii")
