"""The order of a history table: later versions of a key have later times, across writes, files and layers.

For most writes no row needs to be read: the properties of the files show that nothing stored of their keys is newer.
Otherwise only keys that may be out of order are looked up. See docs/explanation/history-and-the-floor.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import CommitConflictError
from slatespark.format.manifest import Manifest
from slatespark.format.properties import SstProperties
from slatespark.format.ulid import Ulid
from slatespark.kernels import gather_fields, gather_keys, lower_bounds, match_keys, new_key_mask, take_rows
from slatespark.kernels.columns import HAS_CREATE, RowColumns
from slatespark.ranges import KeyRange, key_after
from slatespark.table.read.merge.cursor import layer_windows, window_size
from slatespark.table.read.planning.key_prefixes import name_key
from slatespark.table.read.planning.layers import fetch_layers
from slatespark.table.read.planning.plan import FileSlice, Layer, cut_layers
from slatespark.table.read.points import key_rows
from slatespark.table.read.versions.file_properties import file_properties
from slatespark.table.rows.sst_upload import NewFile, new_layer
from slatespark.table.stores import TableStores
from slatespark.texts import MAX_NAMED, name_some
from slatespark.units import MAX_MS, ms_to_text, time_text


@dataclass(frozen=True, slots=True)
class Violation:
    """A version that a write must not add.

    Attributes
    ----------
    at_ms, stored_ms : its time, and the newest stored time of the key
    """

    key: bytes
    at_ms: int
    stored_ms: int


def check_above_floor(stores: TableStores, floor_ms: int | None, files: Sequence[NewFile]) -> None:
    """Refuse a write with versions below the history floor: a later deletion may have been dropped.

    A version at the floor itself is later than all deletions that a compaction has dropped.

    Parameters
    ----------
    floor_ms : the present floor of the table; None if it has none

    Raises
    ------
    CommitConflictError
        Naming the oldest time and the floor.
    """
    oldest_ms = min((_oldest_ms(file) for file in files), default=MAX_MS)
    if floor_ms is None or oldest_ms >= floor_ms:
        return
    raise CommitConflictError(
        f"{stores.url}: the oldest version of the write, {time_text(oldest_ms)}, is below the history "
        f"floor, {time_text(floor_ms)}.",
        why="Compactions drop deletions below the floor, so the order of versions cannot be checked there.",
        todo="Omit these rows, or give them times at or above the floor.",
    )


def check_order_in_trees(
    stores: TableStores,
    manifest: Manifest,
    files: Sequence[NewFile],
    codec: RowCodec,
    *,
    checked: Collection[Ulid],
    buffer_bytes: int,
) -> None:
    """Refuse a write with versions older than those that the trees hold of the same keys.

    Parameters
    ----------
    checked : ids of SSTs that an earlier check found to be in order with the write
    buffer_bytes : memory for stored bytes in flight

    Raises
    ------
    CommitConflictError
        Naming keys.
    """
    oldest_ms = min((_oldest_ms(file) for file in files), default=MAX_MS)
    if manifest.last_l0_clock_tick <= oldest_ms:  # the tick is the highest time of the table
        return
    layers = _filtered(fetch_layers(stores, manifest), lambda part: part.file.id not in checked)
    suspects = [(file, found) for file in files if (found := cut_layers(layers, file.keys))]
    known = file_properties(stores, manifest) if suspects else {}
    for file, found in suspects:
        newer = _filtered(found, partial(_may_be_newer, known, _oldest_ms(file)))
        if newer:
            _refuse(stores, codec, _violations_in_layers(stores, file, newer, buffer_bytes))


def check_order_in_rows(
    stores: TableStores, rows: RowColumns | None, files: Sequence[NewFile], codec: RowCodec, *, buffer_bytes: int
) -> None:
    """Refuse a write with versions older than rows of the WAL, which are sorted; as `check_order_in_trees`."""
    if rows is None or not (rows.flags & HAS_CREATE).any():
        return
    newest_ms = int(rows.create_ts[(rows.flags & HAS_CREATE) != 0].max())
    extent = KeyRange(rows.key(0), key_after(rows.key(len(rows) - 1)))
    for file in files:
        if _oldest_ms(file) < newest_ms and file.keys.overlaps(extent):
            found = (
                violation
                for wanted in _versions_of(stores, file, buffer_bytes)
                for violation in wanted.violations(rows, 0, len(rows))
            )
            _refuse(stores, codec, found)


def _oldest_ms(file: NewFile) -> int:
    return MAX_MS if file.properties.min_create_ts is None else file.properties.min_create_ts


def _may_be_newer(known: Mapping[Ulid, SstProperties], oldest_ms: int, part: FileSlice) -> bool:
    """Tell whether a file may hold times after `oldest_ms`."""
    properties = known.get(part.file.id)
    return properties is None or (properties.max_create_ts is not None and properties.max_create_ts > oldest_ms)


def _filtered(layers: Sequence[Layer], stays: Callable[[FileSlice], bool]) -> list[Layer]:
    cut = (replace(layer, slices=tuple(filter(stays, layer.slices))) for layer in layers)
    return [layer for layer in cut if layer.slices]


# --- lookup of keys -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Wanted:
    """Keys of a write, ascending and distinct, with the oldest time of each."""

    keys: tuple[bytes, ...]
    key_bytes: NDArray[np.uint8]
    key_offsets: NDArray[np.int64]
    times: NDArray[np.int64]

    def violations(self, rows: RowColumns, low: int, high: int) -> Iterator[Violation]:
        """Yield the keys with newer versions in rows [low, high), which are sorted by key."""
        found = match_keys(rows, low, high, self.key_bytes, self.key_offsets)
        offsets, data = gather_keys([rows], found)
        at = lower_bounds(self.key_bytes, self.key_offsets, data, offsets.astype(np.int64))
        fields = gather_fields([rows], found)
        newer = ((fields.flags & HAS_CREATE) != 0) & (fields.create_ts > self.times[at])
        for index in np.flatnonzero(newer).tolist():
            number = int(at[index])
            yield Violation(self.keys[number], int(self.times[number]), int(fields.create_ts[index]))


def _versions_of(stores: TableStores, file: NewFile, buffer_bytes: int) -> Iterator[_Wanted]:
    """Yield the keys of an uploaded file, a window at a time; keys of many versions may occur several times."""
    for window in layer_windows(stores, new_layer(file), window_size(buffer_bytes, 2)):
        rows = window.indices
        starts = np.flatnonzero(new_key_mask([window.rows], rows))
        first = take_rows([window.rows], rows[starts])
        yield _Wanted(
            keys=tuple(first.key(row) for row in range(len(first))),
            key_bytes=first.key_bytes,
            key_offsets=first.key_offsets,
            times=np.minimum.reduceat(window.rows.create_ts[window.low : window.high], starts),
        )


def _violations_in_layers(
    stores: TableStores, file: NewFile, layers: Sequence[Layer], buffer_bytes: int
) -> Iterator[Violation]:
    for wanted in _versions_of(stores, file, buffer_bytes):
        for span in key_rows(stores, layers, wanted.keys, buffer_bytes=buffer_bytes):
            yield from wanted.violations(*span)


def _refuse(stores: TableStores, codec: RowCodec, violations: Iterator[Violation]) -> None:
    """Raise the conflict with the newest stored time of the first few keys, if there is a violation."""
    newest: dict[bytes, Violation] = {}
    for violation in violations:
        before = newest.get(violation.key)
        if before is None and len(newest) > MAX_NAMED:
            break
        if before is None or before.stored_ms < violation.stored_ms:
            newest[violation.key] = violation
    if not newest:
        return
    named = name_some(
        f"{name_key(codec, item.key)} at {ms_to_text(item.at_ms)}, before {ms_to_text(item.stored_ms)}"
        for item in newest.values()
    )
    raise CommitConflictError(
        f"{stores.url}: the write has versions older than the newest stored ones: {named}.",
        why="On a history table the versions of a key must be written in the order of their times.",
        todo="Omit these rows, or give them later times.",
    )
