"""Merge of sorted sources with the visibility of reads, compiled. Semantics: `slatespark.kernels.merge_visible`.

A loser tree with one cursor per source. A cursor caches the 8 bytes of its key after the common prefix of all keys, as
a big-endian word, which decides most comparisons.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels._compile import Kernel, called, inlined
from slatespark.kernels._lifetimes import has_reached
from slatespark.kernels._native import (
    common_prefix,
    compare,
    load8,
    load64,
    load_word,
    prefetch,
    prefix_word,
    store8,
    store64,
    store_word,
)
from slatespark.kernels._sources import (
    CREATE_TS,
    EXPIRE_TS,
    FLAGS,
    KEY_OFFSETS,
    LINE_BYTES,
    SEQS,
    address_of,
    source_table,
)
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
from slatespark.kernels.gather import key_of
from slatespark.kernels.row_ranges import check_row_ranges

# Byte offsets in a cursor. Word, key and size describe the key after the common prefix; the size is -1 at the end.
_ROW, _HIGH, _WORD, _KEY, _SIZE, _LINE, _SOURCE, _LEAF = range(0, 64, 8)
_CURSOR_FIELDS: Final = 8
_AHEAD_BYTES: Final = 128  # how far ahead of the cursor memory is fetched

_INCLUDE_EXPIRED: Final = 1
_INCLUDE_DELETED: Final = 2
_ALL_VERSIONS: Final = 4
_AS_OF: Final = 8

_MAX_SEQ: Final = 0xFFFF_FFFF_FFFF_FFFF
_LAST_WORD: Final = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


def merge_visible(
    sources: Sequence[RowColumns], lows: NDArray[np.int64], highs: NDArray[np.int64], visibility: Visibility
) -> Selection:
    """See `slatespark.kernels.merge_visible`."""
    options = (
        _INCLUDE_EXPIRED * visibility.include_expired
        | _INCLUDE_DELETED * visibility.include_deleted
        | _ALL_VERSIONS * visibility.all_versions
        | _AS_OF * (visibility.max_create_ts_ms is not None)
    )
    shown = (visibility.max_seq, visibility.now_ms, visibility.max_create_ts_ms or 0, options)
    return _selected(sources, lows, highs, shown)


def merge_all(sources: Sequence[RowColumns], lows: NDArray[np.int64], highs: NDArray[np.int64]) -> NDArray[np.int64]:
    """See `slatespark.kernels.merge_all`."""
    return _selected(sources, lows, highs, (_MAX_SEQ, 0, 0, _ALL_VERSIONS)).rows


def _selected(
    sources: Sequence[RowColumns],
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    shown: tuple[int, int, int, int],
) -> Selection:
    check_row_ranges(sources, lows, highs)
    max_seq, *bounds = shown
    seq_bits = int(np.uint64(min(max_seq, _MAX_SEQ)).astype(np.int64)) if max_seq >= 0 else 0
    visible = seq_bits, *bounds
    table = source_table(sources)
    room = int((highs - lows).sum()) if max_seq >= 0 else 0
    selection = Selection(np.empty(room, np.int64), np.empty(room, np.uint8))
    chosen = 0
    for group, shared in _overlapping(sources, lows.tolist(), highs.tolist()) if room else []:
        cursors = np.zeros((len(group), _CURSOR_FIELDS), np.int64)
        numbers = np.array(group, np.int64)
        cursors[:, _ROW // 8], cursors[:, _HIGH // 8] = lows[numbers], highs[numbers]
        cursors[:, _LINE // 8] = address_of(table) + numbers * LINE_BYTES
        cursors[:, _SOURCE // 8] = numbers << ROW_BITS
        cursors[:, _LEAF // 8] = np.arange(len(group))
        tree = np.zeros(len(group), np.int64)
        rows_at, marks_at = address_of(selection.rows) + 8 * chosen, address_of(selection.marks) + chosen
        chosen += _merge(address_of(cursors), len(group), address_of(tree), shared, *visible, rows_at, marks_at)
    return Selection(selection.rows[:chosen], selection.marks[:chosen])


def _overlapping(sources: Sequence[RowColumns], lows: list[int], highs: list[int]) -> list[tuple[list[int], int]]:
    """Return non-overlapping groups of sources in key order, with the length of the common key prefix of each."""
    ends = [
        (rows.key(low), rows.key(high - 1), number)
        for number, (rows, low, high) in enumerate(zip(sources, lows, highs, strict=True))
        if low < high
    ]
    groups: list[tuple[list[int], bytes, bytes]] = []
    for first, last, number in sorted(ends):
        if groups and first <= groups[-1][2]:
            members, start, end = groups[-1]
            groups[-1] = ([*members, number], start, max(end, last))
        else:
            groups.append(([number], first, last))
    return [(sorted(members), _shared_bytes(start, end)) for members, start, end in groups]


def _shared_bytes(left: bytes, right: bytes) -> int:
    shared = 0
    while shared < min(len(left), len(right)) and left[shared] == right[shared]:
        shared += 1
    return shared


@inlined
def _load_head(cursor: int, row: int, skip: int) -> None:
    """Move the cursor to a row, or to its end."""
    store64(cursor + _ROW, row)
    if row >= load64(cursor + _HIGH):
        store64(cursor + _SIZE, -1)
        store_word(cursor + _WORD, _LAST_WORD)
        return
    line = load64(cursor + _LINE)
    key, size = key_of(line, row)
    # With many sources the processor does not see by itself that each is read in order.
    prefetch(key + _AHEAD_BYTES)
    prefetch(load64(line + KEY_OFFSETS) + 8 * row + _AHEAD_BYTES)
    prefetch(load64(line + SEQS) + 8 * row + _AHEAD_BYTES)
    key, size = key + skip, max(size - skip, 0)  # negative only if the source is not sorted
    store64(cursor + _KEY, key)
    store64(cursor + _SIZE, size)
    store_word(cursor + _WORD, prefix_word(key, size))


@inlined
def _is_before(left: int, right: int) -> bool:
    """Tell whether the row of one cursor sorts before that of another."""
    left_word, right_word = load_word(left + _WORD), load_word(right + _WORD)
    if left_word != right_word:
        return bool(left_word < right_word)
    return _is_before_at_tie(left, right) != 0


@called
def _is_before_at_tie(left: int, right: int) -> int:
    """Compare two cursors with equal words."""
    left_size, right_size = load64(left + _SIZE), load64(right + _SIZE)
    if left_size < 0 or right_size < 0:
        return 1 if left_size >= 0 else 0
    # If the words are equal and one key ends within them, the shorter key is a prefix of the other.
    difference = left_size - right_size
    if min(left_size, right_size) > 8:
        difference = compare(load64(left + _KEY) + 8, left_size - 8, load64(right + _KEY) + 8, right_size - 8)
    if difference == 0:
        left_seq, right_seq = _seq_of(left), _seq_of(right)
        if left_seq == right_seq:
            return 1 if load64(left + _SOURCE) < load64(right + _SOURCE) else 0
        return 1 if left_seq > right_seq else 0
    return 1 if difference < 0 else 0


@inlined
def _seq_of(cursor: int) -> np.uint64:
    return load_word(load64(load64(cursor + _LINE) + SEQS) + 8 * load64(cursor + _ROW))


@inlined
def _replay(winner: int, cursors: int, tree: int) -> int:
    """Replay a cursor from its leaf to the root and return the overall winner."""
    node = (load64(winner + _LEAF) + cursors) >> 1
    while node > 0:
        other = load64(tree + 8 * node)
        if other == 0:  # empty while the tree is being built
            store64(tree + 8 * node, winner)
            return 0
        if _is_before(other, winner):
            store64(tree + 8 * node, winner)
            winner = other
        node >>= 1
    return winner


@Kernel
def _merge(  # noqa: C901
    cursor_table: int,
    cursors: int,
    tree: int,
    skip: int,
    max_seq_bits: int,
    now_ms: int,
    max_create_ms: int,
    options: int,
    rows_out: int,
    marks_out: int,
) -> int:
    """Write the visible rows and their marks; return their number."""
    max_seq = np.uint64(max_seq_bits)
    winner = 0
    for leaf in range(cursors):
        cursor = cursor_table + leaf * 8 * _CURSOR_FIELDS
        _load_head(cursor, load64(cursor + _ROW), skip)
        winner = _replay(cursor, cursors, tree)
    alive = cursors
    chosen = 0
    current, current_size, current_word = 0, -1, _LAST_WORD
    decided, operands = False, 0
    while alive > 0:
        row, line = load64(winner + _ROW), load64(winner + _LINE)
        if load_word(load64(line + SEQS) + 8 * row) <= max_seq and (
            options & _AS_OF == 0
            or load64(load64(line + CREATE_TS) + 8 * row) <= max_create_ms
            or load8(load64(line + FLAGS) + row) & HAS_CREATE == 0
        ):
            mark = -1
            if options & _ALL_VERSIONS:
                mark = PLAIN
            else:
                key, size, word = load64(winner + _KEY), load64(winner + _SIZE), load_word(winner + _WORD)
                if (
                    size != current_size
                    or word != current_word
                    or (size > 8 and common_prefix(key + 8, current + 8, size - 8) != size - 8)
                ):
                    current, current_size, current_word = key, size, word
                    decided, operands = False, 0
                if not decided:
                    flags = load8(load64(line + FLAGS) + row)
                    expired = options & _INCLUDE_EXPIRED == 0 and has_reached(
                        flags, HAS_EXPIRE, line + EXPIRE_TS, row, now_ms
                    )
                    if flags & MERGE:
                        if not expired:
                            mark = GROUP_REST if operands else GROUP_HEAD
                            operands += 1
                    else:
                        decided = True  # a tombstone or put, even if expired, hides older versions
                        if flags & TOMBSTONE:
                            if options & _INCLUDE_DELETED and operands == 0:
                                mark = PLAIN
                        elif not expired:
                            mark = GROUP_REST if operands else PLAIN
            if mark >= 0:
                store64(rows_out + 8 * chosen, load64(winner + _SOURCE) + row)
                store8(marks_out + chosen, mark)
                chosen += 1
        _load_head(winner, row + 1, skip)
        ended = load64(winner + _SIZE) < 0
        if ended:
            alive -= 1
        if alive > 1 or ended:  # a single remaining cursor needs no comparison
            winner = _replay(winner, cursors, tree)
    return chosen
