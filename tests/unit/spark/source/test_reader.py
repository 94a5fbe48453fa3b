"""What the tasks of a read are sent."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.options import ReadOptions
from slatespark.spark.source.partitions import SlatePartition
from slatespark.spark.source.reader import SlateReader, open_reader
from slatespark.table.definition.versions import resolve_codec
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.arrow import project
from tests.support.client import Client, Location

pytest.importorskip("pyspark")


def partitions_of(store: SlateStore) -> list[SlatePartition]:
    options = ReadOptions.parse({"path": store.url, "splitSize": 1})
    codec = resolve_codec(store._stores, fetch_latest_manifest(store._stores).value)
    found = open_reader(options, project(options, codec=codec)).partitions()
    return [each for each in found if isinstance(each, SlatePartition)]


def rows_of(store: SlateStore, partition: SlatePartition) -> list[dict[str, bytes]]:
    reader = open_reader(ReadOptions.parse({"path": store.url}), partition.settings.projection)
    assert isinstance(reader, SlateReader)
    found: list[dict[str, bytes]] = pa.Table.from_batches(reader.read(partition)).to_pylist()
    return found


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
