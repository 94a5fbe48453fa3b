"""Progress: what a long call tells its caller while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Self, TypeAlias, TypeVar

import pyarrow as pa

from slatespark.table.tasks import TaskRunner

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class Step(StrEnum):
    """What a long call is doing.

    Attributes
    ----------
    unit : what `done` and `total` count
    """

    unit: str

    CHECKING = "Checking files", "bytes"
    CHECKING_LAYERS = "Checking the order of layers", ""
    CHECKING_TIMES = "Checking the order of times", ""
    CLONING = "Cloning", ""
    COPYING = "Copying", "bytes"
    DELETING = "Deleting", "objects"
    ERASING = "Erasing", "bytes"
    EXPORTING = "Exporting", "bytes"
    IMPORTING = "Importing", "bytes"
    INGESTING = "Ingesting", "files"
    MERGING = "Merging", "bytes"
    REAPING = "Reaping", "bytes"
    REMOVING = "Removing rows", "tasks"
    RESTORING = "Restoring", ""
    SEARCHING = "Searching", "objects"
    SPARK_TASKS = "Spark tasks", "tasks"
    WRITING = "Writing", "rows"

    def __new__(cls, text: str, unit: str) -> Self:
        """Make a step from its text and unit."""
        step = str.__new__(cls, text)
        step._value_, step.unit = text, unit
        return step


# Takes the step, how much of it is done, and how much there is in all: 0 if unknown. It may grow.
Progress: TypeAlias = Callable[[Step, int, int], None]


def reporting_tasks(runner: TaskRunner, progress: Progress | None, step: Step) -> TaskRunner:
    """Return a runner that tells how many of its tasks are done."""
    return runner if progress is None else _ReportingRunner(runner, progress, step)


class _ReportingRunner:
    def __init__(self, runner: TaskRunner, progress: Progress, step: Step) -> None:
        self._runner, self._progress, self._step = runner, progress, step
        self.parallelism = runner.parallelism

    def __call__(self, function: Callable[[Item], Outcome], items: Sequence[Item]) -> Iterator[Outcome]:
        for done, outcome in enumerate(self._runner(function, items), 1):
            self._progress(self._step, done, len(items))
            yield outcome


def reporting_rows(
    batches: Iterable[pa.RecordBatch], progress: Progress | None, *, total: int = 0
) -> Iterable[pa.RecordBatch]:
    """Return batches, and tell how many of their rows were taken.

    Parameters
    ----------
    total : number of rows; 0 if unknown
    """
    return batches if progress is None else _reporting(batches, progress, total)


def _reporting(batches: Iterable[pa.RecordBatch], progress: Progress, total: int) -> Iterator[pa.RecordBatch]:
    done = 0
    for batch in batches:
        yield batch
        done += batch.num_rows
        progress(Step.WRITING, done, total)
