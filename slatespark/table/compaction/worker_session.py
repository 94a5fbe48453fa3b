"""One run of a compaction worker: it looks for jobs, claims them, merges them, and hands them back.

A job runs on a thread of its own; its ranges are merged on threads that all jobs share. So a job of a thousand ranges
keeps no other database waiting. The looks for jobs, the claims and the heartbeats are requests to the store only.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

from slatespark.errors import SlateError, as_slate_error
from slatespark.format.compactions import Compaction, TieredSpec
from slatespark.format.ulid import Ulid
from slatespark.options import WriteOptions
from slatespark.storage import run_concurrently
from slatespark.table.clock import Clock, now_or, read_clock
from slatespark.table.commit.discard import delete_files
from slatespark.table.compaction.client_job import ClientMerge, merge_client_job
from slatespark.table.compaction.fair_threads import FairThreads
from slatespark.table.compaction.filter import CompactionFilter
from slatespark.table.compaction.merge import MergedRange, RangeTask, merge_range
from slatespark.table.compaction.ranges import Runner, parallelism_of
from slatespark.table.compaction.worker_report import Backlog, WorkerOutcome, WorkerReport, backlog_of
from slatespark.table.cooperation.claimed_job import (
    ClaimedJob,
    JobLostError,
    SourcesGoneError,
    claimed_job,
    is_claimable,
)
from slatespark.table.cooperation.job_list import JobList
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.stores import TableStores

JOBS_PER_THREAD: Final = 2  # at a time: while one is claimed or handed over, another one is merged
FIRST_PAUSE_MS: Final = 10_000  # before a job or a database is tried again that failed; it doubles
LONGEST_PAUSE_MS: Final = 600_000
BACKLOG_MS: Final = 10_000  # between two lines about what waits

_log = logging.getLogger(__name__)

Listener: TypeAlias = Callable[[WorkerOutcome], None]


class _StoppedError(Exception):
    """The worker is being stopped: the job is released."""


@dataclass(slots=True)
class ServedDatabase:
    """A database that is served.

    Attributes
    ----------
    path : the location as given
    seen : for each waiting job, when it was first seen
    pauses : for each job that failed, how often it has, and when it may be tried again; None is the database itself
    gone : jobs that were released once, because a source was missing
    merging : jobs of this worker
    plain : files known to hold no merge operands
    """

    path: str
    jobs: JobList
    options: WriteOptions
    seen: dict[Ulid, int] = field(default_factory=dict)
    pauses: dict[Ulid | None, tuple[int, int]] = field(default_factory=dict)
    gone: set[Ulid] = field(default_factory=set)
    merging: set[Ulid] = field(default_factory=set)
    plain: set[Ulid] = field(default_factory=set)
    backlog: Backlog | None = None
    logged_ms: int = 0
    handed_over: int = 0
    failed: int = 0
    bytes_in: int = 0
    last_error: SlateError | None = None

    @property
    def url(self) -> str:
        """The URL of the database, as messages name it."""
        return self.jobs.stores.url

    def may_try(self, what: Ulid | None, now_ms: int) -> bool:
        """Tell whether a job, or with None the database, is not to be left alone for now.

        No pause ends so far ahead that the clock must have been set back since.
        """
        ends_ms = self.pauses.get(what, (0, 0))[1]
        return not now_ms < ends_ms <= now_ms + LONGEST_PAUSE_MS

    def pause(self, what: Ulid | None, now_ms: int) -> None:
        """Leave a job or the database alone for a while, after a failure."""
        count = self.pauses.get(what, (0, 0))[0] + 1
        self.pauses[what] = count, now_ms + min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS << min(count - 1, 30))

    def forget_ended(self, listed: Sequence[Compaction]) -> None:
        """Forget jobs that have left the list."""
        there = {job.id for job in listed}
        self.seen = {job_id: at_ms for job_id, at_ms in self.seen.items() if job_id in there}
        for what in list(self.pauses):  # a job that fails meanwhile adds its own
            if what is not None and what not in there:
                self.pauses.pop(what, None)
        self.gone &= there


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How a worker merges the jobs of all its databases.

    Attributes
    ----------
    worker_id : the id that it claims jobs with
    clock : the clock of waits and heartbeats
    threads : number of threads that merge ranges
    heartbeat_ms : time between two heartbeats of a job
    keeps_codec : new files have the codec of the newest source
    filters : decide about the versions that would be kept
    runner : merges the ranges of a job; None for threads of this process
    """

    worker_id: str
    clock: Clock
    threads: int
    heartbeat_ms: int
    keeps_codec: bool
    filters: tuple[CompactionFilter, ...]
    runner: Runner | None


