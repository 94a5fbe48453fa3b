"""The expiry report as a DataFrame."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import StructType

from slatespark import SlateTable
from slatespark.spark.frames.facts import EXPIRY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_expiry(spark: SparkSession, tmp_path: Path) -> None:
    table = SlateTable.create(spark, str(tmp_path / "t"), "id BIGINT, name STRING", "id")
    empty = table.expiry()
    assert empty.schema == StructType.fromDDL(EXPIRY)
    assert [tuple(row) for row in empty.collect()] == [
        (state, None, None, 0, 0, 0, 0) for state in ("expired", "never")
    ]
    for ttl in ("0", "30h", "9000d"):
        table.write(spark.createDataFrame([(1, "a"), (2, "b")], "id BIGINT, name STRING").coalesce(1), ttl=ttl)
    found = table.expiry("day")
    rows = found.collect()
    assert [(row.state, row.rows) for row in rows] == [("expired", 2), ("expires", 2), ("expires", 2), ("never", 0)]
    day, later = (
        found.where("state = 'expires'")
        .selectExpr("timestampdiff(HOUR, expiresFrom, expiresBefore) hours", "date_format(expiresFrom, 'mmss') rest")
        .collect()
    )
    assert (day.hours, day.rest, later.hours) == (24, "0000", None)
    assert sum(row.storedBytes for row in rows) == table._store.expiry().stored_bytes
    assert [row.rows for row in table.expiry(versionAsOf=1).collect()] == [0, 0]
    assert table.plotExpiry(per="day").axes[0].patches
