"""Compaction by Spark: each task merges one key range and uploads the result; the driver plans and commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from slatespark.errors import InvalidRequestError
from slatespark.spark.jobs.run_job import described, job_text
from slatespark.spark.jobs.task_runner import SparkTasks, pack
from slatespark.table.clock import Clock, SystemClock
from slatespark.table.compaction.merge import MergedRange, RangeTask, merge_range
from slatespark.table.compaction.ranges import Runner
from slatespark.table.progress import Progress
from slatespark.table.stores import stores_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkRunner:
    """Merges ranges as the tasks of one Spark job.

    Parameters
    ----------
    clock : the clock of the table; it travels too
    progress : hears how many tasks have finished
    call : names the jobs in Spark's UI; None if the caller does

    Attributes
    ----------
    parallelism : how many tasks Spark runs at a time
    """

    def __init__(
        self,
        spark: SparkSession,
        clock: Clock | None = None,
        *,
        progress: Progress | None = None,
        call: str | None = None,
    ) -> None:
        self._spark, self._call = spark, call
        self._tasks, self._clock = SparkTasks(spark, progress), SystemClock() if clock is None else clock
        self.parallelism = self._tasks.parallelism

    def __call__(self, tasks: Sequence[RangeTask], *, check: Callable[[], None] | None = None) -> Iterable[MergedRange]:
        """Return the merged ranges, in the order of the tasks.

        Parameters
        ----------
        check : called again and again meanwhile; cancels the Spark job by raising
        """
        if not tasks or self._call is None:
            return self._tasks(partial(merge_in_worker, self._clock), tasks, check=check)
        with described(self._spark, job_text(self._call, tasks[0].options.path)):
            return self._tasks(partial(merge_in_worker, self._clock), tasks, check=check)

    def watched(self, check: Callable[[], None]) -> Runner:
        """Return a runner whose Spark jobs are cancelled once `check` raises."""
        return partial(self, check=check)


def merge_in_worker(clock: Clock, task: RangeTask) -> MergedRange:
    """Merge one key range in a worker."""
    return merge_range(stores_of(task.options), clock, task)


def check_filters_travel(filters: object) -> None:
    """Refuse filters that cannot be sent to executors before anything is begun; a wrong type is refused later."""
    for chosen in filters if isinstance(filters, Sequence) else ():
        try:
            pack(chosen)
        except Exception as exc:  # pickling can raise anything
            raise InvalidRequestError(
                f"filters: {type(chosen).__name__} cannot be pickled: {exc}.",
                why="Filters travel to Spark's executors.",
                todo="Create objects that cannot be pickled, such as locks and connections, in decide.",
            ) from exc
