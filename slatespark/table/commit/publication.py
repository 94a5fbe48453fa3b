"""The manifest of a commit, from the one before and the change. Pure.

See docs/explanation/taking-over-a-database.md, docs/explanation/editing-a-manifest.md, docs/explanation/how-a-commit-
works.md.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from slatespark.encoding.row_codec import RAW_CODEC, RowCodec
from slatespark.format.manifest import Manifest, SortedRun, SstView
from slatespark.format.ulid import Ulid
from slatespark.ranges import KeyRange
from slatespark.table.commit.kept_history import KeptHistory
from slatespark.table.commit.tree_edit import KEEP_TREES, TreeEdit, identity_views
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
    edit : the change of the existing trees
    codec : of the table; views in whose range no key of it can lie are removed
    last_seq : highest sequence number of drained rows and outputs
    tick_ms : highest create_ts of drained rows and outputs
    wal_id : our fence; WAL files up to it are no longer needed
    kept : rows of a history table that a client's compaction must keep; None for other tables
    """

    outputs: tuple[tuple[NewFile, ...], ...]
    drained: tuple[NewFile, ...]
    last_seq: int
    tick_ms: int
    wal_id: int
    edit: TreeEdit = KEEP_TREES
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
    added = [change.drained, *stack_outputs(change.outputs)]
    taken = (*base.run_ids(), *edited.run_ids())  # a run id is never reused, not even after everything was dropped
    runs = _number_runs(taken, [identity_views(files) for files in added if files])
    compacted = (*runs, *edited.compacted)
    new_handles = [file.handle for files in added for file in files]
    shown = {view.sst_id for run in compacted for view in run.views}
    last_seq = max(base.last_l0_seq + 1, change.last_seq)
    return replace(
        edited,
        nonce=nonce,
        ssts=edited.ssts.adding(new_handles).keeping(shown),
        external_dbs=tuple(
            replace(database, sst_ids=tuple(sst_id for sst_id in database.sst_ids if sst_id in shown))
            for database in edited.external_dbs
        ),
        compacted=compacted,
        last_l0_seq=last_seq,
        recent_snapshot_min_seq=last_seq if change.kept is None else _least_kept(change.kept, change, shown, last_seq),
        last_l0_clock_tick=max(base.last_l0_clock_tick, change.tick_ms),
        replay_after_wal_id=change.wal_id,
        wal_id_last_seen=change.wal_id,
        sequence_tracker=base.sequence_tracker.record(last_seq, ms_to_s(now_ms)),
    )


def _least_kept(kept: KeptHistory, change: CommitChange, shown: Collection[Ulid], last_seq: int) -> int:
    return kept.including(change.files).min_seq(shown, last_seq)


def without_l0(manifest: Manifest) -> Manifest:
    """Return a manifest with each L0 view in a run of its own, above the others."""
    if not manifest.l0:
        return manifest
    moved = _number_runs(manifest.run_ids(), [[view] for view in reversed(manifest.l0)])
    marker = manifest.l0[0].id
    return replace(manifest, l0=(), compacted=(*moved, *manifest.compacted), last_compacted_l0_sst_view_id=marker)


def _without_empty_views(manifest: Manifest, codec: RowCodec) -> Manifest:
    """Return a manifest without the views that no key of the table can lie in. Requires: no L0.

    Earlier versions of slatespark left such views between intervals that meet.
    """
    ssts = manifest.ssts
    infos = ((view, ssts[view.sst_id].info) for view in manifest.views())
    empty = {view for view, info in infos if not may_show_rows(view.key_range(info), info, codec)}
    if not empty:
        return manifest
    runs = (replace(run, views=tuple(view for view in run.views if view not in empty)) for run in manifest.compacted)
    return replace(manifest, compacted=tuple(run for run in runs if run.views))


def _number_runs(taken: Sequence[int], oldest_first: Sequence[list[SstView]]) -> tuple[SortedRun, ...]:
    """Return runs numbered above all existing ones, newest first."""
    first = max(taken, default=-1) + 1
    runs = [SortedRun(first + number, tuple(views)) for number, views in enumerate(oldest_first)]
    return tuple(reversed(runs))


def stack_outputs(outputs: Sequence[tuple[NewFile, ...]]) -> list[list[NewFile]]:
    """Arrange the files of tasks in as few runs as their order allows, oldest first.

    A task goes into the lowest run above every earlier task that it overlaps. So a later task shadows an earlier one,
    and the files of one run do not overlap.
    """
    levels: list[list[NewFile]] = []
    extents: list[list[KeyRange]] = []
    for files in outputs:
        if not files:
            continue
        extent = KeyRange(files[0].keys.start, files[-1].keys.end)
        below = [level for level, taken in enumerate(extents) if any(extent.overlaps(other) for other in taken)]
        level = max(below, default=-1) + 1
        if level == len(levels):
            levels.append([])
            extents.append([])
        levels[level].extend(files)
        extents[level].append(extent)
    return levels
