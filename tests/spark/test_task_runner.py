"""The tasks of one Spark job: each gets its own item, and nothing of the others."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from pathlib import Path
from pickle import loads

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import StructType

from slatespark import MemoryLimitError, SlateError, SlateTable
from slatespark.spark.jobs import task_runner
from slatespark.spark.jobs.task_runner import SparkTasks, _RunPacked, in_groups, pack, pieces_of
from slatespark.spark.pyspark_api import ArrowTask, arrow_frame, map_in_arrow

ITEM_BYTES = 100_000


def test_each_task_gets_its_own_item(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    shared: list[int] = []

    def watched(rows: DataFrame, task: ArrowTask, schema: StructType | str) -> DataFrame:
        shared.append(len(pack(task)))
        assert rows.rdd.glom().map(len).collect() == [1] * 5
        return map_in_arrow(rows, task, schema)

    monkeypatch.setattr(task_runner, "map_in_arrow", watched)
    items = [bytes([number]) * (ITEM_BYTES + number) for number in range(5)]
    assert list(SparkTasks(spark)(len, items)) == [len(item) for item in items]
    assert len(shared) == 1
    assert shared[0] < ITEM_BYTES
    assert list(SparkTasks(spark)(len, [])) == []


def acknowledged(_: object) -> bool:
    """Tell whether a connection of this worker was made to send at once, and undo it."""
    found = [end for end in map(tcp_connection, Path("/proc/self/fd").iterdir()) if end is not None]
    is_set = any(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for end in found)
    for end in found:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        end.close()
    return is_set


def tcp_connection(file: Path) -> socket.socket | None:
    """Return an open file as a socket if it is a TCP connection."""
    with contextlib.suppress(OSError):
        if not stat.S_ISSOCK(file.stat().st_mode):
            return None
        end = socket.socket(fileno=os.dup(int(file.name)))
        if end.family in (socket.AF_INET, socket.AF_INET6) and end.type == socket.SOCK_STREAM:
            return end
        end.close()
    return None


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux acknowledges on demand")
def test_no_task_waits_for_its_input(spark: SparkSession) -> None:
    for _ in range(3):  # by then each worker has had a task before
        assert all(SparkTasks(spark)(acknowledged, [1, 2]))


def test_items_of_many_bytes_travel_in_as_many_tasks(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a cluster no task of 128 MiB is sent."""
    seen: list[int] = []

    def watched(session: SparkSession, table: pa.Table, schema: str) -> DataFrame:
        frame = arrow_frame(session, table, schema)
        seen.append(frame.rdd.getNumPartitions())
        return frame

    monkeypatch.setattr(task_runner, "arrow_frame", watched)
    setting = "spark.sql.execution.arrow.localRelationThreshold"
    spark.conf.set(setting, "1000")
    try:
        assert list(SparkTasks(spark)(len, [b"a" * 1000, b"b" * 2000, b"c" * 3000])) == [1000, 2000, 3000]
    finally:
        spark.conf.unset(setting)
    assert seen == [3]


def test_a_large_item_travels_in_pieces(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that had no memory to send a task of 100 MiB waited for ever; one of 128 MiB is not sent at all."""
    sent: list[pa.Table] = []

    def watched(session: SparkSession, table: pa.Table, schema: str) -> DataFrame:
        sent.append(table)
        return arrow_frame(session, table, schema)

    monkeypatch.setattr(task_runner, "arrow_frame", watched)
    monkeypatch.setattr(task_runner, "PIECE_BYTES", 1000)
    items = [bytes(range(250)) * 20, b"", b"small"]
    assert list(SparkTasks(spark)(bytes, items)) == items
    [table] = sent
    assert table["number"].to_pylist() == [0] * 6 + [1, 2]
    assert max(map(len, table["piece"].to_pylist())) == 1000


def test_small_items_share_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Spark Connect, where each frame is cut into tasks by itself."""
    pieces = [row for number in range(40) for row in pieces_of(number, b"x" * 100)]
    monkeypatch.setattr(task_runner, "PIECE_BYTES", 10 * pieces[0].nbytes)
    assert list(in_groups(pieces)) == [pieces[start : start + 10] for start in range(0, 40, 10)]
    [large] = pieces_of(40, b"x" * 9 * pieces[0].nbytes)
    assert list(in_groups([pieces[0], large, pieces[1]])) == [[pieces[0]], [large], [pieces[1]]]


def test_pieces_arrive_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_runner, "freeze_gc", lambda: None)
    monkeypatch.setattr(task_runner, "PIECE_BYTES", 1000)
    item = bytes(range(250)) * 20
    pieces = [*pieces_of(0, pack((bytes, item)))]
    assert len(pieces) == 6
    [outcome] = _RunPacked()(iter(pieces[::-1]))
    assert loads(outcome["outcome"][0].as_py()) == item


def test_results_that_do_not_arrive_are_missed(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark returned an empty list after its JVM had run out of memory."""
    monkeypatch.setattr(task_runner, "run_job", lambda _, collect, **__: collect()[:1])
    with pytest.raises(MemoryLimitError, match=r"1 of the results of 2 tasks .*spark\.driver\.memory"):
        SparkTasks(spark)(len, [b"a", b"b"])


def fill_disk(_: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_of_a_task_is_an_error_of_ours(spark: SparkSession) -> None:
    with pytest.raises(SlateError, match=r"No space left on device\. Make room"):
        list(SparkTasks(spark)(fill_disk, [1]))


def test_the_same_error_of_a_users_function_stays_his(spark: SparkSession, tmp_path: Path) -> None:
    table = SlateTable.create(spark, tmp_path / "t", "id BIGINT, n INT", "id")
    rows = spark.range(3).withColumn("n", F.udf(fill_disk, "int", useArrow=False)("id"))
    with pytest.raises(PySparkException, match="No space left on device"):
        table.write(rows)
