"""Records of compactions with filters that a client may commit: a vacuum deletes those that no commit can need.

A transaction needs one if it has read a version from before that commit. So a record stays as long as a kept version
has a file that the compaction read or wrote, and while a client may still commit it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slatespark.errors import CorruptDataError
from slatespark.storage import ObjectMeta
from slatespark.table.gc.plan import Needs, Reason, Verdict
from slatespark.table.records.filtered_jobs import FilteredJob, fetch_filtered_job, job_id_in
from slatespark.table.stores import TableStores


def judge_filterings(stores: TableStores, listed: Sequence[ObjectMeta], needs: Needs) -> Iterator[Verdict]:
    """Yield a verdict on each record.

    Parameters
    ----------
    listed : records listed before the compactions were read: a job is listed before its record exists
    """
    active, shown = {str(job.id) for job in needs.jobs}, set(map(str, needs.shown_by)) if listed else set()
    for meta in listed:
        try:
            job = fetch_filtered_job(stores.main, meta.path)
        except CorruptDataError:
            kept = needs.young_reason(meta.modified_ms) or _damaged_reason(job_id_in(meta.path), active, needs)
            yield Verdict.on(meta, kept, "it cannot be read, and no version is left from before its commit")
            continue
        if job is not None:
            kept = needs.young_reason(meta.modified_ms) or _needed_reason(job, active, shown, needs)
            yield Verdict.on(meta, kept, "no version is left from before its commit, or from it")


def _damaged_reason(job_id: str, active: set[str], needs: Needs) -> Reason | None:
    """Return the reason for keeping a record that cannot be read: it may be about any version but the newest one."""
    if job_id in active:
        return Reason("a client may still commit it")
    return Reason("it cannot be read, and may tell of any version that is kept") if needs.versions[1:] else None


def _needed_reason(job: FilteredJob, active: set[str], shown: set[str], needs: Needs) -> Reason | None:
    if job.job_id in active:
        return Reason("a client may still commit it")
    if needs.unknown is not None:
        return Reason(needs.unknown)
    if not shown.isdisjoint((*job.sources, *job.outputs)):
        return Reason("it tells which rows a compaction may have removed")
    return None
