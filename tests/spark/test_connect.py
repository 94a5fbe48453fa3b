"""A session of Spark Connect: batch, `SlateTable`, streams, and what is cancelled.

Client and server are on one machine here, which see the same files; docs/explanation/spark-connect.md tells apart what
runs where.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from slatespark import SlateStore
from tests.support.cluster import run_in_cluster

MISSING = [name for name in ("grpc", "grpc_status", "google", "zstandard", "pandas") if find_spec(name) is None]

SCRIPT = """
from pathlib import Path

import slatespark
from slatespark import OptionError, SchemaError, SlateTable
from slatespark.spark.jobs import task_runner
from slatespark.spark.jobs.task_runner import SparkTasks

folder = Path(arguments["folder"])
result = {"session": type(spark).__module__}


def rows(path, **options):
    found = spark.read.format("slate").options(**options).load(str(folder / path))
    return [list(row) for row in found.orderBy("id").collect()]


# batch
numbers = spark.range(6).selectExpr("id", "id * 2 AS v")
numbers.write.format("slate").mode("append").option("keyColumns", "id").save(str(folder / "table"))
result["filtered"] = rows("table", filter="id >= 4")

# SlateTable
table = SlateTable.forPath(spark, str(folder / "table"))
table.write(spark.sql("SELECT 6L AS id, 0L AS v"))
table.delete("id = 5")
changes = spark.sql("SELECT 0L AS id, 100L AS v UNION ALL SELECT 7L, 7L")
merge = table.alias("t").merge(changes.alias("s"), "t.id = s.id")
merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute(txnAppId="merge", txnVersion=1)
with table.begin() as txn:
    txn.write(spark.sql("SELECT 8L AS id, 8L AS v"))
result["written"] = rows("table")
result["got"] = table.get(7)
history = table.history().where("operation != 'claim'").orderBy("version")
result["operations"] = [row.operation for row in history.collect()]
result["changes"] = table.changes(startingVersion=3, columns=["id", "_change_type"]).count()

# columns of any name
odd = SlateTable.create(spark, str(folder / "odd"), "`k.1` BIGINT, `v *` STRING", "k.1", history=True)
odd.write(spark.sql("SELECT id AS `k.1`, string(id) AS `v *` FROM range(3)"), timestamp=1000)
with odd.begin() as txn:
    txn.write(spark.sql("SELECT 3L AS `k.1`, 'x' AS `v *`"))
    txn.delete("`k.1` = 0")
wanted = spark.sql("SELECT id AS `k.1`, timestamp_millis(1500) AS ts FROM range(2)")
found = [odd.lookup(wanted.select("`k.1`")), odd.asOf(wanted, "ts").drop("ts")]
result["odd"] = [[list(row) for row in frame.orderBy("`k.1`").collect()] for frame in found]

table.compact(full=True, progress=lambda step, done, total: None)
result["tags"] = sorted(spark.getTags())
result["runs"] = table.runs().count()
try:
    table.write(spark.sql("SELECT 1L AS id, 'x' AS v"))
except SchemaError as exc:
    result["error"] = str(exc)
spark.sql(f"CREATE TEMPORARY VIEW shown USING slate OPTIONS (path '{folder / 'table'}')")
result["refused"] = []
for statement in ("UPDATE shown SET v = 0", "OPTIMIZE shown", "SELECT * FROM shown VERSION AS OF 3"):
    try:
        slatespark.sql(spark, statement)
    except OptionError as exc:
        result["refused"].append(str(exc))
result["view"] = slatespark.sql(spark, "SELECT count(*) FROM shown").collect()[0][0]
slatespark.sql(spark, f"DELETE FROM slate.`{folder / 'table'}` WHERE id = 8")
result["deleted"] = table.get(8)
result["storage"] = slatespark.storageOptions(spark)


# items that travel in several frames, and in pieces
usual, task_runner.PIECE_BYTES = task_runner.PIECE_BYTES, 1000
result["tasks"] = SparkTasks(spark)(len, [b"a" * 2500, b"", b"b" * 10])
task_runner.PIECE_BYTES = usual


# a job that is cancelled
class StopError(Exception):
    pass


def stop():
    raise StopError


try:
    SparkTasks(spark)(__import__("time").sleep, [600], check=stop)
except StopError:
    result["cancelled"] = True

# streams
source = folder / "source"
source.mkdir()
(source / "1.json").write_text('{"id": 1, "v": 10}\\n{"id": 2, "v": 20}\\n')
arriving = spark.readStream.schema("id BIGINT, v BIGINT").json(str(source))


def run(sink, name):
    sink = sink.option("checkpointLocation", str(folder / f"checkpoint of {name}")).trigger(availableNow=True)
    query = sink.start(str(folder / name)) if name == "sink" else sink.start()
    query.awaitTermination()


run(arriving.writeStream.format("slate").option("keyColumns", "id"), "sink")
result["sink"] = rows("sink")
each = str(folder / "each")


def write(batch, number):
    named = {"txnAppId": "each", "txnVersion": str(number), "keyColumns": "id"}
    batch.write.format("slate").mode("append").options(**named).save(each)


run(arriving.writeStream.foreachBatch(write), "each")
result["each"] = rows("each")
"""


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} of slatespark[connect] is not installed")
def test_a_session_of_spark_connect(tmp_path: Path) -> None:
    found = run_in_cluster(SCRIPT, master="local[2]", connects=True, folder=str(tmp_path))
    assert found["session"].startswith("pyspark.sql.connect")
    assert found["filtered"] == [[4, 8], [5, 10]]
    assert found["written"] == [[0, 100], [1, 2], [2, 4], [3, 6], [4, 8], [6, 0], [7, 7], [8, 8]]
    assert found["got"] == {"id": 7, "v": 7}
    assert found["operations"] == ["write"] * 4 + ["transaction"]
    assert found["changes"] > 0
    assert found["odd"] == [[[1, "1"]], [[0, "0"], [1, "1"]]]
    assert found["runs"] == 1
    assert found["tags"] == []  # those that name our operations are gone
    assert "BIGINT" in found["error"]
    assert len(found["refused"]) == 3
    assert all("temporary view shown" in text and "slate.`path`" in text for text in found["refused"])
    assert (found["view"], found["deleted"]) == (8, None)
    assert found["storage"] == {}
    assert found["tasks"] == [2500, 0, 10]
    assert found["cancelled"]
    assert found["sink"] == found["each"] == [[1, 10], [2, 20]]
    assert SlateStore.open(str(tmp_path / "sink")).scan().read_all().num_rows == 2
