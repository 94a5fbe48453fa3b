"""Which parts of files that two versions share may hold rows that expire or retire between them.

Properties of a file rule most files out. The bounds of the blocks narrow the others to the blocks that may have such
rows. Of files of other clients nothing is known, so they may have them anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from slatespark.format.properties import BlockBounds, SstProperties
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE
from slatespark.ranges import KeyRange, key_after, merge_ranges
from slatespark.storage import run_concurrently
from slatespark.table.read.planning.plan import FileSlice, Layer
from slatespark.table.read.scan_settings import ScanSettings
from slatespark.table.read.versions.file_properties import file_properties
from slatespark.table.retention.expiry_files import fetch_outline
from slatespark.table.retention.expiry_plan import stretches
from slatespark.table.snapshot import Snapshot
from slatespark.table.stores import TableStores


def find_due(
    stores: TableStores, snapshot: Snapshot, shared: Sequence[Layer], old: ScanSettings, new: ScanSettings
) -> tuple[Layer, ...]:
    """Return the parts of shared files with rows that may be past their time in one version, and not in the other.

    Parameters
    ----------
    snapshot : snapshot of the later version
    shared : the layers of it that the earlier one has too
    old, new : what the two versions show

    Raises
    ------
    CorruptDataError, SnapshotExpiredError, UnavailableError
    """
    if not shared or not _time_passes(old, new):
        return ()
    known = file_properties(stores, snapshot.manifest)
    asked = {
        part: partial(_due_parts, stores, part, old, new)
        for layer in shared
        for part in layer.slices
        if part.file.id in known and _may_end(known[part.file.id], old, new)
    }
    answers = dict(zip(asked, run_concurrently(list(asked.values()), is_remote=stores.main.is_remote), strict=True))

    def parts(layer: Layer) -> Iterator[FileSlice]:
        for part in layer.slices:
            if part.file.id not in known:
                yield part
            yield from answers.get(part, ())

    found = (Layer(layer.name, tuple(parts(layer))) for layer in shared)
    return tuple(layer for layer in found if layer.slices)


def _time_passes(old: ScanSettings, new: ScanSettings) -> bool:
    return old.visibility.now_ms != new.visibility.now_ms and not new.visibility.include_expired


def _may_end(known: SstProperties, old: ScanSettings, new: ScanSettings) -> bool:
    """Tell whether a row of a file may be past its time in one version, and not in the other."""
    has_expire, has_create = known.any_flags & HAS_EXPIRE != 0, known.any_flags & HAS_CREATE != 0
    lows = np.array([known.min_expire_ts or 0, known.min_create_ts or 0], np.int64)
    highs = np.array([known.max_expire_ts or 0, known.max_create_ts or 0], np.int64)
    expires, retires = _limits(old, new)
    found = _crosses(lows[:1], highs[:1], expires) & has_expire | _crosses(lows[1:], highs[1:], retires) & has_create
    return bool(found[0])


def _due_parts(stores: TableStores, part: FileSlice, old: ScanSettings, new: ScanSettings) -> list[FileSlice]:
    """Return the parts of a slice whose blocks may hold such rows."""
    outline = fetch_outline(stores, part.file)
    if outline.bounds is None:
        return [part]
    index = outline.index
    # The last key of a block may have more versions in the next one; then it is that block's first key.
    ranges = merge_ranges(
        KeyRange(
            index.first_key(first) if first else b"", key_after(index.first_key(end)) if end < len(index) else None
        )
        for first, end in stretches(np.flatnonzero(_blocks_may_end(outline.bounds, old, new)))
    )
    found = (FileSlice(part.file, part.keys.intersect(keys)) for keys in ranges)
    return [each for each in found if not each.keys.is_empty()]


def _blocks_may_end(bounds: BlockBounds, old: ScanSettings, new: ScanSettings) -> NDArray[np.bool_]:
    """Return the same for each block of a file."""
    expires, retires = _limits(old, new)
    ends: NDArray[np.bool_] = _crosses(bounds.min_expire_ts, bounds.max_expire_ts, expires) & (
        (bounds.any_flags & HAS_EXPIRE) != 0
    )
    ends |= _crosses(bounds.min_create_ts, bounds.max_create_ts, retires) & ((bounds.any_flags & HAS_CREATE) != 0)
    return ends


def _limits(old: ScanSettings, new: ScanSettings) -> tuple[list[int | None], list[int | None]]:
    """Return for both versions the last expire_ts that is past, and the last create_ts; None if none ever is."""
    expires: list[int | None] = [None, None]
    if not new.visibility.include_expired:
        expires = [old.visibility.now_ms, new.visibility.now_ms]
    return expires, [old.retired_ms, new.retired_ms]


def _crosses(lows: NDArray[np.int64], highs: NDArray[np.int64], limits: Sequence[int | None]) -> NDArray[np.bool_]:
    """Return which spans [low, high] may have a time that is past one limit, and not the other."""
    given = [limit for limit in limits if limit is not None]
    if not given or limits[0] == limits[1]:
        return np.zeros(len(lows), np.bool_)
    past: NDArray[np.bool_] = lows <= max(given)
    return past & (highs > min(given)) if len(given) == 2 else past
