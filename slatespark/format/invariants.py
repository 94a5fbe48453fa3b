"""The rules for a new manifest, one predicate each; checked before every commit.

The client panics on most invalid manifests and silently loses rows on some, so no manifest that breaks a rule is
published. A predicate returns the problem, or None. Rules that apply to every readable manifest are in
`manifest_check`. Pages cited without a folder are in `docs/reference/format/`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias, TypeVar

from slatespark.errors import CorruptDataError, InternalError
from slatespark.format.manifest import Manifest, Segment
from slatespark.format.manifest_check import check_readable
from slatespark.format.references import SortedRun
from slatespark.format.ulid import Ulid
from slatespark.ranges import key_after, prefix_range

# Each L0 compaction of the client needs an id above all others, at most 2^32 - 2: leave it room.
# Source: `docs/explanation/editing-a-manifest.md`.
RUN_ID_END: Final = (1 << 32) - (1 << 16)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ManifestChange:
    """A manifest about to be published.

    Attributes
    ----------
    new_id : id under which it will be published
    current : the newest published manifest; None when the database is being created
    now_ms : upper bound of the current time; None skips the rules that need it
    own_time : the clock tick comes from the table's own clock, and may have any value
    """

    new: Manifest
    current: Manifest | None
    new_id: int
    now_ms: int | None
    own_time: bool = False


Rule: TypeAlias = Callable[[ManifestChange], str | None]


def check_manifest(
    new: Manifest, current: Manifest | None, *, new_id: int, now_ms: int | None, own_time: bool = False
) -> None:
    """Check every rule; raises `InternalError` naming the first broken one. Parameters as in `ManifestChange`."""
    change = ManifestChange(new, current, new_id, now_ms, own_time)
    for rule in RULES:
        problem = rule(change)
        if problem is not None:
            raise InternalError(
                f"Manifest {new_id} breaks the rule {rule.__name__}: {problem}.", why="The manifest was not published."
            )


# --- rules on the new manifest alone ----------------------------------------------------------------------------------


def is_readable(change: ManifestChange) -> str | None:
    """Refuse a manifest that no reader can open: unknown SSTs, empty views, unordered runs. Source: `manifest.md`."""
    try:
        check_readable(change.new)
    except CorruptDataError as exc:
        return str(exc.args[0]).rstrip(".")
    return None


def every_sst_is_referenced(change: ManifestChange) -> str | None:
    """Refuse an SST that no view references. Source: `manifest.md`."""
    referenced = change.new.shown_ssts()
    return _first("no view references SST {}", (ulid for ulid in change.new.ssts if ulid not in referenced))


def every_sst_has_a_first_key(change: ManifestChange) -> str | None:
    """Refuse an SST without first key: the client panics. Source: `sst.md`."""
    lacking = (handle.id for handle in change.new.ssts.values() if handle.info.first_entry is None)
    return _first("SST {} has no first key", lacking)


def l0_view_ids_are_unique(change: ManifestChange) -> str | None:
    """Refuse two L0 views with one id, unless the current manifest already has them: the next compaction loses rows.

    A union by the 0.17 client may show two parts of one file in L0. A commit moves both into runs, where that is
    harmless. Source: `docs/explanation/taking-over-a-database.md`.
    """
    known = set() if change.current is None else _repeated_in_l0(change.current)
    return _first("two views in L0 have the id {}", sorted(_repeated_in_l0(change.new) - known))


def no_view_id_is_repeated(change: ManifestChange) -> str | None:
    """Refuse an id shared by two views in any trees, unless the current manifest already repeats it.

    Source: `docs/explanation/taking-over-a-database.md`.
    """
    known = set() if change.current is None else _repeated(view.id for view in change.current.views())
    repeated = _repeated(view.id for view in change.new.views()) - known
    return _first("two views have the id {}", sorted(repeated))


def marker_is_not_in_l0(change: ManifestChange) -> str | None:
    """Refuse a marker that names an L0 view: the writer drops that view and all older ones.

    Source: `docs/explanation/taking-over-a-database.md`.
    """
    marked = (
        tree.last_compacted_l0_sst_view_id
        for tree in change.new.trees()
        if tree.last_compacted_l0_sst_view_id in {view.id for view in tree.l0}
    )
    return _first("the marker {} is the id of a view in L0", marked)


def run_ids_leave_room(change: ManifestChange) -> str | None:
    """Refuse a run id near the end of u32, see `RUN_ID_END`."""
    known = set() if change.current is None else set(change.current.run_ids())
    invalid = (number for number in change.new.run_ids() if number not in known and not 0 <= number < RUN_ID_END)
    return _first(f"sorted run {{}} is not below {RUN_ID_END}", invalid)


def views_in_a_run_ascend(change: ManifestChange) -> str | None:
    """Refuse views of a run that share more than a boundary key: lookups use binary search. Source: `manifest.md`."""
    runs = (run for tree in change.new.trees() for run in tree.compacted)
    return next((problem for run in runs if (problem := _overlap(change.new, run)) is not None), None)


def _overlap(manifest: Manifest, run: SortedRun) -> str | None:
    spans = [(view, view.key_range(manifest.ssts[view.sst_id])) for view in run.views]
    for (one, before), (other, after) in pairwise(spans):
        if before.end is None or before.start > after.start or before.end > key_after(after.start):
            return f"in sorted run {run.id}, views {one.id} and {other.id} overlap or are out of order"
    return None


def segment_keys_match_its_prefix(change: ManifestChange) -> str | None:
    """Refuse keys outside the prefix of their segment, and a root tree next to segments. Source: `segments.md`."""
    new = change.new
    if new.segments and new.segment_extractor_name is None:
        return "the manifest has segments and no segment extractor"
    if new.segments and (new.l0 or new.compacted):
        return "the manifest has segments and views in the root tree"
    return next((problem for tree in new.segments if (problem := _key_outside_prefix(new, tree)) is not None), None)


def _key_outside_prefix(manifest: Manifest, tree: Segment) -> str | None:
    wanted = prefix_range(tree.prefix)
    for view in (*tree.l0, *(view for run in tree.compacted for view in run.views)):
        keys = view.key_range(manifest.ssts[view.sst_id])
        if not (wanted.contains(keys.start) and (keys.end is None or keys.intersect(wanted) == keys)):
            return f"view {view.id} has keys outside the segment {tree.prefix.hex()}"
    return None


def checkpoints_reference_existing_manifests(change: ManifestChange) -> str | None:
    """Refuse a dangling checkpoint: it stops the client's garbage collector. A manifest may pin itself.

    Source: `checkpoints.md`.
    """
    invalid = (point.id for point in change.new.checkpoints if not 1 <= point.manifest_id <= change.new_id)
    return _first("checkpoint {} refers to a manifest that does not exist", invalid)


def checkpoint_ids_are_unique(change: ManifestChange) -> str | None:
    """Refuse two checkpoints with one id."""
    return _first("two checkpoints have the id {}", _repeated(point.id for point in change.new.checkpoints))


def replay_position_is_not_past_the_wal(change: ManifestChange) -> str | None:
    """Refuse a replay position after the last WAL file seen. Source: `manifest.md`."""
    new = change.new
    if new.replay_after_wal_id > new.wal_id_last_seen:
        return f"replay starts after WAL file {new.replay_after_wal_id}, the last one seen is {new.wal_id_last_seen}"
    return None


# --- rules against the current manifest -------------------------------------------------------------------------------


def epochs_do_not_decrease(change: ManifestChange) -> str | None:
    """Refuse a lower epoch: the client panics. Source: `versioned-objects.md`."""
    return _decreases(change, "writer_epoch") or _decreases(change, "compactor_epoch")


def seq_does_not_decrease(change: ManifestChange) -> str | None:
    """Refuse a lower `last_l0_seq`: rows above it are invisible and their seqs are reused. Source: `manifest.md`."""
    return _decreases(change, "last_l0_seq")


def tick_does_not_decrease(change: ManifestChange) -> str | None:
    """Refuse a lower clock tick: it is a lower bound for the writer's clock. Source: `manifest.md`."""
    return _decreases(change, "last_l0_clock_tick")


