"""The explanation of a change feed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from slatespark.format.paths import wal_path
from slatespark.options import ReadOptions
from slatespark.storage.remote_store import MAX_GAP_BYTES
from slatespark.storage.requests import Requests
from slatespark.table.changes.feed import fetch_feed_plan, run_feed
from slatespark.table.changes.log.plan import LogPlan
from slatespark.table.changes.plan import ChangePlan, ChangeSplit
from slatespark.table.clock import Clock
from slatespark.table.explain.cost import NOTHING, RequestRange
from slatespark.table.explain.explanation import ExplanationFacts, LayerUse
from slatespark.table.explain.meter import Meter
from slatespark.table.explain.read import OUTSIDE, wal_bytes
from slatespark.table.explain.read_cost import SplitCosts
from slatespark.table.read.merge.cursor import window_size
from slatespark.table.read.planning.layers import distinct_files
from slatespark.table.read.planning.plan import FileSlice, Layer, SstFile
from slatespark.table.read.points import CHUNK_KEYS
from slatespark.table.stores import TableStores, object_context

SHARED = "in both versions"


def explain_changes(
    stores: TableStores, options: ReadOptions, clock: Clock, *, analyze: bool = False
) -> ExplanationFacts:
    """Return what a change feed with these options touches, and what it costs in this process.

    Which files are searched for keys is known. How many of the keys have to be looked up is not, nor whether they are
    so dense that all rows between them are read: the estimate goes from none to all blocks of the files that may hold
    them.

    Parameters
    ----------
    analyze : read all changes too, and count requests and rows; the rows are dropped

    Raises
    ------
    InvalidRequestError, HistoryTrimmedError, CorruptDataError, UnsupportedFormatError
        As the feed.
    """
    meter = Meter.on(stores)
    plan = fetch_feed_plan(meter.stores, replace(options, pin_ms=None), clock)  # to pin a version changes the table
    planning = meter.requests
    if isinstance(plan, LogPlan):
        explanation = _explain_log(stores, plan, planning)
    else:
        explanation = _explain_net(stores, plan, planning)
    return meter.measured(explanation, partial(run_feed, meter.stores, plan), clock) if analyze else explanation


def _explain_log(stores: TableStores, plan: LogPlan, planning: Requests) -> ExplanationFacts:
    """Return what the log reads: all of it, so that only the blocks of a window are not known before."""
    commits = tuple(Layer("commit", part.slices) for split in plan.splits for part in split.commits)
    wal_files = tuple(number for split in plan.splits for part in split.wal for number in part.files)
    files = frozenset(distinct_files(commits))
    sizes = [_wal_size(stores, number) for number in wal_files]
    costs = SplitCosts(stores, plan.settings.buffer_bytes, (), files)
    return ExplanationFacts(
        url=stores.url,
        operation="changes",
        version=plan.end.version,
        estimated=RequestRange.of(planning)
        + RequestRange.of(Requests(get=len(sizes), read_bytes=sum(sizes)))
        + costs.of_layers(commits, window_size(plan.settings.buffer_bytes, 1)),
        planning=planning,
        layers=(LayerUse("commits", len(files), len(files)),),
        files=len(files),
        splits=len(plan.splits),
        wal_files=len(wal_files),
    )


def _wal_size(stores: TableStores, number: int) -> int:
    path = wal_path(number)
    with object_context(stores.wal, path):
        return stores.wal.head(path).size


def _explain_net(stores: TableStores, plan: ChangePlan, planning: Requests) -> ExplanationFacts:
    searched = frozenset(distinct_files(chain.from_iterable(split.searched for split in plan.splits)))
    return ExplanationFacts(
        url=stores.url,
        operation="changes",
        version=plan.bounds.after,
        estimated=RequestRange.of(planning) + _costs(stores, plan, searched),
        planning=planning,
        layers=tuple(_layer_uses(plan, searched)),
        files=len(distinct_files(_all_layers(plan))),
        skipped=_skipped(plan, searched),
        splits=len(plan.splits),
        wal_files=sum(len(wal_bytes(stores, side.wal)) for side in (plan.settings.old, plan.settings.new)),
    )


def _all_layers(plan: ChangePlan) -> tuple[Layer, ...]:
    found = plan.differences
    return (*found.new_only, *found.shared, *found.old_only)


def _layer_uses(plan: ChangePlan, searched: frozenset[SstFile]) -> Iterable[LayerUse]:
    found = plan.differences
    groups = (
        ("only in the later version", found.new_only),
        ("only in the earlier version", found.old_only),
        (SHARED, found.shared),
    )
    for name, layers in groups:
        yield LayerUse.of(name, layers, searched)


def _skipped(plan: ChangePlan, searched: frozenset[SstFile]) -> dict[str, int]:
    """Return how many files are not searched, by reason; the most frequent first."""
    apart = frozenset(distinct_files((*plan.differences.new_only, *plan.differences.old_only, *plan.due)))
    reasons = Counter(
        OUTSIDE if file in apart else SHARED for file in distinct_files(_all_layers(plan)) if file not in searched
    )
    return dict(reasons.most_common())


def _costs(stores: TableStores, plan: ChangePlan, searched: frozenset[SstFile]) -> RequestRange:
    """Return the requests of all splits."""
    costs = SplitCosts(stores, plan.settings.new.buffer_bytes, (), searched)
    total = NOTHING
    tails = [wal_bytes(stores, side.wal) for side in (plan.settings.old, plan.settings.new)]
    for split in plan.splits:
        layers, shares = split.searched, (split.old_wal, split.new_wal)
        decoded = [tail for tail, share in zip(tails, shares, strict=True) if share is None]
        total += RequestRange.of(Requests(get=sum(map(len, decoded)), read_bytes=sum(map(sum, decoded))))
        total += costs.of_layers(layers, window_size(plan.settings.new.buffer_bytes, len(layers)))
        keys = len(split.points) if split.points else _bytes(layers)
        total += _look_ups(split, keys, plan.settings.new.buffer_bytes)
    return total


def _look_ups(split: ChangeSplit, keys: int, buffer_bytes: int) -> RequestRange:
    """Return the requests of looking up as many keys, at most, in both versions, or of reading all between them."""
    most = Requests()
    range_bytes = min(MAX_GAP_BYTES, window_size(buffer_bytes, max(len(split.old), len(split.new))))
    for part in (part for layer in (*split.old, *split.new) for part in layer.slices):
        info, ranges = part.file.info, part.file.data_bytes // range_bytes + 1
        gets = min(keys, ranges + keys // CHUNK_KEYS + 1) + 2
        read_bytes = part.file.data_bytes + info.index_len + info.filter_len
        most += Requests(get=gets, read_bytes=read_bytes)
    return RequestRange(Requests(), most)


def _bytes(layers: Sequence[Layer]) -> int:
    parts: set[FileSlice] = {part for layer in layers for part in layer.slices}
    return sum(part.file.data_bytes for part in parts)
