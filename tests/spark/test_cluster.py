"""The bench for several executors."""

from __future__ import annotations

import pytest

from tests.support.cluster import run_in_cluster

pytestmark = pytest.mark.cluster

COUNT_EXECUTORS = """
def where(rows):
    import time, slatespark
    time.sleep(1)  # long enough that both executors get a task
    for row in rows:
        yield os.getpid()
import os
pids = spark.sparkContext.parallelize(range(4), 4).mapPartitions(where).collect()
result = {"processes": len(set(pids)), "doubled": 2 * arguments["number"]}
"""


def test_a_script_runs_on_several_executors() -> None:
    assert run_in_cluster(COUNT_EXECUTORS, number=21) == {"processes": 2, "doubled": 42}


def test_a_script_that_fails_shows_why() -> None:
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run_in_cluster("1 / 0", master="local[1]")


def test_a_script_that_hangs_is_ended() -> None:
    with pytest.raises(AssertionError, match="Not done after 8 seconds"):
        run_in_cluster("import time; time.sleep(100)", master="local[1]", timeout_s=8)
