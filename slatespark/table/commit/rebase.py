"""Rebase: move the rows of unpublished files above the rows of other commits.

See docs/explanation/editing-a-manifest.md, docs/explanation/how-conflicts-are-found.md.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from slatespark.errors import CommitConflictError
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, TOMBSTONE, RowColumns
from slatespark.log_lines import log_event
from slatespark.options import WriteOptions
from slatespark.table.clock import Clock
from slatespark.table.read.merge.cursor import Window, layer_windows, window_size
from slatespark.table.rows.sorted_rows import SortedRows
from slatespark.table.rows.sst_upload import NewFile, new_layer, upload_sorted
from slatespark.table.stores import TableStores
from slatespark.units import MAX_MS

_log = logging.getLogger(__name__)


def rebase_outputs(
    stores: TableStores,
    outputs: Sequence[tuple[NewFile, ...]],
    options: WriteOptions,
    clock: Clock,
    *,
    by_seq: int,
    by_ms: int,
    planned_ms: int,
    moves_expiry: bool = True,
    latest_expire_ms: int | None = None,
) -> tuple[tuple[NewFile, ...], ...]:
    """Rewrite all files of a job with higher sequence numbers and later times.

    Parameters
    ----------
    outputs : per task, in key order
    by_seq : added to every seq
    by_ms : added to every create_ts, and to every expire_ts, which is relative to it; 0 if rows have fixed times
    planned_ms : time part of the new file ids
    moves_expiry : False if no expire_ts is relative to its create_ts, so that all of them stay
    latest_expire_ms : no row expires later than that afterwards; None without such a bound

    Raises
    ------
    CommitConflictError
        When this would rewrite more than `commitRewriteLimit`.
    """
    check_rewritable(stores, outputs, options)
    stored_bytes = sum(file.size for files in outputs for file in files)
    log_event(_log, "rebase", stores.url, files=sum(map(len, outputs)), bytes=stored_bytes, by_seq=by_seq)
    shift = RowShift(by_seq, by_ms, by_ms if moves_expiry else 0, latest_expire_ms)
    return tuple(
        tuple(renewed for file in files for renewed in _rewrite(stores, file, options, clock, shift, planned_ms))
        for files in outputs
    )


def check_rewritable(stores: TableStores, outputs: Sequence[tuple[NewFile, ...]], options: WriteOptions) -> None:
    """Raise `CommitConflictError` if the files of a job have more bytes than `commitRewriteLimit`."""
    total_bytes = sum(file.size for files in outputs for file in files)
    if total_bytes > options.rewrite_limit_bytes:
        raise CommitConflictError(
            f"{stores.url}: another commit came first, and the {total_bytes} bytes of this write, which have to be "
            f"rewritten above it, exceed commitRewriteLimit ({options.rewrite_limit_bytes}).",
            todo="Write again, or raise commitRewriteLimit.",
        )


@dataclass(frozen=True, slots=True)
class RowShift:
    """The offsets added to every seq, create_ts and expire_ts; and the latest expire_ts then, None for any."""

    seq: int
    create_ms: int
    expire_ms: int
    latest_expire_ms: int | None = None


def _rewrite(
    stores: TableStores, file: NewFile, options: WriteOptions, clock: Clock, shift: RowShift, planned_ms: int
) -> tuple[NewFile, ...]:
    windows = layer_windows(stores, new_layer(file), window_size(options.write_buffer_bytes, 1))
    return upload_sorted(stores.main, _moved(windows, shift), options, clock, planned_ms)


def _moved(windows: Iterable[Window], shift: RowShift) -> Iterator[SortedRows]:
    for window in windows:
        move_rows(window.rows, window.low, window.high, shift)
        yield SortedRows([window.rows], window.indices)


def move_rows(rows: RowColumns, low: int, high: int, shift: RowShift) -> None:
    """Move rows [low, high), in place; the others may belong to another window."""
    part = slice(low, high)
    flags, expire_ts = rows.flags[part], rows.expire_ts[part]
    rows.seqs[part] += np.uint64(shift.seq)
    rows.create_ts[part][(flags & HAS_CREATE) != 0] += _wrapped(shift.create_ms)
    expires = (flags & HAS_EXPIRE) != 0
    # Overflow means no expiry, as when a TTL is added to a create_ts.
    never = expires & (expire_ts > min(MAX_MS, MAX_MS - shift.expire_ms))
    expire_ts[expires & ~never] += _wrapped(shift.expire_ms)
    flags[never] &= np.uint8(~HAS_EXPIRE & 0xFF)
    expire_by(rows, shift.latest_expire_ms, part)


def expire_by(rows: RowColumns, latest_ms: int | None, part: slice = slice(None)) -> None:
    """Let some rows expire at an instant at the latest, in place; None changes nothing."""
    if latest_ms is None:
        return
    flags, expire_ts = rows.flags[part], rows.expire_ts[part]
    live, expires = (flags & TOMBSTONE) == 0, (flags & HAS_EXPIRE) != 0
    expire_ts[:] = np.where(live, np.where(expires, np.minimum(expire_ts, latest_ms), latest_ms), 0)
    flags[live] |= np.uint8(HAS_EXPIRE)


def _wrapped(by_ms: int) -> np.int64:
    """Return `by_ms` modulo 2^64: sums of times fit 64 bits even if the distance of two times does not."""
    return np.int64((by_ms + MAX_MS + 1) % (2 * MAX_MS + 2) - MAX_MS - 1)
