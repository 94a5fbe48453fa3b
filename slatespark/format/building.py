"""Parts common to several flatbuffers, added to a builder: ids, vectors of tables and of numbers."""

# mypy: untyped-calls-exclude="slatespark.format._generated"

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

import flatbuffers
import numpy as np

from slatespark.format._generated import Ulid as UlidTable
from slatespark.format._generated import Uuid as UuidTable
from slatespark.format.ulid import Ulid

_HALF_BITS = 64
_LOW_MASK = (1 << _HALF_BITS) - 1


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
