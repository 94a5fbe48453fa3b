"""The manifest of a commit, from the one before and the change. Pure.

See docs/explanation/taking-over-a-database.md, docs/explanation/editing-a-manifest.md, docs/explanation/how-a-commit-
works.md.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, replace

from slatespark.encoding.row_codec import RAW_CODEC, RowCodec
from slatespark.format.manifest import Manifest
from slatespark.format.references import SstView
from slatespark.format.segments import WHOLE, KeySegments
from slatespark.ranges import KeyRange, overlapping_ranges
from slatespark.table.commit.job import LAST_SEQ
from slatespark.table.commit.kept_history import KeptHistory
from slatespark.table.commit.tree_edit import (
    KEEP_TREES,
    TreeEdit,
    add_runs,
    change_runs,
    files_by_segment,
    identity_views,
)
from slatespark.table.read.gaps import may_show_rows
from slatespark.table.rows.sst_upload import NewFile
from slatespark.units import ms_to_s


@dataclass(frozen=True, slots=True)
class CommitChange:
    """The files that a commit adds to the trees, and its change of the existing ones.

    Attributes
    ----------
    outputs : new files per task, in key order; a later task is newer
    drained : files that hold the rows of the WAL, older than all outputs; none where the edit does not keep them
    segments : the segment of each file
    codec : codec of the table; views in whose range no key of it can lie are removed
    last_seq : the last sequence number that drained rows and outputs need, see `last_seq_of`
    tick_ms : highest create_ts of drained rows and outputs
    fence_id : id of the fence in the WAL; WAL files up to it are no longer needed
    kept : rows of a history table that a client's compaction must keep; None for other tables
    """

    outputs: tuple[tuple[NewFile, ...], ...]
    drained: tuple[NewFile, ...]
    last_seq: int
    tick_ms: int
    fence_id: int
    edit: TreeEdit = KEEP_TREES
    segments: KeySegments = WHOLE
    codec: RowCodec = RAW_CODEC
    kept: KeptHistory | None = None

    @property
    def files(self) -> list[NewFile]:
        """All new files."""
        return [*self.edit.files, *self.drained, *(file for group in self.outputs for file in group)]


def next_manifest(base: Manifest, change: CommitChange, *, now_ms: int, nonce: int) -> Manifest:
    """Return the manifest that publishes a change on top of `base`.

    L0 views become runs without rewriting, drained rows a run above them, new files runs above these. So no L0 is
    left: the client's writer, which stalls at eight, is never blocked by a commit.
    """
    edited = _without_empty_views(change.edit.apply(without_l0(base)), change.codec)
    taken = (*base.run_ids(), *edited.run_ids())  # a run id is never reused, not even after everything was dropped
    grown = add_runs(edited, _new_runs(change), taken)
    grown = grown.with_trees(tree for tree in grown.trees() if not (tree.prefix and tree.is_empty()))
    shown = grown.shown_ssts()
    last_seq = max(base.last_l0_seq + 1, change.last_seq)
    new_handles = [file.handle for files in (change.drained, *change.outputs) for file in files]
    return replace(
        grown,
        nonce=nonce,
        ssts=grown.ssts.adding(new_handles).keeping(shown),
        external_dbs=tuple(
            replace(database, sst_ids=tuple(sst_id for sst_id in database.sst_ids if sst_id in shown))
            for database in grown.external_dbs
        ),
        last_l0_seq=last_seq,
        recent_snapshot_min_seq=(
            last_seq if change.kept is None else change.kept.including(change.files).min_seq(shown, last_seq)
        ),
        last_l0_clock_tick=max(base.last_l0_clock_tick, change.tick_ms),
        replay_after_wal_id=change.fence_id,
        wal_id_last_seen=change.fence_id,
        sequence_tracker=base.sequence_tracker.record(last_seq, ms_to_s(now_ms)),
    )


def last_seq_of(outputs: Sequence[tuple[NewFile, ...]], segments: KeySegments) -> int:
    """Return the last sequence number of a version with these outputs; 0 without any.

    That is the number of their newest row or, if this row is not in the newest run of its tree, the next one. A load
    that a live client commits gets the last number, and is merged with the newest run only: no row below may have it.

    Parameters
    ----------
    outputs : as `CommitChange.outputs`
    """
    newest = max((file.properties.max_seq for files in outputs for file in files), default=0)
    lower = (run for runs in _stacked(outputs, segments).values() for run in runs[:-1])
    is_buried = any(file.properties.max_seq == newest for run in lower for file in run)
    return min(newest + is_buried, LAST_SEQ)


def _stacked(outputs: Sequence[tuple[NewFile, ...]], segments: KeySegments) -> dict[bytes, list[list[NewFile]]]:
    """Return for each segment the files of the runs that outputs become, oldest first."""
    tasks: dict[bytes, list[tuple[NewFile, ...]]] = {}
    for files in outputs:
        for prefix, own in files_by_segment(files, segments).items():
            tasks.setdefault(prefix, []).append(own)
    return {prefix: stack_outputs(own) for prefix, own in tasks.items()}


def _new_runs(change: CommitChange) -> dict[bytes, list[list[SstView]]]:
    """Return for each segment the views of the runs that a commit adds, oldest first."""
    drained = files_by_segment(change.drained, change.segments)
    stacked = _stacked(change.outputs, change.segments)
    return {
        prefix: [identity_views(files) for files in (drained.get(prefix, ()), *stacked.get(prefix, ()))]
        for prefix in dict.fromkeys((*drained, *stacked))
    }


def without_l0(manifest: Manifest) -> Manifest:
    """Return a manifest with each L0 view in a run of its own, above the others of its tree."""
    if not manifest.has_l0():
        return manifest
    moved = {tree.prefix: [[view] for view in reversed(tree.l0)] for tree in manifest.trees()}
    grown = add_runs(manifest, moved, manifest.run_ids())
    return grown.with_trees(
        replace(tree, l0=(), last_compacted_l0_sst_view_id=tree.l0[0].id) if tree.l0 else tree for tree in grown.trees()
    )


def _without_empty_views(manifest: Manifest, codec: RowCodec) -> Manifest:
    """Return a manifest without the views that no key of the table can lie in. Requires: no L0.

    Earlier versions of slatespark left such views between intervals that meet.
    """
    ssts = manifest.ssts
    infos = ((view, ssts[view.sst_id].info) for view in manifest.views())
    empty = {view for view, info in infos if not may_show_rows(view.key_range(info), info, codec)}
    if not empty:
        return manifest
    return change_runs(manifest, lambda views: (view for view in views if view not in empty))


def stack_outputs(outputs: Sequence[tuple[NewFile, ...]]) -> list[list[NewFile]]:
    """Arrange the files of tasks in as few runs as their order allows, oldest first.

    A task goes into the lowest run above every earlier task that it overlaps. So a later task shadows an earlier one,
    and the files of one run do not overlap.
    """
    levels: list[list[NewFile]] = []
    extents: list[list[KeyRange]] = []  # of the tasks of each level, ascending
    for files in outputs:
        if not files:
            continue
        extent = KeyRange(files[0].keys.start, files[-1].keys.end)
        level = len(levels)
        while level and not any(True for _ in overlapping_ranges(extents[level - 1], extent)):
            level -= 1
        if level == len(levels):
            levels.append([])
            extents.append([])
        levels[level].extend(files)
        insort(extents[level], extent, key=lambda taken: taken.start)
    return levels
