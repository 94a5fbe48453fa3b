"""Readable names of keys: `tenant=a, id=1` in a typed table, text or hexadecimal in a raw one.

A range bound that has only the leading key columns is named by those columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

from slatespark.display.values import json_values, text_of
from slatespark.encoding.row_codec import RowCodec
from slatespark.table.read.planning.key_prefixes import AFTER, decode_prefixes, prefix_behind
from slatespark.texts import bytes_text, cut_middle

MAX_CHARACTERS: Final = 60  # of a name; longer ones are cut


class KeyNames:
    """The names of keys and key bounds of a table; keys that do not decode are shown in hexadecimal.

    Parameters
    ----------
    codec : how the table encodes rows
    keys : the keys and bounds to name, decoded together
    as_text : those of a raw table are shown as text where they are UTF-8, not in hexadecimal
    """

    def __init__(self, codec: RowCodec, keys: Iterable[bytes | None], *, as_text: bool = True) -> None:
        wanted = {key for key in keys if key}
        wanted |= {key[:-1] for key in wanted if key.endswith(b"\0")} - {b""}
        wanted |= {prefix for key in wanted if (prefix := prefix_behind(key))}
        self._is_raw, self._is_tuple = codec.is_raw, codec.key_format == "tuple"
        self._as_text = codec.is_raw and as_text
        decoded = [] if codec.is_raw else list(decode_prefixes(codec, sorted(wanted)))
        self._names = {
            key: name for group, columns in decoded for key, name in zip(group, _names(columns), strict=True)
        }
        self._whole = {key for group, columns in decoded if len(columns) == len(codec.key_columns) for key in group}

    def of(self, key: bytes) -> str:
        """Return the name of a key."""
        return cut_middle(self._names.get(key) or bytes_text(key, as_text=self._as_text), MAX_CHARACTERS)

    def first(self, start: bytes) -> str:
        """Return the name of the inclusive start of a range; where it starts right after a key, that key's name."""
        prefix = self._prefix_behind(start)
        if prefix is None and start.endswith(b"\0") and start not in self._whole and start[:-1] in self._whole:
            prefix = start[:-1]
        if prefix is not None:
            return f"above {self.of(prefix)}"
        return self.of(start) if start else "the first key"

    def _prefix_behind(self, bound: bytes) -> bytes | None:
        """Return the leading columns that a bound follows, together with all keys that start with them."""
        prefix = prefix_behind(bound) if self._is_tuple else None
        if prefix not in self._names or (bound.endswith(AFTER) and bound in self._names):
            return None
        return prefix

    def last(self, end: bytes | None) -> str:
        """Return the name of the exclusive end of a range; where the range ends right after a key, that key's name.

        No encoded tuple is another one plus a zero byte, so at most one of the two decodes. For raw keys the shorter
        one is assumed, since ranges nearly always end right after a key.
        """
        if end is None:
            return "the last key"
        key = self._key_before(end)
        return f"below {self.of(end)}" if key is None else self.of(key)

    def edge(self, end: bytes | None) -> str:
        """Return the name of the exclusive end of a range as a place on an axis: as `last`, without `below`."""
        if end is None:
            return "the last key"
        key = self._key_before(end)
        return self.of(end if key is None else key)

    def _key_before(self, end: bytes) -> bytes | None:
        """Return the key, or the leading columns of keys, right after which a range ends; None if it ends elsewhere."""
        prefix = self._prefix_behind(end)
        if prefix is not None:
            return prefix
        return end[:-1] if end.endswith(b"\0") and (self._is_raw or end[:-1] in self._whole) else None

    def span(self, start: bytes, end: bytes | None) -> str:
        """Return the name of a range."""
        first, last = self.first(start), self.last(end)
        return first if first == last else f"{first} to {last}"


def key_columns(codec: RowCodec, keys: Iterable[bytes]) -> dict[bytes, dict[str, Any]]:
    """Return the columns of keys of a typed table, as `json_values` shows them; keys that do not decode are left out.

    A bound that has only the leading key columns has only these.
    """
    found: dict[bytes, dict[str, Any]] = {}
    for group, columns in decode_prefixes(codec, sorted(set(keys))):
        rows = zip(*map(json_values, columns.values()), strict=True)
        found.update((key, dict(zip(columns, row, strict=True))) for key, row in zip(group, rows, strict=True))
    return found


def _names(columns: Mapping[str, pa.Array]) -> list[str]:
    """Return the name of each key, given the columns of all keys."""
    cells = [[text_of(value) for value in json_values(column)] for column in columns.values()]
    return [
        ", ".join(f"{name}={cell}" for name, cell in zip(columns, row, strict=True)) for row in zip(*cells, strict=True)
    ]
