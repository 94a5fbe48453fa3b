"""TreeEdit: the change that a commit makes to the existing trees, before it adds its own files above them. Pure.

A commit first moves L0 views into runs, so an edit only sees sorted runs. It is applied again after each lost race, and
refuses if the trees that it was planned on have changed. It may leave segments without runs; the commit drops these.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import ClassVar, Final, Self

from slatespark.errors import CommitConflictError
from slatespark.format.manifest import Manifest
from slatespark.format.references import BytesRange, SortedRun, SstView
from slatespark.format.segments import KeySegments
from slatespark.format.ulid import Ulid, make_ulid
from slatespark.ranges import ALL_KEYS, KeyRange, complement_ranges, overlapping_ranges
from slatespark.table.read.gaps import Gaps, is_gap
from slatespark.table.rows.sst_upload import NewFile

SEED_BITS: Final = 64  # of the random number that makes the ids of cut views
_RANDOM_BYTES: Final = 10  # of a ULID


@dataclass(frozen=True, slots=True)
class TreeEdit:
    """A change of the existing trees; this one leaves everything as it is.

    Attributes
    ----------
    keeps_wal : whether rows that are only in the WAL stay, in a run above the trees
    """

    keeps_wal: ClassVar[bool] = True

    @property
    def files(self) -> tuple[NewFile, ...]:
        """Files that it adds to the trees; their rows keep their sequence numbers."""
        return ()

    @property
    def replaced(self) -> tuple[KeyRange, ...]:
        """The key ranges that it replaces entirely, ascending."""
        return ()

    @property
    def left_out_of_wal(self) -> tuple[KeyRange, ...]:
        """The key ranges whose rows do not stay if they are only in the WAL, ascending."""
        return self.replaced

    @property
    def removed(self) -> tuple[KeyRange, ...]:
        """The key ranges in which it may remove visible rows without a newer version, ascending.

        Rewritten files hold all visible rows of the previous ones.
        """
        return self.replaced or (() if self.keeps_wal else (ALL_KEYS,))

    @property
    def is_bounded(self) -> bool:
        """Whether it is for some key ranges only, whose bounds depend on the types of the key columns."""
        return self.keeps_wal and bool(self.left_out_of_wal)

    @property
    def forbids_new_operands(self) -> bool:
        """Whether a merge operand added meanwhile could keep rows alive that it removes."""
        return False

    def with_files(self, files: tuple[NewFile, ...]) -> Self:
        """Return the same edit with `files`: the same ones in the same order, under other ids."""
        del files
        return self

    def apply(self, base: Manifest) -> Manifest:
        """Return a manifest without L0 with its runs changed, and every new file among its SSTs.

        SSTs and external files that no view shows any more may stay listed; the caller removes them.

        Raises
        ------
        CommitConflictError
            When the trees that the edit was planned on have changed.
        """
        return base


@dataclass(frozen=True, slots=True)
class DropTrees(TreeEdit):
    """Everything is removed, rows of the WAL included."""

    keeps_wal = False

    @property
    def replaced(self) -> tuple[KeyRange, ...]:
        """All keys."""
        return (ALL_KEYS,)

    def apply(self, base: Manifest) -> Manifest:
        """Return the manifest without runs and segments."""
        return base.with_runs({tree.prefix: () for tree in base.trees()})


@dataclass(frozen=True, slots=True)
class ReplaceViews(TreeEdit):
    """New files replace views in the same places; a view without files is dropped.

    Attributes
    ----------
    replacements : for each view, the files in key order that hold its remaining rows
    """

    replacements: Mapping[SstView, tuple[NewFile, ...]]

    @property
    def files(self) -> tuple[NewFile, ...]:
        """All new files, view by view."""
        return tuple(file for files in self.replacements.values() for file in files)

    def with_files(self, files: tuple[NewFile, ...]) -> Self:
        """Return the same edit with other ids of its files."""
        fresh = iter(files)
        renamed = {view: tuple(next(fresh) for _ in old) for view, old in self.replacements.items()}
        return replace(self, replacements=renamed)

    def apply(self, base: Manifest) -> Manifest:
        """Return the manifest with the views replaced; raises `CommitConflictError` when one of them is gone."""
        gone = set(self.replacements) - set(base.views())
        if gone:
            raise _trees_changed(
                f"{len(gone)} of {len(self.replacements)} files to be replaced are gone, {min(gone, key=str).sst_id} "
                "among them."
            )
        ssts = base.ssts.adding([file.handle for file in self.files])
        return replace(change_runs(base, self._views_of), ssts=ssts)

    def _views_of(self, views: Iterable[SstView]) -> Iterable[SstView]:
        for view in views:
            if view in self.replacements:
                yield from identity_views(self.replacements[view])
            else:
                yield view


@dataclass(frozen=True, slots=True)
class EraseKeys(ReplaceViews):
    """New files without some keys replace views; rows of these keys that are only in the WAL are left out.

    No bound of a view names an erased key, unlike after `CutViews`.

    Attributes
    ----------
    keys : the erased ranges, ascending, not overlapping, none empty
    """

    keys: tuple[KeyRange, ...]

    @property
    def left_out_of_wal(self) -> tuple[KeyRange, ...]:
        """The erased ranges."""
        return self.keys

    @property
    def removed(self) -> tuple[KeyRange, ...]:
        """All keys: the erased ones must not be recorded."""
        return (ALL_KEYS,)


@dataclass(frozen=True, slots=True)
class CutViews(TreeEdit):
    """Existing views show only keys outside some intervals; no file is rewritten.

    See docs/explanation/editing-a-manifest.md.

    A view with an interval inside it becomes two views of one file; a view within an interval is dropped. Rows that are
    only in the WAL stay if their keys are outside.

    Attributes
    ----------
    keys : the intervals, ascending, not overlapping, none empty; none to drop only views that show no row
    seed : random number that makes the ids of the views
    gaps : where files are known to hold no row: a view is not cut there, and a part of a view is dropped
    """

    keys: tuple[KeyRange, ...]
    seed: int
    gaps: Gaps = field(default_factory=dict)

    @property
    def replaced(self) -> tuple[KeyRange, ...]:
        """The intervals."""
        return self.keys

    def apply(self, base: Manifest) -> Manifest:
        """Return the manifest with the views cut."""
        outside = complement_ranges(self.keys)
        return change_runs(base, lambda views: (part for view in views for part in self._parts(view, base, outside)))

    def _parts(self, view: SstView, base: Manifest, outside: tuple[KeyRange, ...]) -> Iterator[SstView]:
        """Yield the parts of a view that stay, in key order."""
        gaps = self.gaps.get(view.sst_id)
        if gaps is None:
            yield from _cut(view, base, outside, self.seed)
            return
        shown = view.key_range(base.ssts[view.sst_id])
        held = [keys for keys in overlapping_ranges(self.keys, shown) if not is_gap(keys.intersect(shown), gaps)]
        parts = _cut(view, base, complement_ranges(held), self.seed)
        yield from (part for part in parts if not _is_empty(part, base, self.gaps))


@dataclass(frozen=True, slots=True)
class MergeRuns(TreeEdit):
    """Merged files replace the versions of some keys in neighbouring layers of one tree.

    The files join the lowest run that had any of these versions, and the runs above lose them. Versions of other keys
    stay; so several intervals of one run can be merged concurrently, one commit after the other.

    Attributes
    ----------
    sources : for each merged layer, the views that show any of the keys, newest layer first
    keys : the merged intervals, ascending, not overlapping, none empty
    seed : random number that makes the ids of cut views
    files : the merged files in key order; their rows keep their sequence numbers
    segment : the prefix of the tree, which all of the keys have
    is_lowest : no layer below the sources held any of the keys, which must still be so
    known_above : the only files above the sources that may hold some of the keys; the WAL may then hold no operand for
        them either. None for no such condition
    drops_visible_rows : the files may lack rows that reads showed, by filters or a later `now` than that of reads
    gaps : where source files are known to hold no row: a part of a view that shows no other keys is dropped
    """

    sources: tuple[tuple[SstView, ...], ...]
    keys: tuple[KeyRange, ...]
    seed: int
    files: tuple[NewFile, ...] = ()
    segment: bytes = b""
    is_lowest: bool = False
    known_above: frozenset[Ulid] | None = None
    drops_visible_rows: bool = False
    gaps: Gaps = field(default_factory=dict)

    @property
    def removed(self) -> tuple[KeyRange, ...]:
        """The merged intervals, if visible rows may have gone."""
        return self.keys if self.drops_visible_rows else ()

    @property
    def forbids_new_operands(self) -> bool:
        """Whether there is a condition on the files above."""
        return self.known_above is not None

    def with_files(self, files: tuple[NewFile, ...]) -> Self:
        """Return the same edit with other ids of its files."""
        return replace(self, files=files)

    def apply(self, base: Manifest) -> Manifest:
        """Return the manifest with the sources merged.

        Raises
        ------
        CommitConflictError
            When a source is gone or was cut, or when other versions of the keys appeared where none may be.
        """
        tree = base.find_tree(self.segment)
        if tree is None:
            raise _trees_changed("The segment of the merged files is gone.")
        newest, oldest = self._find_place(base, tree.compacted)
        outside = complement_ranges(self.keys)
        runs = list(tree.compacted)
        for at in range(newest, oldest + 1):
            parts = (piece for view in runs[at].views for piece in _cut(view, base, outside, self.seed))
            left = [piece for piece in parts if not _is_empty(piece, base, self.gaps)]
            if at == oldest:
                left += identity_views(self.files)
            runs[at] = SortedRun(runs[at].id, tuple(left))
        ssts = base.ssts.adding([file.handle for file in self.files])
        lowest = sorted(runs[oldest].views, key=lambda view: view.key_range(ssts[view.sst_id]).start)
        runs[oldest] = SortedRun(runs[oldest].id, tuple(lowest))
        return replace(base.with_runs({self.segment: (run for run in runs if run.views)}), ssts=ssts)

    def _find_place(self, base: Manifest, runs: Sequence[SortedRun]) -> tuple[int, int]:
        """Return the positions of the newest and the oldest run with sources, and check all others."""
        found = {part: at for at, run in enumerate(runs) for view in run.views for part in self._parts(view, base)}
        wanted = {part for views in self.sources for view in views for part in self._parts(view, base)}
        known = {view.sst_id for views in self.sources for view in views}
        if not wanted or not wanted <= found.keys() or not known <= base.ssts.keys():
            raise _trees_changed("A merged file is gone, or shows other keys now.")
        indices = [found[part] for part in wanted]
        newest, oldest = min(indices), max(indices)
        for part in found.keys() - wanted:
            if newest <= found[part] <= oldest:
                raise _trees_changed(f"{part[0]} was added between the merged files.")
            if found[part] > oldest and self.is_lowest:
                raise _trees_changed(f"{part[0]} was added below the merged files.")
            if found[part] < newest and self.known_above is not None and part[0] not in self.known_above:
                raise _trees_changed(f"{part[0]} was added above the merged files.")
        return newest, oldest

    def _parts(self, view: SstView, base: Manifest) -> Iterator[tuple[Ulid, KeyRange]]:
        """Yield the keys that a view shows, each with its file; nothing for a file that is gone."""
        handle = base.ssts.get(view.sst_id)
        if handle is not None:
            shown = view.key_range(handle)
            for keys in overlapping_ranges(self.keys, shown):
                yield view.sst_id, keys.intersect(shown)


def change_runs(base: Manifest, change: Callable[[Sequence[SstView]], Iterable[SstView]]) -> Manifest:
    """Return the manifest with the views of every run changed; a run without views is dropped."""
    changed = {
        tree.prefix: (SortedRun(run.id, tuple(change(run.views))) for run in tree.compacted) for tree in base.trees()
    }
    return base.with_runs({prefix: (run for run in runs if run.views) for prefix, runs in changed.items()})


def add_runs(base: Manifest, added: Mapping[bytes, Sequence[Sequence[SstView]]], taken: Iterable[int]) -> Manifest:
    """Return the manifest with runs above the existing ones of their trees.

    Parameters
    ----------
    added : for each tree, the views of its runs, oldest first; one without views is left out
    taken : ids that may not be used again; the new ones are above them
    """
    number = count(max(taken, default=-1) + 1)
    runs = {tree.prefix: tree.compacted for tree in base.trees()}
    for prefix, oldest_first in added.items():
        new = [SortedRun(next(number), tuple(views)) for views in oldest_first if views]
        runs[prefix] = (*reversed(new), *runs.get(prefix, ()))
    return base.with_runs(runs)


def _trees_changed(what: str) -> CommitConflictError:
    return CommitConflictError(what, why="Another compaction or commit came first.", todo="Run it again.")


def _is_empty(view: SstView, base: Manifest, gaps: Gaps) -> bool:
    """Tell whether a view is known to show no row."""
    return is_gap(view.key_range(base.ssts[view.sst_id]), gaps.get(view.sst_id, ()))


def _cut(view: SstView, base: Manifest, outside: tuple[KeyRange, ...], seed: int) -> Iterator[SstView]:
    """Yield the parts of a view outside some intervals, in key order; a view that they do not touch stays the same.

    Parameters
    ----------
    outside : the ranges between the intervals, ascending
    seed : random number that makes the ids
    """
    handle = base.ssts[view.sst_id]
    shown = view.key_range(handle)
    pieces = list(overlapping_ranges(outside, shown))
    if len(pieces) == 1 and pieces[0].intersect(shown) == shown:
        yield view
        return
    allowed = ALL_KEYS if view.visible_range is None else view.visible_range.key_range()
    for number, piece in enumerate(pieces):
        yield SstView(_cut_id(view, number, seed), view.sst_id, BytesRange.of(piece.intersect(allowed)))


def _cut_id(view: SstView, number: int, seed: int) -> Ulid:
    """Return an id with the time of the SST, which the client's watermarks use."""
    drawn = hashlib.sha256(f"{seed} {view.id} {number}".encode()).digest()
    return make_ulid(view.sst_id.timestamp_ms, int.from_bytes(drawn[:_RANDOM_BYTES]))


def files_by_segment(files: Sequence[NewFile], segments: KeySegments) -> dict[bytes, tuple[NewFile, ...]]:
    """Return files by the prefix of their segment, in the given order."""
    found: dict[bytes, list[NewFile]] = {}
    for file in files:
        found.setdefault(segments.prefix_of(file.keys.start), []).append(file)
    return {prefix: tuple(own) for prefix, own in found.items()}


def new_runs(files: Sequence[NewFile], segments: KeySegments) -> dict[bytes, list[list[SstView]]]:
    """Return files as one new run for each tree, as `add_runs` takes them."""
    return {prefix: [identity_views(own)] for prefix, own in files_by_segment(files, segments).items()}


def identity_views(files: Iterable[NewFile]) -> list[SstView]:
    """Return views that show whole files, in key order."""
    handles = sorted((file.handle for file in files), key=lambda handle: handle.info.first_entry or b"")
    return [SstView(handle.id, handle.id) for handle in handles]


KEEP_TREES: Final = TreeEdit()
DROP_TREES: Final = DropTrees()
