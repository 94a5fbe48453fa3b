"""Sort of rows by key, compiled.

LSD radix sort on 8 bytes of each key at a time, after the common prefix of the keys in a range. Rows that are still
equal and have more bytes are pushed on a stack as a new range.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels._compile import Kernel, called, inlined
from slatespark.kernels._native import (
    common_prefix,
    compare,
    copy_exact,
    load64,
    load_word,
    prefix_word,
    store64,
    store_word,
)
from slatespark.kernels._sources import address_of, source_table
from slatespark.kernels.columns import RowColumns
from slatespark.kernels.gather import key_of

# While a range is being sorted, an entry is a row number, with the number of key bytes in the word above these bits: 0
# to 8, or 9 if the key is longer. It orders shorter keys first when the zero-padded words are equal.
_ROW_BITS: Final = 40
_ROW_MASK: Final = (1 << _ROW_BITS) - 1
_MORE: Final = 9

_DIGITS: Final = 9  # the number of key bytes, and the 8 bytes of the word
_COUNTS_BYTES: Final = _DIGITS * 256 * 8
_SMALL: Final = 32  # up to this size, insertion sort is cheaper than counting
_RANGE_BYTES: Final = 24  # start, end, depth


def sort_rows(rows: RowColumns) -> NDArray[np.int64]:
    """See `slatespark.kernels.sort_rows`."""
    table, count = source_table([rows]), len(rows)
    order = np.arange(count, dtype=np.int64)
    line = address_of(table)
    if not _is_sorted(line, count):
        words, spare_order, spare_words = (
            np.empty(count, np.uint64),
            np.empty(count, np.int64),
            np.empty(count, np.uint64),
        )
        ranges = np.empty((count // _SMALL + 2) * _RANGE_BYTES, np.uint8)
        counts = np.empty(_COUNTS_BYTES, np.uint8)
        scratch = address_of(words), address_of(spare_order), address_of(spare_words), address_of(ranges)
        _sort(line, count, address_of(order), *scratch, address_of(counts))
    return order


@Kernel
def _is_sorted(line: int, count: int) -> int:
    """Return whether the keys already ascend."""
    for row in range(1, count):
        previous, previous_size = key_of(line, row - 1)
        key, size = key_of(line, row)
        if compare(previous, previous_size, key, size) > 0:
            return 0
    return 1


@called
def _insert(line: int, order: int, start: int, end: int, depth: int) -> None:
    """Sort a short range by insertion; its keys share `depth` bytes."""
    for number in range(start + 1, end):
        row = load64(order + 8 * number)
        key, size = key_of(line, row)
        at = number
        while at > start:
            other, other_size = key_of(line, load64(order + 8 * at - 8))
            if compare(other + depth, other_size - depth, key + depth, size - depth) <= 0:
                break
            store64(order + 8 * at, load64(order + 8 * at - 8))
            at -= 1
        store64(order + 8 * at, row)


@called
def _shared_bytes(line: int, order: int, start: int, end: int, depth: int) -> int:
    """Return the length of the common prefix of a range, which is at least `depth`."""
    first, shared = key_of(line, load64(order + 8 * start))
    for number in range(start + 1, end):
        key, size = key_of(line, load64(order + 8 * number))
        shared = depth + common_prefix(first + depth, key + depth, min(shared, size) - depth)
        if shared == depth:
            break
    return shared


@inlined
def _digit(entry: int, word: np.uint64, number: int) -> int:
    """Return digit `number` of an entry, the least significant one first."""
    if number == 0:
        return entry >> _ROW_BITS
    return int(np.int64(word >> np.uint64(8 * (number - 1)) & np.uint64(0xFF)))


@called
def _load_words(line: int, order: int, words: int, start: int, end: int, depth: int, counts: int) -> None:
    """Load the next 8 bytes of each key in a range, and count the digits."""
    for at in range(counts, counts + _COUNTS_BYTES, 8):
        store64(at, 0)
    for number in range(start, end):
        row = load64(order + 8 * number)
        key, size = key_of(line, row)
        word = prefix_word(key + depth, size - depth)
        entry = row | min(size - depth, _MORE) << _ROW_BITS
        store64(order + 8 * number, entry)
        store_word(words + 8 * number, word)
        for digit in range(_DIGITS):
            at = counts + 8 * (digit << 8 | _digit(entry, word, digit))
            store64(at, load64(at) + 1)


@called
def _scatter(
    order: int, words: int, to_order: int, to_words: int, start: int, end: int, digit: int, counts: int
) -> None:
    """Stable counting sort of a range by one digit."""
    total = start
    for at in range(counts + 2048 * digit, counts + 2048 * digit + 2048, 8):
        size = load64(at)
        store64(at, total)
        total += size
    for number in range(start, end):
        entry, word = load64(order + 8 * number), load_word(words + 8 * number)
        at = counts + 8 * (digit << 8 | _digit(entry, word, digit))
        target = load64(at)
        store64(at, target + 1)
        store64(to_order + 8 * target, entry)
        store_word(to_words + 8 * target, word)


@called
def _sort_words(order: int, words: int, spare_order: int, spare_words: int, start: int, end: int, counts: int) -> None:
    """Sort a range by its words."""
    entry, word = load64(order + 8 * start), load_word(words + 8 * start)
    from_order, from_words, to_order, to_words = order, words, spare_order, spare_words
    for digit in range(_DIGITS):
        if load64(counts + 8 * (digit << 8 | _digit(entry, word, digit))) == end - start:
            continue  # all entries have the same digit
        _scatter(from_order, from_words, to_order, to_words, start, end, digit, counts)
        from_order, from_words, to_order, to_words = to_order, to_words, from_order, from_words
    if from_order != order:
        copy_exact(order + 8 * start, spare_order + 8 * start, 8 * (end - start))
        copy_exact(words + 8 * start, spare_words + 8 * start, 8 * (end - start))


@inlined
def _push(ranges: int, pending: int, start: int, end: int, depth: int) -> int:
    at = ranges + pending * _RANGE_BYTES
    store64(at, start)
    store64(at + 8, end)
    store64(at + 16, depth)
    return pending + 1


@Kernel
def _sort(
    line: int, count: int, order: int, words: int, spare_order: int, spare_words: int, ranges: int, counts: int
) -> int:
    """Sort `order`, the rows 0 to count, by key."""
    pending = _push(ranges, 0, 0, count, 0)
    while pending > 0:
        pending -= 1
        at = ranges + pending * _RANGE_BYTES
        start, end, depth = load64(at), load64(at + 8), load64(at + 16)
        if end - start <= _SMALL:
            _insert(line, order, start, end, depth)
            continue
        depth = _shared_bytes(line, order, start, end, depth)
        _load_words(line, order, words, start, end, depth, counts)
        _sort_words(order, words, spare_order, spare_words, start, end, counts)
        run = start
        for number in range(start, end):
            entry, word = load64(order + 8 * number), load_word(words + 8 * number)
            store64(order + 8 * number, entry & _ROW_MASK)
            last = number + 1 == end
            if (
                last
                or load64(order + 8 * number + 8) >> _ROW_BITS != entry >> _ROW_BITS
                or load_word(words + 8 * number + 8) != word
            ):
                if entry >> _ROW_BITS == _MORE and number > run:
                    if number + 1 - run <= _SMALL:
                        _insert(line, order, run, number + 1, depth + 8)
                    else:
                        pending = _push(ranges, pending, run, number + 1, depth + 8)
                run = number + 1
    return 0
