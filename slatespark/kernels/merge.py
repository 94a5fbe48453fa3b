"""Merge of sorted sources with the visibility of reads, compiled. Semantics: `slatespark.kernels.merge_visible`.

A loser tree with one cursor per source. A cursor has the code of its key, relative to a key that comes before it: the
number of the first 7 bytes in which they differ, and these 7 bytes. Of two codes relative to the same key the smaller
one belongs to the smaller key, so that keys are compared only where their codes are equal; then the code of the loser
becomes relative to the winner. Once a key has won, all that lost to it have codes relative to it. So long prefixes that
keys share are seldom compared twice. Method: Do and Graefe, "Robust and efficient sorting with offset-value coding",
2023.
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

# Byte offsets in a cursor. Code, key and size describe the key after the common prefix; the size is -1 at the end.
_ROW, _HIGH, _CODE, _KEY, _SIZE, _LINE, _SOURCE, _LEAF = range(0, 64, 8)
_CURSOR_FIELDS: Final = 8
_AHEAD_BYTES: Final = 128  # how far ahead of the cursor memory is fetched

_INCLUDE_EXPIRED: Final = 1
_INCLUDE_DELETED: Final = 2
_ALL_VERSIONS: Final = 4
_AS_OF: Final = 8

_MAX_SEQ: Final = 0xFFFF_FFFF_FFFF_FFFF
_LAST_CODE: Final = np.uint64(0xFFFF_FFFF_FFFF_FFFF)

# A code: 255 less the number of the part, then the part. Numbers from 254 on do not fit: those are `_FAR`, as are
# keys that are equal, or differ in zeros at the end.
_PART_BYTES: Final = 7
_PART_BITS: Final = np.uint64(56)
_FAR_PART: Final = 254
_FAR: Final = np.uint64(1 << 56)
_BYTE_BITS: Final = np.uint64(8)


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
        rows_at, marks_at = address_of(selection.rows) + 8 * chosen, address_of(selection.marks) + chosen
        if len(group) == 1:
            [number] = group
            one = address_of(table) + number * LINE_BYTES, number << ROW_BITS, int(lows[number]), int(highs[number])
            chosen += _select(*one, *visible, rows_at, marks_at)
            continue
        cursors = np.zeros((len(group), _CURSOR_FIELDS), np.int64)
        numbers = np.array(group, np.int64)
        cursors[:, _ROW // 8], cursors[:, _HIGH // 8] = lows[numbers], highs[numbers]
        cursors[:, _LINE // 8] = address_of(table) + numbers * LINE_BYTES
        cursors[:, _SOURCE // 8] = numbers << ROW_BITS
        cursors[:, _LEAF // 8] = np.arange(len(group))
        tree = np.zeros(len(group), np.int64)
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
def _part_of(key: int, size: int, part: int) -> np.uint64:
    """Return a part of a key as a big-endian number, zero-padded."""
    start = part * _PART_BYTES
    return prefix_word(key + start, size - start) >> _BYTE_BITS if start < size else np.uint64(0)


@inlined
def _code_of(key: int, size: int, base: int, base_size: int) -> np.uint64:
    """Return the code of a key relative to one that comes before it."""
    part = 0
    while part < _FAR_PART and part * _PART_BYTES < max(size, base_size):
        found = _part_of(key, size, part)
        if found != _part_of(base, base_size, part):
            return np.uint64(255 - part) << _PART_BITS | found
        part += 1
    return _FAR


@inlined
def _load_head(cursor: int, row: int, skip: int) -> None:
    """Move the cursor to a row, or to its end; its code is relative to the row before."""
    base, base_size = load64(cursor + _KEY), load64(cursor + _SIZE)
    store64(cursor + _ROW, row)
    if row >= load64(cursor + _HIGH):
        store64(cursor + _SIZE, -1)
        store_word(cursor + _CODE, _LAST_CODE)
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
    if base == 0:  # the first row: relative to a key before all others
        store_word(cursor + _CODE, np.uint64(255) << _PART_BITS | _part_of(key, size, 0))
    else:
        store_word(cursor + _CODE, _code_of(key, size, base, base_size))


@inlined
def _is_before(left: int, right: int) -> bool:
    """Tell whether the row of one cursor sorts before that of another; both codes are relative to the same key."""
    left_code, right_code = load_word(left + _CODE), load_word(right + _CODE)
    if left_code != right_code:
        return bool(left_code < right_code)
    return _is_before_at_tie(left, right) != 0


@called
def _is_before_at_tie(left: int, right: int) -> int:
    """Compare two cursors with equal codes; the code of the loser becomes relative to the winner."""
    left_size, right_size = load64(left + _SIZE), load64(right + _SIZE)
    if left_size < 0 or right_size < 0:
        return 1 if left_size >= 0 else 0
    left_key, right_key, most = load64(left + _KEY), load64(right + _KEY), max(left_size, right_size)
    part = min(256 - int(np.int64(load_word(left + _CODE) >> _PART_BITS)), _FAR_PART)
    while part < _FAR_PART and part * _PART_BYTES < most:
        left_part, right_part = _part_of(left_key, left_size, part), _part_of(right_key, right_size, part)
        number = np.uint64(255 - part) << _PART_BITS
        if left_part < right_part:
            store_word(right + _CODE, number | right_part)
            return 1
        if left_part > right_part:
            store_word(left + _CODE, number | left_part)
            return 0
        part += 1
    before = _is_before_at_end(left, right)
    store_word((right if before else left) + _CODE, _FAR)
    return before


@inlined
def _difference_at_end(left: int, left_size: int, right: int, right_size: int) -> int:
    """Compare two keys that share all parts that fit a code."""
    end = _FAR_PART * _PART_BYTES
    if min(left_size, right_size) <= end:
        return left_size - right_size
    return compare(left + end, left_size - end, right + end, right_size - end)


@inlined
def _is_before_at_end(left: int, right: int) -> int:
    """Compare two cursors whose keys share all parts that fit a code."""
    difference = _difference_at_end(
        load64(left + _KEY), load64(left + _SIZE), load64(right + _KEY), load64(right + _SIZE)
    )
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


@inlined
def _is_within(line: int, row: int, max_seq: np.uint64, max_create_ms: int, options: int) -> bool:
    """Tell whether a version is not newer than the read."""
    if load_word(load64(line + SEQS) + 8 * row) > max_seq:
        return False
    return (
        options & _AS_OF == 0
        or load64(load64(line + CREATE_TS) + 8 * row) <= max_create_ms
        or load8(load64(line + FLAGS) + row) & HAS_CREATE == 0
    )


@inlined
def _mark_of(line: int, row: int, now_ms: int, options: int, decided: bool, operands: int) -> tuple[int, bool, int]:
    """Return the mark of a version of a key, -1 if it is not shown, and the state of the key after it.

    The state is whether what the key shows is decided, and how many operands it shows so far.
    """
    if options & _ALL_VERSIONS:
        return PLAIN, False, 0
    if decided:
        return -1, True, operands
    flags = load8(load64(line + FLAGS) + row)
    expired = options & _INCLUDE_EXPIRED == 0 and has_reached(flags, HAS_EXPIRE, line + EXPIRE_TS, row, now_ms)
    if flags & MERGE:
        if expired:
            return -1, False, operands
        return GROUP_REST if operands else GROUP_HEAD, False, operands + 1
    # A tombstone or put, even if expired, hides older versions.
    if flags & TOMBSTONE:
        return PLAIN if options & _INCLUDE_DELETED and operands == 0 else -1, True, operands
    if expired:
        return -1, True, operands
    return GROUP_REST if operands else PLAIN, True, operands


@inlined
def _is_same_key(left: int, left_size: int, right: int, right_size: int) -> bool:
    """Compare keys of one source; those that follow each other differ at the end, if they do."""
    if left_size != right_size:
        return False
    if left_size >= 8 and load_word(left + left_size - 8) != load_word(right + left_size - 8):
        return False
    return bool(common_prefix(left, right, left_size) == left_size)


@Kernel
def _select(
    line: int,
    source: int,
    low: int,
    high: int,
    max_seq_bits: int,
    now_ms: int,
    max_create_ms: int,
    options: int,
    rows_out: int,
    marks_out: int,
) -> int:
    """Write the visible rows of one source and their marks; return their number."""
    max_seq = np.uint64(max_seq_bits)
    chosen = 0
    before, before_size = 0, -1
    is_current, decided, operands = False, False, 0
    for row in range(low, high):
        key, size = key_of(line, row)
        is_current = is_current and _is_same_key(key, size, before, before_size)
        before, before_size = key, size
        if _is_within(line, row, max_seq, max_create_ms, options):
            if not is_current:
                is_current, decided, operands = True, False, 0
            mark, decided, operands = _mark_of(line, row, now_ms, options, decided, operands)
            if mark >= 0:
                store64(rows_out + 8 * chosen, source + row)
                store8(marks_out + chosen, mark)
                chosen += 1
    return chosen


@Kernel
def _merge(
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
    before, before_size = 0, -1  # the key of the row before
    is_current = False  # whether it is the key that is being decided
    decided, operands = False, 0
    while alive > 0:
        row, line = load64(winner + _ROW), load64(winner + _LINE)
        key, size = load64(winner + _KEY), load64(winner + _SIZE)
        is_current = (
            is_current and load_word(winner + _CODE) == _FAR and _difference_at_end(key, size, before, before_size) == 0
        )
        before, before_size = key, size
        if _is_within(line, row, max_seq, max_create_ms, options):
            if not is_current:
                is_current, decided, operands = True, False, 0
            mark, decided, operands = _mark_of(line, row, now_ms, options, decided, operands)
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
