"""The version that the commit of a job of the client will make, and jobs that are submitted for it ahead of it. Pure.

A client that merges all the time commits a job and plans its next one at the same poll, so there may be no moment
without one. But once its worker has handed a job over, the version after the commit is known, and a job of slatespark
for that version can be in the list when the client looks. The client commits first, finds the L0 views that are left
taken by that job, and plans none of its own for them.

Such a job must not survive a commit that fails: without the older L0 views it would make the client lose them. So it
also has the run that the commit makes as a source. If that run is missing, the coordinator refuses the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from slatespark.format.compactions import Compaction, Compactions, CompactionSpec, CompactionStatus, TieredSpec
from slatespark.format.manifest import Manifest, Segment
from slatespark.format.references import SortedRun, SstHandle, SstView
from slatespark.table.cooperation.claimed_job import is_own_worker


def can_follow(job: Compaction) -> bool:
    """Tell whether a job of slatespark may be submitted for the version that the commit of this one makes.

    It must be a client's, handed over, and make a new run of L0 views. One of slatespark's workers keeps others from
    that run until it has seen the commit.
    """
    spec, is_handed = job.spec, job.status is CompactionStatus.COMPACTED and bool(job.output_ssts)
    makes_run = isinstance(spec, TieredSpec) and bool(spec.l0_view_ids) and not spec.sorted_runs
    return is_handed and makes_run and not (job.worker is not None and is_own_worker(job.worker))


def after_commit(manifest: Manifest, jobs: Iterable[Compaction]) -> Manifest:
    """Return a version as the commit of jobs will make it, or as it is if it has their runs already.

    Requires: every job can be followed.
    """
    for job in jobs:
        assert isinstance(job.spec, TieredSpec)
        if job.spec.destination in manifest.run_ids():
            continue
        trees = [
            _merged(tree, job.spec, job.output_ssts) if tree.prefix == job.spec.segment else tree
            for tree in manifest.trees()
        ]
        manifest = replace(manifest, ssts=manifest.ssts.adding(job.output_ssts)).with_trees(trees)
    return manifest


def _merged(tree: Segment, spec: TieredSpec, outputs: Sequence[SstHandle]) -> Segment:
    run = SortedRun(spec.destination, tuple(SstView(file.id, file.id) for file in outputs))
    left = tuple(view for view in tree.l0 if view.id not in spec.l0_view_ids)
    return replace(tree, l0=left, compacted=(run, *tree.compacted))


def pending_runs(manifest: Manifest, listed: Compactions) -> frozenset[int]:
    """Return the runs of a version that come from the commit of a job, which the list does not show yet."""
    made = [job.spec.destination for job in listed.jobs if can_follow(job) and isinstance(job.spec, TieredSpec)]
    return frozenset(made) & frozenset(manifest.run_ids())


def need_commits(specs: Iterable[CompactionSpec], jobs: Iterable[Compaction]) -> bool:
    """Tell whether the coordinator will refuse these jobs of slatespark unless it has committed those."""
    made = {job.spec.segment: job.spec.destination for job in jobs if isinstance(job.spec, TieredSpec)}
    return all(spec.segment not in made or made[spec.segment] in spec.sorted_runs for spec in specs)
