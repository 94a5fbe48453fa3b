"""Rows as values, decoded from columns."""

from __future__ import annotations

from slatespark.format.row import Row, RowKind
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, RowColumns


def columns_to_rows(columns: RowColumns) -> list[Row]:
    """Convert columns to rows, in the same order: the inverse of `rows_to_columns`."""
    rows = []
    for at in range(len(columns)):
        flags = int(columns.flags[at])
        kind = RowKind.of_flags(flags)
        gone = kind is RowKind.DELETE
        rows.append(
            Row(
                key=columns.key(at),
                seq=int(columns.seqs[at]),
                kind=kind,
                value=b"" if gone else columns.value(at),
                create_ts_ms=int(columns.create_ts[at]) if flags & HAS_CREATE else None,
                expire_ts_ms=int(columns.expire_ts[at]) if flags & HAS_EXPIRE and not gone else None,
            )
        )
    return rows
