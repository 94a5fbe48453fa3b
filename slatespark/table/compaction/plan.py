"""Which layers a compaction merges, and into which run. Pure; a plan can be printed, tested and refused.

Sources are adjacent layers. Their output becomes the lowest run among them, or a new run above all others if only L0
views are merged. See docs/reference/format/compactions.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self, TypeAlias

from slatespark.errors import OptionError
from slatespark.format.compactions import CompactionSpec, TieredSpec
from slatespark.format.manifest import Manifest
from slatespark.format.references import SstView
from slatespark.format.ulid import Ulid
from slatespark.options.defaults import INCLUDE_SIZE_THRESHOLD, MAX_COMPACTION_SOURCES, MIN_COMPACTION_SOURCES
from slatespark.options.values import parse_count
from slatespark.ranges import (
    ALL_KEYS,
    KeyRange,
    complement_ranges,
    merge_ranges,
    overlapping_ranges,
    parts_within,
    prefix_range,
)
from slatespark.table.read.planning.plan import Layer, SstFile, cut_to_ranges

SIZE_TIERED: Final = "size-tiered"
FULL: Final = "full"
INTERVAL: Final = "interval"
L0_ONLY: Final = "L0"
DUE: Final = "due"
SMALL: Final = "small runs"
CUT_FILES: Final = "cut files"

MAX_SOURCES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class SizeTiers:
    """The parameters of the client's size-tiered scheduler, with its names and defaults.

    Attributes
    ----------
    min_compaction_sources, max_compaction_sources : bounds of the number of layers in one compaction
    include_size_threshold : how many times as large as the smallest newer source the next one may be
    """

    min_compaction_sources: int = MIN_COMPACTION_SOURCES
    max_compaction_sources: int = MAX_COMPACTION_SOURCES
    include_size_threshold: float = INCLUDE_SIZE_THRESHOLD

    @classmethod
    def parse(cls, min_sources: object, max_sources: object, threshold: object) -> Self:
        """Return the parameters that a user gave; raises `OptionError` for those with which merging never ends."""
        least = parse_count(2, MAX_SOURCES)(min_sources, "minCompactionSources")
        most = parse_count(2, MAX_SOURCES)(max_sources, "maxCompactionSources")
        if least > most:
            raise OptionError(
                f"minCompactionSources: {least} is more than maxCompactionSources, {most}.",
                todo="Lower minCompactionSources, or raise maxCompactionSources.",
            )
        if not isinstance(threshold, int | float) or not 1 <= threshold < math.inf:
            raise OptionError(
                f"includeSizeThreshold: {threshold!r} is not valid.", todo="Give a number of 1 or more, like 4."
            )
        return cls(least, most, float(threshold))


@dataclass(frozen=True, slots=True)
class SourceLayer:
    """A layer of a version: an L0 view, or a sorted run.

    Attributes
    ----------
    views : as in the manifest; one per slice if the layer is not cut
    run_id : id of a sorted run; None for an L0 view
    """

    layer: Layer
    views: tuple[SstView, ...]
    run_id: int | None

    @property
    def stored_bytes(self) -> int:
        """Size as the client counts it: data and filters of the whole file, once per view of it."""
        return sum(part.file.info.filter_offset + part.file.info.filter_len for part in self.layer.slices)

    def cut(self, keys: Sequence[KeyRange]) -> SourceLayer:
        """Return the part that overlaps the keys: slices cut to them, with their views unchanged."""
        name = self.layer.name
        pieces = [
            (view, piece)
            for view, part in zip(self.views, self.layer.slices, strict=True)
            for layer in cut_to_ranges([Layer(name, (part,))], keys)
            for piece in layer.slices
        ]
        views = tuple(dict.fromkeys(view for view, _ in pieces))
        return SourceLayer(Layer(name, tuple(piece for _, piece in pieces)), views, self.run_id)


@dataclass(frozen=True, slots=True)
class Tree:
    """The layers of one tree of a version, for planning: those of a segment, or all of a table without segments.

    Attributes
    ----------
    version : manifest id
    layers : newest first; without empty runs
    next_run_id : the number of a new run
    segment : the prefix of its keys; empty for a table without segments
    busy : numbers of runs and ids of L0 views that another compaction merges
    """

    version: int
    layers: tuple[SourceLayer, ...]
    next_run_id: int
    segment: bytes = b""
    busy: frozenset[int | Ulid] = frozenset()

    def is_busy(self, layer: SourceLayer) -> bool:
        """Tell whether another compaction merges a layer; an L0 view keeps its id when a commit makes it a run."""
        return layer.run_id in self.busy or any(view.id in self.busy for view in layer.views)

    def with_busy(self, jobs: Iterable[CompactionSpec]) -> Tree:
        """Return the same tree with the sources of other compactions marked as busy."""
        specs = list(jobs)
        busy = frozenset[int | Ulid](
            source for spec in specs for sources in (spec.sorted_runs, spec.l0_view_ids) for source in sources
        )
        taken = [spec.destination + 1 for spec in specs if isinstance(spec, TieredSpec)]
        return replace(self, busy=busy, next_run_id=max([self.next_run_id, *taken]))


def trees_of(version: int, manifest: Manifest, layers: Sequence[Layer]) -> tuple[Tree, ...]:
    """Return the trees of a version that have files, by prefix.

    Requires: `layers` are all of its layers, as `plan_layers` returns them.
    """
    remaining = iter(layers)
    next_run_id = max(manifest.run_ids(), default=-1) + 1
    trees = []
    for tree in manifest.trees():
        views = [((view,), None) for view in tree.l0] + [(run.views, run.id) for run in tree.compacted]
        found = [SourceLayer(next(remaining), shown, run_id) for shown, run_id in views]
        trees.append(Tree(version, tuple(source for source in found if source.views), next_run_id, tree.prefix))
    return tuple(tree for tree in trees if tree.layers)


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """One compaction: a job in `.compactions`, and a commit.

    Attributes
    ----------
    kind : how it was chosen: `size-tiered`, `full`, `interval`, `cut files`, `L0`, `due`, `small runs`
    version : manifest id that it was planned on
    sources : newest first; slices cut to the keys
    keys : merged key ranges, ascending, not overlapping
    destination : number of the output run
    is_lowest : nothing below the sources holds any of the keys, so tombstones can be dropped
    above : files above the sources that hold some of the keys
    """

    kind: str
    version: int
    sources: tuple[SourceLayer, ...]
    keys: tuple[KeyRange, ...]
    destination: int
    is_lowest: bool
    above: frozenset[Ulid] = field(default_factory=frozenset)
    segment: bytes = b""

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers to read, newest first."""
        return tuple(source.layer for source in self.sources)

    @property
    def files(self) -> tuple[SstFile, ...]:
        """The files to read, each once."""
        return tuple(dict.fromkeys(part.file for layer in self.layers for part in layer.slices))

    @property
    def stored_bytes(self) -> int:
        """Size of these files without their footers; less is read if they are cut."""
        return sum(file.info.sections_end for file in self.files)

    @property
    def views(self) -> tuple[tuple[SstView, ...], ...]:
        """The views of the sources, layer by layer."""
        return tuple(source.views for source in self.sources)

    @property
    def spec(self) -> TieredSpec:
        """The sources and the destination as listed in `.compactions`."""
        return TieredSpec(
            l0_view_ids=tuple(view.id for source in self.sources if source.run_id is None for view in source.views),
            sorted_runs=tuple(source.run_id for source in self.sources if source.run_id is not None),
            destination=self.destination,
            segment=self.segment,
        )


