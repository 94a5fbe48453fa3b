"""Spark's writer on the driver, without a session."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.options import WriteOptions
from slatespark.options.streaming import StreamWriteOptions
from slatespark.spark.source.partitions import SlateCommitMessage
from slatespark.spark.source.streaming.sink import SlateStreamWriter
from slatespark.spark.source.writer import SlateWriter
from slatespark.table.clock import SystemClock
from slatespark.table.write.load_task import run_task


def write(path: Path, table: pa.Table) -> None:
    writer = SlateWriter(WriteOptions.parse({"path": str(path)}), table.schema, overwrite=False)
    load = writer._load
    assert load is not None
    files = run_task(writer._stores(), SystemClock(), load, 0, table.to_batches())
    writer.commit([SlateCommitMessage(0, files)])


def test_a_task_without_a_message_is_no_commit(tmp_path: Path) -> None:
    """Its rows would be missing."""
    store = SlateStore.create(str(tmp_path / "t"), pa.schema([("id", pa.int64())]), keyColumns="id")
    options = {"path": str(tmp_path / "t")}
    batch = SlateWriter(WriteOptions.parse(options), pa.schema([("id", pa.int64())]), overwrite=False)
    stream = SlateStreamWriter(StreamWriteOptions.parse(options), pa.schema([("id", pa.int64())]), overwrite=False)
    with pytest.raises(RuntimeError, match=r"^InternalError: "):
        batch.commit([SlateCommitMessage(0, ()), None])
    with pytest.raises(RuntimeError, match=r"^InternalError: "):
        stream.commit([None], 0)
    assert len(store.history()) == 1


def test_an_empty_whole_result_of_a_named_stream_takes_effect_once(tmp_path: Path) -> None:
    """Spark runs no task for a result without partitions, so that nothing tells the query."""
    store = SlateStore.create(str(tmp_path / "t"), pa.schema([("id", pa.int64())]), keyColumns="id")
    store.write(pa.table({"id": [1]}))

    def commit(number: int) -> None:
        options = StreamWriteOptions.parse({"path": str(tmp_path / "t"), "txnAppId": "counts"})
        SlateStreamWriter(options, pa.schema([("id", pa.int64())]), overwrite=True).commit([], number)

    commit(7)
    assert store.scan().read_all().num_rows == 0
    store.write(pa.table({"id": [2]}))
    commit(7)
    with pytest.raises(RuntimeError, match="batch 3 of the stream counts comes after its batch 7"):
        commit(3)
    assert store.scan().read_all()["id"].to_pylist() == [2]
    assert list((tmp_path / "t" / "slatespark" / "leases").iterdir()) == []
    commit(8)
    assert store.scan().read_all().num_rows == 0


def test_commits_that_leave_many_small_runs_merge_them(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"), pa.schema([("id", pa.int64())]), keyColumns="id")
    for number in range(15):
        write(tmp_path / "t", pa.table({"id": [number]}))
    assert len(store.runs()) == 15
    write(tmp_path / "t", pa.table({"id": [15]}))
    assert len(store.runs()) == 1
    assert store.scan().read_all()["id"].to_pylist() == list(range(16))
