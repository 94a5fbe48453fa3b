"""What the tasks of a read are sent."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.options import ReadOptions
from slatespark.spark.source.datasource import SlateDataSource
from slatespark.spark.source.partitions import SlatePartition
from slatespark.spark.source.reader import SlateReader, open_reader
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.arrow import project
from tests.support.client import Client, Location

pytest.importorskip("pyspark")


def partitions_of(store: SlateStore) -> list[SlatePartition]:
    options = ReadOptions.parse({"path": store.url, "splitSize": 1})
    codec = resolve_definition(store._stores, fetch_latest_manifest(store._stores).value).codec()
    found = open_reader(options, project(options, codec=codec)).partitions()
    return [each for each in found if isinstance(each, SlatePartition)]


def rows_of(store: SlateStore, partition: SlatePartition) -> list[dict[str, bytes]]:
    reader = open_reader(ReadOptions.parse({"path": store.url}), partition.settings.projection)
    assert isinstance(reader, SlateReader)
    found: list[dict[str, bytes]] = pa.Table.from_batches(reader.read(partition)).to_pylist()
    return found


@pytest.mark.parametrize(("buffer", "is_sent"), [("128m", True), ("1", False)])
def test_tasks_of_a_feed_are_sent_their_rows_of_the_wal_or_the_list_of_its_files(
    tmp_path: Path, buffer: str, is_sent: bool
) -> None:
    store = SlateStore.create(str(tmp_path / "t"), autoCompact=False)
    for number in range(4):
        store.write(pa.table({"key": [b"%d" % number], "value": [b"old"]}))
    with Client.open(Location.local(tmp_path / "t")) as client:
        client.put(b"2", b"new")
        client.flush_wal()
        client.close(flush=False)  # which makes a version that refers to the file
    options = {"readChangeFeed": "true", "startingVersion": "1", "splitSize": "1", "walBuffer": buffer}
    source = SlateDataSource({"path": store.url, **options})
    reader = source.reader(source.schema())
    partitions = pickle.loads(pickle.dumps(reader.partitions()))
    rows: list[dict[str, bytes]] = [
        row for each in partitions for row in pa.Table.from_batches(reader.read(each)).to_pylist()
    ]
    assert len(partitions) > 1
    for each in partitions:
        assert (each.split.new_wal is not None, not each.settings.new.wal.sizes) == (is_sent, is_sent)
    assert [(row["key"], row["value"]) for row in rows] == [
        (b"%d" % key, b"new" if key == 2 else b"old") for key in range(4)
    ]


def test_tasks_with_their_rows_of_the_wal_are_not_sent_the_list_of_its_files(tmp_path: Path) -> None:
    table = pa.table({"key": [b"%03d" % number for number in range(100)], "value": [b"x" * 100] * 100})
    store = SlateStore.create(str(tmp_path / "t"), autoCompact=False)
    store.write(table, sstSize="1k", blockSize=1024)
    with Client.open(Location.local(tmp_path / "t")) as client:
        for number in range(20):
            client.put(b"%03d" % number, b"new")
        client.flush_wal()
        partitions = partitions_of(store)
        rows = [row for each in pickle.loads(pickle.dumps(partitions)) for row in rows_of(store, each)]
    assert len(partitions) > 1
    assert all(each.split.wal is not None and not each.settings.wal.sizes for each in partitions)
    assert [row["value"] for row in rows] == [b"new"] * 20 + [b"x" * 100] * 80
