"""RangeCut: how views are cut to the keys outside some intervals, and whether any row lies in these.

The files at the edges of the intervals are looked at first: views that hold no row in an interval are not cut, and
parts that would show no row are dropped. Only edges cost requests, so the work does not grow with the intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from slatespark.encoding.row_codec import RowCodec
from slatespark.format.manifest import Manifest
from slatespark.ranges import KeyRange, complement_ranges, overlapping_ranges
from slatespark.table.clock import Clock
from slatespark.table.commit.tree_edit import CutViews
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.fetch import fetch_wal_rows
from slatespark.table.read.gaps import Gaps, find_gaps, is_gap
from slatespark.table.read.plan import SstFile
from slatespark.table.snapshot import WalTail, fetch_newest_state
from slatespark.table.stores import OWN_ROOT, TableStores, external_roots

_SEED_BITS: Final = 64
_MAX_PARTS: Final = 64  # of a file; the parts between more intervals are not looked at, and left to a vacuum


@dataclass(frozen=True, slots=True)
class RangeCut:
    """A planned removal of some intervals of keys.

    Attributes
    ----------
    edit : the change of the trees; right for any later version too
    holds_rows : whether any row version, of a file or of the WAL, lay in the intervals
    """

    edit: CutViews
    holds_rows: bool


def plan_cut(stores: TableStores, clock: Clock, keys: Sequence[KeyRange], codec: RowCodec) -> RangeCut:
    """Return the edit that removes some intervals of keys.

    Parameters
    ----------
    keys : ascending, not overlapping, none empty
    codec : of the table
    """
    _, manifest, wal = fetch_newest_state(stores, *fetch_latest_manifest(stores))
    gaps = find_gaps(stores, _questions(stores, manifest, keys), codec)
    edit = CutViews(tuple(keys), clock.random_bits(_SEED_BITS), gaps=gaps)
    return RangeCut(edit, _shows_rows(manifest, keys, gaps) or _has_rows(stores, manifest, wal, keys))


def _questions(stores: TableStores, manifest: Manifest, keys: Sequence[KeyRange]) -> dict[SstFile, list[KeyRange]]:
    """Return of which parts of files it matters whether they are gaps: inside the intervals, and beside them."""
    roots, outside = external_roots(stores, manifest), complement_ranges(keys)
    asked: dict[SstFile, list[KeyRange]] = {}
    for view in manifest.views():
        handle = manifest.ssts[view.sst_id]
        shown = view.key_range(handle)
        inside = _parts(keys, shown)
        if inside:
            file = SstFile(roots.get(handle.id, OWN_ROOT), handle.id, handle.info, handle.format_version)
            beside = _parts(outside, shown)
            asked.setdefault(file, []).extend([*inside, *(beside if len(beside) <= _MAX_PARTS else ())])
    return asked


def _parts(ranges: Sequence[KeyRange], shown: KeyRange) -> list[KeyRange]:
    return [keys.intersect(shown) for keys in overlapping_ranges(ranges, shown)]


def _shows_rows(manifest: Manifest, keys: Sequence[KeyRange], gaps: Gaps) -> bool:
    """Tell whether a view shows rows in some intervals."""
    return any(
        not is_gap(part, gaps.get(view.sst_id, ()))
        for view in manifest.views()
        for part in _parts(keys, view.key_range(manifest.ssts[view.sst_id]))
    )


def _has_rows(stores: TableStores, manifest: Manifest, wal: WalTail, keys: Sequence[KeyRange]) -> bool:
    """Tell whether the WAL holds rows in some intervals."""
    if wal.last_seq <= manifest.last_l0_seq:
        return False
    return any(fetch_wal_rows(stores, wal, manifest.last_l0_seq, each) is not None for each in keys)
