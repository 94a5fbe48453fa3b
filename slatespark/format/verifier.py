"""Verification of a flatbuffer before it is read.

Python's runtime has no verifier, and its accessors trust every offset. This verifier accepts the same buffers as the
client's (Rust): alignment relative to the start of the buffer, vtables and vectors inside it, zero-terminated UTF-8
strings, required fields present, both or neither half of a union, and limits on depth, tables and apparent size.
Unknown slots are accepted and reported: a writer that encodes the buffer again would erase them. See
`docs/adr/0003-our-own-flatbuffer-verifier.md`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError
from slatespark.format.codecs import Buffer

# The client's limits.
MAX_DEPTH: Final = 64
MAX_TABLES: Final = 1_000_000_000
MAX_APPARENT_BYTES: Final = 1 << 31  # shared parts count each time they are reached

# Ours, since each part takes much longer here than in the client. Writers share nothing but vtables.
LEAST_APPARENT_BYTES: Final = 1 << 20
APPARENT_PER_BYTE: Final = 16

_WIDEST: Final = 8  # bytes of the widest scalar
MANY: Final = 64  # tables that are worth looking at together
_FEW_LAYOUTS: Final = 16
_USUAL_VTABLE_BYTES: Final = 256  # far more than any of ours; a larger one is not kept

_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")


class Kind(Enum):
    """Type of a slot."""

    SCALAR = "scalar"
    STRING = "string"
    TABLE = "table"
    SCALARS = "vector of scalars"
    TABLES = "vector of tables"
    UNION = "union"


@dataclass(frozen=True, slots=True)
class Slot:
    """One field of a table.

    Attributes
    ----------
    offset : offset in the vtable, 4, 6, 8, ...; for a union that of its value, which follows its type
    width : bytes of a scalar, or of an element of a vector of scalars
    target : the referenced table
    variants : tables of a union by type; unknown types are not verified
    """

    name: str
    offset: int
    kind: Kind
    width: int = 0
    required: bool = False
    target: Table | None = None
    variants: dict[int, Table] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Table:
    """Name and fields of a table."""

    name: str
    slots: tuple[Slot, ...]

    @cached_property
    def field_numbers(self) -> dict[str, int]:
        """The number of each field, as `WireTable` expects it; for a union that of its value, behind its type."""
        return {slot.name: slot.offset // _U16.size for slot in self.slots}


def verify(buffer: Buffer, root: Table, *, what: str) -> frozenset[str]:
    """Verify that `buffer` contains a valid table `root`, and return the fields in it that we do not know.

    Parameters
    ----------
    what : name of the object for error messages, "manifest"

    Returns
    -------
    "Checkpoint slot 18", "Checkpoint metadata of type 2"

    Raises
    ------
    CorruptDataError : names the offset relative to `buffer`
    """
    walk = _Walk(memoryview(buffer), what)
    walk.follow(0, root)
    return frozenset(walk.unknown)


@dataclass(frozen=True, slots=True)
class _Layout:
    """What a vtable says, and what of it is wrong for tables at some alignment modulo 8.

    Attributes
    ----------
    reach : bytes from the start of a table to the end of its last scalar
    scalar_bytes : size of all present scalars
    vtable_bytes : what reading the vtable adds to the apparent size
    links : offset in the table, and slot, of each present reference; unions are included even if absent
    unknown : slots in use that the table is not known to have
    missing : a required field that is absent
    misaligned : offset in the table, and width, of a scalar that is not aligned
    """

    reach: int
    scalar_bytes: int
    vtable_bytes: int
    links: tuple[tuple[int | None, Slot], ...]
    unknown: tuple[str, ...]
    missing: str | None
    misaligned: tuple[int, int] | None


def _layout_of(vtable: bytes, alignment: int, table: Table) -> _Layout:
    """Return the layout of the tables with a vtable, which lie at `alignment` modulo 8."""
    size = len(vtable)
    positions = [(slot, _U16.unpack_from(vtable, slot.offset)[0] if slot.offset < size else 0) for slot in table.slots]
    known = {offset for slot in table.slots for offset in _offsets_of(slot)}
    others = [offset for offset in range(4, size, 2) if offset not in known]
    scalars = [(position, slot.width) for slot, position in positions if slot.kind is Kind.SCALAR and position]
    return _Layout(
        reach=max((position + width for position, width in scalars), default=0),
        scalar_bytes=sum(width for _, width in scalars),
        vtable_bytes=2 + size + 2 * sum(slot.offset < size for slot in table.slots),
        links=tuple((position or None, slot) for slot, position in positions if _is_link(slot, position)),
        unknown=tuple(f"{table.name} slot {offset}" for offset in others if _U16.unpack_from(vtable, offset)[0]),
        missing=next(
            (slot.name for slot, at in positions if slot.required and not at and slot.kind is not Kind.UNION), None
        ),
        misaligned=next(((at, width) for at, width in scalars if (alignment + at) % width), None),
    )


# A client writes each of its files with the same few vtables.
_kept_layout = lru_cache(maxsize=1024)(_layout_of)


class _Walk:
    """State of one verification."""

    __slots__ = ("apparent", "buffer", "depth", "layouts", "most_apparent", "size", "tables", "unknown", "what")

    def __init__(self, buffer: memoryview, what: str) -> None:
        self.buffer = buffer
        self.size = len(buffer)
        self.what = what
        self.depth = 0
        self.tables = 0
        self.apparent = 0
        self.most_apparent = min(MAX_APPARENT_BYTES, LEAST_APPARENT_BYTES + APPARENT_PER_BYTE * self.size)
        self.layouts: dict[tuple[int, int, str], _Layout] = {}
        self.unknown: set[str] = set()

    def fail(self, message: str, offset: int) -> CorruptDataError:
        return CorruptDataError(f"{self.what}: {message}.", why="The flatbuffer is damaged.", offset=offset)

    def span(self, start: int, length: int, align: int) -> None:
        if start % align:
            raise self.fail(f"offset {start} is not a multiple of {align}", start)
        if start < 0 or start + length > self.size:
            raise self.fail(f"bytes {start} to {start + length} lie outside its {self.size} bytes", start)
        self.apparent += length
        if self.apparent > self.most_apparent:
            raise self.fail(f"it expands to more than {self.most_apparent} bytes", start)

    def u16(self, at: int) -> int:
        self.span(at, 2, 2)
        value: int = _U16.unpack_from(self.buffer, at)[0]
        return value

    def u32(self, at: int) -> int:
        self.span(at, 4, 4)
        value: int = _U32.unpack_from(self.buffer, at)[0]
        return value

    def follow(self, at: int, table: Table) -> None:
        self.table(at + self.u32(at), table)

    def table(self, at: int, table: Table) -> None:
        self.span(at, 4, 4)
        vtable = at - int(_I32.unpack_from(self.buffer, at)[0])
        layout = self.layout(at, vtable, table)
        self.tables += 1
        self.depth += 1
        if self.tables > MAX_TABLES:
            raise self.fail(f"it has more than {MAX_TABLES} tables", at)
        if self.depth > MAX_DEPTH:
            raise self.fail(f"tables are nested deeper than {MAX_DEPTH}", at)
        for distance, slot in layout.links:
            position = None if distance is None else at + distance
            if slot.kind is Kind.UNION:
                self.union(at, vtable, slot, position, table)
            elif position is not None:
                self.slot(position, slot)
        self.depth -= 1

    def layout(self, at: int, vtable: int, table: Table) -> _Layout:
        """Return the layout of the table at `at`; checks its scalars."""
        key = vtable, at % _WIDEST, table.name
        layout = self.layouts.get(key)
        if layout is None:
            layout = self.layouts[key] = self.new_layout(at, vtable, table)
        if at + layout.reach > self.size:
            raise self.fail(f"bytes {at} to {at + layout.reach} lie outside its {self.size} bytes", at)
        self.apparent += layout.scalar_bytes + layout.vtable_bytes
        if self.apparent > self.most_apparent:
            raise self.fail(f"it expands to more than {self.most_apparent} bytes", at)
        return layout

    def new_layout(self, at: int, vtable: int, table: Table) -> _Layout:
        """Check a vtable; tables with the same alignment modulo 8 share the result."""
        before = self.apparent
        size = self.u16(vtable)
        if size % 2:
            raise self.fail(f"vtable of {table.name} has {size} bytes, expected an even number", vtable)
        self.span(vtable, size, 2)
        self.apparent = before  # `layout` adds it for each table
        find = _kept_layout if size <= _USUAL_VTABLE_BYTES else _layout_of
        layout = find(bytes(self.buffer[vtable : vtable + size]), at % _WIDEST, table)
        self.unknown.update(layout.unknown)
        if layout.missing is not None:
            raise self.fail(f"{table.name} lacks its field {layout.missing}", at)
        if layout.misaligned is not None:
            position, width = layout.misaligned
            raise self.fail(f"offset {at + position} is not a multiple of {width}", at + position)
        return layout

    def distance(self, vtable: int, vtable_bytes: int, offset: int) -> int | None:
        """Return the offset of a field in its table; None if it is absent."""
        return None if offset >= vtable_bytes else self.u16(vtable + offset) or None

    def slot(self, at: int, slot: Slot) -> None:
        kind = slot.kind
        if kind is Kind.TABLE:
            assert slot.target is not None
            self.follow(at, slot.target)
        elif kind is Kind.SCALARS:
            self.vector(at, slot.width)
        elif kind is Kind.TABLES:
            assert slot.target is not None
            start, count = self.vector(at, 4)
            if count >= MANY and self.all_at_once(start, count, slot.target):
                return
            for element in range(start, start + 4 * count, 4):
                self.follow(element, slot.target)
        else:
            self.string(at, slot.name)

    def all_at_once(self, start: int, count: int, table: Table) -> bool:
        """Verify the tables of a vector, and what they refer to, column by column: a manifest has some for each SST.

        False if they have to be followed one by one, which tells what is damaged: some are not as they should be, most
        have a vtable of their own, or they refer to unions or vectors of tables.
        """
        before = self.apparent, self.tables, self.depth
        if self.follow_all(start + 4 * np.arange(count, dtype=np.int64), table):
            return True
        self.apparent, self.tables, self.depth = before
        return False

    def follow_all(self, positions: NDArray[np.int64], table: Table) -> bool:
        """Follow a reference at each position to a table."""
        if not self.are_inside(positions, 4, 4):
            return False
        tables = positions + self.words(positions)
        if self.depth >= MAX_DEPTH or not self.are_inside(tables, 4, 4):
            return False
        vtables = tables - self.words(tables, "<i4")
        kinds, first, numbers = np.unique(vtables * _WIDEST + tables % _WIDEST, return_index=True, return_inverse=True)
        if len(kinds) > _FEW_LAYOUTS:
            return False
        self.depth += 1
        self.tables += len(tables)
        for number, example in enumerate(first.tolist()):
            alike = tables[numbers == number]
            vtable = int(vtables[example])
            layout = self.layout(int(tables[example]), vtable, table)
            self.apparent += (layout.scalar_bytes + layout.vtable_bytes) * (len(alike) - 1)
            if int(alike.max()) + layout.reach > self.size or not self.link_all(alike, vtable, layout):
                return False
        self.depth -= 1
        return self.tables <= MAX_TABLES and self.apparent <= self.most_apparent

    def link_all(self, tables: NDArray[np.int64], vtable: int, layout: _Layout) -> bool:
        """Verify what tables of one vtable refer to."""
        for distance, slot in layout.links:
            if distance is None:
                if not self.lack_union(len(tables), vtable, slot):
                    return False
                continue
            positions = tables + distance
            if slot.kind is Kind.TABLE:
                if slot.target is None or not self.follow_all(positions, slot.target):
                    return False
            elif slot.kind is Kind.STRING:
                if not self.string_all(positions):
                    return False
            elif slot.kind is not Kind.SCALARS or self.vector_all(positions, slot.width) is None:
                return False
        return True

    def lack_union(self, count: int, vtable: int, slot: Slot) -> bool:
        """Verify that tables of one vtable lack the type of a union too, as its value."""
        before = self.apparent
        if slot.required or self.distance(vtable, self.u16(vtable), slot.offset - 2) is not None:
            return False
        self.apparent += (count - 1) * (self.apparent - before)
        return True

    def string_all(self, positions: NDArray[np.int64]) -> bool:
        """Follow a reference at each position to a string."""
        spans = self.vector_all(positions, 1)
        if spans is None:
            return False
        starts, ends = spans
        if int(ends.max()) >= self.size or np.frombuffer(self.buffer, np.uint8)[ends].any():
            return False
        try:
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                str(self.buffer[start:end], "utf-8")
        except UnicodeDecodeError:
            return False
        return True

    def vector_all(
        self, positions: NDArray[np.int64], width: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Follow a reference at each position to a vector of scalars; returns where their elements start and end."""
        if not self.are_inside(positions, 4, 4):
            return None
        starts = positions + self.words(positions)
        if not self.are_inside(starts, 4, 4):
            return None
        lengths = self.words(starts) * width
        return (starts + 4, starts + 4 + lengths) if self.are_inside(starts + 4, lengths, width) else None

    def are_inside(self, starts: NDArray[np.int64], lengths: NDArray[np.int64] | int, align: int) -> bool:
        """Tell whether spans are aligned, lie in the buffer, and are not too much with all before; adds them up."""
        if (starts % align).any() or int((starts + lengths).max()) > self.size:
            return False
        self.apparent += int(np.broadcast_to(lengths, starts.shape).sum())
        return self.apparent <= self.most_apparent

    def words(self, positions: NDArray[np.int64], kind: str = "<u4") -> NDArray[np.int64]:
        return numbers_at(self.buffer, positions, kind)

    def vector(self, at: int, width: int) -> tuple[int, int]:
        """Check the vector referenced at `at`; returns the start of its elements and their number."""
        start = at + self.u32(at)
        count = self.u32(start)
        self.span(start + 4, count * width, width)
        return start + 4, count

    def string(self, at: int, name: str) -> None:
        start, count = self.vector(at, 1)
        if start + count >= self.size or self.buffer[start + count] != 0:
            raise self.fail(f"{name} is not zero-terminated", start + count)
        try:
            str(self.buffer[start : start + count], "utf-8")
        except UnicodeDecodeError as exc:
            raise self.fail(f"{name} is not UTF-8", start) from exc

    def union(self, at: int, vtable: int, slot: Slot, position: int | None, table: Table) -> None:
        distance = self.distance(vtable, self.u16(vtable), slot.offset - 2)
        type_position = None if distance is None else at + distance
        if (type_position is None) != (position is None):
            raise self.fail(f"{table.name} has only half of the union {slot.name}", at)
        if type_position is None or position is None:
            if slot.required:
                raise self.fail(f"{table.name} lacks its field {slot.name}", at)
            return
        self.span(type_position, 1, 1)
        target = slot.variants.get(self.buffer[type_position])
        if target is not None:
            self.follow(position, target)
        else:
            self.span(position, 4, 4)  # accessors follow the reference
            self.unknown.add(f"{table.name} {slot.name} of type {self.buffer[type_position]}")


def numbers_at(buffer: Buffer, positions: NDArray[np.int64], kind: str) -> NDArray[np.int64]:
    """Return the number at each position in a buffer.

    Parameters
    ----------
    kind : numpy type of the numbers; 64 bits without a sign stay that

    Requires: all lie in the buffer.
    """
    octets = np.frombuffer(buffer, np.uint8)[positions[:, None] + np.arange(np.dtype(kind).itemsize)]
    found: NDArray[np.int64] = octets.view(kind).reshape(len(positions))
    return found if kind == "<u8" else found.astype(np.int64)


def _offsets_of(slot: Slot) -> tuple[int, ...]:
    """Return the slots of a field: a union has a type before its value."""
    return (slot.offset - 2, slot.offset) if slot.kind is Kind.UNION else (slot.offset,)


def _is_link(slot: Slot, position: int) -> bool:
    return slot.kind is Kind.UNION or (slot.kind is not Kind.SCALAR and position > 0)
