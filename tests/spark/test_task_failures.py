"""Failing tasks of a Spark write: the successful attempt counts, and a failed job changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from slatespark import SlateStore
from tests.support.client import Location, read_rows
from tests.support.cluster import run_in_cluster

pytestmark = pytest.mark.cluster

SCRIPT = """
import os, signal
from pyspark import TaskContext

path = arguments["path"]

def rows_of(partition, fails):
    def make(_):
        context = TaskContext.get()
        for number in range(partition, 2000, 4):
            if number > 1000 and context.partitionId() == 2 and fails(context.attemptNumber()):
                if context.attemptNumber() == 0:
                    raise ValueError("fails on cue")
                os.kill(os.getpid(), signal.SIGKILL)
            yield (bytearray(b"%06d" % number), bytearray(b"v" * 100))
    return make

def frame(fails):
    numbers = spark.sparkContext.parallelize(range(4), 4)
    rows = numbers.mapPartitionsWithIndex(lambda index, _: rows_of(index, fails)(_))
    return spark.createDataFrame(rows, "key binary, value binary")

def save(rows):
    rows.write.format("slate").mode("append").options(sstSize="4k", writeBuffer="16k").save(path)

save(spark.createDataFrame([(bytearray(b"before"), bytearray(b"1"))], "key binary, value binary"))
failure = ""
try:
    save(frame(lambda attempt: True))
except Exception as error:
    failure = str(error)
between = spark.read.format("slate").load(path).count()
save(frame(lambda attempt: attempt < 2))
result = {"failure": failure, "between": between, "after": spark.read.format("slate").load(path).count()}
"""


@pytest.mark.slow
def test_tasks_that_fail_and_die(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    result = run_in_cluster(SCRIPT, master="local[2,3]", path=str(folder))
    assert "fails on cue" in result["failure"] or "crashed" in result["failure"]
    assert (result["between"], result["after"]) == (1, 2001)
    rows = [(row.key, len(row.value)) for row in read_rows(Location.local(folder))]
    assert rows == [*((b"%06d" % number, 100) for number in range(2000)), (b"before", 1)]
    # Files of failed attempts are not in the manifest; garbage collection deletes them.
    store = SlateStore.open(str(folder))
    assert store.scan().read_all().num_rows == 2001
    assert not list((folder / "slatespark" / "leases").iterdir())
