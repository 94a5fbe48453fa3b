"""Spark reads while the real client writes all the time: every query is one consistent snapshot."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.counting_client import KEYS, CountingClient

pytestmark = pytest.mark.spark

QUERIES = 5


@pytest.mark.slow
@pytest.mark.parametrize("collects", [False, True])
def test_queries_beside_a_client_that_writes(spark: SparkSession, collects: bool, tmp_path: Path) -> None:
    client = CountingClient(tmp_path / "db", collects=collects)
    answers: list[int] = []
    expired = 0

    def read() -> list[tuple[bytes, bytes]]:
        frame = spark.read.format("slate").option("splitSize", 4000).load(str(tmp_path / "db"))
        row = frame.selectExpr("count(key)", "count(DISTINCT key)", "min(value)", "max(value)").first()
        assert row is not None
        assert (row[0], row[1], row[2]) == (len(KEYS), len(KEYS), row[3])
        return [(key, bytes(row[2])) for key in KEYS]

    with client.running():
        # A collector without a minimum age may delete the files of many queries before one succeeds.
        for _ in range(QUERIES * 4 if collects else QUERIES):
            if collects and len(answers) >= 2:
                break
            try:
                answers.append(client.check(read))
            except Exception as error:  # Spark keeps only the text of our error
                if "SnapshotExpiredError" not in str(error) and "UnavailableError" not in str(error):
                    raise
                expired += 1
    assert answers == sorted(answers)
    assert expired == 0 or collects
    assert len(set(answers)) > (0 if collects else 3)
