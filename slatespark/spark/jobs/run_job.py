"""Jobs of Spark that we start: what Spark's UI says of them, how far they are, and how they end early."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark import InheritableThread
from pyspark.errors import PySparkException

from slatespark.display.progress import AskedProgress, is_notebook
from slatespark.spark.pyspark_api import find_context
from slatespark.table.progress import Progress, Step

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

CHECK_S: Final = 0.2
LATE_S: Final = 30.0  # more than a plan takes, after which the first job begins; or a job, to end when cancelled

_DESCRIPTION: Final = "spark.job.description"
_INTERRUPTS: Final = "spark.job.interruptOnCancel"
_NUMBERS: Final = itertools.count()

Outcome = TypeVar("Outcome")

_log = logging.getLogger(__name__)


def job_text(call: str, url: str, version: int | None = None) -> str:
    """Return what Spark's UI says of the jobs of a call.

    Parameters
    ----------
    call : such as `merge into`; the name of the table follows
    version : the version that the call reads; None if it reads none
    """
    at = "" if version is None else f", version {version}"
    return f"slatespark {call} {url.rstrip('/').rpartition('/')[2]} ({url}{at})"


def beside_spark(spark: SparkSession, asked: AskedProgress) -> AskedProgress:
    """Return what progress to show of a call that runs Spark jobs: no second bar beside that of Spark in a terminal.

    Parameters
    ----------
    asked : what the caller asked for
    """
    context = find_context(spark)
    if asked != "auto" or context is None or is_notebook():
        return asked
    return False if context.getConf().get("spark.ui.showConsoleProgress", "false") == "true" else asked


@contextmanager
def described(spark: SparkSession, text: str) -> Iterator[None]:
    """Let Spark's UI show a text for the jobs of the block; afterwards the user's own description is back.

    A session of Spark Connect cannot describe jobs; there the text is a tag of its operations.
    """
    context = find_context(spark)
    if context is None:
        tag = text.replace(",", ";")  # which a tag may not contain
        spark.addTag(tag)
        try:
            yield
        finally:
            spark.removeTag(tag)
        return
    before = context.getLocalProperty(_DESCRIPTION)
    context.setJobDescription(text)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]  # None removes it


def run_job(
    spark: SparkSession,
    action: Callable[[], Outcome],
    *,
    check: Callable[[], None] | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Return what an action of a DataFrame returns; its Spark jobs have ended when an error passes on.

    Parameters
    ----------
    check : called again and again meanwhile, by another thread; cancels the jobs by raising
    progress : hears how many tasks have finished, in that thread; by raising it cancels them too. Raised too late, when
        the action has succeeded, it is only logged: the action may have committed.
    """
    tag = f"slatespark-{os.getpid()}-{next(_NUMBERS)}"
    context = find_context(spark)
    job = _SessionJob(spark, tag) if context is None else _ContextJob(context, tag)
    watched = _Watched(job, check, progress)
    # The action stays in the caller's thread, to which its session, its job group and its description belong.
    thread = None
    if check is not None or progress is not None:
        thread = InheritableThread(target=watched.watch, session=spark)
        thread.start()
    try:
        with job.tagged():
            outcome = action()
    except BaseException as exc:
        if isinstance(exc, Exception) and not _is_cut_off(exc):
            watched.end(thread)
            watched.raise_failure()
        else:  # Ctrl+C, of which Spark has not heard
            _cancel_later_jobs(job)  # first: a second Ctrl+C may end the waits below
            watched.end(thread)
            job.end()
        raise
    watched.end(thread)
    if check is not None:
        watched.raise_failure()
    watched.tell_end()
    return outcome


def _is_cut_off(error: Exception) -> bool:
    """Tell whether a call of the JVM ended without an answer, as by Ctrl+C with PySpark 4.1: its jobs go on."""
    # By name: a client of Spark Connect has no py4j.
    return type(error).__name__ in ("Py4JError", "Py4JNetworkError")


def _cancel_later_jobs(job: _ContextJob | _SessionJob) -> None:
    """Cancel the jobs that an action begins soon after Ctrl+C: in the JVM it continues until one of its jobs fails."""

    def cancel() -> None:
        end_s = time.monotonic() + LATE_S
        with contextlib.suppress(Exception):  # the session may stop
            while time.monotonic() < end_s:
                job.cancel()
                time.sleep(CHECK_S)

    threading.Thread(target=cancel, daemon=True).start()