def wal_ids_do_not_decrease(change: ManifestChange) -> str | None:
    """Refuse lower WAL ids: flushed WAL files would be replayed. Source: `manifest.md`."""
    return _decreases(change, "replay_after_wal_id") or _decreases(change, "wal_id_last_seen")


def tracker_does_not_decrease(change: ManifestChange) -> str | None:
    """Refuse a tracker that goes backwards: the client never flushes again. Source: `sequence-tracker.md`."""
    if change.current is None or not change.current.sequence_tracker.points:
        return None
    before, after = change.current.sequence_tracker.points[-1], change.new.sequence_tracker.points[-1:]
    if not after:
        return "the sequence tracker is empty, but was not before"
    if after[0][0] < before[0] or after[0][1] < before[1]:
        return f"the sequence tracker ends with {after[0]}, before it ended with {before}"
    return None


def extractor_is_unchanged(change: ManifestChange) -> str | None:
    """Refuse another segment extractor: neither the client nor slatespark opens the database. Source: `segments.md`."""
    if change.current is None or change.current.segment_extractor_name == change.new.segment_extractor_name:
        return None
    return f"the segment extractor changes to {change.new.segment_extractor_name!r}"


def new_l0_is_not_older_than_the_watermark(change: ManifestChange) -> str | None:
    """Refuse a new L0 file older than the watermark: collectors delete it, clients refuse it. Source: `objects.md`."""
    current = change.current
    watermark_ms = None if current is None else l0_watermark_ms(current)
    if current is None or watermark_ms is None:
        return None
    known = {view.sst_id for tree in current.trees() for view in tree.l0}
    added = (view.sst_id for tree in change.new.trees() for view in tree.l0 if view.sst_id not in known)
    # Equal is allowed: the collector deletes only strictly older files.
    too_old = (ulid for ulid in added if ulid.timestamp_ms < watermark_ms)
    return _first(f"L0 file {{}} is older than the L0 watermark, {watermark_ms} ms", too_old)


