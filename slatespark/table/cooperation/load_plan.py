"""What the rows of a load are merged with beside a live client, and which files are handed over as they are. Pure.

A load replaces the newest layers of each tree that it touches by one run that holds their rows and its own: one tree
where there are no segments. Only where both have rows are they merged; elsewhere finished files become part of the
run: those of the load as they are, those of the layers as copies, since no output may be older than its job.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, TypeAlias

from slatespark.format.compactions import Compaction, Compactions, CompactionStatus, TieredSpec
from slatespark.format.manifest import Manifest, Segment
from slatespark.format.references import SortedRun
from slatespark.format.ulid import Ulid
from slatespark.ranges import KeyRange
from slatespark.table.cooperation.job_rules import spec_of_slice
from slatespark.table.read.planning.plan import FileSlice, Layer, cut_layers, stored_bytes
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.stores import OWN_ROOT

LOAD: Final = "load"  # the name of the layer of its rows


@dataclass(frozen=True, slots=True)
class LoadSources:
    """The layers of one tree that a load replaces: all L0 views, or the newest run where there are none.

    Or some more runs.

    Attributes
    ----------
    manifest : whose layers they are
    tree : the tree that they are part of
    layers : newest first
    l0_views : how many of them are L0 views; the others are the newest runs
    """

    manifest: Manifest
    tree: Segment
    layers: tuple[Layer, ...]
    l0_views: int

    @property
    def seq(self) -> int:
        """The sequence number of every row of the load.

        The trees have no higher one, and whatever the client writes or flushes later is above it.
        """
        return self.manifest.last_l0_seq

    @property
    def runs(self) -> tuple[SortedRun, ...]:
        """The runs that are replaced."""
        return self.tree.compacted[: len(self.layers) - self.l0_views]

    @property
    def share_keys(self) -> bool:
        """Whether any of these files overlap. A client may move others as they are, without a worker."""
        return any(len(group) > 1 for group in _overlapping(self.layers))

    @property
    def is_lowest(self) -> bool:
        """Whether nothing lies below: then no tombstone is needed."""
        return not any(run.views for run in self.tree.compacted[len(self.runs) :])

    def spec(self, manifest: Manifest, listed: Compactions) -> TieredSpec | None:
        """Return the job on top of a later version; None if the sources are no longer its oldest L0, or newest run."""
        tree = manifest.find_tree(self.tree.prefix)
        if tree is None:
            return None
        views = [view.id for view in self.tree.l0]
        if [view.id for view in tree.l0[len(tree.l0) - len(views) :]] != views:
            return None
        if tree.compacted[: len(self.runs)] != self.runs:  # a run keeps its id when it is merged
            return None
        return spec_of_slice(manifest, listed, tree.prefix, l0=len(views), runs=(0, len(self.runs)))


def plan_specs(
    sources: Sequence[LoadSources], manifest: Manifest, listed: Compactions
) -> tuple[TieredSpec, ...] | None:
    """Return the jobs of all trees on top of a later version; None if the sources of one have changed."""
    specs: list[TieredSpec] = []
    for each in sources:
        if (spec := each.spec(manifest, listed)) is None:
            return None
        specs.append(spec)
        taken = Compaction(Ulid(len(specs)), spec, CompactionStatus.SUBMITTED)  # no two jobs have one destination
        listed = replace(listed, jobs=(*listed.jobs, taken))
    return tuple(specs)


def plan_sources(
    manifest: Manifest,
    layers: Sequence[Layer],
    prefixes: Collection[bytes],
    *,
    limit_bytes: int,
    share_keys: bool = False,
    with_runs: Collection[int] = (),
) -> tuple[LoadSources, ...]:
    """Return what a load replaces in a version, by prefix of the trees.

    A tree is left out if it has nothing to replace: no L0, and no run or too large a one.

    Parameters
    ----------
    layers : all of the version, as `plan_layers` returns them
    prefixes : prefixes of the segments that the load touches; an empty one for a database without segments
    limit_bytes : `commitRewriteLimit`: larger runs are not replaced
    share_keys : sources that share no keys do not count, so more runs may be needed
    with_runs : layers that are replaced in any case, with those above them
    """
    found: list[LoadSources] = []
    start = 0
    for tree in manifest.trees():
        end = start + len(tree.l0) + len(tree.compacted)
        own, start = layers[start:end], end
        if tree.prefix in prefixes:
            sources = _sources_of(manifest, tree, own, limit_bytes, share_keys=share_keys, with_runs=with_runs)
            found.extend([] if sources is None else [sources])
    return tuple(found)


def _sources_of(
    manifest: Manifest,
    tree: Segment,
    layers: Sequence[Layer],
    limit_bytes: int,
    *,
    share_keys: bool,
    with_runs: Collection[int],
) -> LoadSources | None:
    l0 = len(tree.l0)
    needed = max((at for at, run in enumerate(tree.compacted, 1) if run.id in with_runs), default=0)
    for end in range(max(l0 + needed, 1), len(layers) + 1):
        found = LoadSources(manifest, tree, tuple(layers[:end]), l0)
        if stored_bytes(layers[l0:end]) > limit_bytes:
            return None
        if found.share_keys or not share_keys:
            return found
    return None


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file of the load that is handed over as it is."""

    file: NewFile


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A whole file of a source, of which a copy is handed over."""

    part: FileSlice


@dataclass(frozen=True, slots=True)
class MergedKeys:
    """A key range whose rows are merged and written anew.

    Attributes
    ----------
    layers : layers of the load and the sources, newest first, cut to the range
    """

    keys: KeyRange
    layers: tuple[Layer, ...]

    @property
    def load_bytes(self) -> int:
        """Stored bytes of the files of the load in the range."""
        return stored_bytes(layer for layer in self.layers if layer.name == LOAD)


Piece: TypeAlias = KeptFile | CopiedFile | MergedKeys


def merged_bytes(pieces: Iterable[Piece]) -> int:
    """Return the stored bytes of the files that a merge reads, those of the client included."""
    return sum(stored_bytes(piece.layers) for piece in pieces if isinstance(piece, MergedKeys))


def plan_pieces(
    load: Sequence[Sequence[NewFile]], sources: LoadSources, *, moves: bool, small_bytes: int
) -> tuple[Piece, ...]:
    """Return the parts of the new run, in key order.

    Parameters
    ----------
    load : files in key order that do not overlap, from each of its tasks, newest first
    moves : whether the rows of the load get other numbers or times, so that their files have to be written anew
    small_bytes : smaller files are merged with their neighbours
    """
    layers = (*(Layer(LOAD, tuple(file.whole() for file in files)) for files in load), *sources.layers)
    own = {file.handle.id: file for files in load for file in files}
    groups = list(_overlapping(layers))
    settled = [_reusable_files(group, own, moves=moves) for group in groups]
    small = [sum(part.file.data_bytes for _, part in group) < small_bytes for group in groups]
    for at in range(len(groups)):
        beside = [number for number in (at - 1, at + 1) if 0 <= number < len(groups)]
        if small[at] and any(small[number] or settled[number] is None for number in beside):
            settled[at] = None
    pieces: list[Piece] = []
    for is_settled, members in groupby(range(len(groups)), key=lambda at: settled[at] is not None):
        numbers = list(members)
        if is_settled:
            pieces.extend(piece for number in numbers for piece in settled[number] or ())
        else:
            keys = KeyRange(_start(groups[numbers[0]]), _end(groups[numbers[-1]]))
            pieces.append(MergedKeys(keys, cut_layers(layers, keys)))
    return tuple(pieces)


_Group: TypeAlias = list[tuple[int, FileSlice]]  # number of the layer, and a slice of it


def _overlapping(layers: Sequence[Layer]) -> Iterator[_Group]:
    """Yield the slices in groups that share no key with each other, in key order."""
    parts = sorted(
        ((number, part) for number, layer in enumerate(layers) for part in layer.slices),
        key=lambda item: item[1].keys.start,
    )
    group: _Group = []
    for number, part in parts:
        end = _end(group) if group else None
        if group and end is not None and part.keys.start >= end:
            yield group
            group = []
        group.append((number, part))
    if group:
        yield group


def _start(group: _Group) -> bytes:
    return group[0][1].keys.start


def _end(group: _Group) -> bytes | None:
    ends = [part.keys.end for _, part in group]
    known = [end for end in ends if end is not None]
    return max(known) if len(known) == len(ends) else None


def _reusable_files(group: _Group, own: dict[Ulid, NewFile], *, moves: bool) -> tuple[Piece, ...] | None:
    """Return the files of a group as they are; None if its rows have to be written anew."""
    if len({number for number, _ in group}) > 1:
        return None
    parts = [part for _, part in group]
    if any(part.file.root != OWN_ROOT for part in parts):  # on local disk, or of another database
        return None
    if parts[0].file.id in own:
        return None if moves else tuple(KeptFile(own[part.file.id]) for part in parts)
    return tuple(map(CopiedFile, parts)) if all(part.is_whole for part in parts) else None