@dataclass(slots=True)
class _Watched:
    """An action that another thread watches.

    Attributes
    ----------
    failure : what `check` or `progress` raised
    """

    job: _ContextJob | _SessionJob
    check: Callable[[], None] | None
    progress: Progress | None
    ended: threading.Event = field(default_factory=threading.Event)
    failure: BaseException | None = None

    def watch(self) -> None:
        """Look after the action until it has ended."""
        try:
            while not self.ended.wait(CHECK_S):
                if self.check is not None:
                    self.check()
                self._report_progress()
        except BaseException as exc:
            self.failure = exc
            while not self.ended.is_set():  # the jobs may not have begun yet
                with contextlib.suppress(PySparkException):
                    self.job.cancel()
                self.ended.wait(CHECK_S)

    def end(self, thread: threading.Thread | None) -> None:
        """Wait for the watching thread, if there is one."""
        self.ended.set()
        if thread is not None:
            thread.join()

    def raise_failure(self) -> None:
        """Raise what cancelled the jobs, if anything did."""
        if self.failure is not None:
            raise self.failure

    def tell_end(self) -> None:
        """Tell `progress` of the last tasks; what it raises now, or raised too late, is logged.

        Of what it raises in this thread, such as Ctrl+C, only an `Exception` is: the others are for the caller.
        """
        try:
            if self.failure is None:
                self._report_progress()
            failure = self.failure
        except Exception as exc:
            failure = exc
        if failure is not None:
            _log.warning("A progress function raised after its job had succeeded.", exc_info=failure)

    def _report_progress(self) -> None:
        if self.progress is not None:
            done, total = self.job.count_tasks()
            if total:
                self.progress(Step.SPARK_TASKS, done, total)


class _ContextJob:
    """The jobs of an action, by a tag: a group would take them out of the user's own."""

    def __init__(self, context: SparkContext, tag: str) -> None:
        self._context, self._tag = context, tag

    @contextmanager
    def tagged(self) -> Iterator[None]:
        before = self._context.getLocalProperty(_INTERRUPTS)
        self._context.addJobTag(self._tag)
        self._context.setInterruptOnCancel(True)
        try:
            yield
        finally:
            self._context.removeJobTag(self._tag)
            self._context.setLocalProperty(_INTERRUPTS, before)  # type: ignore[arg-type]  # None removes it

    def cancel(self) -> None:
        self._context.cancelJobsWithTag(self._tag)

    def end(self) -> None:
        """Cancel what still runs, and wait for it.

        After Ctrl+C PySpark tries to, but over the connection that the interrupted call blocks: it fails, and a write
        would commit later. The wait has an end, since Spark may lose the event that a job has ended.
        """
        end_s = time.monotonic() + LATE_S
        with contextlib.suppress(Exception):  # the context may have stopped; the caller has an error to raise
            while time.monotonic() < end_s and self._is_active():
                self.cancel()
                time.sleep(CHECK_S)

    def _is_active(self) -> bool:
        active = set(self._context.statusTracker().getActiveJobsIds())
        return not active.isdisjoint(self._job_ids())

    def _job_ids(self) -> list[int]:
        return list(self._context._jsc.sc().statusTracker().getJobIdsForTag(self._tag))

    def count_tasks(self) -> tuple[int, int]:
        """Return how many tasks have finished, and how many there are in the stages that have begun."""
        tracker, done, total = self._context.statusTracker(), 0, 0
        for job_id in self._job_ids():
            found = tracker.getJobInfo(job_id)
            for stage_id in () if found is None else found.stageIds:
                stage = tracker.getStageInfo(stage_id)
                if stage is not None and (stage.numActiveTasks or stage.numCompletedTasks):  # else skipped, perhaps
                    done, total = done + stage.numCompletedTasks, total + stage.numTasks
        return done, total


class _SessionJob:
    """The operation of an action in a session of Spark Connect."""

    def __init__(self, spark: SparkSession, tag: str) -> None:
        self._spark, self._tag = spark, tag
        self._tasks = 0, 0

    @contextmanager
    def tagged(self) -> Iterator[None]:
        spark: Any = self._spark
        spark.addTag(self._tag)  # of this thread only
        own = threading.get_ident()

        def hear(*, stages: Any = (), **_: Any) -> None:
            if threading.get_ident() == own:  # operations of other threads are heard in these
                self._tasks = sum(stage.num_completed_tasks for stage in stages), sum(s.num_tasks for s in stages)

        spark.registerProgressHandler(hear)
        try:
            yield
        finally:
            spark.removeProgressHandler(hear)
            spark.removeTag(self._tag)

    def cancel(self) -> None:
        self._spark.interruptTag(self._tag)

    def end(self) -> None:
        """Cancel what still runs; Spark Connect does not tell when it has ended."""
        with contextlib.suppress(Exception):  # the server may not answer; the caller has an error to raise
            self.cancel()

    def count_tasks(self) -> tuple[int, int]:
        """Return how many tasks have finished, and how many there are."""
        return self._tasks
