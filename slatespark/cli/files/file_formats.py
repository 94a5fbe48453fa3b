"""File formats of `import` and `export`, and how the name of a file determines its format."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Final

from slatespark.errors import OptionError

STANDARD_STREAM: Final = "-"

_COMPRESSED: Final = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}


class FileFormat(StrEnum):
    """A file format for rows."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"  # one object per line


_SUFFIXES: Final = {
    ".parquet": FileFormat.PARQUET,
    ".pq": FileFormat.PARQUET,
    ".csv": FileFormat.CSV,
    ".json": FileFormat.JSON,
    ".jsonl": FileFormat.JSON,
    ".ndjson": FileFormat.JSON,
}


def format_of(file: str, given: FileFormat | None) -> FileFormat:
    """Return the format of a file: the given one, or that of its suffix.

    Raises
    ------
    OptionError
        When none is given and the suffix is unknown.
    """
    if given is not None:
        return given
    found = format_by_suffix(file)
    if found is None:
        raise OptionError(
            f"{file}: the format cannot be inferred from the name.",
            todo=f"Use --format with one of {', '.join(FileFormat)}, or a suffix like .parquet, .csv or .jsonl.",
        )
    return found


def format_by_suffix(file: str) -> FileFormat | None:
    """Return the format that the suffix of a file names, which may be followed by that of a codec; else None."""
    path = Path(file)
    suffix = path.with_suffix("").suffix if path.suffix in _COMPRESSED else path.suffix
    return _SUFFIXES.get(suffix.lower())


def compression_of(file: str) -> str | None:
    """Return the codec that the last suffix of a text file names; None if it is not compressed."""
    return _COMPRESSED.get(Path(file).suffix)
