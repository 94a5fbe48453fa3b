"""RangeCut: how views are cut to the keys outside some intervals, and whether any row lies in these.

The files at the edges of the intervals are looked at first: views that hold no row in an interval are not cut, and
parts that would show no row are dropped. Only edges cost requests, so the work does not grow with the intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slatespark.encoding.row_codec import RowCodec
from slatespark.format.manifest import Manifest
from slatespark.ranges import KeyRange, parts_within
from slatespark.table.clock import Clock
from slatespark.table.commit.tree_edit import SEED_BITS, CutViews
from slatespark.table.read.fetch import fetch_wal_rows
from slatespark.table.read.gaps import Gaps, find_gaps_around, is_gap
from slatespark.table.read.planning.row_cuts import spans_within
from slatespark.table.snapshot import TableState, WalTail
from slatespark.table.stores import TableStores


@dataclass(frozen=True, slots=True)
class RangeCut:
    """A planned removal of some key ranges.

    Attributes
    ----------
    edit : the change of the trees; right for any later version too
    holds_rows : whether any row version, of a file or of the WAL, lay in the intervals
    """

    edit: CutViews
    holds_rows: bool


def plan_cut(
    stores: TableStores, clock: Clock, keys: Sequence[KeyRange], codec: RowCodec, state: TableState
) -> RangeCut:
    """Return the edit that removes some key ranges.

    Parameters
    ----------
    keys : ascending, not overlapping, none empty
    state : its newest version with the WAL
    """
    _, manifest, wal = state
    gaps = find_gaps_around(stores, manifest, keys, codec, inside=True)
    edit = CutViews(tuple(keys), clock.random_bits(SEED_BITS), gaps=gaps)
    return RangeCut(edit, _shows_rows(manifest, keys, gaps) or _has_rows(stores, manifest, wal, keys))


def _shows_rows(manifest: Manifest, keys: Sequence[KeyRange], gaps: Gaps) -> bool:
    """Tell whether a view shows rows in some intervals."""
    return any(
        not is_gap(part, gaps.get(view.sst_id, ()))
        for view in manifest.views()
        for part in parts_within(keys, view.key_range(manifest.ssts[view.sst_id]))
    )


def _has_rows(stores: TableStores, manifest: Manifest, wal: WalTail, keys: Sequence[KeyRange]) -> bool:
    """Tell whether the WAL holds rows in some intervals. Each file is fetched once, however many these are."""
    if wal.last_seq <= manifest.last_l0_seq:
        return False
    rows = fetch_wal_rows(stores, wal, manifest.last_l0_seq, KeyRange(keys[0].start, keys[-1].end))
    return rows is not None and any(spans_within(rows, 0, len(rows), keys))
