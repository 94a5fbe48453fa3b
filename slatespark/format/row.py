"""One row version as a value, for merge operands and small data. Bulk data stays in `RowColumns`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, RowColumns


class RowKind(Enum):
    """Kind of a row version."""

    PUT = "put"
    DELETE = "delete"
    MERGE = "merge"

    @classmethod
    def of_flags(cls, flags: int) -> RowKind:
        """Return the kind encoded in row flags."""
        return cls.DELETE if flags & TOMBSTONE else cls.MERGE if flags & MERGE else cls.PUT


@dataclass(frozen=True, slots=True)
class Row:
    """One version of a key; a delete has no value and never expires."""

    key: bytes
    seq: int
    kind: RowKind = RowKind.PUT
    value: bytes = b""
    create_ts_ms: int | None = None
    expire_ts_ms: int | None = None

    def __post_init__(self) -> None:
        if self.kind is RowKind.DELETE and (self.value or self.expire_ts_ms is not None):
            raise ValueError("a delete must not have a value or an expiry")

    @property
    def flags(self) -> int:
        """The flags byte of the row on disk."""
        flags = {RowKind.PUT: 0, RowKind.DELETE: TOMBSTONE, RowKind.MERGE: MERGE}[self.kind]
        flags |= HAS_CREATE if self.create_ts_ms is not None else 0
        return flags | (HAS_EXPIRE if self.expire_ts_ms is not None else 0)


def rows_to_columns(rows: Sequence[Row]) -> RowColumns:
    """Convert rows to columns, in the same order."""
    lengths = np.array([len(row.value) for row in rows], np.int64)
    return RowColumns(
        key_bytes=np.frombuffer(b"".join(row.key for row in rows), np.uint8),
        key_offsets=np.cumsum([0, *(len(row.key) for row in rows)], dtype=np.int64),
        seqs=np.array([row.seq for row in rows], np.uint64),
        flags=np.array([row.flags for row in rows], np.uint8),
        create_ts=np.array([row.create_ts_ms or 0 for row in rows], np.int64),
        expire_ts=np.array([row.expire_ts_ms or 0 for row in rows], np.int64),
        value_bytes=np.frombuffer(b"".join(row.value for row in rows), np.uint8),
        value_starts=np.cumsum(lengths) - lengths,
        value_lengths=lengths,
    )
