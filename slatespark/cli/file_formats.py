"""File formats of `import` and `export`, and which one a file has."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Final

from slatespark.errors import OptionError

STANDARD_INPUT: Final = "-"

_COMPRESSED: Final = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}


class FileFormat(StrEnum):
    """A format of rows in files."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"  # one object a line


_SUFFIXES: Final = {
    ".parquet": FileFormat.PARQUET,
    ".pq": FileFormat.PARQUET,
    ".csv": FileFormat.CSV,
    ".json": FileFormat.JSON,
    ".jsonl": FileFormat.JSON,
    ".ndjson": FileFormat.JSON,
}


def format_of(file: str, given: FileFormat | None) -> FileFormat:
    """Return the format of a file: the one given, or the one its suffix names.

    Raises
    ------
    OptionError
        When neither says it.
    """
    if given is not None:
        return given
    path = Path(file)
    suffix = path.with_suffix("").suffix if path.suffix in _COMPRESSED else path.suffix
    found = _SUFFIXES.get(suffix.lower())
    if found is None:
        raise OptionError(
            f"{file}: its name does not say the format.",
            todo=f"Use --format with one of {', '.join(FileFormat)}, or a suffix like .parquet, .csv or .jsonl.",
        )
    return found


def compression_of(file: str) -> str | None:
    """Return the codec that the last suffix of a text file names; None for none."""
    return _COMPRESSED.get(Path(file).suffix)
