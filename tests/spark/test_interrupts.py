"""Ctrl+C during a call that runs Spark jobs: they end, and nothing is committed afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark import InheritableThread
from pyspark.sql import SparkSession

from slatespark import SlateStore
from slatespark.spark.jobs.run_job import _ContextJob, run_job

PATIENCE_S = 60.0

# A process of its own, since PySpark handles the signal in the main thread of the process that started Spark.
INTERRUPTED = """
import os, signal, sys, threading, time
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from slatespark import SlateTable

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
tracker = spark.sparkContext.statusTracker()
table = SlateTable.create(spark, sys.argv[1], "id BIGINT, v STRING", "id")

def interrupt():
    while not tracker.getActiveJobsIds():
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)

rows = spark.range(40_000_000).selectExpr("id", "repeat('v', 50) AS v")
threading.Thread(target=interrupt, daemon=True).start()
try:
    if sys.argv[2] == "write":
        table.write(rows)
    else:
        with table.begin() as transaction:
            transaction.write(rows)
except (KeyboardInterrupt, Py4JError):  # the latter from PySpark 4.1
    print("interrupted,", "active" if tracker.getActiveJobsIds() else "ended")
table.write(spark.range(3).selectExpr("id", "'next' AS v"))
"""


@pytest.mark.parametrize("call", ["write", "transaction"])
def test_a_write_ends_with_ctrl_c_and_commits_nothing(tmp_path: Path, call: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path / "t"), call],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "interrupted, ended\n"
    assert SlateStore.open(tmp_path / "t").scan().read_all().to_pylist() == [
        {"id": number, "v": "next"} for number in range(3)
    ]


@pytest.mark.parametrize(
    ("error", "is_late"),
    [(KeyboardInterrupt, False), (KeyboardInterrupt, True), (Py4JError, False), (Py4JNetworkError, True)],
)
def test_a_job_of_an_interrupted_action_ends(spark: SparkSession, error: type[BaseException], is_late: bool) -> None:
    """PySpark 4.1 makes an error of py4j of Ctrl+C."""
    tracker, threads = spark.sparkContext.statusTracker(), []
    count = spark.sparkContext.parallelize(range(2), 2).map(_waits_long).count

    def action() -> int:
        threads.append(InheritableThread(target=lambda: _fails(count, delay_s=0.5 if is_late else 0.0), session=spark))
        threads[0].start()
        while not is_late and not tracker.getActiveJobsIds():
            time.sleep(0.05)
        raise error

    with pytest.raises(error):
        run_job(spark, action)
    assert is_late or not tracker.getActiveJobsIds()
    threads[0].join(PATIENCE_S)
    assert not threads[0].is_alive()


def test_a_second_ctrl_c_cancels_later_jobs_too(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    count = spark.sparkContext.parallelize(range(2), 2).map(_waits_long).count

    def action() -> None:
        threads.append(InheritableThread(target=lambda: _fails(count, delay_s=0.5), session=spark))
        threads[0].start()
        raise KeyboardInterrupt

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_ContextJob, "end", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_job(spark, action)
    threads[0].join(PATIENCE_S)
    assert not threads[0].is_alive()


def test_a_job_that_seems_active_is_not_waited_for_without_end(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_ContextJob, "_is_active", lambda _: True)  # as when Spark drops the event of its end
    monkeypatch.setattr("slatespark.spark.jobs.run_job.LATE_S", 0.5)

    def action() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_job(spark, action)


def _waits_long(number: int) -> int:
    threading.Event().wait(2 * PATIENCE_S)
    return number


def _fails(count: Callable[[], int], *, delay_s: float) -> None:
    time.sleep(delay_s)
    with pytest.raises(Exception, match="cancelled"):
        count()
