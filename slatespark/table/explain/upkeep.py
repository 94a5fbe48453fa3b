"""Explanations of compactions and vacuums, from their dry runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from slatespark.options import WriteOptions
from slatespark.storage.requests import Requests, delete_requests
from slatespark.table.compaction.merge import MergedRange, RangeTask
from slatespark.table.compaction.report import CompactionReport
from slatespark.table.explain.cost import RequestRange
from slatespark.table.explain.explanation import ExplanationFacts, layer_uses
from slatespark.table.explain.overheads import collection, commits, copied, upload
from slatespark.table.explain.read_cost import SplitCosts
from slatespark.table.gc.report import KEPT, CollectedFile, VacuumReport
from slatespark.table.gc.run import LEASE
from slatespark.table.log.manifests import fetch_manifest
from slatespark.table.read.merge.cursor import window_size
from slatespark.table.read.planning.layers import distinct_files, fetch_layers
from slatespark.table.stores import TableStores
from slatespark.table.tasks import THREADS


@dataclass(slots=True)
class PreviewRunner:
    """A runner of a dry run, which keeps the ranges that would be merged."""

    tasks: list[RangeTask] = field(default_factory=list)
    parallelism: int = field(default_factory=lambda: THREADS.parallelism)

    def preview(self, tasks: Sequence[RangeTask]) -> None:
        """Keep the ranges."""
        self.tasks.extend(tasks)

    def __call__(self, tasks: Sequence[RangeTask]) -> Iterable[MergedRange]:
        """Never called: a dry run merges nothing."""
        raise NotImplementedError


def explain_compaction(
    stores: TableStores,
    plan: CompactionReport,
    tasks: Sequence[RangeTask],
    planning: Requests,
) -> ExplanationFacts:
    """Return what a compaction touches, and what it costs in this process.

    Of merges that follow from each other it is the first one.

    Parameters
    ----------
    plan, tasks : the dry run, and the ranges that it would merge
    planning : requests of the dry run
    """
    layers = fetch_layers(stores, fetch_manifest(stores, plan.version))
    used = frozenset(distinct_files(layer for task in tasks for layer in task.layers))
    considered = distinct_files(layers)
    estimated = RequestRange.of(planning)
    if tasks:
        costs = SplitCosts(stores, 0, files=used, is_concurrent=len(tasks) > 1)
        for task in tasks:
            read = costs.of_layers(task.layers, window_size(task.options.write_buffer_bytes, len(task.layers)))
            estimated += read + upload(task.options, read.high.read_bytes)
            if task.copies is not None:
                estimated += copied(task.options, upload(task.options, read.high.read_bytes).high.written_bytes)
        estimated += commits(len(plan.jobs), planning)
    lacking = {copy.sst for copy in plan.copies}
    for file in considered:
        if str(file.id) in lacking:
            estimated += copied(WriteOptions.parse({"path": stores.url}), file.info.sections_end)
    return ExplanationFacts(
        url=stores.url,
        operation="compact",
        version=plan.version,
        estimated=estimated,
        planning=planning,
        layers=layer_uses(layers, used),
        files=len(considered),
        skipped={"not merged": len(considered) - len(used)} if len(used) < len(considered) else {},
        splits=len(tasks),
        plan=plan,
    )


def explain_vacuum(stores: TableStores, plan: VacuumReport, planning: Requests) -> ExplanationFacts:
    """Return what a vacuum considers, and what it costs.

    Parameters
    ----------
    plan, planning : the dry run, and its requests, which a vacuum repeats
    """
    going = [file for file in plan.files if file.action != KEPT]
    work = Requests()
    if stores.main.is_remote and plan.version is not None:  # asks for the time of the store
        work += Requests(get=1, put=1, delete=1, written_bytes=3)
    estimated = RequestRange.of(planning + work) + _deletions(going)
    if going or plan.views_removed:
        leases = sum(file.kind == LEASE for file in going)
        releases = len(plan.checkpoints_released) + len(plan.jobs_dropped) + plan.views_removed
        estimated += collection(planning, leases=leases, releases=releases)
    return ExplanationFacts(
        url=stores.url,
        operation="vacuum",
        version=plan.version,
        estimated=estimated,
        planning=planning,
        files=len(plan.files),
        skipped=dict(Counter(_why(file.reason) for file in plan.kept).most_common()),
        plan=plan,
    )


def _deletions(going: Sequence[CollectedFile]) -> RequestRange:
    """Return the requests that delete some files: each kind by itself, some kinds in two places, leases one by one."""
    kinds = Counter(file.kind for file in going)
    batched = sum(delete_requests(count) for kind, count in kinds.items() if kind != LEASE)
    least, most = Requests(delete=batched + kinds[LEASE]), Requests(delete=2 * batched + kinds[LEASE])
    return RequestRange(least, most)


def _why(reason: str) -> str:
    """Return a reason without the numbers and names that set one object apart."""
    return re.sub(r"\d+", "N", re.split("[:,;]", reason)[0])