def l0_watermark_ms(manifest: Manifest) -> int | None:
    """Return the time of the newest L0 file of all trees; a tree without L0 counts with its marker.

    Source: `objects.md`.
    """
    times = []
    for tree in manifest.trees():
        if tree.l0:
            times.append(max(view.sst_id for view in tree.l0).timestamp_ms)
        elif tree.last_compacted_l0_sst_view_id is not None:
            times.append(tree.last_compacted_l0_sst_view_id.timestamp_ms)
    return max(times, default=None)


# --- rules against the clock ------------------------------------------------------------------------------------------


def tick_is_not_in_the_future(change: ManifestChange) -> str | None:
    """Refuse a clock tick in the future: the client's writer waits for it and then fails. Source: `pitfalls.md`."""
    tick = change.new.last_l0_clock_tick
    if change.own_time or change.now_ms is None or tick <= change.now_ms:
        return None
    if change.current is not None and tick <= change.current.last_l0_clock_tick:
        return None  # unchanged, and must not decrease
    return f"the clock tick is {tick} ms, later than the current time, {change.now_ms} ms"


def new_ssts_are_not_in_the_future(change: ManifestChange) -> str | None:
    """Refuse an SST id in the future: it blocks the client's writer and the garbage collector. Source: `objects.md`."""
    if change.now_ms is None:
        return None
    known = () if change.current is None else change.current.ssts
    invalid = (ulid for ulid in change.new.ssts if ulid not in known and ulid.timestamp_ms > change.now_ms)
    return _first(f"the id of SST {{}} lies in the future of {change.now_ms} ms", invalid)


RULES: Final[tuple[Rule, ...]] = (
    is_readable,
    every_sst_is_referenced,
    every_sst_has_a_first_key,
    l0_view_ids_are_unique,
    no_view_id_is_repeated,
    marker_is_not_in_l0,
    run_ids_leave_room,
    views_in_a_run_ascend,
    segment_keys_match_its_prefix,
    checkpoints_reference_existing_manifests,
    checkpoint_ids_are_unique,
    replay_position_is_not_past_the_wal,
    epochs_do_not_decrease,
    seq_does_not_decrease,
    tick_does_not_decrease,
    wal_ids_do_not_decrease,
    tracker_does_not_decrease,
    extractor_is_unchanged,
    new_l0_is_not_older_than_the_watermark,
    tick_is_not_in_the_future,
    new_ssts_are_not_in_the_future,
)


def _first(problem: str, culprits: Iterable[object]) -> str | None:
    """Return the problem with the first culprit filled in, None without culprits."""
    return next((problem.format(culprit) for culprit in culprits), None)


def _repeated(values: Iterable[T]) -> set[T]:
    return {value for value, times in Counter(values).items() if times > 1}


def _repeated_in_l0(manifest: Manifest) -> set[Ulid]:
    """Return the ids that several L0 views of one tree have."""
    return {ulid for tree in manifest.trees() for ulid in _repeated(view.id for view in tree.l0)}


def _decreases(change: ManifestChange, name: str) -> str | None:
    before = None if change.current is None else getattr(change.current, name)
    after = getattr(change.new, name)
    return None if before is None or after >= before else f"{name} decreases from {before} to {after}"
