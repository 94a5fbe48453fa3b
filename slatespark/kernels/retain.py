"""The versions of each key that a compaction keeps, compiled. Semantics: `slatespark.kernels.retain_versions`."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels._compile import Kernel, called, inlined
from slatespark.kernels._lifetimes import has_reached
from slatespark.kernels._native import load8, load64, load_word, store8, store64
from slatespark.kernels._sources import address_of, checked_address
from slatespark.kernels.columns import (
    DROPPED,
    GROUP_HEAD,
    GROUP_REST,
    HAS_CREATE,
    HAS_EXPIRE,
    MERGE,
    PLAIN,
    TO_TOMBSTONE,
    TOMBSTONE,
    Retention,
)
from slatespark.kernels.results import Fields, Retained

_HAS_NOW: Final = 1
_HAS_FLOOR: Final = 2
_HAS_RETIRED: Final = 4
_DROPS_TOMBSTONES: Final = 8

# Byte offsets in the argument record of `_retain`: addresses of arrays, and bounds.
_SEQS, _FLAGS, _CREATE_TS, _EXPIRE_TS, _MARKS, _MIN_SEQ, _NOW, _FLOOR, _RETIRED, _OPTIONS, _OUTDATED = range(0, 88, 8)

_KINDS: Final = MERGE | TOMBSTONE


def retain_versions(fields: Fields, first: NDArray[np.bool_], retention: Retention) -> Retained:
    """See `slatespark.kernels.retain_versions`."""
    count = len(first)
    marks = np.empty(count, np.uint8)
    options = (
        _HAS_NOW * (retention.now_ms is not None)
        | _HAS_FLOOR * (retention.floor_ms is not None)
        | _HAS_RETIRED * (retention.retired_ms is not None)
        | _DROPS_TOMBSTONES * retention.drops_tombstones
    )
    call = np.array(
        [
            checked_address(fields.seqs, np.uint64, count),
            checked_address(fields.flags, np.uint8, count),
            checked_address(fields.create_ts, np.int64, count),
            checked_address(fields.expire_ts, np.int64, count),
            address_of(marks),
            int(np.uint64(retention.min_seq).astype(np.int64)),
            retention.now_ms or 0,
            retention.floor_ms or 0,
            retention.retired_ms or 0,
            options,
            0,
        ],
        np.int64,
    )
    _retain(address_of(call), checked_address(first, np.bool_, count), count)
    return Retained(marks, int(call[-1]))


@inlined
def _flags_of(call: int, row: int) -> int:
    return load8(load64(call + _FLAGS) + row)


@inlined
def _mark_of(call: int, row: int) -> int:
    return load8(load64(call + _MARKS) + row)


@inlined
def _mark(call: int, row: int, mark: int) -> None:
    store8(load64(call + _MARKS) + row, mark)


@inlined
def _is_above_floor(call: int, row: int) -> bool:
    """Tell whether a version was created after the floor."""
    return (
        load64(call + _OPTIONS) & _HAS_FLOOR != 0
        and _flags_of(call, row) & HAS_CREATE != 0
        and load64(load64(call + _CREATE_TS) + 8 * row) > load64(call + _FLOOR)
    )


@inlined
def _is_protected(call: int, row: int) -> bool:
    """Tell whether a version is kept regardless of newer versions."""
    seq = load_word(load64(call + _SEQS) + 8 * row)
    return bool(seq > load_word(call + _MIN_SEQ)) or _is_above_floor(call, row)


@inlined
def _is_expired(call: int, row: int) -> bool:
    return (
        load64(call + _OPTIONS) & _HAS_NOW != 0
        and has_reached(_flags_of(call, row), HAS_EXPIRE, call + _EXPIRE_TS, row, load64(call + _NOW))
        and not _is_above_floor(call, row)
    )


@inlined
def _is_past_retention(call: int, row: int) -> bool:
    """Tell whether a version is past retention."""
    return has_reached(_flags_of(call, row), HAS_CREATE, call + _CREATE_TS, row, load64(call + _RETIRED))


@inlined
def _expires_alike(call: int, row: int, other: int) -> bool:
    if (_flags_of(call, row) ^ _flags_of(call, other)) & HAS_EXPIRE != 0:
        return False
    if _flags_of(call, row) & HAS_EXPIRE == 0:
        return True
    expire_ts = load64(call + _EXPIRE_TS)
    return load64(expire_ts + 8 * row) == load64(expire_ts + 8 * other)


@inlined
def _folds_with(call: int, row: int, other: int) -> bool:
    """Tell whether an older version folds with the operand `row`."""
    return _expires_alike(call, row, other) and not _is_protected(call, other)


@called
def _end_of_operands(call: int, row: int, end: int) -> int:
    """Return the end of the operands that fold with the operand `row`, the newest of them."""
    reach = row + 1
    while reach < end and _flags_of(call, reach) & MERGE != 0 and _folds_with(call, row, reach):
        reach += 1
    return reach


@called
def _decide(call: int, start: int, end: int) -> int:
    """Mark the versions of a key: hidden ones, expired ones, and groups that fold."""
    row, is_hidden = start, False
    while row < end:
        is_operand = _flags_of(call, row) & MERGE != 0
        protected = _is_protected(call, row)
        reach, is_base = row + 1, not is_operand
        if is_operand and not protected:
            reach = _end_of_operands(call, row, end)
            if reach < end and _flags_of(call, reach) & MERGE == 0 and _folds_with(call, row, reach):
                reach, is_base = reach + 1, True
        head, rest = PLAIN, GROUP_REST
        if is_hidden and not protected:
            head, rest = DROPPED, DROPPED
        else:
            if _is_expired(call, row):
                head, rest = TO_TOMBSTONE if is_base else DROPPED, DROPPED
                store64(call + _OUTDATED, load64(call + _OUTDATED) + reach - row)
            elif reach > row + 1:
                head = GROUP_HEAD
            is_hidden = is_hidden or (is_base and not protected)
        _mark(call, row, head)
        for other in range(row + 1, reach):
            _mark(call, other, rest)
        row = reach
    return 0


@called
def _drop_retired(call: int, start: int, end: int) -> int:
    """Drop what is past retention: the whole key, or everything below its visible group."""
    row, group_retired, rest_retired = start, True, True
    while row < end:
        mark = _mark_of(call, row)
        if mark != DROPPED:
            group_retired = group_retired and _is_past_retention(call, row)
            if mark == TO_TOMBSTONE or _flags_of(call, row) & MERGE == 0:
                row += 1
                break
        row += 1
    rest = row
    while row < end:
        rest_retired = rest_retired and (_mark_of(call, row) == DROPPED or _is_past_retention(call, row))
        row += 1
    if rest_retired:
        _drop(call, start if group_retired else rest, end)
    return 0


@called
def _drop(call: int, start: int, end: int) -> int:
    """Drop versions; the oldest one becomes a tombstone if older versions may lie below."""
    is_covered = load64(call + _OPTIONS) & _DROPS_TOMBSTONES != 0
    row = end - 1
    while row >= start:
        mark = _mark_of(call, row)
        if mark != DROPPED:
            is_tombstone = _flags_of(call, row) & TOMBSTONE != 0
            if not is_tombstone and mark != TO_TOMBSTONE:
                store64(call + _OUTDATED, load64(call + _OUTDATED) + 1)
            _mark(call, row, DROPPED if is_covered or mark == GROUP_REST else PLAIN if is_tombstone else TO_TOMBSTONE)
            is_covered = is_covered or mark != GROUP_REST
        row -= 1
    return 0


@called
def _drop_tombstones(call: int, start: int, end: int) -> int:
    """Drop the oldest tombstones of a key."""
    row = end - 1
    while row >= start:
        mark = _mark_of(call, row)
        if mark != DROPPED:
            is_tombstone = mark == TO_TOMBSTONE or (mark == PLAIN and _flags_of(call, row) & TOMBSTONE != 0)
            if not is_tombstone or _is_above_floor(call, row):
                break
            _mark(call, row, DROPPED)
        row -= 1
    return 0


@Kernel
def _retain(call: int, first: int, count: int) -> int:
    """Write the mark of every row."""
    options = load64(call + _OPTIONS)
    start = 0
    while start < count:
        end = start + 1
        while end < count and load8(first + end) == 0:
            end += 1
        # Most keys have one version, which is kept unchanged.
        if end == start + 1 and _flags_of(call, start) & _KINDS == 0 and not _is_expired(call, start):
            _mark(call, start, PLAIN)
        else:
            _decide(call, start, end)
        if options & _HAS_RETIRED != 0:
            _drop_retired(call, start, end)
        if options & _DROPS_TOMBSTONES != 0:
            _drop_tombstones(call, start, end)
        start = end
    return 0
