"""The bench for several executors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cluster import run_in_cluster

pytestmark = pytest.mark.cluster

# Each task waits for the other one, so each has an executor to itself.
COUNT_EXECUTORS = """
def where(rows):
    import time, slatespark
    folder = Path(arguments["folder"])
    (folder / str(os.getpid())).touch()
    deadline_s = time.monotonic() + 120
    while len(list(folder.iterdir())) < 2 and time.monotonic() < deadline_s:
        time.sleep(0.05)
    for row in rows:
        yield os.getpid()
import os
pids = spark.sparkContext.parallelize(range(2), 2).mapPartitions(where).collect()
result = {"processes": len(set(pids)), "doubled": 2 * arguments["number"]}
"""


def test_a_script_runs_on_several_executors(tmp_path: Path) -> None:
    assert run_in_cluster(COUNT_EXECUTORS, number=21, folder=str(tmp_path)) == {"processes": 2, "doubled": 42}


def test_a_script_that_fails_shows_why() -> None:
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run_in_cluster("1 / 0", master="local[1]")


def test_a_script_that_hangs_is_ended() -> None:
    with pytest.raises(AssertionError, match="Not done after 8 seconds"):
        run_in_cluster("import time; time.sleep(100)", master="local[1]", timeout_s=8)