@dataclass(slots=True)
class WorkerSession:
    """The threads of one run.

    Attributes
    ----------
    databases : returns the databases that are served now
    stop : set to end the run; its jobs are released
    wakes : set to end a wait for jobs
    listener : called with what came of each job; from several threads, one at a time
    """

    settings: WorkerSettings
    databases: Callable[[], list[ServedDatabase]]
    stop: threading.Event
    wakes: threading.Event
    listener: Listener
    merging: dict[threading.Thread, ServedDatabase] = field(default_factory=dict)
    turn: int = 0
    ranges: FairThreads = field(init=False)
    _notifying: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.ranges = FairThreads(self.settings.threads)

    # --- looking for jobs ---------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read the list of every database that is not to be left alone."""
        now_ms = read_clock(self.settings.clock)
        chosen = [each for each in self.databases() if each.may_try(None, now_ms)]
        remote = any(each.jobs.stores.main.is_remote for each in chosen)
        run_concurrently([partial(self._refresh, each, now_ms) for each in chosen], is_remote=remote)

    def _refresh(self, database: ServedDatabase, now_ms: int) -> None:
        try:
            listed = database.jobs.refresh().value
            if database.backlog is None or abs(now_ms - database.logged_ms) >= BACKLOG_MS:
                manifest = fetch_latest_manifest(database.jobs.stores).value
                database.backlog, database.logged_ms = backlog_of(manifest, listed), now_ms
                _log.info("%s: %s", database.url, database.backlog)
        except Exception as exc:
            database.pause(None, now_ms)
            self._notify(database, None, exc)
            return
        database.pauses.pop(None, None)
        database.forget_ended(listed.jobs)

    def waiting(self) -> list[tuple[ServedDatabase, Compaction]]:
        """Return the jobs to merge: those with L0 views first, then the oldest; one of each database in turn."""
        now_ms = read_clock(self.settings.clock)
        databases = self.databases()
        self.turn += 1
        first = self.turn % max(1, len(databases))
        queues = [self._queue(each, now_ms) for each in (*databases[first:], *databases[:first])]
        longest = max((len(queue) for queue in queues), default=0)
        return [queue[at] for at in range(longest) for queue in queues if at < len(queue)]

    def _queue(self, database: ServedDatabase, now_ms: int) -> list[tuple[ServedDatabase, Compaction]]:
        known = database.jobs.known
        found = []
        for job in known.jobs:
            if job.id in database.merging or not is_claimable(known, job):
                continue
            database.seen.setdefault(job.id, now_ms)
            if database.may_try(job.id, now_ms):
                found.append(job)
        return [(database, job) for job in sorted(found, key=lambda each: (not each.spec.l0_view_ids, each.id.value))]

    # --- merging ------------------------------------------------------------------------------------------------------

    def start(self, jobs: Sequence[tuple[ServedDatabase, Compaction]]) -> list[tuple[ServedDatabase, Compaction]]:
        """Begin jobs, as many as threads allow, and return the others."""
        self.merging = {thread: each for thread, each in self.merging.items() if thread.is_alive()}
        free = max(0, JOBS_PER_THREAD * self.settings.threads - len(self.merging))
        for database, job in jobs[:free]:
            database.merging.add(job.id)
            name = f"slatespark-job-{job.id}"
            thread = threading.Thread(target=self._serve, args=(database, job.id), name=name, daemon=True)
            self.merging[thread] = database
            thread.start()
        return list(jobs[free:])

    def wait(self, most_ms: int) -> None:
        """Wait until a job has ended, or the worker is stopped, or for so long."""
        self.wakes.wait(most_ms / 1000)
        self.wakes.clear()

    def close(self) -> None:
        """Wait until all jobs have ended; those of a worker that is stopped are released."""
        for thread in list(self.merging):
            with suppress(RuntimeError):  # its start was interrupted
                thread.join()
        self.ranges.close()

    def _serve(self, database: ServedDatabase, job_id: Ulid) -> None:
        try:
            self._merge(database, job_id)
        except (JobLostError, _StoppedError) as exc:
            _log.info("%s: compaction %s is no longer ours: %s", database.url, job_id, type(exc).__name__)
        except SourcesGoneError:
            database.gone.add(job_id)
            _log.warning("%s: a source of compaction %s is missing", database.url, job_id)
        except Exception as exc:  # one job must not stop the others
            with suppress(SlateError):  # of a clock that fails again
                database.pause(job_id, read_clock(self.settings.clock))
            database.failed += 1
            self._notify(database, None, exc)
        finally:
            database.merging.discard(job_id)
            self.wakes.set()

    def _merge(self, database: ServedDatabase, job_id: Ulid) -> None:
        how, stores = self.settings, database.jobs.stores
        claim = claimed_job(
            database.jobs,
            job_id,
            how.worker_id,
            heartbeat_ms=how.heartbeat_ms,
            fails_without_sources=job_id in database.gone,
        )
        with claim as job:
            if job is None:  # another worker was faster
                return
            began_ms = read_clock(how.clock)
            merge = ClientMerge(
                options=database.options,
                keeps_codec=how.keeps_codec,
                filters=how.filters,
                parallelism=parallelism_of(how.runner, how.threads),
                plain=database.plain,
            )
            if merge.filters:
                _log.info("%s: filters decide about the rows of compaction %s", database.url, job_id)
            plan, filter_plan, merged = merge_client_job(stores, how.clock, job, merge, self._runner_of(stores, job))
            ended_ms = now_or(how.clock, began_ms)
        seen_ms = database.seen.get(job_id, began_ms)
        spec = job.entry.spec
        assert isinstance(spec, TieredSpec)
        report = WorkerReport(
            url=database.url,
            job=str(job.id),
            segment=spec.segment.hex(),
            sources=tuple(layer.name for layer in plan.layers),
            destination=spec.destination,
            rows_in=merged.rows_in,
            rows_out=merged.rows_out,
            bytes_in=merged.bytes_in,
            bytes_out=merged.bytes_out,
            files_out=len(merged.files),
            elapsed_ms=ended_ms - began_ms,
            waited_ms=ended_ms - seen_ms,
            filters_waited=filter_plan.waits,
        )
        database.handed_over += 1
        database.bytes_in += report.bytes_in
        self._notify(database, report, None)

    def _runner_of(self, stores: TableStores, job: ClaimedJob) -> Runner:
        """Return what merges the ranges of a job: the given runner, or the threads that all jobs share."""

        def check() -> None:
            if self.stop.is_set():
                raise _StoppedError
            job.check()

        if self.settings.runner is not None:
            return _watched(self.settings.runner, check)
        threads, clock = self.ranges, self.settings.clock

        def run(tasks: Sequence[RangeTask]) -> Iterable[MergedRange]:
            calls = [partial(merge_range, stores, clock, task, check) for task in tasks]
            return threads.run(
                calls,
                is_urgent=bool(job.entry.spec.l0_view_ids),
                discard=lambda merged: delete_files(stores, merged.ids),
            )

        return run

    def _notify(self, database: ServedDatabase, report: WorkerReport | None, exc: Exception | None) -> None:
        error = None
        if exc is not None:
            error = as_slate_error(exc, database.path)
        database.last_error = error
        with self._notifying:
            self.listener(WorkerOutcome(database.url, report, error))


def _watched(runner: Runner, check: Callable[[], None]) -> Runner:
    """Return a runner that stops when `check` raises: between its results, unless it can do so itself."""
    if hasattr(runner, "watched"):
        watched: Runner = runner.watched(check)
        return watched

    def run(tasks: Sequence[RangeTask]) -> Iterable[MergedRange]:
        for part in runner(tasks):
            yield part
            check()

    return run
