"""Keys as people read them: `tenant=a, id=1` in a typed table, text or hexadecimal in a raw one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from slatespark.display.text import bytes_text
from slatespark.display.values import json_values, text_of
from slatespark.encoding.row_codec import RowCodec
from slatespark.format.row import Row, rows_to_columns

MAX_CHARACTERS: Final = 60  # of a name; longer ones are cut


class KeyNames:
    """The names of some keys of a table; keys that do not decode are shown in hexadecimal.

    Parameters
    ----------
    codec : of the table
    keys : those that may be asked for
    """

    def __init__(self, codec: RowCodec, keys: Iterable[bytes | None]) -> None:
        wanted = {key for key in keys if key}
        wanted |= {key[:-1] for key in wanted if key.endswith(b"\0")} - {b""}
        self._is_raw = codec.is_raw
        self._names = {} if codec.is_raw else _decoded(codec, sorted(wanted))

    def of(self, key: bytes) -> str:
        """Return the name of a key."""
        return _cut(self._names.get(key) or bytes_text(key, as_text=self._is_raw))

    def first(self, start: bytes) -> str:
        """Return the name of the inclusive start of a range."""
        return self.of(start) if start else "the first key"

    def last(self, end: bytes | None) -> str:
        """Return the name of the exclusive end of a range: of the last key itself where the range ends behind one.

        No tuple is another one with a zero byte behind it, so at most one of the two decodes. Of raw keys, the shorter
        one is what writers mean nearly always.
        """
        if end is None:
            return "the last key"
        if end.endswith(b"\0") and (self._is_raw or end[:-1] in self._names):
            return self.of(end[:-1])
        return f"below {self.of(end)}"

    def span(self, start: bytes, end: bytes | None) -> str:
        """Return the name of a range."""
        first, last = self.first(start), self.last(end)
        return first if first == last else f"{first} to {last}"


def _decoded(codec: RowCodec, keys: list[bytes]) -> dict[bytes, str]:
    """Return the names of the keys that are encodings of the key columns."""
    if not keys:
        return {}
    sources = [rows_to_columns([Row(key, 0) for key in keys])]
    rows = np.arange(len(keys), dtype=np.int64)
    rows = rows[codec.find_decodable(sources, rows, codec.key_columns)]
    if not len(rows):
        return {}
    columns = codec.decode(sources, rows, codec.key_columns)
    cells = [[text_of(value) for value in json_values(columns[name])] for name in codec.key_columns]
    names = [
        ", ".join(f"{name}={cell}" for name, cell in zip(codec.key_columns, row, strict=True))
        for row in zip(*cells, strict=True)
    ]
    return {keys[at]: name for at, name in zip(rows.tolist(), names, strict=True)}


def _cut(name: str) -> str:
    return name if len(name) <= MAX_CHARACTERS else f"{name[: MAX_CHARACTERS - 1]}…"
