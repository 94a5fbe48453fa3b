"""Compactions for live clients as Spark jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from slatespark import CompactionWorker, OptionError, SlateTable
from slatespark.format.compactions import CompactionStatus
from tests.interop.test_compaction_beside_client import IDLE, fill
from tests.interop.test_compaction_worker import handed_over, lasting, scheduled_database, statuses, wait_until
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
