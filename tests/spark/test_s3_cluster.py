"""Spark with several executors, and the real client, on one database in S3."""

from __future__ import annotations

import pytest

from tests.support.client import Client, read_rows
from tests.support.cluster import run_in_cluster
from tests.support.moto_server import MotoServer
from tests.support.moto_server import moto_server as moto_server
from tests.support.s3_location import s3_location

pytestmark = [pytest.mark.cluster, pytest.mark.s3]

STORAGE = """
def storage(frame):
    for name, value in arguments["storage"].items():
        frame = frame.option("storage." + name, value)
    return frame
def load(**options):
    return storage(spark.read.format("slate").options(**options)).load(arguments["path"])
def save(frame, mode, **options):
    storage(frame.write.format("slate").mode(mode).options(**options)).save(arguments["path"])
def pairs(frame):
    return [[bytes(row.key).decode(), bytes(row.value).decode()] for row in frame.collect()]
"""

BULK_LOAD = (
    STORAGE
    + """
numbers = spark.range(20000).repartition(4)
key, value = "CAST(format_string('%08d', id) AS binary) AS key", "CAST(concat('v', id) AS binary) AS value"
rows = numbers.selectExpr(key, value)
save(rows, "overwrite", compression="zstd", sstSize="64k")
frame = load(splitSize="20k")
result = {"partitions": frame.rdd.getNumPartitions(), "rows": frame.count(), "first": pairs(frame.limit(1))}
"""
)

CONTINUE = (
    STORAGE
    + """
seen = {key: value for key, value in pairs(load(keyPrefix=b"0000000".hex()))}
changes = spark.createDataFrame(
    [(bytearray(b"00000001"), None, "delete"), (bytearray(b"00000003"), bytearray(b"spark"), "put")],
    "key binary, value binary, op string",
)
save(changes.repartition(2), "append", opColumn="op")
try:
    load(versionAsOf=10_000).collect()
except Exception as error:
    failure = str(error)
plan = load()._jdf.queryExecution().toString()
result = {"seen": seen, "rows": load().count(), "failure": failure, "plan": plan}
"""
)


def test_executors_and_the_client_share_a_database(moto_server: MotoServer) -> None:
    url = f"{moto_server.create_bucket('spark-and-client')}/db"
    location = s3_location(moto_server, url)
    storage = dict(moto_server.options)
    loaded = run_in_cluster(BULK_LOAD, path=url, storage=storage)
    assert loaded == {"partitions": loaded["partitions"], "rows": 20000, "first": [["00000000", "v0"]]}
    assert loaded["partitions"] > 2
    rows = read_rows(location)
    assert [(row.key, row.value) for row in rows] == [(b"%08d" % at, b"v%d" % at) for at in range(20000)]

    with Client.open(location) as client:
        client.put(b"00000000", b"client")
        client.flush_memtable()
        client.put(b"00000002", b"in the WAL")
        client.flush_wal()

    result = run_in_cluster(CONTINUE, path=url.replace("s3://", "s3a://"), storage=storage)
    assert result["seen"] == {
        **{f"{at:08d}": f"v{at}" for at in range(10)},
        "00000000": "client",
        "00000002": "in the WAL",
    }
    assert result["rows"] == 19999
    assert "versionAsOf 10000 does not exist yet" in result["failure"]
    assert storage["secret"] not in result["failure"] + result["plan"]
    after = {row.key: row.value for row in read_rows(location)}
    assert b"00000001" not in after
    assert (after[b"00000003"], after[b"00000002"], len(after)) == (b"spark", b"in the WAL", 19999)
