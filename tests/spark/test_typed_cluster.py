"""A typed table in S3, used by several executors and the real client in turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from slatespark import SlateStore
from tests.support.cluster import Cluster
from tests.support.moto_server import MotoServer
from tests.support.moto_server import moto_server as moto_server

pytestmark = [pytest.mark.cluster, pytest.mark.s3]

# The client runs in the driver, between the steps.
SCRIPT = """
import io, os
import fastavro, fdb.tuple
from pyspark.sql import functions as F
from slatespark import CommitConflictError, SlateTable
from tests.support.client import Client, Location, read_rows

path = arguments["path"]
location = Location.s3(path, **arguments["client"])
table = SlateTable.create(
    spark, path, "tenant STRING, id BIGINT, n INT, note STRING", ["tenant", "id"], **arguments["storage"]
)
def numbers(count, note):
    columns = ["concat('t', id % 3) AS tenant", "id", "CAST(id AS INT) AS n", note]
    return spark.range(count).repartition(4).selectExpr(*columns)
def writer():
    definition = table._store.definition
    [(number, schema)] = definition.writer_schemas.items()
    return number, fastavro.parse_schema(dict(schema))
def value(**row):
    number, schema = writer()
    body = io.BytesIO()
    fastavro.schemaless_writer(body, schema, row)
    return bytes([0xC3, 1]) + number.to_bytes(8, "little") + body.getvalue()
def theirs():
    number, schema = writer()
    found = []
    for row in read_rows(location):
        assert row.value[:10] == bytes([0xC3, 1]) + number.to_bytes(8, "little")
        body = fastavro.schemaless_reader(io.BytesIO(row.value[10:]), schema, None)
        found.append([*fdb.tuple.unpack(row.key), body["n"], body["note"]])
    return found
def ours(**options):
    return sorted([row.tenant, row.id, row.n, row.note] for row in table.toDF(**options).collect())

table.write(numbers(300, "'first' AS note"), sstSize="4k", blockSize="1k")
states = [theirs()]
frame = table.toDF(splitSize="1k")
def reader_process(rows):
    yield sum(1 for _ in rows) and os.getpid()
is_read_elsewhere = os.getpid() not in frame.rdd.mapPartitions(reader_process).collect()

with Client.open(location) as client:
    client.put(fdb.tuple.pack(("t0", 0)), value(n=-1, note="client"))
    client.delete(fdb.tuple.pack(("t1", 1)))
    client.flush_memtable()
    client.put(fdb.tuple.pack(("t9", 9)), value(n=None, note="in the WAL"))
    client.flush_wal()
read = [ours(where="id < 3"), ours(where="tenant = 't9' AND id IN (8, 9)")]

changes = numbers(6, "'merged' AS note").withColumn("n", F.lit(7))
merge = table.alias("t").merge(changes.alias("s"), "t.tenant = s.tenant AND t.id = s.id")
merge.whenMatchedUpdateAll("t.id <> 5").whenNotMatchedInsertAll().whenNotMatchedBySourceDelete("t.id >= 290").execute()
states.append(theirs())
with Client.open(location) as client:
    client.delete(fdb.tuple.pack(("t2", 2)))
    client.flush_memtable()
table.delete("tenant = 't0' AND id BETWEEN 3 AND 280")
table.delete(F.col("n") % 2 == 1)
states.append(theirs())

def raced():
    change = table._frames.begin_change({})
    table.write(numbers(1, "'between' AS note"))
    try:
        table._frames.write_change(change, change.rows.select("tenant", "id"), "delete from", operation="delete")
    except Exception as error:
        return str(error)
conflict = raced()
result = {
    "states": states, "is_read_elsewhere": is_read_elsewhere, "read": read, "conflict": conflict, "last": ours(),
    "end": theirs(),
    "pushed": table.toDF(where="tenant = 't2'").count(), "get": list(table.get("t0", 0).values()),
}
"""


@pytest.mark.slow
def test_executors_and_the_client_share_a_typed_table(cluster: Cluster, moto_server: MotoServer) -> None:
    url = f"{moto_server.create_bucket('typed-cluster')}/table"
    result = cluster.run(
        SCRIPT,
        path=url,
        storage={f"storage.{name}": value for name, value in moto_server.options.items()},
        client=dict(moto_server.location(url).config),
    )
    rows: dict[tuple[str, int], list[Any]] = {(f"t{n % 3}", n): [n, "first"] for n in range(300)}
    assert result["states"][0] == in_order(rows)
    assert result["is_read_elsewhere"]

    rows[("t0", 0)] = [-1, "client"]
    del rows[("t1", 1)]
    rows[("t9", 9)] = [None, "in the WAL"]
    assert result["read"] == [in_order({key: rows[key] for key in rows if key[1] < 3}), [["t9", 9, None, "in the WAL"]]]

    rows |= {(f"t{n % 3}", n): [7, "merged"] for n in range(5)}
    rows = {key: row for key, row in rows.items() if key[1] < 290}
    assert result["states"][1] == in_order(rows)

    del rows[("t2", 2)]
    rows = {key: row for key, row in rows.items() if not (key[0] == "t0" and 3 <= key[1] <= 280)}
    rows = {key: row for key, row in rows.items() if row[0] is None or row[0] % 2 == 0}
    assert result["states"][2] == in_order(rows)

    rows[("t0", 0)] = [0, "between"]
    assert "changed" in result["conflict"]
    assert result["last"] == result["end"] == in_order(rows)
    assert result["pushed"] == sum(key[0] == "t2" for key in rows)
    assert result["get"] == ["t0", 0, 0, "between"]


def in_order(rows: dict[tuple[str, int], list[Any]]) -> list[list[Any]]:
    return [[*key, *row] for key, row in sorted(rows.items())]


RELATIVE: Final = """
import os

from slatespark import SlateTable

path = os.path.relpath(arguments["path"])
table = SlateTable.create(spark, path, "id BIGINT", "id")
table.write(spark.range(100))
spark.range(100, 200).write.format("slate").mode("append").save(path)
with table.begin() as txn:
    txn.write(spark.range(200, 300))
    read = txn.read().count()
table.compact(full=True)
result = [read, spark.read.format("slate").load(path).count(), table.toDF().count(), os.path.isdir(arguments["path"])]
"""


def test_a_relative_path_is_of_the_driver(cluster: Cluster, tmp_path: Path) -> None:
    """Each executor has a working folder of its own."""
    assert cluster.run(RELATIVE, path=str(tmp_path / "t")) == [300, 300, 300, True]
    assert SlateStore.open(tmp_path / "t").verify().findings == ()
