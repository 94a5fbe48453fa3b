"""Spark with several executors, and the real client, on one database in S3."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.client import read_rows
from tests.support.cluster import Cluster
from tests.support.moto_server import moto_server as moto_server
from tests.support.server_process import program_path
from tests.support.servers import Server
from tests.support.versitygw import PROGRAM
from tests.support.versitygw import versitygw as versitygw

pytestmark = [pytest.mark.cluster, pytest.mark.s3]

# The client runs in the driver, between the steps.
SCRIPT = """
import os, time
import pyarrow as pa
from slatespark import CompactionWorker
from tests.interop.test_compaction_worker import handed_over
from tests.support.client import Client, Location, read_rows
from tests.support.client_admin import read_manifest

path = arguments["path"]
location = Location.s3(path, **arguments["client"])
def storage(frame):
    for name, value in arguments["storage"].items():
        frame = frame.option("storage." + name, value)
    return frame
def load(url=path, **options):
    return storage(spark.read.format("slate").options(**options)).load(url)
def save(frame, mode, **options):
    storage(frame.write.format("slate").mode(mode).options(**options)).save(path)
def pairs(frame):
    return {bytes(row.key).decode(): bytes(row.value).decode() for row in frame.collect()}
def theirs():
    return {row.key.decode(): row.value.decode() for row in read_rows(location)}

def numbers(count, text):
    key, value = "CAST(format_string('%08d', id) AS binary) AS key", f"CAST(concat('{text}', id) AS binary) AS value"
    return spark.range(count).repartition(4).selectExpr(key, value)
save(numbers(100, "replaced"), "append")
save(numbers(10000, "v"), "overwrite", compression="zstd", sstSize="64k")
loaded = theirs()

with Client.open(location) as client:
    client.put(b"00000000", b"client")
    client.flush_memtable()
    client.put(b"00000002", b"in the WAL")
    client.flush_wal()
frame = load(path.replace("s3://", "s3a://"), splitSize="20k")
seen = pairs(frame)
def reader_process(rows):
    yield sum(1 for _ in rows) and os.getpid()
is_read_elsewhere = os.getpid() not in frame.rdd.mapPartitions(reader_process).collect()

changes = spark.createDataFrame(
    [(bytearray(b"00000001"), None, "delete"), (bytearray(b"00000003"), bytearray(b"spark"), "put")],
    "key binary, value binary, op string",
)
save(changes.repartition(2), "append", opColumn="op")
continued = theirs()

def failure(action):
    try:
        action()
    except Exception as error:
        return str(error)
failures = [
    failure(lambda: load(versionAsOf=10_000).collect()),
    failure(lambda: load(splitsize="lots").collect()),
    failure(lambda: load(**{"storage.nosuch": "another-secret"}).collect()),
    failure(lambda: load(path + "/nothing").collect()),
    failure(lambda: save(changes, "append")),
    failure(lambda: save(changes.selectExpr("X'' AS key", "value"), "append")),
]
execution = frame._jdf.queryExecution()
plans = [execution.toString(), spark._jvm.PythonSQLUtils.explainString(execution, "extended")]

# The client schedules merges, of its runs and then of L0, and executors do them.
class Seen:
    def decide(self, versions):
        open(os.path.join(arguments["folder"], str(os.getpid())), "w").close()
        return pa.array(["keep"] * versions.num_rows)
worker = CompactionWorker([path], spark=spark, filters=[Seen()], options={"sstSize": "64k"}, **arguments["storage"])
outcomes = []
with Client.open(location, handed_over()) as client:
    for number in range(4, 8):
        client.put(b"%08d" % number, b"client again")
        client.flush_memtable()
    while read_manifest(location).l0:
        outcomes += worker.runOnce()
        time.sleep(0.05)
    served = {row.key.decode(): row.value.decode() for row in client.scan()}
    is_open = client.is_open()
result = {
    "errors": [str(outcome.error) for outcome in outcomes if outcome.error is not None], "served": served,
    "l0_merged": sum(outcome.report.sources.count("L0") for outcome in outcomes), "is_open": is_open,
    "mergers": [int(name) for name in os.listdir(arguments["folder"])], "driver": os.getpid(),
    "loaded": loaded, "seen": seen, "partitions": frame.rdd.getNumPartitions(), "is_read_elsewhere": is_read_elsewhere,
    "continued": continued, "failures": failures, "plans": plans, "last": pairs(load(keyPrefix=b"0000000".hex())),
}
"""

FAILURES = [
    "InvalidRequestError: {url}: versionAsOf 10000 does not exist yet",
    "OptionError: splitSize",
    "nosuch",
    "TableNotFoundError: {url}/nothing is not a SlateDB database",
    "SchemaError: The columns are key, value, op",
    "SchemaError: A key is empty",
]


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    """versitygw; on a machine without it, moto."""
    found: Server = request.getfixturevalue("versitygw" if program_path(*PROGRAM) else "moto_server")
    return found


@pytest.mark.slow
def test_executors_and_the_client_share_a_database(cluster: Cluster, server: Server, tmp_path: Path) -> None:
    url = f"{server.create_bucket()}/db"
    result = cluster.run(
        SCRIPT,
        path=url,
        storage=dict(server.options),
        client=dict(server.location(url).config),
        folder=str(tmp_path),
    )
    expected = {f"{at:08d}": f"v{at}" for at in range(10000)}
    assert result["loaded"] == expected
    expected |= {"00000000": "client", "00000002": "in the WAL"}
    assert result["seen"] == expected
    assert result["partitions"] > 2
    assert result["is_read_elsewhere"]
    del expected["00000001"]
    expected["00000003"] = "spark"
    assert result["continued"] == expected
    expected |= {f"{at:08d}": "client again" for at in range(4, 8)}
    assert result["served"] == expected
    assert (result["errors"], result["l0_merged"], result["is_open"]) == ([], 4, True)
    assert result["mergers"], "which executors get the tasks is up to Spark"
    assert result["driver"] not in result["mergers"]
    assert result["last"] == {key: value for key, value in expected.items() if key.startswith("0000000")}
    assert {row.key.decode(): row.value.decode() for row in read_rows(server.location(url))} == expected

    for failure, said in zip(result["failures"], FAILURES, strict=True):
        assert said.format(url=url) in failure
    for text in [*result["failures"], *result["plans"]]:
        assert server.options["secret"] not in text
        assert "another-secret" not in text
