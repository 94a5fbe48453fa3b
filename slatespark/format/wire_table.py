"""WireTable: a table of a verified flatbuffer, read in place.

The accessors of generated code search the vtable on every access, through three calls. A manifest of 10,000 files has
60,000 tables. `WireTable` unpacks the vtable once per table, mostly from a cache. Generated code only builds tables.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final, Self
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from slatespark.format.codecs import Buffer
from slatespark.format.schemas import ULID
from slatespark.format.ulid import Ulid
from slatespark.format.verifier import Table

MAX_FIELDS: Final = 64
_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")
_I8 = struct.Struct("<b")
_U64 = struct.Struct("<Q")
_I64 = struct.Struct("<q")
_HIGH, _LOW = ULID.field_numbers["high"], ULID.field_numbers["low"]  # as in a UUID
_HALF_BITS: Final = 64


def field_numbers(table: Table, *names: str) -> tuple[int, ...]:
    """Return the numbers of fields, as `WireTable` expects them."""
    return tuple(table.field_numbers[name] for name in names)


def uuid_of_halves(high: int, low: int) -> UUID:
    """Return the UUID with these upper and lower 64 bits."""
    return UUID(int=high << _HALF_BITS | low)


class WireTable:
    """Fields of one table by number, see `field_numbers`; absent fields have the stated default.

    Requires: `verify` has accepted the buffer, with this table at `at`.
    """

    __slots__ = ("_at", "_buffer", "_positions")

    def __init__(self, buffer: Buffer, at: int) -> None:
        vtable = at - _I32.unpack_from(buffer, at)[0]
        (size,) = _U16.unpack_from(buffer, vtable)
        self._buffer, self._at = buffer, at
        self._positions = _positions_of(bytes(buffer[vtable : vtable + size]))

    @classmethod
    def root(cls, buffer: Buffer) -> Self:
        """Return the table that a buffer begins with a reference to."""
        return cls(buffer, _U32.unpack_from(buffer)[0])

    def i8(self, field: int) -> int:
        """Return a signed byte; 0 by default."""
        position = self._positions[field]
        return int(_I8.unpack_from(self._buffer, self._at + position)[0]) if position else 0

    def u8(self, field: int) -> int:
        """Return a byte, such as the type of a union; 0 by default."""
        position = self._positions[field]
        return int(self._buffer[self._at + position]) if position else 0

    def u16(self, field: int) -> int | None:
        """Return 16 bits; None by default."""
        position = self._positions[field]
        return int(_U16.unpack_from(self._buffer, self._at + position)[0]) if position else None

    def u32(self, field: int) -> int:
        """Return 32 bits; 0 by default."""
        position = self._positions[field]
        return int(_U32.unpack_from(self._buffer, self._at + position)[0]) if position else 0

    def u64(self, field: int) -> int:
        """Return 64 bits; 0 by default."""
        position = self._positions[field]
        return int(_U64.unpack_from(self._buffer, self._at + position)[0]) if position else 0

    def i64(self, field: int) -> int:
        """Return signed 64 bits; 0 by default."""
        position = self._positions[field]
        return int(_I64.unpack_from(self._buffer, self._at + position)[0]) if position else 0

    def text(self, field: int) -> str | None:
        """Return a string; None by default."""
        octets = self.octets(field)
        return None if octets is None else octets.decode("utf-8")

    def u32s(self, field: int) -> tuple[int, ...]:
        """Return a vector of 32 bits each; empty by default."""
        at = self.target(field)
        return () if at is None else struct.unpack_from(f"<{self.count(field)}I", self._buffer, at + _U32.size)

    def octets(self, field: int) -> bytes | None:
        """Return a vector of bytes; None by default."""
        span = self.octets_span(field)
        return None if span is None else bytes(self._buffer[span[0] : span[0] + span[1]])

    def octets_span(self, field: int) -> tuple[int, int] | None:
        """Return offset and length of a vector of bytes; None by default."""
        at = self.target(field)
        return None if at is None else (at + _U32.size, int(_U32.unpack_from(self._buffer, at)[0]))

    @property
    def layout(self) -> int:
        """The offset of the vtable."""
        return self._at - int(_I32.unpack_from(self._buffer, self._at)[0])

    def position(self, field: int) -> int | None:
        """Return the offset of a field; None if it is absent."""
        position = self._positions[field]
        return self._at + position if position else None

    def find(self, field: int) -> WireTable | None:
        """Return a table; None by default."""
        at = self.target(field)
        return None if at is None else WireTable(self._buffer, at)

    def table(self, field: int) -> WireTable:
        """Return a required table."""
        at = self.target(field)
        assert at is not None
        return WireTable(self._buffer, at)

    def find_ulid(self, field: int) -> Ulid | None:
        """Return a ULID; None by default."""
        table = self.find(field)
        return None if table is None else table.as_ulid()

    def ulid(self, field: int) -> Ulid:
        """Return a required ULID."""
        return self.table(field).as_ulid()

    def find_uuid(self, field: int) -> UUID | None:
        """Return a UUID; None by default."""
        table = self.find(field)
        return None if table is None else table.as_uuid()

    def uuid(self, field: int) -> UUID:
        """Return a required UUID."""
        return self.table(field).as_uuid()

    def as_ulid(self) -> Ulid:
        """Return the table, which is a ULID."""
        return Ulid.from_halves(self.u64(_HIGH), self.u64(_LOW))

    def as_uuid(self) -> UUID:
        """Return the table, which is a UUID."""
        return uuid_of_halves(self.u64(_HIGH), self.u64(_LOW))

    def count(self, field: int) -> int:
        """Return the length of a vector; 0 by default."""
        at = self.target(field)
        return 0 if at is None else int(_U32.unpack_from(self._buffer, at)[0])

    def tables(self, field: int) -> list[WireTable]:
        """Return a vector of tables; empty by default."""
        buffer, positions = self.vector(field)
        return [WireTable(buffer, at) for at in positions.tolist()]

    def vector(self, field: int) -> tuple[Buffer, NDArray[np.int64]]:
        """Return the buffer, and the offset in it of each table of a vector; empty by default."""
        at = self.target(field)
        if at is None:
            return self._buffer, np.zeros(0, np.int64)
        (count,) = _U32.unpack_from(self._buffer, at)
        positions = at + _U32.size + _U32.size * np.arange(count, dtype=np.int64)
        return self._buffer, positions + np.frombuffer(self._buffer, "<u4", count, at + _U32.size)

    @property
    def positions(self) -> tuple[int, ...]:
        """The offset of each field in the table, 0 if it is absent."""
        return self._positions

    def target(self, field: int) -> int | None:
        """Return the offset of the target of a reference; None if it is absent."""
        position = self._positions[field]
        if not position:
            return None
        at = self._at + position
        return at + int(_U32.unpack_from(self._buffer, at)[0])


@lru_cache(maxsize=1024)
def _positions_of(vtable: bytes) -> tuple[int, ...]:
    """Return the offset of each field in its table, 0 if it is absent."""
    found: tuple[int, ...] = struct.unpack(f"<{len(vtable) // _U16.size}H", vtable)
    return found + (0,) * max(0, MAX_FIELDS - len(found))
