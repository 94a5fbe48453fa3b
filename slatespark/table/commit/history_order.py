"""The order that a history table keeps: of a key, later versions have later times, across writes, files and layers.

Most writes keep it without a look at any row: nothing that is stored of the keys of their files is younger than they
are. Else keys are looked up, those only that may be out of order. See docs/explanation/history-and-the-floor.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

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
from slatespark.table.read.cursor import layer_windows, window_size
from slatespark.table.read.key_prefixes import name_key
from slatespark.table.read.layers import plan_table_layers
from slatespark.table.read.plan import FileSlice, Layer, cut_layers
from slatespark.table.read.points import key_rows
from slatespark.table.read.properties import file_properties
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.stores import TableStores
from slatespark.units import MAX_MS, ms_to_text

MAX_NAMED: Final = 5  # keys in a message


@dataclass(frozen=True, slots=True)
class Violation:
    """A version that a write may not add.

    Attributes
    ----------
    key : of the version
    at_ms, stored_ms : its time, and the newest that is stored
    """

    key: bytes
    at_ms: int
    stored_ms: int


def check_above_floor(stores: TableStores, floor_ms: int | None, files: Sequence[NewFile]) -> None:
    """Refuse a write with versions from before the history floor: a deletion that they came before may be gone.

    What lies at the floor itself came after all that a compaction has dropped.

    Parameters
    ----------
    floor_ms : of the table by now; None if it has none
    files : of the write

    Raises
    ------
    CommitConflictError
        Naming the oldest time and the floor.
    """
    oldest_ms = min((_oldest_ms(file) for file in files), default=MAX_MS)
    if floor_ms is None or oldest_ms >= floor_ms:
        return
    raise CommitConflictError(
        f"{stores.url}: the oldest version of the write is of {ms_to_text(oldest_ms)} ({oldest_ms}), and the history "
        f"floor is {ms_to_text(floor_ms)} ({floor_ms}).",
        why="Compactions drop deletions from before the floor, so the order of versions cannot be checked there.",
        todo="Leave these rows out, or give them times from the floor on.",
    )


def check_order_in_trees(
    stores: TableStores,
    manifest: Manifest,
    files: Sequence[NewFile],
    codec: RowCodec,
    *,
    settled: Collection[Ulid],
    buffer_bytes: int,
) -> None:
    """Refuse a write that has versions older than what the trees hold of their keys.

    Parameters
    ----------
    files : of the write
    codec : of the table, to name keys
    settled : ids of SSTs that were found to be in order with the write before
    buffer_bytes : memory for stored bytes in flight

    Raises
    ------
    CommitConflictError
        Naming keys.
    """
    oldest_ms = min((_oldest_ms(file) for file in files), default=MAX_MS)
    if manifest.last_l0_clock_tick <= oldest_ms:  # it is the highest of all times
        return
    layers = _without(plan_table_layers(stores, manifest), settled)
    suspects = [(file, found) for file in files if (found := cut_layers(layers, file.keys))]
    known = file_properties(stores, manifest) if suspects else {}
    for file, found in suspects:
        younger = _younger(found, known, _oldest_ms(file))
        if younger:
            _refuse(stores, codec, _violations_in_layers(stores, file, younger, buffer_bytes))


def check_order_in_rows(
    stores: TableStores, rows: RowColumns | None, files: Sequence[NewFile], codec: RowCodec, *, buffer_bytes: int
) -> None:
    """Refuse a write that has versions older than rows of the WAL, which are sorted; as `check_order_in_trees`."""
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


def _without(layers: Sequence[Layer], settled: Collection[Ulid]) -> list[Layer]:
    """Return layers without the files that need no look."""
    cut = (
        replace(layer, slices=tuple(part for part in layer.slices if part.file.id not in settled)) for layer in layers
    )
    return [layer for layer in cut if layer.slices]


def _younger(layers: Sequence[Layer], known: Mapping[Ulid, SstProperties], oldest_ms: int) -> list[Layer]:
    """Return what of the layers may hold times after `oldest_ms`."""

    def may_be_younger(part: FileSlice) -> bool:
        properties = known.get(part.file.id)
        return properties is None or (properties.max_create_ts is not None and properties.max_create_ts > oldest_ms)

    cut = (replace(layer, slices=tuple(filter(may_be_younger, layer.slices))) for layer in layers)
    return [layer for layer in cut if layer.slices]


# --- by keys --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Wanted:
    """Keys of a write, ascending and distinct, with the oldest time that it has for each."""

    keys: tuple[bytes, ...]
    key_bytes: NDArray[np.uint8]
    key_offsets: NDArray[np.int64]
    times: NDArray[np.int64]

    def violations(self, rows: RowColumns, low: int, high: int) -> Iterator[Violation]:
        """Yield the keys of which rows [low, high), sorted by key, hold younger versions."""
        found = match_keys(rows, low, high, self.key_bytes, self.key_offsets)
        offsets, data = gather_keys([rows], found)
        at = lower_bounds(self.key_bytes, self.key_offsets, data, offsets.astype(np.int64))
        fields = gather_fields([rows], found)
        younger = ((fields.flags & HAS_CREATE) != 0) & (fields.create_ts > self.times[at])
        for place in np.flatnonzero(younger).tolist():
            number = int(at[place])
            yield Violation(self.keys[number], int(self.times[number]), int(fields.create_ts[place]))


def _versions_of(stores: TableStores, file: NewFile, buffer_bytes: int) -> Iterator[_Wanted]:
    """Yield the keys of an uploaded file, a window at a time; those of many versions may come several times."""
    for window in layer_windows(stores, Layer("new", (file.whole(),)), window_size(buffer_bytes, 2)):
        rows = np.arange(window.low, window.high, dtype=np.int64)
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
    """Raise the conflict, if there is a violation, with the newest stored time of the first few keys."""
    newest: dict[bytes, Violation] = {}
    for violation in violations:
        before = newest.get(violation.key)
        if before is None and len(newest) > MAX_NAMED:
            break
        if before is None or before.stored_ms < violation.stored_ms:
            newest[violation.key] = violation
    if not newest:
        return
    named = [
        f"{name_key(codec, item.key)} at {ms_to_text(item.at_ms)}, before {ms_to_text(item.stored_ms)}"
        for item in list(newest.values())[:MAX_NAMED]
    ]
    more = ", and more" if len(newest) > MAX_NAMED else ""
    raise CommitConflictError(
        f"{stores.url}: the write has versions older than the newest ones of their keys: {'; '.join(named)}{more}.",
        why="On a history table the versions of a key are written in the order of their times.",
        todo="Leave these rows out, or give them later times.",
    )
