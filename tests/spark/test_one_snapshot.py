"""A DataFrame that its first action uses twice sees one snapshot, although Spark may plan each use by itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from slatespark import SlateStore
from tests.support.counted_clock import READS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CLOCK = "tests.support.counted_clock:counted_ms"


@pytest.mark.parametrize("is_adaptive", [True, False])
@pytest.mark.parametrize("kind", ["join", "subqueries"])
def test_one_process_finds_the_snapshot(spark: SparkSession, tmp_path: Path, kind: str, is_adaptive: bool) -> None:
    store = SlateStore.create(tmp_path / "t", "id BIGINT, n INT", "id")
    store.write(pa.Table.from_pylist([{"id": number, "n": number} for number in range(4)], store.definition.schema))
    READS.unlink(missing_ok=True)
    spark.conf.set("spark.sql.adaptive.enabled", is_adaptive)
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", -1)
    try:
        spark.read.format("slate").option("clock", CLOCK).load(str(tmp_path / "t")).createOrReplaceTempView("once")
        query = {
            "join": "SELECT count(*) FROM once AS a JOIN once AS b ON a.id = b.n",
            "subqueries": "SELECT (SELECT count(*) FROM once) + (SELECT count(*) FROM once WHERE n < 0)",
        }[kind]
        assert [tuple(row) for row in spark.sql(query).collect()] == [(4,)]
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    reads = READS.read_bytes()
    READS.unlink()
    assert reads == b"."
