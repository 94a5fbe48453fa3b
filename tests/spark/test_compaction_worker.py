"""Compactions for live clients as Spark jobs."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from slatespark import CompactionWorker, OptionError, SlateTable
from slatespark.format.compactions import CompactionStatus
from tests.interop.test_compaction_beside_client import IDLE, fill
from tests.interop.test_compaction_worker import (
    entries,
    handed_over,
    lasting,
    scheduled_database,
    serving,
    statuses,
    wait_until,
)
from tests.support.client import Client, Location

pytestmark = pytest.mark.spark


def test_jobs_are_merged_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    location = Location.local(tmp_path / "db")
    scheduled_database(location, handed_over())
    with Client.open(location, handed_over()) as client:
        expected = lasting(client)
        wait_until(lambda: statuses(location) == [CompactionStatus.SCHEDULED])
        [outcome] = CompactionWorker([location.folder], spark=spark, mergeOperator="concat").runOnce()
        assert outcome.error is None
        wait_until(lambda: statuses(location) == [CompactionStatus.COMPLETED])
        assert lasting(client) == expected


def test_a_worker_that_is_stopped_cancels_its_spark_job(spark: SparkSession, tmp_path: Path) -> None:
    """The merge would never end by itself. The job is free again, and Spark runs nothing any more."""
    location = Location.local(tmp_path / "db")
    scheduled_database(location, handed_over())
    with Client.open(location, handed_over()):
        begun = tmp_path / "begun"
        worker = CompactionWorker(
            [location.folder], spark=spark, mergeOperator="concat", pollInterval="20ms", filters=[Endless(str(begun))]
        )
        with serving(worker) as outcomes:
            wait_until(begun.exists)
            assert statuses(location) == [CompactionStatus.RUNNING]
        assert outcomes == []
        [job] = entries(location)
        assert (job.status, job.worker) == (CompactionStatus.SCHEDULED, None)
        wait_until(lambda: spark.sparkContext.statusTracker().getActiveJobsIds() == [])


class Endless:
    """A filter that never decides."""

    def __init__(self, begun: str) -> None:
        self.begun = begun

    def decide(self, versions: pa.RecordBatch) -> pa.Array:
        Path(self.begun).touch()
        while True:
            time.sleep(0.1)


def test_a_table_beside_a_client(spark: SparkSession, tmp_path: Path) -> None:
    with Client.open(Location.local(tmp_path / "db"), IDLE) as client:
        fill(client, range(3))
        expected = client.scan()
        table = SlateTable.forPath(spark, str(client.location.folder))
        assert table.compact(full=True, ifClientActive="cooperate").jobs[0].rows_in == 177
        assert client.scan() == expected


def test_spark_knows_its_cores(spark: SparkSession) -> None:
    with pytest.raises(OptionError):
        CompactionWorker(spark=spark, parallelism=2)
