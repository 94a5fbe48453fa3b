"""The plan of a change feed: two versions, and the key ranges in which they may differ.

Which state belongs to a version is what `versionAsOf` shows, with the clock of that version for expiry. So the changes
between two versions, applied to a read of the first one, make a read of the second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from slatespark.encoding.row_codec import RowCodec
from slatespark.kernels.columns import Visibility
from slatespark.options import ReadOptions
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.table.changes.bounds import NOTHING, FeedBounds, resolve_bounds
from slatespark.table.changes.differences import LayerDifferences, compare_layers
from slatespark.table.changes.due import find_due
from slatespark.table.clock import Clock, read_clock
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import fetch_definition
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.arrow import Projection, project
from slatespark.table.read.planning.layers import fetch_layers
from slatespark.table.read.planning.plan import (
    Layer,
    Split,
    cut_layers,
    cut_to_ranges,
)
from slatespark.table.read.planning.wal_share import WalShare
from slatespark.table.read.reader import (
    bind_condition,
    chosen_range,
    plan_key_splits,
    renewed,
    resolve_held,
    scan_settings,
)
from slatespark.table.read.scan_settings import ScanSettings
from slatespark.table.read.versions.floor import judged_definition
from slatespark.table.read.wal_tail import MAX_SHARE_BYTES, cut_tail, fetch_tail
from slatespark.table.snapshot import Snapshot, WalTail
from slatespark.table.stores import TableStores

if TYPE_CHECKING:
    from slatespark.encoding.predicates import Filter

_NOTHING_VISIBLE: Final = Visibility(max_seq=-1, now_ms=0)


@dataclass(frozen=True, slots=True)
class ChangeSplit:
    """One partition of a change feed.

    Attributes
    ----------
    keys, ranges, points : as of `Split`
    old, new : the layers of both versions that meet `keys`
    old_only, new_only : the parts of them that only one version shows; keys with a row there may have changed
    due : parts that both show, with rows that may expire or retire in between
    old_wal, new_wal : the rows of the WAL of both versions, if they were decoded when the feed was planned; else None
    """

    keys: KeyRange
    old: tuple[Layer, ...]
    new: tuple[Layer, ...]
    old_only: tuple[Layer, ...] = ()
    new_only: tuple[Layer, ...] = ()
    due: tuple[Layer, ...] = ()
    ranges: tuple[KeyRange, ...] = ()
    points: tuple[bytes, ...] | None = None
    old_wal: WalShare | None = None
    new_wal: WalShare | None = None

    @property
    def searched(self) -> tuple[Layer, ...]:
        """The layers that are searched for keys; those of given keys are only asked for them."""
        return (*self.old_only, *self.new_only, *self.due)


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """What all splits of a change feed share.

    Attributes
    ----------
    old, new : which rows the two versions show
    condition : only rows for which it is true belong to either version; None for all
    pre_images : whether old rows are shown, and looked up to tell a new row from a changed one
    version, committed_ms : the later version, and when it was committed
    """

    old: ScanSettings
    new: ScanSettings
    projection: Projection
    condition: Filter | None
    pre_images: bool
    version: int
    committed_ms: int

    @property
    def are_all_new(self) -> bool:
        """Whether the changes start from nothing: every row is new."""
        return self.old.visibility == _NOTHING_VISIBLE

    def of(self, split: ChangeSplit) -> ChangeSettings:
        """Return the settings of a split alone: without the files of a WAL of which it has the rows."""
        sides = (self.old, split.old_wal), (self.new, split.new_wal)
        old, new = (side if share is None else side.without_wal_files() for side, share in sides)
        return replace(self, old=old, new=new)


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """The plan of a change feed.

    Attributes
    ----------
    bounds : the versions
    settings : the same for all splits
    splits : splits in key order; each can be read on its own, by any process
    differences : the differences of the layers of the two versions
    due : the shared parts that may hold rows which expire or retire in between
    """

    bounds: FeedBounds
    settings: ChangeSettings
    splits: tuple[ChangeSplit, ...]
    differences: LayerDifferences
    due: tuple[Layer, ...]


def fetch_change_plan(
    stores: TableStores, options: ReadOptions, clock: Clock, *, projection: Projection | None = None
) -> ChangePlan:
    """Fix the versions of a change feed, and cut the keys in which they may differ into splits.

    Parameters
    ----------
    options : options with `readChangeFeed`
    projection : the columns that were promised, if not those of the options

    Raises
    ------
    InvalidRequestError, HistoryTrimmedError, CorruptDataError, UnsupportedFormatError
    """
    bounds = resolve_bounds(stores, options, clock)
    if bounds.after == NOTHING:  # no version shows nothing: of one with itself no row differs either
        newest = fetch_latest_manifest(stores).number
        bounds = replace(bounds, before=newest, after=newest)
    return with_tails(stores, plan_between(stores, options, clock, bounds, projection=projection))


def plan_between(
    stores: TableStores,
    options: ReadOptions,
    clock: Clock,
    bounds: FeedBounds,
    *,
    projection: Projection | None = None,
    keys: KeyRange = ALL_KEYS,
    held: Mapping[int, Snapshot] | None = None,
) -> ChangePlan:
    """Cut the keys in which two versions may differ into splits; a plan that is to be read goes to `with_tails` next.

    Parameters
    ----------
    options, projection : as of `fetch_change_plan`
    keys : only changes of them, besides what the options choose
    held : versions that are known, and that checkpoints hold; others are looked up

    Raises
    ------
    InvalidRequestError, HistoryTrimmedError, CorruptDataError, UnsupportedFormatError
    """
    snapshot, definition = _resolve(stores, options.of_version(bounds.after), clock, held or {})
    if options.ignores_expired and not definition.has_own_time:
        snapshot = replace(snapshot, now_ms=_time_of(snapshot, bounds, clock))
    codec = definition.codec()
    columns = project(options, codec=codec) if projection is None else renewed(projection, codec)
    new = scan_settings(stores, snapshot, definition, options, columns, None)
    layers = fetch_layers(stores, snapshot.manifest)
    old_layers: tuple[Layer, ...] = ()
    if bounds.before == NOTHING:
        old = replace(new, visibility=_NOTHING_VISIBLE, wal=WalTail(0, 0))
    else:
        # What has ended by that instant is left out of both versions, so that its end is not a change.
        now_ms = snapshot.now_ms if options.ignores_expired else None
        asked = replace(options.of_version(bounds.before), now_ms=now_ms)
        known = _known(asked, held or {})
        earlier = resolve_held(stores, asked, clock)[0] if known is None else known
        old = scan_settings(stores, earlier, definition, options, columns, None)
        old_layers = fetch_layers(stores, earlier.manifest)
    condition = bind_condition(options, codec)
    settings = ChangeSettings(old, new, columns, condition, options.with_pre_images, bounds.after, bounds.committed_ms)
    differences = compare_layers(old_layers, layers)
    due = find_due(stores, snapshot, differences.shared, old, new)
    chosen = chosen_range(options, codec).intersect(keys)
    compared = _Compared(old_layers, layers, differences, due, settings)
    splits = _plan_splits(stores, options, codec, condition, compared, chosen)
    return ChangePlan(bounds, settings, splits, differences, due)


def _time_of(snapshot: Snapshot, bounds: FeedBounds, clock: Clock) -> int:
    """Return the time of the later version, from which on its purged rows had ended.

    A compaction or reap removes rows that have ended by the clock, without a tick. The clock of a store that tells the
    time of a version may be ahead of ours, by which rows are still shown.
    """
    return max(snapshot.now_ms, min(bounds.committed_ms, read_clock(clock)))


def _resolve(
    stores: TableStores, options: ReadOptions, clock: Clock, held: Mapping[int, Snapshot]
) -> tuple[Snapshot, TableDefinition]:
    """Return the snapshot and the definition of the version that the options choose."""
    known = _known(options, held)
    if known is None:
        return resolve_held(stores, options, clock)
    definition = fetch_definition(stores, known.manifest).value
    return known, judged_definition(definition, options, known, clock)


def _known(options: ReadOptions, held: Mapping[int, Snapshot]) -> Snapshot | None:
    """Return the snapshot of the version that the options choose, if it is one of those given."""
    found = None if options.version_as_of is None else held.get(options.version_as_of)
    if found is None:
        return None
    now_ms = found.manifest.last_l0_clock_tick if options.now_ms is None else options.now_ms
    return replace(found, now_ms=now_ms)


# --- splits ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Compared:
    """The layers of both versions, and what is known of their differences."""

    old: Sequence[Layer]
    new: Sequence[Layer]
    differences: LayerDifferences
    due: Sequence[Layer]
    settings: ChangeSettings

    @property
    def searched(self) -> tuple[Layer, ...]:
        """The layers in which a row is a sign of a change."""
        return (*self.differences.old_only, *self.differences.new_only, *self.due)

    @property
    def has_wal(self) -> bool:
        """Whether either version has rows in the WAL."""
        return bool(self.settings.old.wal.last_seq or self.settings.new.wal.last_seq)

    def within(self, split: Split) -> ChangeSplit:
        """Return the part of the layers that a split of the searched ones needs."""

        def cut(layers: Sequence[Layer]) -> tuple[Layer, ...]:
            return cut_to_ranges(layers, split.ranges) if split.ranges else cut_layers(layers, split.keys)

        old, new = cut_layers(self.old, split.keys), cut_layers(self.new, split.keys)
        if split.points is not None:
            return ChangeSplit(split.keys, old, new, points=split.points)
        parts = cut(self.differences.old_only), cut(self.differences.new_only), cut(self.due)
        return ChangeSplit(split.keys, old, new, *parts, ranges=split.ranges)


def _plan_splits(
    stores: TableStores,
    options: ReadOptions,
    codec: RowCodec,
    condition: Filter | None,
    compared: _Compared,
    chosen: KeyRange,
) -> tuple[ChangeSplit, ...]:
    """Return the splits: of the searched layers, within the chosen keys and those of the condition."""
    if not compared.searched and not compared.has_wal:
        return ()
    splits, _ = plan_key_splits(stores, compared.searched, options, (chosen,), codec, condition, tuple)
    found = [compared.within(split) for split in splits]
    return tuple(each for each in found if compared.has_wal or each.points or each.searched)


def with_tails(stores: TableStores, plan: ChangePlan) -> ChangePlan:
    """Return a plan whose splits, if there are several, have their rows of the WAL of both versions, decoded once.

    See `share_tail`.
    """
    splits = plan.splits
    if len(splits) < 2:
        return plan
    keys = KeyRange(splits[0].keys.start, splits[-1].keys.end)
    tails = [
        fetch_tail(stores, side.wal, side.wal_above_seq, keys, limit_bytes=side.wal_buffer_bytes)
        for side in (plan.settings.old, plan.settings.new)
    ]

    def share(split: ChangeSplit, tail: WalShare | None) -> WalShare | None:
        ranges = split.ranges or [split.keys]
        return None if tail is None else cut_tail(tail, ranges, split.points, most_bytes=MAX_SHARE_BYTES // 2)

    shared = (replace(each, old_wal=share(each, tails[0]), new_wal=share(each, tails[1])) for each in splits)
    return replace(plan, splits=tuple(shared))
