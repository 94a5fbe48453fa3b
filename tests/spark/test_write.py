"""Spark writes raw tables; the real client reads and continues them."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from slatespark import SlateStore
from tests.support.client import Client, Location, read_rows

pytestmark = pytest.mark.spark


@pytest.fixture
def location(tmp_path: Path) -> Location:
    return Location.local(tmp_path / "table")


def numbers(spark: SparkSession, count: int, partitions: int, text: str = "v") -> DataFrame:
    """Keys in random order, spread over partitions that overlap."""
    frame = spark.range(count).repartition(partitions)
    return frame.selectExpr(
        "cast(format_string('%08d', id) AS binary) AS key", f"cast(concat('{text}', id) AS binary) AS value"
    )


def client_pairs(location: Location) -> list[tuple[bytes, bytes]]:
    return [(row.key, row.value) for row in read_rows(location)]


def test_a_bulk_load_creates_a_database_that_the_client_continues(spark: SparkSession, location: Location) -> None:
    numbers(spark, 5000, 4).write.format("slate").mode("append").save(str(location.folder))
    expected = [(b"%08d" % number, b"v%d" % number) for number in range(5000)]
    assert client_pairs(location) == expected
    with Client.open(location) as client:
        client.put(b"00000000", b"changed")
        client.flush_memtable()
        client.put(b"zz", b"in the WAL")
        client.flush_wal()
    rows = spark.read.format("slate").load(str(location.folder)).collect()
    assert [(bytes(row.key), bytes(row.value)) for row in rows] == [
        (b"00000000", b"changed"),
        *expected[1:],
        (b"zz", b"in the WAL"),
    ]


@pytest.mark.smoke
def test_upserts_deletes_and_operands_by_row(spark: SparkSession, location: Location) -> None:
    path = str(location.folder)
    numbers(spark, 100, 2).write.format("slate").mode("append").save(path)
    changes = spark.createDataFrame(
        [(b"00000001", b"new", "put"), (b"00000002", None, "delete"), (b"00000003", b"+", "merge")],
        "key binary, value binary, op string",
    )
    changes.write.format("slate").option("opColumn", "op").mode("append").save(path)
    rows = dict(client_pairs(location))
    assert rows[b"00000001"] == b"new"
    assert b"00000002" not in rows
    assert rows[b"00000003"] == b"v3+"
    assert len(rows) == 99


def test_delete_needs_the_key_alone(spark: SparkSession, location: Location) -> None:
    path = str(location.folder)
    numbers(spark, 100, 2).write.format("slate").mode("append").save(path)
    numbers(spark, 90, 3).select("key").write.format("slate").option("operation", "delete").mode("append").save(path)
    assert len(client_pairs(location)) == 10


def test_overwrite_replaces_everything(spark: SparkSession, location: Location) -> None:
    path = str(location.folder)
    numbers(spark, 100, 2).write.format("slate").mode("append").save(path)
    numbers(spark, 10, 2, "w").write.format("slate").mode("overwrite").save(path)
    assert client_pairs(location) == [(b"%08d" % number, b"w%d" % number) for number in range(10)]


def test_an_empty_dataframe_creates_a_table_and_later_changes_nothing(spark: SparkSession, location: Location) -> None:
    path = str(location.folder)
    empty = numbers(spark, 0, 1)
    empty.write.format("slate").mode("append").save(path)
    store = SlateStore.open(path)
    assert store.scan().read_all().num_rows == 0
    manifests = len(list((location.folder / "manifest").iterdir()))
    empty.write.format("slate").mode("append").save(path)
    assert len(list((location.folder / "manifest").iterdir())) == manifests


def test_if_exists(spark: SparkSession, location: Location) -> None:
    writer = numbers(spark, 3, 1).write.format("slate").mode("append")
    writer.option("ifExists", "error").save(str(location.folder))
    with pytest.raises(Exception, match="TableExistsError"):
        writer.option("ifExists", "error").save(str(location.folder))
    numbers(spark, 9, 1).write.format("slate").mode("append").option("ifExists", "ignore").save(str(location.folder))
    assert len(client_pairs(location)) == 3


def test_ttl_and_codec_reach_the_files(spark: SparkSession, location: Location) -> None:
    writer = numbers(spark, 2000, 2).write.format("slate").mode("append")
    writer.options(ttl="7d", compression="zstd", blockSize="1k", sstSize="4k").save(str(location.folder))
    rows = read_rows(location)
    assert {(row.expire_ts or 0) - (row.create_ts or 0) for row in rows} == {7 * 86_400_000}
    assert len(list((location.folder / "compacted").iterdir())) > 2


@pytest.mark.parametrize(
    ("select", "message"),
    [
        (["key"], "SchemaError: .*raw"),
        (["key", "value", "1 AS more"], "SchemaError: .*more"),
        (["key", "1 AS value"], "SchemaError: .*INT"),
        (["cast(NULL AS binary) AS key", "value"], "SchemaError: .*null"),
        (["X'' AS key", "value"], "SchemaError: .*empty"),
        (["key", "cast(NULL AS binary) AS value"], "SchemaError: .*null"),
        (["cast(repeat('k', 70000) AS binary) AS key", "value"], "SchemaError: .*70000"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(
    spark: SparkSession, location: Location, select: list[str], message: str
) -> None:
    path = str(location.folder)
    numbers(spark, 10, 1).write.format("slate").mode("append").save(path)
    with pytest.raises(Exception, match=message):
        numbers(spark, 3, 1).selectExpr(*select).write.format("slate").mode("append").save(path)
    assert len(client_pairs(location)) == 10


def test_an_active_client_is_not_shut_out_unasked(spark: SparkSession, location: Location) -> None:
    """The client writes while the job runs: a row waits for a file that the client creates first."""
    path = str(location.folder)
    numbers(spark, 10, 1).write.format("slate").mode("append").save(path)
    flag = location.folder.parent / "client-has-written"
    waiting = f"wait_for('{flag}', id)"
    spark.udf.register("wait_for", wait_for, "bigint")
    with Client.open(location) as client:
        client.put(b"a", b"1")
        client.flush_wal()
        frame = spark.range(3).selectExpr(f"cast(cast({waiting} AS string) AS binary) AS key", "X'00' AS value")

        def act() -> None:
            client.put(b"b", b"2")
            client.flush_wal()
            flag.touch()

        timer = threading.Timer(1.0, act)
        timer.start()
        with pytest.raises(Exception, match=r"CommitConflictError: .*ifClientActive"):
            frame.write.format("slate").mode("append").save(path)
        timer.join()
        client.put(b"c", b"3")
        client.flush_wal()
        frame.write.format("slate").mode("append").option("ifClientActive", "fence").save(path)
    rows = dict(client_pairs(location))
    assert (rows[b"a"], rows[b"b"], rows[b"c"], rows[b"2"]) == (b"1", b"2", b"3", b"\0")


def wait_for(path: str, value: int) -> int:
    """Return `value` once the file exists."""
    deadline = time.monotonic() + 60
    while not Path(path).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return value