Pick: TypeAlias = Callable[[Tree], CompactionPlan | None]


# --- plans of each kind ---------------------------------------------------------------------------------------------


def plan_merge(
    tree: Tree, kind: str, chosen: Sequence[SourceLayer], keys: Sequence[KeyRange] = (ALL_KEYS,)
) -> CompactionPlan | None:
    """Return the plan that merges some keys of adjacent layers; None if the layers hold none of the keys.

    Parameters
    ----------
    chosen : layers of the tree, newest first; none in between that holds any of the keys is left out
    keys : ascending, not overlapping, none empty; those outside the segment of the tree do not count
    """
    if not chosen:
        return None
    keys = parts_within(keys, prefix_range(tree.segment))
    first = tree.layers.index(chosen[0])
    end = tree.layers.index(chosen[-1]) + 1
    cut = [layer.cut(keys) for layer in chosen]
    sources = tuple(layer for layer in cut if layer.views)
    if not sources:
        return None
    runs = [source.run_id for source in sources if source.run_id is not None]
    return CompactionPlan(
        kind=kind,
        version=tree.version,
        sources=sources,
        keys=tuple(keys),
        destination=min(runs, default=tree.next_run_id),
        is_lowest=not any(layer.cut(keys).views for layer in tree.layers[end:]),
        above=frozenset(view.sst_id for layer in tree.layers[:first] for view in layer.cut(keys).views),
        segment=tree.segment,
    )


