"""What a job in `.compactions` must be like so that it harms no client. Pure.

The coordinator checks ids only, and its own scheduler never breaks these rules. So a job that breaks one is accepted,
and then loses rows or stops the client. See docs/reference/format/compactions.md#mistakes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from slatespark.errors import InternalError, InvalidRequestError
from slatespark.format.compactions import Compaction, Compactions, CompactionSpec, CompactionStatus, TieredSpec
from slatespark.format.manifest import Manifest
from slatespark.format.references import SstHandle
from slatespark.format.ulid import Ulid
from slatespark.table.clock import Clock, new_ulid
from slatespark.table.commit.active_jobs import has_fresh_heartbeat
from slatespark.table.commit.hold import working_jobs

_STEP_BITS: Final = 64  # of the 80 random bits of an id
_SEGMENTS_AT_ONCE: Final = 1000  # for which a coordinator makes jobs at once, and more; there are 2^32 numbers

NOT_BEGUN: Final = (CompactionStatus.SUBMITTED, CompactionStatus.SCHEDULED)
BEGUN: Final = (CompactionStatus.RUNNING, CompactionStatus.COMPACTED)  # a worker has it, or had it

VOID: Final = TieredSpec((), (), 0)  # no sources: the coordinator fails such a job when it is asked to commit it


def find_job(listed: Compactions, job_id: Ulid) -> Compaction | None:
    """Return a job of the list; None if it is not there."""
    return next((job for job in listed.jobs if job.id == job_id), None)


def with_job(listed: Compactions, changed: Compaction) -> Compactions:
    """Return the list with a job added or replaced, all else unchanged."""
    if find_job(listed, changed.id) is None:
        return replace(listed, jobs=(*listed.jobs, changed))
    return replace(listed, jobs=tuple(changed if job.id == changed.id else job for job in listed.jobs))


def as_failed(job: Compaction) -> Compaction:
    """Return an active job such that the coordinator ends it as failed, whatever its state."""
    return replace(job, spec=VOID, status=CompactionStatus.COMPACTED, output_ssts=(), context=None)


def has_sources(manifest: Manifest, spec: CompactionSpec) -> bool:
    """Tell whether a version has all sources of a job."""
    tree = manifest.find_tree(spec.segment)
    if tree is None:
        return False
    views, runs = {view.id for view in tree.l0}, {run.id for run in tree.compacted}
    return views.issuperset(spec.l0_view_ids) and runs.issuperset(spec.sorted_runs)


def same_sources(before: Manifest, after: Manifest, spec: CompactionSpec) -> bool:
    """Tell whether a later version shows in the sources of a job what an earlier one showed."""
    return _shown_by(before, spec) == _shown_by(after, spec) and has_sources(after, spec)


def _shown_by(manifest: Manifest, spec: CompactionSpec) -> set[tuple[object, ...]]:
    tree = manifest.find_tree(spec.segment)
    if tree is None:
        return set()
    views = {(view,) for view in tree.l0 if view.id in spec.l0_view_ids}
    return {*views, *((run.id, run.views) for run in tree.compacted if run.id in spec.sorted_runs)}


def overlap(job: CompactionSpec, other: CompactionSpec) -> bool:
    """Tell whether two jobs have a source or the destination in common, so that the later commit would lose rows."""
    return bool(set(job.l0_view_ids) & set(other.l0_view_ids)) or bool(_runs_of(job) & _runs_of(other))


def _runs_of(spec: CompactionSpec) -> set[int]:
    """Return the runs that a job reads or writes; their ids are unique over all segments."""
    return {*spec.sorted_runs, *([spec.destination] if isinstance(spec, TieredSpec) and spec != VOID else [])}


def blocking_jobs(listed: Compactions, spec: CompactionSpec, job_id: Ulid | None = None) -> tuple[Compaction, ...]:
    """Return the active jobs beside which a job must not be submitted, or that would make the coordinator refuse it.

    Those are jobs that overlap it, and other jobs with L0 views of the same tree. A hold is none: it only keeps the
    client's scheduler away.

    Parameters
    ----------
    job_id : id of the job itself, if it is listed
    """

    def blocks(job: Compaction) -> bool:
        if job.id == job_id:
            return False
        is_second = bool(job.spec.l0_view_ids and spec.l0_view_ids) and job.spec.segment == spec.segment
        return is_second or overlap(job.spec, spec)

    return tuple(job for job in working_jobs(listed) if blocks(job))


def rivals_at_work(listed: Compactions, job: Compaction) -> tuple[Compaction, ...]:
    """Return the other jobs that overlap a job, and that a worker has begun: only one of them may be committed.

    For a job that is not scheduled yet, the scheduled ones are returned too: the coordinator might refuse it.
    """
    at_work = (CompactionStatus.SCHEDULED, *BEGUN) if job.status is CompactionStatus.SUBMITTED else BEGUN
    return tuple(other for other in blocking_jobs(listed, job.spec, job.id) if other.status in at_work)


def jobs_in_turn(listed: Compactions, waiting: Collection[Ulid], now_ms: int) -> tuple[Compaction, ...]:
    """Return the jobs for which a client of SlateDB 0.18 may let submitted ones wait.

    It schedules no more than `max_concurrent_compactions`, in all segments together. A running job whose worker is
    silent is none of them: a coordinator would have taken it back.

    Parameters
    ----------
    waiting : the submitted ones
    """
    return tuple(
        job
        for job in working_jobs(listed)
        if job.id not in waiting and (job.status is CompactionStatus.SCHEDULED or has_fresh_heartbeat(job, now_ms))
    )


def free_destination(manifest: Manifest, listed: Compactions) -> int:
    """Return the run of a job that merges L0 views only: above all runs and all destinations of active jobs.

    Two active jobs with one destination would stop the client's worker. At this moment the coordinator may be making
    jobs for other segments, which take the next numbers; in the same tree it refuses a second job with L0 views.
    """
    taken = [job.spec.destination for job in listed.active_jobs() if isinstance(job.spec, TieredSpec)]
    next_number = max([*manifest.run_ids(), *taken], default=-1) + 1
    return next_number + _SEGMENTS_AT_ONCE if manifest.segments else next_number


def spec_of_slice(
    manifest: Manifest, listed: Compactions, segment: bytes, *, l0: int, runs: tuple[int, int] = (0, 0)
) -> TieredSpec:
    """Return the job that merges a slice of a tree: its oldest L0 views, and adjacent runs.

    Parameters
    ----------
    l0 : how many L0 views, counted from the oldest; with runs they are followed by the newest run
    runs : `[start, end)` of the tree's runs, newest first

    Requires: the tree exists, and the slice is not empty.

    Raises
    ------
    InvalidRequestError
        When two L0 views of the tree have one id, so that the job would remove both where it merges one.
    """
    tree = manifest.find_tree(segment)
    assert tree is not None
    if l0 and len({view.id for view in tree.l0}) < len(tree.l0):
        raise InvalidRequestError(
            "Two views in L0 have one id, so no compaction job can tell them apart.",
            why="A SlateDB client before 0.18 joined two parts of one file in a clone.",
            todo="Write or compact once while no client is open, with ifClientActive=fail.",
        )
    views = tuple(view.id for view in tree.l0[len(tree.l0) - l0 :])
    numbers = tuple(run.id for run in tree.compacted[runs[0] : runs[1]])
    spec = TieredSpec(views, numbers, min(numbers, default=free_destination(manifest, listed)), segment)
    check_spec(manifest, spec)
    return spec


def check_spec(manifest: Manifest, spec: TieredSpec) -> None:
    """Refuse a job that the coordinator would refuse, or would commit with loss; raises `InternalError`."""
    tree = manifest.find_tree(spec.segment)
    if tree is None or not (spec.l0_view_ids or spec.sorted_runs):
        raise InternalError(f"A job has no sources in segment {spec.segment.hex()!r}.")
    views, runs = tuple(view.id for view in tree.l0), tuple(run.id for run in tree.compacted)
    if spec.l0_view_ids != views[len(views) - len(spec.l0_view_ids) :]:
        raise InternalError("A job leaves out older L0 views: they would be lost behind the marker.")
    start = runs.index(spec.sorted_runs[0]) if spec.sorted_runs and spec.sorted_runs[0] in runs else 0
    is_slice = spec.sorted_runs == runs[start : start + len(spec.sorted_runs)]
    if not is_slice or (spec.l0_view_ids and spec.sorted_runs and start):
        raise InternalError(f"A job merges runs {spec.sorted_runs}, which are not adjacent in {runs}.")
    if spec.sorted_runs and spec.destination != min(spec.sorted_runs):
        raise InternalError(f"A job merges runs {spec.sorted_runs} into {spec.destination}, which is not the lowest.")
    if not spec.sorted_runs and spec.destination <= max(manifest.run_ids(), default=-1):
        raise InternalError(f"A job merges L0 views into run {spec.destination}, which is not above all runs.")


def check_outputs(job_id: Ulid, outputs: Iterable[SstHandle]) -> None:
    """Refuse outputs that would close the client's database, or hide rows; raises `InternalError`."""
    reached: bytes | None = None
    for output in outputs:
        if output.id.timestamp_ms < job_id.timestamp_ms:
            raise InternalError(f"Output {output.id} is older than its job, {job_id}.")
        first, last = output.info.first_entry, output.info.last_entry
        if reached is not None and (first is None or first < reached):
            raise InternalError(f"Output {output.id} is not in key order.")
        reached = last


def next_job_id(manifest: Manifest, listed: Compactions, clock: Clock) -> Ulid:
    """Return the id of a new job.

    Its time must be neither below that of a listed job nor ahead of the client's clock, which may be behind ours. So it
    is that of the newest job, or of the newest file if none is listed. The id is above all others: of the finished jobs
    the coordinator lists only the one with the highest id.
    """
    if listed.jobs:
        newest = max(job.id.value for job in listed.jobs)
        return Ulid(newest + 1 + clock.random_bits(_STEP_BITS))
    now_ms = clock.now_ms()
    return new_ulid(clock, min(now_ms, max((sst_id.timestamp_ms for sst_id in manifest.ssts), default=now_ms)))
