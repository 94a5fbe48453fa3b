"""A compaction spread over several executors, with filters that only the driver's script defines."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore
from tests.support.cluster import Cluster

pytestmark = pytest.mark.cluster

# The filters are classes of the script: they travel by value.
SCRIPT = """
import os
import pyarrow as pa, pyarrow.compute as pc
from slatespark import FilterDecisions, InvalidRequestError, SlateTable

class Forget:
    def __init__(self, folder):
        self.folder = folder
    def decide(self, versions):
        open(os.path.join(self.folder, str(os.getpid())), "w").close()
        return pc.if_else(pc.equal(pc.bit_wise_and(versions["id"], 1), 1), "tombstone", "keep")

class Upper:
    def decide(self, versions):
        live = pc.not_equal(versions["_op"], "delete")
        upper = pa.table({"note": pc.utf8_upper(versions["note"])})
        return FilterDecisions(pc.if_else(live, "replace", "keep"), values=upper)

class Fragile:
    def decide(self, versions):
        if 7 in versions["id"].to_pylist():
            raise ZeroDivisionError("seven")
        return pa.array(["keep"] * versions.num_rows)

table = SlateTable.forPath(spark, arguments["path"])
before = table._store.resolve().version
try:
    table.compact(full=True, filters=[Fragile()], sstSize="8k", blockSize="1k")
    error = None
except InvalidRequestError as exc:
    error = str(exc)
after = table._store.resolve().version
report = table.compact(full=True, filters=[Forget(arguments["folder"]), Upper()], sstSize="8k", blockSize="1k")
result = {
    "error": error,
    "unchanged": before == after,
    "rows": sorted([row.id, row.note] for row in table.toDF().collect()),
    "report": [report.rows_in, report.rows_out, report.filtered, len(report.jobs)],
    "processes": [int(name) for name in os.listdir(arguments["folder"])],
    "driver": os.getpid(),
    "runs": len(table._store.runs()),
}
"""


def test_ranges_are_merged_by_executors_with_filters_of_the_script(cluster: Cluster, tmp_path: Path) -> None:
    path, folder = tmp_path / "table", tmp_path / "processes"
    folder.mkdir()
    schema = pa.schema([("id", pa.int64()), ("note", pa.string())])
    store = SlateStore.create(str(path), schema, keyColumns="id")
    for number in range(3):
        rows = pa.table(
            {"id": range(number * 400, 1200), "note": [f"note {number} {'x' * 90}"] * (1200 - number * 400)}
        )
        store.write(rows, sstSize="8k", blockSize="1k")
    found = cluster.run(SCRIPT, path=str(path), folder=str(folder))
    assert "id=7: ZeroDivisionError: seven" in found["error"]
    assert found["unchanged"]
    assert found["rows"] == [[at, f"NOTE {at // 400} {'X' * 90}"] for at in range(0, 1200, 2)]
    assert found["report"] == [2400, 600, 1200, 1]
    assert found["processes"], "which executors get the tasks is up to Spark"
    assert found["driver"] not in found["processes"]
    assert found["runs"] == 1