def plan_full(tree: Tree, *, except_for: Collection[bytes] = ()) -> CompactionPlan | None:
    """Return the plan that merges everything into one run; None for a tree without files.

    Parameters
    ----------
    except_for : segments that stay as they are
    """
    return None if tree.segment in except_for else plan_merge(tree, FULL, tree.layers)


def plan_interval(tree: Tree, keys: Sequence[KeyRange]) -> CompactionPlan | None:
    """Return the plan that merges all layers in some key ranges; None if no file holds such keys."""
    return plan_merge(tree, INTERVAL, tree.layers, keys)


def plan_l0(tree: Tree) -> CompactionPlan | None:
    """Return the plan that merges all L0 views into a new run; None if there are none."""
    return plan_merge(tree, L0_ONLY, [layer for layer in tree.layers if layer.run_id is None])


def plan_due(tree: Tree, due: Collection[Ulid]) -> CompactionPlan | None:
    """Return the plan that rewrites the due files of the newest layer that has any, in place; None if none has.

    Expired rows become tombstones, or are dropped if nothing older lies below. Rows hidden by newer files stay until
    they are merged.
    """
    return _plan_files(tree, DUE, due)


def plan_cut_files(tree: Tree, files: Collection[Ulid]) -> CompactionPlan | None:
    """Return the plan that rewrites what the newest layer with any of some files shows of them, in place.

    Hidden rows of a file stay stored as long as any view shows another part of it. Layers that another compaction
    merges are left to it.
    """
    return _plan_files(tree, CUT_FILES, files, skips_busy=True)


def _plan_files(tree: Tree, kind: str, files: Collection[Ulid], *, skips_busy: bool = False) -> CompactionPlan | None:
    for layer in tree.layers:
        parts = [part.keys for part in layer.layer.slices if part.file.id in files]
        if parts and not (skips_busy and tree.is_busy(layer)):
            return plan_merge(tree, kind, [layer], _joined(parts))
    return None


def pick_next(pick: Pick, trees: Iterable[Tree], done: Collection[bytes]) -> CompactionPlan | None:
    """Return the first plan for a tree that is not done; None if there is none."""
    plans = (pick(tree) for tree in trees if tree.segment not in done)
    return next((plan for plan in plans if plan is not None), None)


def find_cut_files(trees: Iterable[Tree], keys: Sequence[KeyRange]) -> frozenset[Ulid]:
    """Return the files that reach into some key ranges, and of which no layer shows the whole part there.

    Parameters
    ----------
    trees : all of a version
    keys : ascending, not overlapping
    """
    shown: dict[SstFile, list[KeyRange]] = {}
    for layer in (layer for tree in trees for layer in tree.layers):
        for part in layer.layer.slices:
            shown.setdefault(part.file, []).append(part.keys)
    return frozenset(
        file.id
        for file, parts in shown.items()
        for hidden in complement_ranges(merge_ranges(parts))
        if any(True for _ in overlapping_ranges(keys, hidden.intersect(file.info.key_range())))
    )


