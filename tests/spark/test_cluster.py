"""The bench for several executors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cluster import Cluster

pytestmark = pytest.mark.cluster

# Each task waits for the other one, so each has an executor to itself.
COUNT_EXECUTORS = """
import os
from pathlib import Path
def where(rows):
    import time, slatespark
    folder = Path(arguments["folder"])
    (folder / str(os.getpid())).touch()
    deadline_s = time.monotonic() + 120
    while len(list(folder.iterdir())) < 2 and time.monotonic() < deadline_s:
        time.sleep(0.05)
    for row in rows:
        yield os.getpid()
pids = spark.sparkContext.parallelize(range(2), 2).mapPartitions(where).collect()
result = {"processes": len(set(pids)), "doubled": 2 * arguments["number"]}
"""


def test_a_script_runs_on_several_executors(cluster: Cluster, tmp_path: Path) -> None:
    assert cluster.run(COUNT_EXECUTORS, number=21, folder=str(tmp_path)) == {"processes": 2, "doubled": 42}


def test_a_script_that_fails_shows_why_and_the_next_one_runs(cluster: Cluster) -> None:
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        cluster.run("1 / 0")
    assert cluster.run("result = spark.range(3).count()") == 3


def test_a_driver_that_dies_or_hangs_is_an_error() -> None:
    with pytest.raises(AssertionError, match="The driver ended with 1"), Cluster(master="no master") as cluster:
        cluster.run("")
    with (
        pytest.raises(AssertionError, match="Not done after"),
        Cluster(master="local[1]", timeout_s=0.5) as cluster,  # its Spark takes longer to start
    ):
        cluster.run("")
