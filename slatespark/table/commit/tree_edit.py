"""TreeEdit: what a commit does to the trees that it finds, before it puts files of its own above them. Pure.

A commit moves L0 views into runs first, so an edit only ever sees sorted runs. It is applied anew whenever
another commit comes in between, and refuses if what it was planned on is no longer there.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from slatespark.errors import CommitConflictError
from slatespark.format.manifest import BytesRange, Manifest, SortedRun, SstView
from slatespark.format.ulid import Ulid, make_ulid
from slatespark.ranges import ALL_KEYS, KeyRange, complement_ranges
from slatespark.table.rows.sst_upload import NewFile

_RANDOM_BYTES: Final = 10  # of a ULID


class TreeEdit(Protocol):
    """A change of the trees that stand."""

    @property
    def keeps_wal(self) -> bool:
        """Whether rows that only the WAL has stay, in a run above the trees."""

    @property
    def files(self) -> tuple[NewFile, ...]:
        """Files that it puts into the trees; their rows keep the sequence numbers they have."""

    def with_files(self, files: tuple[NewFile, ...]) -> TreeEdit:
        """Return the same change with `files`, in the same order, but under other ids."""

    def apply(self, base: Manifest) -> Manifest:
        """Return a manifest without L0 with its runs changed, and every new file among its SSTs.

        SSTs and external files that no view shows any more may stay listed; the caller takes them out.

        Raises
        ------
        CommitConflictError
            When the trees are not what the change was planned on.
        """


@dataclass(frozen=True, slots=True)
class KeepTrees:
    """Everything stays."""

    keeps_wal: bool = True
    files: tuple[NewFile, ...] = ()

    def with_files(self, files: tuple[NewFile, ...]) -> KeepTrees:
        """Return itself: there are no files."""
        return self

    def apply(self, base: Manifest) -> Manifest:
        """Return what was given."""
        return base


@dataclass(frozen=True, slots=True)
class DropTrees:
    """Everything goes, rows of the WAL too."""

    keeps_wal: bool = False
    files: tuple[NewFile, ...] = ()

    def with_files(self, files: tuple[NewFile, ...]) -> DropTrees:
        """Return itself: there are no files."""
        return self

    def apply(self, base: Manifest) -> Manifest:
        """Return the manifest without runs."""
        return replace(base, compacted=())


@dataclass(frozen=True, slots=True)
class ReplaceViews:
    """Views give way to new files in the same places, or to nothing.

    Attributes
    ----------
    replacements : for each view the files, in key order, that hold what is left of its rows; none drops it
    """

    replacements: Mapping[SstView, tuple[NewFile, ...]] = field(default_factory=dict)
    keeps_wal: bool = True

    @property
    def files(self) -> tuple[NewFile, ...]:
        """All new files, view by view."""
        return tuple(file for files in self.replacements.values() for file in files)

    def with_files(self, files: tuple[NewFile, ...]) -> ReplaceViews:
        """Return the same change with other ids of its files."""
        fresh = iter(files)
        renamed = {view: tuple(next(fresh) for _ in old) for view, old in self.replacements.items()}
        return replace(self, replacements=renamed)

    def apply(self, base: Manifest) -> Manifest:
        """Return the manifest with the views replaced; raises `CommitConflictError` when one of them is gone."""
        gone = set(self.replacements) - set(base.views())
        if gone:
            raise CommitConflictError(
                f"{len(gone)} of {len(self.replacements)} files to be replaced are gone, {min(gone, key=str).sst_id} "
                "among them.",
                why="A compaction or another commit came first.",
                todo="Run it again.",
            )
        runs = (SortedRun(run.id, tuple(self._views_of(run.views))) for run in base.compacted)
        compacted = tuple(run for run in runs if run.views)
        return replace(base, compacted=compacted, ssts=base.ssts.adding([file.handle for file in self.files]))

    def _views_of(self, views: Iterable[SstView]) -> Iterable[SstView]:
        for view in views:
            if view in self.replacements:
                yield from identity_views(self.replacements[view])
            else:
                yield view


@dataclass(frozen=True, slots=True)
class CutViews:
    """What stands shows only keys outside of some intervals, without a file being rewritten.

    See docs/explanation/editing-a-manifest.md.

    A view with an interval inside it becomes two views of one file; one that lies in an interval goes. Rows that only
    the WAL has stay as far as their keys lie outside.

    Attributes
    ----------
    keys : the intervals, ascending, not overlapping, none empty
    seed : random number that makes the ids of the views
    """

    keys: tuple[KeyRange, ...]
    seed: int
    keeps_wal: bool = True
    files: tuple[NewFile, ...] = ()

    def with_files(self, files: tuple[NewFile, ...]) -> CutViews:
        """Return itself: there are no files."""
        return self

    def apply(self, base: Manifest) -> Manifest:
        """Return the manifest with the views cut."""
        outside = complement_ranges(self.keys)
        runs = (
            SortedRun(run.id, tuple(piece for view in run.views for piece in _cut(view, base, outside, self.seed)))
            for run in base.compacted
        )
        return replace(base, compacted=tuple(run for run in runs if run.views))


@dataclass(frozen=True, slots=True)
class MergeRuns:
    """The versions of some keys in neighbouring layers give way to the files that they were merged into.

    The files stand in the lowest run that had any of these versions, and the runs above lose them. What the views show
    of other keys stays; so several intervals of one run can be merged at the same time, one commit after the other.

    Attributes
    ----------
    sources : of each layer that was merged the views that show any of the keys, newest layer first
    keys : what was merged: intervals, ascending, not overlapping, none empty
    outputs : the files in key order; their rows keep the sequence numbers they have
    seed : random number that makes the ids of views that are cut
    is_lowest : nothing below the sources held any of the keys, and it has to be so still
    known_above : files that may hold some of the keys above the sources; with them given, no operand for the keys may
        come out of the WAL either. None for any
    drops_visible_rows : rows that reads showed may be missing from the files, since filters took them
    """

    sources: tuple[tuple[SstView, ...], ...]
    keys: tuple[KeyRange, ...]
    outputs: tuple[NewFile, ...]
    seed: int
    is_lowest: bool = False
    known_above: frozenset[Ulid] | None = None
    drops_visible_rows: bool = False
    keeps_wal: bool = True

    @property
    def files(self) -> tuple[NewFile, ...]:
        """What the sources were merged into."""
        return self.outputs

    def with_files(self, files: tuple[NewFile, ...]) -> MergeRuns:
        """Return the same change with other ids of its files."""
        return replace(self, outputs=files)

    def apply(self, base: Manifest) -> Manifest:
        """Return the manifest with the sources merged.

        Raises
        ------
        CommitConflictError
            When a source is gone or was cut, or when other versions of the keys came where none may be.
        """
        newest, oldest = self._find_place(base)
        outside = complement_ranges(self.keys)
        runs = list(base.compacted)
        for at in range(newest, oldest + 1):
            left = [piece for view in runs[at].views for piece in _cut(view, base, outside, self.seed)]
            if at == oldest:
                left += identity_views(self.outputs)
            runs[at] = SortedRun(runs[at].id, tuple(left))
        ssts = base.ssts.adding([file.handle for file in self.outputs])
        lowest = sorted(runs[oldest].views, key=lambda view: view.key_range(ssts[view.sst_id]).start)
        runs[oldest] = SortedRun(runs[oldest].id, tuple(lowest))
        return replace(base, compacted=tuple(run for run in runs if run.views), ssts=ssts)

    def _find_place(self, base: Manifest) -> tuple[int, int]:
        """Return the positions of the newest and the oldest run with sources, having checked all others."""
        found = {
            part: at for at, run in enumerate(base.compacted) for view in run.views for part in self._parts(view, base)
        }
        wanted = {part for views in self.sources for view in views for part in self._parts(view, base)}
        known = {view.sst_id for views in self.sources for view in views}
        if not wanted or not wanted <= found.keys() or not known <= base.ssts.keys():
            raise _sources_changed("A file that was merged is gone, or shows other keys by now.")
        places = [found[part] for part in wanted]
        newest, oldest = min(places), max(places)
        for part in found.keys() - wanted:
            if newest <= found[part] <= oldest:
                raise _sources_changed(f"{part[0]} came between the files that were merged.")
            if found[part] > oldest and self.is_lowest:
                raise _sources_changed(f"{part[0]} came below the files that were merged.")
            if found[part] < newest and self.known_above is not None and part[0] not in self.known_above:
                raise _sources_changed(f"{part[0]} came above the files that were merged.")
        return newest, oldest

    def _parts(self, view: SstView, base: Manifest) -> Iterator[tuple[Ulid, KeyRange]]:
        """Yield which of the keys a view shows, and of which file; nothing of a file that is gone."""
        handle = base.ssts.get(view.sst_id)
        if handle is not None:
            shown = view.key_range(handle)
            for keys in _overlapping(self.keys, shown):
                yield view.sst_id, keys.intersect(shown)


def _sources_changed(what: str) -> CommitConflictError:
    return CommitConflictError(what, why="Another compaction or commit came first.", todo="Run it again.")


def _cut(view: SstView, base: Manifest, outside: tuple[KeyRange, ...], seed: int) -> Iterator[SstView]:
    """Yield what is left of a view outside of some intervals, in key order; one that they do not touch stays the same.

    Parameters
    ----------
    outside : the keys that lie in none of the intervals, ascending
    seed : random number that makes the ids
    """
    handle = base.ssts[view.sst_id]
    shown = view.key_range(handle)
    pieces = list(_overlapping(outside, shown))
    if len(pieces) == 1 and pieces[0].intersect(shown) == shown:
        yield view
        return
    allowed = ALL_KEYS if view.visible_range is None else view.visible_range.key_range()
    for number, piece in enumerate(pieces):
        yield SstView(_cut_id(view, number, seed), view.sst_id, BytesRange.of(piece.intersect(allowed)))


def _cut_id(view: SstView, number: int, seed: int) -> Ulid:
    """Return an id with the time of the SST, which the client's watermarks go by."""
    drawn = hashlib.sha256(f"{seed} {view.id} {number}".encode()).digest()
    return make_ulid(view.sst_id.timestamp_ms, int.from_bytes(drawn[:_RANDOM_BYTES]))


