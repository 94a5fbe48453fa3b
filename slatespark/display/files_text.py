"""The files of a table as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from slatespark.display.key_names import KeyNames
from slatespark.ranges import KeyRange
from slatespark.table.inspection.files import FileFacts
from slatespark.texts import align_table, bytes_text, printable, span_text
from slatespark.units import bytes_to_text, ms_to_text

MAX_KEY_CHARACTERS: Final = 40  # of a key in the table; longer ones are cut


def files_text(files: Sequence[FileFacts], *, as_text: bool = False, names: KeyNames | None = None) -> str:
    """Return a line for each file of each layer; columns without any value are left out.

    Parameters
    ----------
    as_text : show keys as text where they are UTF-8
    names : how keys are shown, for a typed table
    """
    if not files:
        return "The table has no files."

    def first(file: FileFacts) -> str:
        return names.of(file.start) if names is not None else _key_text(file.start, as_text=as_text)

    def last(file: FileFacts) -> str:
        if names is not None and file.end is not None:
            return names.last(file.end)
        return _last_text(KeyRange(file.start, file.end), as_text=as_text)

    columns = {
        "layer": [file.layer for file in files],
        "segment": ["" if file.segment is None else _key_text(file.segment, as_text=as_text) for file in files],
        "file": [file.id for file in files],
        "database": [printable(file.root or "") for file in files],
        "from key": [first(file) for file in files],
        "to key": [last(file) for file in files],
        "bytes": [bytes_to_text(file.stored_bytes) for file in files],
        "copy": ["" if file.copy_bytes is None else bytes_to_text(file.copy_bytes) for file in files],
        "codec": [file.compression for file in files],
        "rows": ["" if file.rows is None else f"{file.rows:,}" for file in files],
        "blocks": ["" if file.blocks is None else f"{file.blocks:,}" for file in files],
        "seqs": [span_text(file.min_seq, file.max_seq) for file in files],
        "written": [_instants_text(file.min_create_ms, file.max_create_ms) for file in files],
        "expires": [_instants_text(file.min_expire_ms, file.max_expire_ms) for file in files],
        "has": [", ".join(file.features or ()) for file in files],
        "note": ["" if file.shows_rows else "shows no row" for file in files],
        "created": [ms_to_text(file.created_ms) for file in files],
    }
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    return align_table(list(shown), zip(*shown.values(), strict=True), right={"bytes", "copy", "rows", "blocks"})


def _key_text(key: bytes, *, as_text: bool) -> str:
    text = bytes_text(key, as_text=as_text)
    return text if len(text) <= MAX_KEY_CHARACTERS else f"{text[: MAX_KEY_CHARACTERS - 1]}…"


def _last_text(keys: KeyRange, *, as_text: bool) -> str:
    """Return the end of a range: the last key where the range ends right after one, else `below` the end."""
    if keys.end is None:
        return "open"
    if keys.end.endswith(b"\0"):
        return _key_text(keys.end[:-1], as_text=as_text)
    return f"below {_key_text(keys.end, as_text=as_text)}"


def _instants_text(low: int | None, high: int | None) -> str:
    if low is None or high is None:
        return ""
    return ms_to_text(low) if low == high else f"{ms_to_text(low)} to {ms_to_text(high)}"