def plan_small_runs(tree: Tree, *, below_bytes: int, at_least: int, at_most: int) -> CompactionPlan | None:
    """Return the plan that merges the longest series of adjacent small runs; None if it is too short.

    Parameters
    ----------
    below_bytes : size limit of a small run
    at_least, at_most : length of the series, and how many of it are merged, the oldest ones
    """
    series = max(_series(tree.layers, below_bytes), key=len, default=[])
    return plan_merge(tree, SMALL, series[-at_most:]) if len(series) >= at_least else None


def _series(layers: Iterable[SourceLayer], below_bytes: int) -> Iterable[list[SourceLayer]]:
    found: list[SourceLayer] = []
    for layer in layers:
        if layer.stored_bytes < below_bytes:
            found.append(layer)
            continue
        yield found
        found = []
    yield found


def _joined(parts: Sequence[KeyRange]) -> tuple[KeyRange, ...]:
    """Return ascending ranges, which may share a boundary key, as disjoint ranges."""
    joined: list[KeyRange] = []
    for keys in parts:
        if joined and joined[-1].end is not None and keys.start <= joined[-1].end:
            joined[-1] = replace(joined[-1], end=keys.end)
        else:
            joined.append(keys)
    return tuple(joined)


# --- size tiers -----------------------------------------------------------------------------------------------------


def plan_size_tiered(tree: Tree, tiers: SizeTiers) -> CompactionPlan | None:
    """Return the next merge of the client's scheduler; None if it finds nothing to merge.

    L0 views come first, the oldest ones if there are many. Then the newest series of runs of which each is at most
    `include_size_threshold` times as large as the smallest newer one. Either waits while `max_compaction_sources` runs
    of similar size lie below it; those are merged first. A busy layer ends a series.
    """
    l0 = [layer for layer in tree.layers if layer.run_id is None]
    runs = [layer for layer in tree.layers if layer.run_id is not None]
    sizes, most = [run.stored_bytes for run in runs], tiers.max_compaction_sources
    oldest = l0[-most:]
    size = sum(layer.stored_bytes for layer in oldest)
    is_free = len(l0) >= tiers.min_compaction_sources and not any(tree.is_busy(layer) for layer in oldest)
    if is_free and not _is_held_back(size, sizes, 0, tiers):
        return plan_merge(tree, SIZE_TIERED, oldest)
    busy = [at for at, run in enumerate(runs) if tree.is_busy(run)]
    for start in range(len(runs)):
        border = next((at for at in busy if at >= start), len(runs))
        end = min(_find_end(sizes, start, tiers), border)
        if end - start >= tiers.min_compaction_sources:
            return plan_merge(tree, SIZE_TIERED, runs[max(start, end - most) : end])
    return None


def _find_end(sizes: Sequence[int], start: int, tiers: SizeTiers) -> int:
    """Return the end of the series of similar runs from `start`, or where it would have to wait."""
    smallest, total = sizes[start], 0
    for at in range(start, len(sizes)):
        if sizes[at] > smallest * tiers.include_size_threshold:
            return at
        smallest, total = min(smallest, sizes[at]), total + sizes[at]
        if _is_held_back(total, sizes, at + 1, tiers):
            return at
    return len(sizes)


def _is_held_back(total: int, sizes: Sequence[int], below: int, tiers: SizeTiers) -> bool:
    """Tell whether a full compaction's worth of similar runs lies right below an output of `total` bytes."""
    if below == len(sizes) or sizes[below] > total * tiers.include_size_threshold:
        return False
    smallest = sizes[below]
    for at in range(below, len(sizes)):
        if sizes[at] > smallest * tiers.include_size_threshold:
            return False
        smallest = min(smallest, sizes[at])
        if at - below + 1 == tiers.max_compaction_sources:
            return True
    return False
