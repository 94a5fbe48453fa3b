"""Worker: one loop that merges the compactions of many live clients, and hands them back.

A job runs on a thread of its own; its ranges are merged on threads that all jobs share. So a job of a thousand ranges
keeps no other database waiting. The looks for jobs, the claims and the heartbeats are requests to the store only.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypeAlias

from slatespark.errors import OptionError, SlateError, as_slate_error
from slatespark.format.compactions import Compaction, TieredSpec
from slatespark.format.ulid import Ulid
from slatespark.options import WriteOptions
from slatespark.options.fields import with_common
from slatespark.options.values import STORAGE_PREFIX, refuse_misspelt
from slatespark.shown import Listing
from slatespark.storage import run_concurrently
from slatespark.table.clock import Clock, SystemClock, check_clock, now_or, read_clock
from slatespark.table.compaction.client_job import ClientMerge, merge_client_job
from slatespark.table.compaction.fair_threads import FairThreads
from slatespark.table.compaction.filter import CompactionFilter
from slatespark.table.compaction.filter_plan import check_kinds, refuse_instants
from slatespark.table.compaction.merge import MergedRange
from slatespark.table.compaction.options import given_file_options, parse_worker
from slatespark.table.compaction.plan import CompactionPlan, RangeTask
from slatespark.table.compaction.ranges import Runner, run_task
from slatespark.table.compaction.worker_report import (
    Backlog,
    WorkerOutcome,
    WorkerReport,
    WorkerStatus,
    backlog_of,
)
from slatespark.table.cooperation.claimed_job import (
    ClaimedJob,
    JobLostError,
    SourcesGoneError,
    claimed_job,
    is_claimable,
    new_worker_id,
)
from slatespark.table.cooperation.job_list import JobList
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.merge.merge_function import resolve_operator
from slatespark.table.stores import TableStores, open_stores, table_path, table_paths
from slatespark.table.tasks import thread_count
from slatespark.units import parse_duration_ms, parse_time_ms

JOBS_PER_THREAD: Final = 2  # at a time: while one is claimed or handed over, another one is merged
FIRST_PAUSE_MS: Final = 10_000  # before a job or a database is tried again that failed; it doubles
LONGEST_PAUSE_MS: Final = 600_000
BACKLOG_MS: Final = 10_000  # between two lines about what waits

_ARGUMENTS = ("parallelism", "pollInterval", "heartbeatInterval", "mergeOperator", "filters", "clock", "options")
_log = logging.getLogger(__name__)

Listener: TypeAlias = Callable[[WorkerOutcome], None]


class _StoppedError(Exception):
    """The worker is being stopped: the job is released."""


@dataclass(slots=True)
class _Database:
    """A database that is served.

    Attributes
    ----------
    path, storage : as given
    jobs : its list
    options : of new files
    seen : when a waiting job was first seen
    pauses : when a job may be tried again that failed, and how often it has; None is the database itself
    gone : jobs that were released once, because a source was missing
    merging : jobs of this worker
    plain : files known to hold no merge operands
    """

    path: str
    storage: Mapping[str, Any]
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
        return self.jobs.stores.url

    def may_try(self, what: Ulid | None, now_ms: int) -> bool:
        """Tell whether a job, or with None the database, is not to be left alone for now."""
        return self.pauses.get(what, (0, 0))[1] <= now_ms

    def pause(self, what: Ulid | None, now_ms: int) -> None:
        """Leave a job or the database alone for a while, after a failure."""
        count = self.pauses.get(what, (0, 0))[0] + 1
        self.pauses[what] = count, now_ms + min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS << min(count - 1, 30))

    def forget_ended(self, listed: Sequence[Compaction]) -> None:
        """Forget jobs that have left the list."""
        there = {job.id for job in listed}
        self.seen = {job_id: at_ms for job_id, at_ms in self.seen.items() if job_id in there}
        self.pauses = {what: pause for what, pause in self.pauses.items() if what is None or what in there}
        self.gone &= there


class Worker:
    """Merges the compactions that live clients schedule, and hands the results back to them.

    `CompactionWorker` is this class for users, and describes the other parameters.

    Parameters
    ----------
    runner : merges the ranges of a job, instead of threads of this process; a method `watched(check)` returns one that
        ends when `check` raises
    """

    def __init__(
        self,
        tables: Iterable[str | os.PathLike[str]] | str | os.PathLike[str] = (),
        *,
        parallelism: int | None = None,
        pollInterval: str | int | timedelta = "1s",
        heartbeatInterval: str | int | timedelta = "3s",
        mergeOperator: str | None = None,
        filters: Sequence[CompactionFilter] = (),
        runner: Runner | None = None,
        clock: Clock | str | None = None,
        options: Mapping[str, Any] | None = None,
        **storage: Any,
    ) -> None:
        refuse_misspelt(storage, _ARGUMENTS)
        self._threads = thread_count(parallelism)
        self._poll_ms = _positive(pollInterval, "pollInterval")
        self._heartbeat_ms = _positive(heartbeatInterval, "heartbeatInterval")
        given = {**(options or {}), **({} if mergeOperator is None else {"mergeOperator": mergeOperator})}
        self._options = parse_worker(given)
        # refuses an unknown operator early
        resolve_operator(WriteOptions.parse(with_common({"path": "?"}, given)).merge_operator)
        self._keeps_codec = "compression" not in given_file_options(given)
        self._filters, self._runner = check_kinds(filters), runner
        refuse_instants(self._filters)
        self._clock: Clock = SystemClock() if clock is None else check_clock(clock)
        self._id = new_worker_id(self._clock)
        self._databases: dict[str, _Database] = {}
        self._lock = threading.Lock()
        self._wakes = threading.Event()
        self._stop = threading.Event()
        for path in table_paths(tables):
            self.add(path, **storage)

    def add(self, table: str | os.PathLike[str], **storage: Any) -> None:
        """Serve a database too; if it is served already, its `storage` is replaced.

        Parameters
        ----------
        table : path or URL; nothing is read yet
        storage : as for `SlateStore.open`

        Raises
        ------
        InvalidRequestError
            When `storage` has an unknown option, or the path cannot be used.
        """
        path = table_path(table)
        stores = _open(path, storage)
        located = {f"{STORAGE_PREFIX}{name}": value for name, value in stores.storage.items()}
        options = WriteOptions.parse(with_common({"path": path, **located}, self._options))
        with self._lock:
            self._databases[path] = _Database(path, dict(storage), JobList(stores, self._clock), options)

    def remove(self, table: str | os.PathLike[str]) -> None:
        """Stop serving a database; its jobs that are being merged are finished.

        Parameters
        ----------
        table : as it was added
        """
        with self._lock:
            self._databases.pop(table_path(table), None)

    def status(self) -> Listing[WorkerStatus]:
        """Return the state of each database, in the order in which they were added."""
        with self._lock:
            found = list(self._databases.values())
            return Listing(
                WorkerStatus(
                    each.url,
                    each.backlog,
                    len(each.merging),
                    each.handed_over,
                    each.failed,
                    each.bytes_in,
                    each.last_error,
                )
                for each in found
            )

    def runOnce(self) -> Listing[WorkerOutcome]:
        """Merge the jobs that wait now, and return what came of each, and of databases that could not be looked at."""
        outcomes: list[WorkerOutcome] = []
        with self._session(outcomes.append) as session:
            session.look()
            asked = session.waiting()
            while asked and not self._stop.is_set():
                asked = session.start(asked)
                session.wait(self._poll_ms)
        return Listing(outcomes)

    def run(self, until: int | str | datetime | None = None, *, listener: Listener | None = None) -> None:
        """Look for jobs and merge them, until an instant, or until `stop` is called.

        Parameters
        ----------
        until : by the worker's clock; None runs forever. Jobs that are being merged are released
        listener : called with what came of each job; from several threads, one at a time

        Raises
        ------
        OptionError
            When `until` is not an instant.
        """
        end_ms = None if until is None else parse_time_ms(until, name="until")
        with self._session(listener) as session:
            while not self._stop.is_set() and (end_ms is None or read_clock(self._clock) < end_ms):
                session.look()
                session.start(session.waiting())
                session.wait(self._poll_ms)
            self._stop.set()

    def stop(self) -> None:
        """Let `run`, in another thread, release its jobs and return: as soon as the windows in hand are merged.

        Called before `run`, it lets that return at once.
        """
        self._stop.set()
        self._wakes.set()

    @contextmanager
    def _session(self, listener: Listener | None) -> Iterator[_Session]:
        session = _Session(self, listener or (lambda _: None))
        try:
            yield session
        except BaseException:  # an interrupt waits for windows that are being merged, not for whole jobs
            self._stop.set()
            raise
        finally:
            session.close()
            self._stop.clear()


@dataclass(slots=True)
class _Session:
    """The threads of one `run`."""

    worker: Worker
    listener: Listener
    merging: dict[threading.Thread, _Database] = field(default_factory=dict)
    turn: int = 0
    ranges: FairThreads = field(init=False)
    _telling: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.ranges = FairThreads(self.worker._threads)

    # --- looking for jobs ---------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Read the list of every database that is not to be left alone."""
        worker = self.worker
        now_ms = read_clock(worker._clock)
        with worker._lock:
            chosen = [each for each in worker._databases.values() if each.may_try(None, now_ms)]
        remote = any(each.jobs.stores.main.is_remote for each in chosen)
        run_concurrently([partial(self._look_at, each, now_ms) for each in chosen], is_remote=remote)

    def _look_at(self, database: _Database, now_ms: int) -> None:
        try:
            listed = database.jobs.refresh().value
            if database.backlog is None or now_ms - database.logged_ms >= BACKLOG_MS:
                manifest = fetch_latest_manifest(database.jobs.stores).value
                database.backlog, database.logged_ms = backlog_of(manifest, listed), now_ms
                _log.info("%s: %s", database.url, database.backlog)
        except Exception as exc:
            database.pause(None, now_ms)
            self._tell(database, None, exc)
            return
        database.pauses.pop(None, None)
        database.forget_ended(listed.jobs)

    def waiting(self) -> list[tuple[_Database, Compaction]]:
        """Return the jobs to merge: those with L0 views first, then the oldest; one of each database in turn."""
        worker = self.worker
        now_ms = read_clock(worker._clock)
        with worker._lock:
            databases = list(worker._databases.values())
        self.turn += 1
        first = self.turn % max(1, len(databases))
        queues = [self._queue(each, now_ms) for each in (*databases[first:], *databases[:first])]
        longest = max((len(queue) for queue in queues), default=0)
        return [queue[at] for at in range(longest) for queue in queues if at < len(queue)]

    def _queue(self, database: _Database, now_ms: int) -> list[tuple[_Database, Compaction]]:
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

    def start(self, jobs: Sequence[tuple[_Database, Compaction]]) -> list[tuple[_Database, Compaction]]:
        """Begin jobs, as many as threads allow, and return the others."""
        self.merging = {thread: each for thread, each in self.merging.items() if thread.is_alive()}
        free = max(0, JOBS_PER_THREAD * self.worker._threads - len(self.merging))
        for database, job in jobs[:free]:
            database.merging.add(job.id)
            name = f"slatespark-job-{job.id}"
            thread = threading.Thread(target=self._serve, args=(database, job.id), name=name, daemon=True)
            self.merging[thread] = database
            thread.start()
        return list(jobs[free:])

    def wait(self, most_ms: int) -> None:
        """Wait until a job has ended, or the worker is stopped, or for so long."""
        self.worker._wakes.wait(most_ms / 1000)
        self.worker._wakes.clear()

    def close(self) -> None:
        """Wait until all jobs have ended; those of a worker that is stopped are released."""
        for thread in list(self.merging):
            with suppress(RuntimeError):  # its start was interrupted
                thread.join()
        self.ranges.close()

    def _serve(self, database: _Database, job_id: Ulid) -> None:
        worker = self.worker
        try:
            self._merge(database, job_id)
        except (JobLostError, _StoppedError) as exc:
            _log.info("%s: compaction %s is no longer ours: %s", database.url, job_id, type(exc).__name__)
        except SourcesGoneError:
            database.gone.add(job_id)
            _log.warning("%s: a source of compaction %s is missing", database.url, job_id)
        except Exception as exc:  # one job must not stop the others
            with suppress(SlateError):  # of a clock that fails again
                database.pause(job_id, read_clock(worker._clock))
            database.failed += 1
            self._tell(database, None, exc)
        finally:
            database.merging.discard(job_id)
            worker._wakes.set()

    def _merge(self, database: _Database, job_id: Ulid) -> None:
        worker, stores = self.worker, database.jobs.stores
        claim = claimed_job(
            database.jobs,
            job_id,
            worker._id,
            heartbeat_ms=worker._heartbeat_ms,
            fails_without_sources=job_id in database.gone,
        )
        with claim as job:
            if job is None:  # another worker was faster
                return
            began_ms = read_clock(worker._clock)
            how = ClientMerge(
                options=database.options,
                keeps_codec=worker._keeps_codec,
                filters=worker._filters,
                parallelism=self._parallelism(),
                plain=database.plain,
            )
            if how.filters:
                _log.info("%s: filters decide about the rows of compaction %s", database.url, job_id)
            plan, filter_plan, merged = merge_client_job(stores, worker._clock, job, how, self._runner_of(stores, job))
            ended_ms = now_or(worker._clock, began_ms)
        seen_ms = database.seen.get(job_id, began_ms)
        report = _report(
            database.url,
            job,
            plan,
            merged,
            elapsed_ms=ended_ms - began_ms,
            waited_ms=ended_ms - seen_ms,
            filters_waited=filter_plan.waits,
        )
        database.handed_over += 1
        database.bytes_in += report.bytes_in
        self._tell(database, report, None)

    def _parallelism(self) -> int:
        runner = self.worker._runner
        return self.worker._threads if runner is None else getattr(runner, "parallelism", 1)

    def _runner_of(self, stores: TableStores, job: ClaimedJob) -> Runner:
        """Return what merges the ranges of a job: the given runner, or the threads that all jobs share."""

        def check() -> None:
            if self.worker._stop.is_set():
                raise _StoppedError
            job.check()

        if self.worker._runner is not None:
            return _watched(self.worker._runner, check)
        threads, clock = self.ranges, self.worker._clock

        def run(tasks: Sequence[RangeTask]) -> Iterable[MergedRange]:
            calls = [partial(run_task, stores, clock, task, check) for task in tasks]
            return threads.run(calls, is_urgent=bool(job.entry.spec.l0_view_ids))

        return run

    def _tell(self, database: _Database, report: WorkerReport | None, exc: Exception | None) -> None:
        error = None
        if exc is not None:
            error = as_slate_error(exc, database.path)
        database.last_error = error
        with self._telling:
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


