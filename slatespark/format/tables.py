"""Parts common to several flatbuffers: byte vectors, ids, vectors of tables. For verified buffers only."""

# mypy: untyped-calls-exclude="slatespark.format._generated"

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar
from uuid import UUID

import flatbuffers
import numpy as np
from numpy.typing import NDArray

from slatespark.errors import UnsupportedFormatError
from slatespark.format._generated import Ulid as UlidTable
from slatespark.format._generated import Uuid as UuidTable
from slatespark.format.ulid import Ulid
from slatespark.format.wire_table import WireTable, field_numbers
from slatespark.format.wire_tables import ULID

T = TypeVar("T")

_HIGH, _LOW = field_numbers(ULID, "high", "low")
_HALF_BITS = 64
_LOW_MASK = (1 << _HALF_BITS) - 1


def bytes_of(values: NDArray[np.uint8] | int) -> bytes | None:
    """Return the bytes of an `...AsNumpy()` accessor, None if the vector is absent (flatc returns 0)."""
    return None if isinstance(values, int) else values.tobytes()


def text_of(value: bytes | None) -> str | None:
    """Return the text of a string accessor, None if it is absent."""
    return None if value is None else value.decode("utf-8")


def items_of(count: int, item: Callable[[int], T | None]) -> list[T]:
    """Return the elements of a vector of tables, given its length and its element accessor."""
    return [element for number in range(count) if (element := item(number)) is not None]


def ulid_of(table: UlidTable.Ulid) -> Ulid:
    """Decode a ULID from a generated table."""
    return ulid_at(WireTable.of(table))


def ulid_at(table: WireTable) -> Ulid:
    """Decode a ULID."""
    return Ulid.from_halves(table.u64(_HIGH), table.u64(_LOW))


def uuid_of(table: UuidTable.Uuid) -> UUID:
    """Decode a UUID from a generated table."""
    return uuid_at(WireTable.of(table))


def uuid_at(table: WireTable) -> UUID:
    """Decode a UUID."""
    return uuid_from_halves(table.u64(_HIGH), table.u64(_LOW))


def uuid_from_halves(high: int, low: int) -> UUID:
    """Return the UUID with these upper and lower 64 bits."""
    return UUID(int=high << _HALF_BITS | low)


def put_ulid(builder: flatbuffers.Builder, ulid: Ulid) -> int:
    """Add a ULID; returns its offset."""
    UlidTable.Start(builder)
    UlidTable.AddHigh(builder, ulid.high)
    UlidTable.AddLow(builder, ulid.low)
    return int(UlidTable.End(builder))


def halves_of(uuid: UUID) -> tuple[int, int]:
    """Return the upper and lower 64 bits of a UUID."""
    return uuid.int >> _HALF_BITS, uuid.int & _LOW_MASK


def put_uuid(builder: flatbuffers.Builder, uuid: UUID) -> int:
    """Add a UUID; returns its offset."""
    high, low = halves_of(uuid)
    UuidTable.Start(builder)
    UuidTable.AddHigh(builder, high)
    UuidTable.AddLow(builder, low)
    return int(UuidTable.End(builder))


def put_offsets(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    """Add a vector of previously added tables; returns its offset."""
    count = len(offsets)
    builder.StartVector(4, count, 4)
    if count:  # all at once: a reference counts from its own place to the table, and both from the end of the buffer
        positions = builder.Offset() + 4 * np.arange(count, 0, -1)
        builder.head -= 4 * count
        builder.Bytes[builder.head : builder.head + 4 * count] = (
            (positions - np.asarray(offsets)).astype("<u4").tobytes()
        )
    return int(builder.EndVector())


def put_ulids(builder: flatbuffers.Builder, ulids: Iterable[Ulid]) -> int:
    """Add a vector of ULIDs; returns its offset."""
    return put_offsets(builder, [put_ulid(builder, ulid) for ulid in ulids])


def put_u32s(builder: flatbuffers.Builder, numbers: Sequence[int]) -> int:
    """Add a vector of unsigned 32-bit numbers; returns its offset."""
    builder.StartVector(4, len(numbers), 4)
    for number in reversed(numbers):
        builder.PrependUint32(number)
    return int(builder.EndVector())


def refuse_unknown_fields(names: Collection[str], what: str) -> None:
    """Refuse to encode an object that had fields we do not know: they would be erased without a word.

    Parameters
    ----------
    names : names of the fields, as `verify` returns them
    what : the object, at the start of the sentence
    """
    if names:
        raise UnsupportedFormatError(
            f"{what} has fields that this release does not know: {', '.join(sorted(names))}.",
            why="A newer SlateDB client wrote it, and writing it again would erase them.",
            todo="Upgrade slatespark, or write with that client.",
        )
