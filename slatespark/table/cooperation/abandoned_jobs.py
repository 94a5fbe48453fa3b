"""Jobs in the way that nobody works on any more: of a process of slatespark that died, or that no worker takes.

Those are jobs on the same layers, and those for which a client that runs few jobs at once lets ours wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from slatespark.format.compactions import Compaction, Compactions, CompactionStatus
from slatespark.format.ulid import Ulid
from slatespark.table.cooperation.claimed_job import HEARTBEAT_MS, is_own_worker
from slatespark.table.cooperation.job_list import JobList
from slatespark.table.cooperation.job_rules import as_failed, find_job, with_job

IDLE_MS: Final = 12_000  # a client's worker looks for scheduled jobs every 5 s
SILENT_MS: Final = 5 * HEARTBEAT_MS  # of a worker of slatespark; the coordinator takes its job back after 30 s


@dataclass(slots=True)
class AbandonedJobs:
    """Ends jobs that were found abandoned, so that the coordinator lists them as failed.

    Attributes
    ----------
    idle_since_ms : when each job was first seen waiting for a worker
    """

    jobs: JobList
    idle_since_ms: dict[Ulid, int] = field(default_factory=dict)

    def end(self, found: Iterable[Compaction]) -> None:
        """End those of some jobs that are abandoned; one that a worker takes at this moment stays."""
        for job in found:
            if self._is_abandoned(job):
                self._void(job)

    def _is_abandoned(self, job: Compaction) -> bool:
        now_ms = self.jobs.heartbeat_ms()
        if job.status is CompactionStatus.RUNNING and job.worker is not None:
            return is_own_worker(job.worker) and now_ms - job.worker.last_heartbeat_ms > SILENT_MS
        if job.status is CompactionStatus.SCHEDULED:
            return now_ms - self.idle_since_ms.setdefault(job.id, now_ms) > IDLE_MS
        return False

    def _void(self, job: Compaction) -> None:
        def ended(listed: Compactions) -> Compactions | None:
            if find_job(listed, job.id) != job:
                return None
            return with_job(listed, as_failed(job))

        self.jobs.edit(ended)