def _overlapping(ranges: tuple[KeyRange, ...], keys: KeyRange) -> Iterator[KeyRange]:
    """Yield those of ascending ranges that overlap `keys`."""
    first = max(0, bisect_right(ranges, keys.start, key=lambda item: item.start) - 1)
    for item in ranges[first:]:
        if keys.end is not None and item.start >= keys.end:
            return
        if item.overlaps(keys):
            yield item


def replaced_ranges(edit: TreeEdit) -> tuple[KeyRange, ...]:
    """Return the keys of which an edit leaves nothing as it was, ascending."""
    if isinstance(edit, CutViews):
        return edit.keys
    return (ALL_KEYS,) if isinstance(edit, DropTrees) else ()


def removed_ranges(edit: TreeEdit) -> tuple[KeyRange, ...]:
    """Return the keys of which an edit may take rows away that reads show, without a newer version of them; ascending.

    Files that are merged or rewritten hold what reads show of the ones before.
    """
    if isinstance(edit, MergeRuns):
        return edit.keys if edit.drops_visible_rows else ()
    return replaced_ranges(edit) or (() if edit.keeps_wal else (ALL_KEYS,))


def forbids_new_operands(edit: TreeEdit) -> bool:
    """Tell whether a merge operand that came meanwhile would have kept rows alive that an edit takes away."""
    return isinstance(edit, MergeRuns) and edit.known_above is not None


def identity_views(files: Iterable[NewFile]) -> list[SstView]:
    """Return views that show files whole, in key order."""
    handles = sorted((file.handle for file in files), key=lambda handle: handle.info.first_entry or b"")
    return [SstView(handle.id, handle.id) for handle in handles]


KEEP_TREES: Final = KeepTrees()
DROP_TREES: Final = DropTrees()
