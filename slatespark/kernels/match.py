"""Lookup of many keys among sorted keys, compiled.

Both sides are sorted, so each search continues from the last one with doubling steps (galloping search). The cost is
linear in the shorter side and logarithmic in the distance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels._compile import Kernel, called
from slatespark.kernels._native import compare, load64, store64
from slatespark.kernels._sources import (
    KEY_OFFSETS,
    KEYS,
    LINE_BYTES,
    address_of,
    checked_address,
    line_numbers,
    source_table,
)
from slatespark.kernels.columns import RowColumns
from slatespark.kernels.row_ranges import check_key_offsets, check_row_ranges


def match_keys(
    rows: RowColumns, low: int, high: int, key_bytes: NDArray[np.uint8], key_offsets: NDArray[np.int64]
) -> NDArray[np.int64]:
    """See `slatespark.kernels.match_keys`."""
    check_row_ranges([rows], np.array([low], np.int64), np.array([high], np.int64))
    check_key_offsets(key_bytes, key_offsets)
    found = np.empty(high - low, np.int64)
    searched = checked_address(rows.key_bytes, np.uint8, 0), checked_address(rows.key_offsets, np.int64, high + 1)
    wanted = checked_address(key_bytes, np.uint8, 0), checked_address(key_offsets, np.int64, 1)
    return found[: _match(*searched, low, high, *wanted, len(key_offsets) - 1, address_of(found))]


def lower_bounds(
    rows_key_bytes: NDArray[np.uint8],
    rows_key_offsets: NDArray[np.int64],
    wanted_bytes: NDArray[np.uint8],
    wanted_offsets: NDArray[np.int64],
) -> NDArray[np.int64]:
    """See `slatespark.kernels.lower_bounds`."""
    check_key_offsets(rows_key_bytes, rows_key_offsets)
    check_key_offsets(wanted_bytes, wanted_offsets)
    bounds = np.empty(len(wanted_offsets) - 1, np.int64)
    rows = checked_address(rows_key_bytes, np.uint8, 0), checked_address(rows_key_offsets, np.int64, 1)
    wanted = checked_address(wanted_bytes, np.uint8, 0), checked_address(wanted_offsets, np.int64, 1)
    _bound(*rows, len(rows_key_offsets) - 1, *wanted, len(bounds), address_of(bounds))
    return bounds


def lower_bound(rows: RowColumns, key: bytes, low: int, high: int) -> int:
    """See `slatespark.kernels.lower_bound`."""
    if not 0 <= low <= high <= len(rows):
        check_row_ranges([rows], np.array([low], np.int64), np.array([high], np.int64))
    wanted, line = np.frombuffer(key, np.uint8), line_numbers(rows)
    return _search(line[KEYS // 8], line[KEY_OFFSETS // 8], low, high, address_of(wanted), len(key))


def lower_bound_in_each(
    sources: Sequence[RowColumns], key: bytes, lows: NDArray[np.int64], highs: NDArray[np.int64]
) -> NDArray[np.int64]:
    """See `slatespark.kernels.lower_bound_in_each`."""
    check_row_ranges(sources, lows, highs)
    wanted, table, found = np.frombuffer(key, np.uint8), source_table(sources), np.empty(len(sources), np.int64)
    ranges = checked_address(lows, np.int64, 0), checked_address(highs, np.int64, 0)
    _search_each(address_of(table), len(sources), *ranges, address_of(wanted), len(key), address_of(found))
    return found


@called
def _first_not_below(keys: int, offsets: int, low: int, high: int, wanted: int, size: int) -> int:
    """Return the first key of `[low, high)` that is at least the wanted one, else `high`; fast if it is near `low`."""
    step = 1
    while low < high:
        probe = min(low + step, high) - 1
        start = load64(offsets + 8 * probe)
        if compare(keys + start, load64(offsets + 8 * probe + 8) - start, wanted, size) >= 0:
            high = probe
            break
        low = probe + 1
        step *= 2
    while low < high:
        middle = low + (high - low) // 2
        start = load64(offsets + 8 * middle)
        if compare(keys + start, load64(offsets + 8 * middle + 8) - start, wanted, size) >= 0:
            high = middle
        else:
            low = middle + 1
    return low


@Kernel
def _search(keys: int, offsets: int, low: int, high: int, wanted: int, size: int) -> int:
    """Return the first key of `[low, high)` that is at least the wanted one, else `high`."""
    return _first_not_below(keys, offsets, low, high, wanted, size)


@Kernel
def _search_each(table: int, sources: int, lows: int, highs: int, wanted: int, size: int, found: int) -> int:
    """Write the first key of each source's range that is at least the wanted one, else the end of the range."""
    for number in range(sources):
        line, at = table + number * LINE_BYTES, 8 * number
        keys, offsets = load64(line + KEYS), load64(line + KEY_OFFSETS)
        row = _first_not_below(keys, offsets, load64(lows + at), load64(highs + at), wanted, size)
        store64(found + at, row)
    return sources


@Kernel
def _match(
    keys: int, offsets: int, low: int, high: int, wanted: int, wanted_offsets: int, count: int, found: int
) -> int:
    """Write the wanted rows of `[low, high)`; return their number."""
    row, number, matches = low, 0, 0
    while row < high and number < count:
        start, wanted_start = load64(offsets + 8 * row), load64(wanted_offsets + 8 * number)
        key, size = keys + start, load64(offsets + 8 * row + 8) - start
        sought, sought_size = wanted + wanted_start, load64(wanted_offsets + 8 * number + 8) - wanted_start
        difference = compare(key, size, sought, sought_size)
        if difference == 0:
            store64(found + 8 * matches, row)
            matches += 1
            row += 1
        elif difference < 0:
            row = _first_not_below(keys, offsets, row + 1, high, sought, sought_size)
        else:
            number = _first_not_below(wanted, wanted_offsets, number + 1, count, key, size)
    return matches


@Kernel
def _bound(keys: int, offsets: int, rows: int, wanted: int, wanted_offsets: int, count: int, bounds: int) -> int:
    """Write the lower bound of each wanted key."""
    low, before, before_size = 0, wanted, 0
    for number in range(count):
        start = load64(wanted_offsets + 8 * number)
        sought, size = wanted + start, load64(wanted_offsets + 8 * number + 8) - start
        if compare(before, before_size, sought, size) > 0:
            low = 0
        low = _first_not_below(keys, offsets, low, rows, sought, size)
        store64(bounds + 8 * number, low)
        before, before_size = sought, size
    return count
