"""Merge of sorted sources with the visibility of reads. Semantics: `slatespark.kernels.merge_visible`."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels.columns import (
    GROUP_HEAD,
    GROUP_REST,
    HAS_CREATE,
    HAS_EXPIRE,
    MERGE,
    PLAIN,
    ROW_BITS,
    TOMBSTONE,
    RowColumns,
    Selection,
    Visibility,
)
from slatespark.kernels.lifetimes import reached
from slatespark.kernels.row_ranges import check_row_ranges


def merge_all(sources: Sequence[RowColumns], lows: NDArray[np.int64], highs: NDArray[np.int64]) -> NDArray[np.int64]:
    """See `slatespark.kernels.merge_all`."""
    return np.array([source << ROW_BITS | row for _, _, source, row in _merged(sources, lows, highs)], np.int64)


def merge_visible(
    sources: Sequence[RowColumns], lows: NDArray[np.int64], highs: NDArray[np.int64], visibility: Visibility
) -> Selection:
    """See `slatespark.kernels.merge_visible`."""
    chosen: list[tuple[int, int]] = []
    for _, versions in groupby(_merged(sources, lows, highs), key=itemgetter(0)):
        seen = [
            (source, row)
            for _, seq, source, row in versions
            if -seq <= visibility.max_seq and not _is_later(sources[source], row, visibility.max_create_ts_ms)
        ]
        chosen += _shown(sources, seen, visibility)
    return Selection(
        np.array([packed for packed, _ in chosen], np.int64), np.array([mark for _, mark in chosen], np.uint8)
    )


def _shown(
    sources: Sequence[RowColumns], versions: list[tuple[int, int]], visibility: Visibility
) -> list[tuple[int, int]]:
    """Return (packed row, mark) of the rows shown of one key, given its visible versions newest to oldest."""
    if visibility.all_versions:
        return [(source << ROW_BITS | row, PLAIN) for source, row in versions]
    operands: list[int] = []
    base: list[int] = []
    for source, row in versions:
        packed, flags = source << ROW_BITS | row, int(sources[source].flags[row])
        expired = _is_expired(flags, int(sources[source].expire_ts[row]), visibility)
        if flags & MERGE:
            if not expired:
                operands.append(packed)
            continue
        # A tombstone or put, even if expired, hides older versions.
        if flags & TOMBSTONE:
            return [(packed, PLAIN)] if visibility.include_deleted and not operands else _group(operands)
        if not expired:
            base.append(packed)
        break
    return _group(operands + base) if operands else [(packed, PLAIN) for packed in base]


def _group(rows: list[int]) -> list[tuple[int, int]]:
    return [(packed, GROUP_REST if number else GROUP_HEAD) for number, packed in enumerate(rows)]


def _is_later(rows: RowColumns, row: int, max_create_ts_ms: int | None) -> bool:
    created = bool(int(rows.flags[row]) & HAS_CREATE)
    return created and max_create_ts_ms is not None and int(rows.create_ts[row]) > max_create_ts_ms


def _is_expired(flags: int, expire_ts: int, visibility: Visibility) -> bool:
    return reached(flags, HAS_EXPIRE, expire_ts, visibility.now_ms) and not visibility.include_expired


def _merged(
    sources: Sequence[RowColumns], lows: NDArray[np.int64], highs: NDArray[np.int64]
) -> Iterator[tuple[bytes, int, int, int]]:
    """Yield (key, -seq, source, row) in ascending order."""
    check_row_ranges(sources, lows, highs)

    def cursor(number: int) -> Iterator[tuple[bytes, int, int, int]]:
        rows = sources[number]
        for row in range(int(lows[number]), int(highs[number])):
            yield rows.key(row), -int(rows.seqs[row]), number, row

    return heapq.merge(*map(cursor, range(len(sources))))
