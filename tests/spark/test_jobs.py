"""The jobs that we start: what Spark's UI says of them, how far they are, and what the user set for other jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slatespark
from slatespark import SlateTable
from slatespark.spark.jobs.run_job import described, run_job
from slatespark.spark.jobs.task_runner import SparkTasks
from slatespark.table.progress import Step

PATIENCE_S = 120.0
OWN = "a job of the user"


@pytest.fixture
def described_by_user(spark: SparkSession) -> Iterator[None]:
    spark.sparkContext.setJobGroup("group of the user", OWN)
    yield
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # None removes it
    spark.sparkContext.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> SlateTable:
    made = SlateTable.create(spark, tmp_path / "orders", "id BIGINT, v STRING", ["id"])
    for start in (0, 3):
        made.write(spark.range(start, start + 5).selectExpr("id", "'a' AS v"))
    return made


class Jobs:
    """The jobs that Spark knows, and those of them that are new."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._known = {job.jobId() for job in self._listed()}

    def new(self) -> list[tuple[str | None, str | None]]:
        """Return the description and group of each job since the last call."""
        found = [job for job in self._listed() if job.jobId() not in self._known]
        self._known |= {job.jobId() for job in found}
        return [(_optional(job.description()), _optional(job.jobGroup())) for job in found]

    def _listed(self) -> list[Any]:
        context: Any = self._spark.sparkContext._jsc.sc()
        context.listenerBus().waitUntilEmpty()  # a job is listed some time after it has begun
        jobs = context.statusStore().jobsList(None)
        return [jobs.apply(place) for place in range(jobs.size())]


def _optional(option: Any) -> str | None:
    return str(option.get()) if option.isDefined() else None


def test_each_call_names_its_jobs(
    spark: SparkSession, table: SlateTable, tmp_path: Path, described_by_user: None
) -> None:
    jobs, name, folder = Jobs(spark), "orders", tmp_path / "orders"

    def names(call: str) -> None:
        found = jobs.new()
        assert found
        for description, group in found:
            assert description is not None
            assert description.startswith(f"slatespark {call} {name} (")
            assert str(folder) in description
            assert group == "group of the user"

    rows = spark.range(3).selectExpr("id", "'b' AS v")
    table.write(rows)
    names("write to")
    table.alias("t").merge(rows.alias("s"), "t.id = s.id").whenMatchedUpdateAll().execute()
    names("merge into")
    table.update("id = 1", {"v": "'c'"})
    names("update")
    table.delete("id = 2")
    names("delete from")
    table.compact(full=True)
    names("compact")
    with table.begin() as txn:
        txn.write(rows)
    names("transaction on")
    spark.range(5).count()
    assert {description for description, _ in jobs.new()} == {OWN}


def test_the_version_that_is_read_is_named(spark: SparkSession, table: SlateTable) -> None:
    [row], jobs = table.detail().collect(), Jobs(spark)
    table.delete("id = 2")
    assert all(str(description).endswith(f", version {row.version})") for description, _ in jobs.new())


def test_a_description_ends_with_an_error(spark: SparkSession) -> None:
    with pytest.raises(ZeroDivisionError), described(spark, "slatespark divides"):
        1 / 0  # noqa: B018
    assert spark.sparkContext.getLocalProperty("spark.job.description") is None


def test_a_watched_action_has_the_properties_of_its_caller(spark: SparkSession, described_by_user: None) -> None:
    jobs = Jobs(spark)
    assert run_job(spark, spark.range(5).count, progress=lambda *_: None) == 5
    assert set(jobs.new()) == {(OWN, "group of the user")}


def waiting_task(folder: Path, number: int) -> int:
    """Wait until somebody has heard of the tasks."""
    end = time.monotonic() + PATIENCE_S
    while not (folder / "heard").exists() and time.monotonic() < end:
        time.sleep(0.05)
    return number


def test_tasks_are_counted_while_they_run(spark: SparkSession, tmp_path: Path) -> None:
    heard: list[tuple[Step, int, int]] = []

    def hear(step: Step, done: int, total: int) -> None:
        heard.append((step, done, total))
        if total >= 3:
            (tmp_path / "heard").touch()

    assert list(SparkTasks(spark, hear)(partial(waiting_task, tmp_path), [1, 2, 3])) == [1, 2, 3]
    assert (tmp_path / "heard").exists()
    assert {step for step, _, _ in heard} == {Step.SPARK_TASKS}
    assert all(done <= total for _, done, total in heard)


def test_a_function_that_raises_cancels_the_jobs(spark: SparkSession, tmp_path: Path) -> None:
    class EnoughError(Exception):
        pass

    def hear(step: Step, done: int, total: int) -> None:
        raise EnoughError

    with pytest.raises(EnoughError):
        SparkTasks(spark, hear)(partial(waiting_task, tmp_path), [1, 2, 3])
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()


@pytest.mark.parametrize(
    ("is_watching", "kind"), [(False, ValueError), (True, ValueError), (True, SystemExit), (True, KeyboardInterrupt)]
)
def test_a_function_that_raises_too_late_is_logged(
    spark: SparkSession, caplog: pytest.LogCaptureFixture, is_watching: bool, kind: type[BaseException]
) -> None:
    """The action may have committed, so that it has not failed."""
    ended, raised, caller = threading.Event(), threading.Event(), threading.get_ident()

    def action() -> int:
        count = spark.range(5).count()
        ended.set()
        assert not is_watching or raised.wait(PATIENCE_S)
        return count

    def hear(step: Step, done: int, total: int) -> None:
        if ended.is_set() and is_watching == (threading.get_ident() != caller):
            raised.set()
            raise kind

    assert run_job(spark, action, progress=hear) == 5
    assert [record.name for record in caplog.records if record.exc_info] == ["slatespark.spark.jobs.run_job"]


def test_an_interrupt_of_the_caller_passes(spark: SparkSession) -> None:
    caller = threading.get_ident()

    def hear(step: Step, done: int, total: int) -> None:
        if threading.get_ident() == caller:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_job(spark, spark.range(5).count, progress=hear)


@pytest.mark.parametrize("call", ["write", "compact", "copyTo"])
def test_a_call_hears_of_its_tasks(spark: SparkSession, table: SlateTable, tmp_path: Path, call: str) -> None:
    heard: list[tuple[Step, int, int]] = []
    calls: dict[str, Callable[[Any], object]] = {
        "write": lambda tell: table.write(spark.range(4).selectExpr("id", "'d' AS v"), progress=tell),
        "compact": lambda tell: table.compact(full=True, progress=tell),
        "copyTo": lambda tell: table.copyTo(tmp_path / "copy", progress=tell),
    }
    calls[call](lambda *told: heard.append(told))
    assert Step.SPARK_TASKS in {step for step, _, total in heard if total}


def test_facts_of_a_table_need_no_job(spark: SparkSession, table: SlateTable, tmp_path: Path) -> None:
    table.createCheckpoint("kept")
    jobs = Jobs(spark)
    facts = [table.detail(), table.history(), table.files(), table.runs(), table.checkpoints(), table.expiry()]
    facts.append(slatespark.sql(spark, f"VACUUM slate.`{tmp_path / 'orders'}` DRY RUN"))
    assert all(frame.collect() for frame in facts)
    assert slatespark.sql(spark, f"CREATE TABLE slate.`{tmp_path / 'new'}` (id BIGINT PRIMARY KEY)").collect() == []
    assert jobs.new() == []
