"""The explanation of a read."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from slatespark.format.paths import SST_EXTENSION, WAL_DIR, numbered, wal_path
from slatespark.options import ReadOptions
from slatespark.ranges import KeyRange, point_range
from slatespark.table.clock import Clock
from slatespark.table.explain.cost import RequestRange
from slatespark.table.explain.explanation import ExplanationFacts, layer_uses
from slatespark.table.explain.meter import Meter
from slatespark.table.explain.read_cost import SplitCosts
from slatespark.table.read.copies.choice import NO_COPY, USED, CopyChoice, choose_copies
from slatespark.table.read.copies.usable import covered_slices, lowest_slices, refusal
from slatespark.table.read.planning.plan import FileSlice, Layer, Split, SstFile
from slatespark.table.read.planning.skipping import judge_file
from slatespark.table.read.reader import ReadPlan, fetch_read_plan, run_read, skip_rule
from slatespark.table.read.versions.file_properties import recorded_properties
from slatespark.table.snapshot import WalTail
from slatespark.table.stores import OWN_ROOT, TableStores

OUTSIDE: Final = "outside the keys"
FOREIGN: Final = "the file is of another database"


def explain_read(stores: TableStores, options: ReadOptions, clock: Clock, *, analyze: bool = False) -> ExplanationFacts:
    """Return what a read with these options touches, and what it costs in this process.

    The plan is made, as for the read itself; no block of rows is requested.

    Parameters
    ----------
    analyze : read all rows too, and count requests and rows; the rows are dropped

    Raises
    ------
    InvalidRequestError, HistoryTrimmedError, CorruptDataError, UnsupportedFormatError
        As the read.
    """
    meter = Meter.on(stores)
    plan = fetch_read_plan(meter.stores, replace(options, pin_ms=None), clock)  # to pin a version changes the table
    planning, used = meter.requests, frozenset(part.file for split in plan.splits for part in _parts_read(split))
    choices = _choose_copies(meter.stores, plan, wal_meets=True)
    footers, wal = meter.requests - planning, wal_bytes(stores, plan.settings.wal)

    def cost(chosen: Mapping[int, CopyChoice]) -> RequestRange:
        parts = {number: choice.parts for number, choice in chosen.items()}
        return SplitCosts(stores, plan.settings.buffer_bytes, wal, used).of(plan.splits, parts)

    scanned = cost(choices)
    if wal and choices:  # what lies above the copies is known once the WAL is decoded
        scanned |= cost(_choose_copies(meter.stores, plan, wal_meets=False))
    explanation = ExplanationFacts(
        url=stores.url,
        operation="read",
        version=plan.manifest_id,
        estimated=RequestRange.of(planning + footers) + scanned,
        planning=planning,
        layers=layer_uses(plan.layers, used),
        files=len(_files(plan.layers)),
        skipped=_skipped(stores, plan, used),
        copies=_copy_reasons(plan, choices),
        splits=len(plan.splits),
        wal_files=len(wal),
    )
    return meter.measured(explanation, partial(run_read, meter.stores, plan), clock) if analyze else explanation


def wal_bytes(stores: TableStores, wal: WalTail) -> list[int]:
    """Return the size of each WAL file that a read needs."""
    if not wal.last_seq:
        return []
    if wal.sizes:
        return [wal.size_of(number) for number in wal.with_rows()]
    listed = stores.wal.list(WAL_DIR, wal_path(wal.start - 1))
    sizes = {numbered(meta.path, SST_EXTENSION): meta.size for meta in listed}
    return [sizes.get(number, 0) for number in range(wal.start, wal.end)]


# --- files ------------------------------------------------------------------------------------------------------------


def _files(layers: Iterable[Layer]) -> frozenset[SstFile]:
    return frozenset(part.file for layer in layers for part in layer.slices)


def _parts_read(split: Split) -> Iterator[FileSlice]:
    """Yield the slices of a split that are read, or whose filter is asked."""
    ranges = _keys_of(split)
    for part in (part for layer in split.layers for part in layer.slices):
        if _meets(part, ranges):
            yield part


def _skipped(stores: TableStores, plan: ReadPlan, used: frozenset[SstFile]) -> Mapping[str, int]:
    """Return how many files of a plan are not read, by reason; the most frequent first."""
    skipped = _files(plan.layers) - used
    if not skipped:
        return {}
    slices = [part for layer in plan.layers for part in layer.slices if part.file in skipped]
    ranges = [keys for split in plan.splits for keys in _keys_of(split)]
    inside = {part.file for part in slices if _meets(part, ranges)}
    own = [file.handle for file in inside if file.root == OWN_ROOT]
    known, rule = recorded_properties(stores, own), skip_rule(plan.settings)
    reasons = Counter(judge_file(known[file.id], rule)[1] if file in inside else OUTSIDE for file in skipped)
    return dict(reasons.most_common())


# --- columnar copies --------------------------------------------------------------------------------------------------


def _choose_copies(stores: TableStores, plan: ReadPlan, *, wal_meets: bool) -> dict[int, CopyChoice]:
    """Return how splits use copies, by number; fetches the footers of copies, as the read does.

    Parameters
    ----------
    wal_meets : whether the WAL has rows above each file; where it is decoded already, that is known
    """
    settings = plan.settings

    def meets(split: Split, keys: KeyRange) -> bool:
        known = split.wal
        return settings.has_tail and wal_meets if known is None else known.has_rows(keys)

    choices = {}
    for number, split in enumerate(plan.splits):
        if split.copies:
            covered = covered_slices(split, partial(meets, split))
            choices[number] = choose_copies(stores, split, settings, is_covered=covered)
    return choices


def _copy_reasons(plan: ReadPlan, choices: Mapping[int, CopyChoice]) -> Mapping[str, int]:
    """Return how many files of lowest runs are read from copies, and how many are not for each reason."""
    if not plan.seeks_copies:
        return {}
    found: set[tuple[SstFile, str]] = set()
    reason = refusal(plan.settings)
    for number, split in enumerate(plan.splits):
        layers = split.layers if split.points is None else ()
        lowest = dict.fromkeys(lowest_slices(layers), reason or NO_COPY)
        reasons = choices[number].reasons if number in choices else lowest
        foreign = dict.fromkeys(lowest_slices(layers, own=False), reason or FOREIGN)
        found.update((part.file, why) for part, why in (*reasons.items(), *foreign.items()))
    return dict(Counter(why if why == USED else f"from SSTs: {why}" for _, why in found).most_common())


def _keys_of(split: Split) -> Sequence[KeyRange]:
    """Return the key ranges that a split reads."""
    if split.points is not None:
        return [point_range(key) for key in split.points]
    return split.ranges or (split.keys,)


def _meets(part: FileSlice, ranges: Sequence[KeyRange]) -> bool:
    """Tell whether a slice has keys of any of the ranges, which ascend and lie apart."""
    at = bisect_right(ranges, part.keys.start, key=lambda keys: keys.start) - 1
    return any(not part.keys.intersect(keys).is_empty() for keys in ranges[max(at, 0) :][:2])
