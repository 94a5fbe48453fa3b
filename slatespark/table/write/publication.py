"""What the manifest of a commit says: pure. Source: spec sections 10.1, 12.1, 12.3, 12.4; design 6.4."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from slatespark.format.manifest import Manifest, SortedRun, SstHandle, SstView
from slatespark.ranges import KeyRange
from slatespark.table.write.sst_upload import NewFile
from slatespark.units import ms_to_s


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit adds to, or removes from, the trees.

    Attributes
    ----------
    outputs : new files per task, in key order; a later task is newer
    drained : files that hold the rows of the WAL, older than all outputs
    replaces_all : everything that was there goes
    last_seq : highest sequence number of drained rows and outputs
    tick_ms : highest create_ts of drained rows and outputs
    wal_id : our fence: WAL files up to it are not needed any more
    """

    outputs: tuple[tuple[NewFile, ...], ...]
    drained: tuple[NewFile, ...]
    replaces_all: bool
    last_seq: int
    tick_ms: int
    wal_id: int


def next_manifest(base: Manifest, change: Change, *, now_ms: int, nonce: int) -> Manifest:
    """Return the manifest that publishes a change on top of `base`.

    L0 views become runs as they are, drained rows a run above them, new files runs above these. So no L0 is left, and
    the client's writer, which stalls at eight of them, always has room.
    """
    kept = () if change.replaces_all else base.compacted
    moved = [] if change.replaces_all else [[view] for view in reversed(base.l0)]
    drained = [_identity_views(change.drained)] if change.drained and not change.replaces_all else []
    added = [_identity_views(files) for files in stack_outputs(change.outputs)]
    runs = _number_runs(base.run_ids(), [*moved, *drained, *added])
    compacted = (*runs, *kept)
    new_handles = [file.handle for file in _all_files(change)]
    shown = {view.sst_id for run in compacted for view in run.views}
    last_seq = max(base.last_l0_seq + 1, change.last_seq)
    return replace(
        base,
        nonce=nonce,
        ssts=base.ssts.adding(new_handles).keeping(shown),
        external_dbs=tuple(
            replace(database, sst_ids=tuple(sst_id for sst_id in database.sst_ids if sst_id in shown))
            for database in base.external_dbs
        ),
        l0=(),
        compacted=compacted,
        last_compacted_l0_sst_view_id=base.l0[0].id if base.l0 else base.last_compacted_l0_sst_view_id,
        last_l0_seq=last_seq,
        recent_snapshot_min_seq=last_seq,
        last_l0_clock_tick=max(base.last_l0_clock_tick, change.tick_ms),
        replay_after_wal_id=change.wal_id,
        wal_id_last_seen=change.wal_id,
        sequence_tracker=base.sequence_tracker.record(last_seq, ms_to_s(now_ms)),
    )


def _all_files(change: Change) -> Iterable[NewFile]:
    if not change.replaces_all:
        yield from change.drained
    for files in change.outputs:
        yield from files


def _identity_views(files: Iterable[NewFile]) -> list[SstView]:
    handles: list[SstHandle] = [file.handle for file in files]
    return [SstView(handle.id, handle.id) for handle in sorted(handles, key=lambda item: item.info.first_entry or b"")]


def _number_runs(taken: Sequence[int], oldest_first: Sequence[list[SstView]]) -> tuple[SortedRun, ...]:
    """Return runs numbered above all existing ones, newest first."""
    first = max(taken, default=-1) + 1
    runs = [SortedRun(first + number, tuple(views)) for number, views in enumerate(oldest_first)]
    return tuple(reversed(runs))


def stack_outputs(outputs: Sequence[tuple[NewFile, ...]]) -> list[list[NewFile]]:
    """Arrange the files of tasks in as few runs as their order allows, oldest first.

    A task goes into the lowest run above every earlier task that it overlaps; so a later task hides an earlier one, and
    the files of one run do not overlap.
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
