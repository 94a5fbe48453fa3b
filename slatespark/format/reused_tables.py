"""Tables that were encoded before are copied: of two manifests in a row nearly all files and runs are the same.

The bytes are those that building anew gives. A table refers to its layout (vtable), which a builder writes once and
shares, so only the references to layouts differ from one buffer to another.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import flatbuffers

# Values. A file and its view are two; if a manifest has more, each commit builds all of them anew, which takes seven
# times as long. 200,000 take about 150 MiB.
MAX_KEPT: Final = 1 << 19
MAX_BYTES: Final = 1 << 10  # of a value
_ALIGNMENT: Final = 8  # the largest of any field
_REFERENCE: Final = struct.Struct("<i")

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class _Built:
    """A value as it was built; places count from the end of the buffer, as the builder fills it backwards.

    Attributes
    ----------
    data : its tables and vectors
    root : place of its table, from where the data begins
    tables : place of each table in it, likewise, and the layout of the table
    """

    data: bytes
    root: int
    tables: tuple[tuple[int, tuple[int, ...]], ...]


_kept: dict[tuple[object, ...], _Built] = {}


class ReusingBuilder(flatbuffers.Builder):  # type: ignore[misc]  # it has no types
    """A builder that copies values which any such builder has built before."""

    minalign: int

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._ended: list[int] = []

    def EndObject(self) -> int:  # noqa: N802  # the name is that of flatbuffers
        """End a table; returns its offset."""
        offset = int(super().EndObject())
        self._ended.append(offset)
        return offset

    def put(self, build: Callable[[Any, T], int], value: T) -> int:
        """Add a value by `build(self, value)`, or by a copy of what that gave before; returns its offset."""
        start = int(self.Offset())
        key = build, value, start % _ALIGNMENT
        known = _kept.get(key)
        if known is not None and all(layout in self.vtables for _, layout in known.tables):
            return self._copy(known, start)
        first = len(self._ended)
        root = build(self, value)
        if known is None and (built := self._built_since(start, root, self._ended[first:])) is not None:
            if len(_kept) >= MAX_KEPT:
                _kept.clear()
            _kept[key] = built
        return root

    def _copy(self, known: _Built, start: int) -> int:
        size = len(known.data)
        self.Prep(1, size)  # makes room
        self.head -= size
        self.minalign = max(self.minalign, _ALIGNMENT)
        self.Bytes[self.head : self.head + size] = known.data
        end = len(self.Bytes)
        for place, layout in known.tables:
            offset = start + place
            _REFERENCE.pack_into(self.Bytes, end - offset, self.vtables[layout] - offset)
            self._ended.append(offset)
        return start + known.root

    def _built_since(self, start: int, root: int, ended: Sequence[int]) -> _Built | None:
        """Return what was built from `start` on; None if it is large, or has layouts that no table before it had."""
        if self.Offset() - start > MAX_BYTES:
            return None
        layouts = {offset: layout for layout, offset in self.vtables.items()}
        end, tables = len(self.Bytes), []
        for offset in ended:
            layout_at = offset + _REFERENCE.unpack_from(self.Bytes, end - offset)[0]
            if layout_at > start:
                return None
            tables.append((offset - start, layouts[layout_at]))
        return _Built(bytes(self.Bytes[self.head : end - start]), root - start, tuple(tables))