def _report(
    url: str,
    job: ClaimedJob,
    plan: CompactionPlan,
    merged: Sequence[MergedRange],
    *,
    elapsed_ms: int,
    waited_ms: int,
    filters_waited: bool,
) -> WorkerReport:
    spec = job.entry.spec
    assert isinstance(spec, TieredSpec)
    return WorkerReport(
        url=url,
        job=str(job.id),
        segment=spec.segment.hex(),
        sources=tuple(layer.name for layer in plan.layers),
        destination=spec.destination,
        rows_in=sum(part.rows_in for part in merged),
        rows_out=sum(part.rows_out for part in merged),
        bytes_in=sum(part.bytes_in for part in merged),
        bytes_out=sum(part.bytes_out for part in merged),
        files_out=sum(len(part.files) for part in merged),
        elapsed_ms=elapsed_ms,
        waited_ms=waited_ms,
        filters_waited=filters_waited,
    )


def _open(path: str, storage: Mapping[str, Any]) -> TableStores:
    """Return the stores of a database; only filters that remove rows past retention look at its WAL."""
    rest = dict(storage)
    wal_paths = [rest.pop(name) for name in ("walPath", "wal_path") if name in rest]
    return open_stores(path, storage=rest, wal_path=wal_paths[0] if wal_paths else None)


def _positive(value: str | int | timedelta, name: str) -> int:
    duration_ms = parse_duration_ms(value, name=name)
    if duration_ms <= 0:
        raise OptionError(f"{name}: {duration_ms} ms is not a positive duration.", todo="Give a duration like 1s.")
    return duration_ms
