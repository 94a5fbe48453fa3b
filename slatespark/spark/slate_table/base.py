"""OpenTable: what every part of `SlateTable` inherits, and how its calls run Spark jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slatespark.display.progress import AskedProgress, showing_progress
from slatespark.slate_store import SlateStore
from slatespark.spark.frames.table_frames import TableFrames
from slatespark.spark.jobs.run_job import beside_spark, described, job_text
from slatespark.spark.jobs.task_runner import SparkTasks
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.progress import Progress, Step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class _Running:
    """A call that runs.

    Attributes
    ----------
    progress : hears how far it is
    """

    spark: SparkSession
    progress: Progress | None

    def tasks(self) -> SparkTasks:
        """Return what runs tasks as Spark jobs."""
        return SparkTasks(self.spark, self.progress)


class OpenTable:
    """An open table: its rows as DataFrames, and the same table without Spark."""

    def __init__(self, store: SlateStore, frames: TableFrames) -> None:
        self._store, self._frames = store, frames

    def __repr__(self) -> str:
        return f"SlateTable({self._store.url!r})"

    @contextmanager
    def _running(self, call: str, asked: AskedProgress, step: Step) -> Iterator[_Running]:
        """Show the progress of a call, and name its jobs in Spark's UI."""
        spark, version = self._frames.spark, fetch_latest_manifest(self._store._stores).number
        with (
            showing_progress(beside_spark(spark, asked), step) as progress,
            described(spark, job_text(call, self._store.url, version)),
        ):
            yield _Running(spark, progress)


def frames_of(table: OpenTable) -> TableFrames:
    """Return the reads and writes behind a table, for calls of the package that `SlateTable` itself does not offer."""
    return table._frames
