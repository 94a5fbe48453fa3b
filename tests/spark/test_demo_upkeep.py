"""The demo's scene about upkeep, on a few rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from slatespark import SlateStore
from slatespark.spark.demo.tables import DemoTables
from slatespark.spark.demo.upkeep import compact_flights

pytestmark = pytest.mark.spark


@pytest.mark.smoke
def test_a_compaction_leaves_one_run_and_forgets_what_the_filter_says(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("carrier", pa.string()), ("flight", pa.int32()), ("tailnum", pa.string())])
    store = SlateStore.create(str(tmp_path / "flights"), schema, "carrier,flight")
    for carriers in (("FL", "UA"), ("FL", "B6")):
        rows = [{"carrier": name, "flight": number, "tailnum": f"N{number}"} for name in carriers for number in (1, 2)]
        store.write(pa.Table.from_pylist(rows, schema))
    facts, done = [event.text for event in compact_flights(DemoTables(spark, tmp_path)) if event.kind == "result"]
    assert [line.split()[:4] for line in facts.splitlines()[1:]] == [
        ["before", "2", "6", "2"],
        ["after", "1", "6", "0"],
    ]
    assert done == "8 versions read, 6 left, 2 changed by the filter."
    assert store.scan().read_all()["tailnum"].to_pylist() == ["N1", "N2", None, None, "N1", "N2"]
