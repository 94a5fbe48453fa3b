"""Worker: merges the compactions of many live clients, and hands them back."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from slatespark.errors import OptionError
from slatespark.options import WriteOptions
from slatespark.options.defaults import HEARTBEAT_INTERVAL, POLL_INTERVAL
from slatespark.options.fields import with_common
from slatespark.options.values import argument_names, refuse_misspelt, with_storage_prefix
from slatespark.shown import Listing
from slatespark.table.clock import Clock, SystemClock, check_clock, read_clock
from slatespark.table.compaction.filter import CompactionFilter
from slatespark.table.compaction.filter_plan import check_kinds, refuse_instants
from slatespark.table.compaction.options import given_file_options, parse_worker
from slatespark.table.compaction.ranges import Runner
from slatespark.table.compaction.worker_report import WorkerOutcome, WorkerStatus
from slatespark.table.compaction.worker_session import Listener, ServedDatabase, WorkerSession, WorkerSettings
from slatespark.table.cooperation.claimed_job import new_worker_id
from slatespark.table.cooperation.job_list import JobList
from slatespark.table.read.merge.merge_function import resolve_operator
from slatespark.table.stores import open_stores, split_wal_path, table_path, table_paths
from slatespark.table.tasks import thread_count
from slatespark.units import parse_duration_ms, parse_time_ms


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
        pollInterval: str | int | timedelta = POLL_INTERVAL,
        heartbeatInterval: str | int | timedelta = HEARTBEAT_INTERVAL,
        mergeOperator: str | None = None,
        filters: Sequence[CompactionFilter] = (),
        runner: Runner | None = None,
        clock: Clock | str | None = None,
        options: Mapping[str, Any] | None = None,
        **storage: Any,
    ) -> None:
        refuse_misspelt(storage, argument_names(Worker))
        threads = thread_count(parallelism)
        self._poll_ms = _positive(pollInterval, "pollInterval")
        heartbeat_ms = _positive(heartbeatInterval, "heartbeatInterval")
        given = {**(options or {}), **({} if mergeOperator is None else {"mergeOperator": mergeOperator})}
        self._options = parse_worker(given)
        # refuses an unknown operator early
        resolve_operator(WriteOptions.parse(with_common({"path": "?"}, given)).merge_operator)
        keeps_codec = "compression" not in given_file_options(given)
        checked = check_kinds(filters)
        refuse_instants(checked)
        self._clock: Clock = SystemClock() if clock is None else check_clock(clock)
        self._settings = WorkerSettings(
            new_worker_id(self._clock), self._clock, threads, heartbeat_ms, keeps_codec, checked, runner
        )
        self._databases: dict[str, ServedDatabase] = {}
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
        wal_path, backend = split_wal_path(storage)
        stores = open_stores(path, storage=backend, wal_path=wal_path)
        options = WriteOptions.parse(with_common({"path": path, **with_storage_prefix(stores.storage)}, self._options))
        with self._lock:
            self._databases[path] = ServedDatabase(path, JobList(stores, self._clock), options)

    def remove(self, table: str | os.PathLike[str]) -> None:
        """Stop serving a database; its jobs that are being merged are finished.

        Parameters
        ----------
        table : the table as it was added
        """
        with self._lock:
            self._databases.pop(table_path(table), None)

    def status(self) -> Listing[WorkerStatus]:
        """Return the state of each database, in the order in which they were added."""
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
            for each in self._served()
        )

    def runOnce(self) -> Listing[WorkerOutcome]:
        """Merge the jobs that wait now, and return what came of each, and of databases that could not be looked at."""
        outcomes: list[WorkerOutcome] = []
        with self._session(outcomes.append) as session:
            session.refresh()
            asked = session.waiting()
            while asked and not self._stop.is_set():
                asked = session.start(asked)
                session.wait(self._poll_ms)
        return Listing(outcomes)

    def run(self, until: int | str | datetime | None = None, *, listener: Listener | None = None) -> None:
        """Look for jobs and merge them, until an instant, or until `stop` is called.

        Parameters
        ----------
        until : instant by the worker's clock; None runs forever. Jobs that are being merged are released
        listener : called with what came of each job; from several threads, one at a time

        Raises
        ------
        OptionError
            When `until` is not an instant.
        """
        end_ms = None if until is None else parse_time_ms(until, name="until")
        with self._session(listener) as session:
            while not self._stop.is_set() and (end_ms is None or read_clock(self._clock) < end_ms):
                session.refresh()
                session.start(session.waiting())
                session.wait(self._poll_ms)
            self._stop.set()

    def stop(self) -> None:
        """Let `run`, in another thread, release its jobs and return: as soon as the windows in hand are merged.

        Called before `run`, it lets that return at once.
        """
        self._stop.set()
        self._wakes.set()

    def _served(self) -> list[ServedDatabase]:
        with self._lock:
            return list(self._databases.values())

    @contextmanager
    def _session(self, listener: Listener | None) -> Iterator[WorkerSession]:
        session = WorkerSession(self._settings, self._served, self._stop, self._wakes, listener or (lambda _: None))
        try:
            yield session
        except BaseException:  # an interrupt waits for windows that are being merged, not for whole jobs
            self._stop.set()
            raise
        finally:
            session.close()
            self._stop.clear()


def _positive(value: str | int | timedelta, name: str) -> int:
    duration_ms = parse_duration_ms(value, name=name)
    if duration_ms <= 0:
        raise OptionError(f"{name}: {duration_ms} ms is not a positive duration.", todo="Give a duration like 1s.")
    return duration_ms
