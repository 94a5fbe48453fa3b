"""Gaps: key ranges in which a file holds no row. Files never change, so a gap stays one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from slatespark.encoding.row_codec import RowCodec
from slatespark.format.info import SstInfo
from slatespark.format.manifest import Manifest
from slatespark.format.ulid import Ulid
from slatespark.ranges import KeyRange, complement_ranges, merge_ranges, parts_within
from slatespark.table.read.fetch import fetch_index
from slatespark.table.read.merge.cursor import MIN_WINDOW_BYTES, layer_windows
from slatespark.table.read.planning.layers import view_slices
from slatespark.table.read.planning.plan import FileSlice, Layer, SstFile
from slatespark.table.read.planning.row_cuts import spans_within
from slatespark.table.read.points import key_rows
from slatespark.table.stores import TableStores
from slatespark.thread_pool import ThreadPool

Gaps: TypeAlias = Mapping[Ulid, tuple[KeyRange, ...]]  # by file; ascending and apart from each other

_BUFFER_BYTES: Final = 8 << 20  # stored bytes in flight, of one file
_PARALLEL_FILES: Final = 8
_MAX_PARTS: Final = 64  # of a view; what would be left between more intervals is not looked at, but by a vacuum
_SURE_BLOCKS: Final = 3  # a range that meets so many blocks contains one of them, and so its rows


def find_gaps(stores: TableStores, asked: Mapping[SstFile, Sequence[KeyRange]], codec: RowCodec) -> Gaps:
    """Return which of some ranges are gaps; ranges that meet are joined.

    Mostly the first and the last key of a file tell, or its index. Otherwise up to two blocks per range are read; where
    only a single key can lie in the range, none unless the bloom filter admits the key.

    Parameters
    ----------
    asked : key ranges by file; one that overlaps another is not looked at
    codec : codec of the table
    """
    find_gaps = partial(_gaps_of, stores, codec)
    if len(asked) < 2 or not stores.main.is_remote:
        found = list(map(find_gaps, asked, asked.values()))
    else:
        with ThreadPool(min(len(asked), _PARALLEL_FILES)) as pool:  # each look waits for requests of its own
            found = list(pool.map(find_gaps, asked, asked.values()))
    return {file.id: gaps for file, gaps in zip(asked, found, strict=True) if gaps}


def find_gaps_around(
    stores: TableStores, manifest: Manifest, keys: Sequence[KeyRange], codec: RowCodec, *, inside: bool
) -> Gaps:
    """Return the gaps that matter if views are cut to the keys outside some intervals.

    These are what views would show beside the intervals, and what they show inside.

    Parameters
    ----------
    keys : the intervals, ascending, not overlapping
    codec : codec of the table
    inside : whether the parts inside matter; a view without a row there needs no cut
    """
    outside = complement_ranges(keys)
    asked: dict[SstFile, list[KeyRange]] = {}
    for part in view_slices(stores, manifest).values():
        within = parts_within(keys, part.keys)
        if within:
            beside = parts_within(outside, part.keys)
            asked.setdefault(part.file, []).extend(
                [*(within if inside else ()), *(beside if len(beside) <= _MAX_PARTS else ())]
            )
    return find_gaps(stores, asked, codec)


def is_gap(keys: KeyRange, gaps: Sequence[KeyRange]) -> bool:
    """Tell whether a range lies in one of the gaps of a file."""
    at = bisect_right(gaps, keys.start, key=lambda gap: gap.start) - 1
    return at >= 0 and gaps[at].intersect(keys) == keys


def shows_an_end(keys: KeyRange, info: SstInfo) -> bool:
    """Tell whether a range contains the first or the last key of a file, and so a row."""
    ends = (info.first_entry, info.last_entry)
    return any(key is not None and keys.contains(key) for key in ends)


def may_show_rows(shown: KeyRange, info: SstInfo, codec: RowCodec) -> bool:
    """Tell whether a view can show a row, by its keys, the ends of its file, and the types of the key columns.

    Parameters
    ----------
    shown : the keys of the view, within those of its file
    info : info of the file
    codec : codec of the table
    """
    if shows_an_end(shown, info):
        return True
    from slatespark.encoding.least_key import can_hold_keys  # few tables have such views

    return can_hold_keys(shown, codec)


def find_empty_views(stores: TableStores, manifest: Manifest, codec: RowCodec) -> Gaps:
    """Return the views of a version that show no row, as gaps of their files."""
    asked: dict[SstFile, list[KeyRange]] = {}
    for part in view_slices(stores, manifest).values():
        if not shows_an_end(part.keys, part.file.info):
            asked.setdefault(part.file, []).append(part.keys)
    return find_gaps(stores, asked, codec)


def _gaps_of(stores: TableStores, codec: RowCodec, file: SstFile, ranges: Sequence[KeyRange]) -> tuple[KeyRange, ...]:
    from slatespark.encoding.least_key import can_hold_keys, sole_key  # most commits ask for no gap

    whole = file.info.key_range()
    unsure = [keys for keys in _disjoint(ranges) if not shows_an_end(keys, file.info)]
    open_ranges = [keys for keys in unsure if keys.overlaps(whole) and can_hold_keys(keys, codec)]
    single = {key: keys for keys in open_ranges if (key := sole_key(keys, codec)) is not None}
    alone = set(single.values())
    several = [keys for keys in open_ranges if keys not in alone]
    held = {*_held_points(stores, file, single), *_held_ranges(stores, file, several)}
    return merge_ranges(keys for keys in unsure if keys not in held)


def _disjoint(ranges: Sequence[KeyRange]) -> list[KeyRange]:
    """Return ranges in ascending order, without those that overlap an earlier one."""
    found: list[KeyRange] = []
    for keys in sorted(ranges, key=lambda keys: keys.start):
        if not found or not found[-1].overlaps(keys):
            found.append(keys)
    return found


def _held_points(stores: TableStores, file: SstFile, keys: Mapping[bytes, KeyRange]) -> list[KeyRange]:
    """Return the ranges of those keys that a file holds."""
    if not keys:
        return []
    layer = Layer("gaps", (file.whole(),))
    spans = key_rows(stores, [layer], list(keys), buffer_bytes=_BUFFER_BYTES)
    found = {rows.key(row) for rows, low, high in spans for row in range(low, high)}
    return [keys[key] for key in found]


def _held_ranges(stores: TableStores, file: SstFile, ranges: Sequence[KeyRange]) -> list[KeyRange]:
    """Return those of some ascending ranges in which a file holds rows."""
    if not ranges:
        return []
    index = fetch_index(stores, file)
    spans = index.blocks_for_each(ranges)
    held = [keys for keys, (first, end) in zip(ranges, spans, strict=True) if end - first >= _SURE_BLOCKS]
    small = [keys for keys, (first, end) in zip(ranges, spans, strict=True) if 0 < end - first < _SURE_BLOCKS]
    layer = Layer("gaps", tuple(FileSlice(file, keys) for keys in small))
    for window in layer_windows(stores, layer, MIN_WINDOW_BYTES):
        for first, _ in spans_within(window.rows, window.low, window.high, small):
            key = window.rows.key(first)
            held.append(small[bisect_right(small, key, key=lambda keys: keys.start) - 1])
    return held
