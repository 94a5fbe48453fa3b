"""Rows with an expiry each, as tables that `ttlColumn` and `expireAtColumn` take."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tests.support.client import Delete, Merge, Put, Write

OPS = {Put: "put", Delete: "delete", Merge: "merge"}


def expiring_table(writes: Sequence[Write], *, instants: bool) -> pa.Table:
    """The writes as rows with the columns `op` and `when`: instants of expiry, or TTLs; none is null."""
    ttls = [None if isinstance(write, Delete) else write.ttl for write in writes]
    times = [None if ttl is None else ttl.at_ms if instants else ttl.after_ms for ttl in ttls]
    values = [None if isinstance(write, Delete) else payload(write) for write in writes]
    return pa.table(
        {
            "op": pa.array([OPS[type(write)] for write in writes], pa.string()),
            "key": pa.array([write.key for write in writes], pa.binary()),
            "value": pa.array(values, pa.binary()),
            "when": pa.array(times, pa.timestamp("ms", "UTC") if instants else pa.int64()),
        }
    )


def payload(write: Put | Merge) -> bytes:
    """The value or the operand."""
    return write.value if isinstance(write, Put) else write.operand
