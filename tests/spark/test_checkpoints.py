"""Versions kept, restored and cloned through SlateTable, and a Spark read beyond a garbage collection."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from slatespark import InvalidRequestError, OptionError, SlateStore, SlateTable
from slatespark.format.manifest import Checkpoint
from slatespark.spark.frames.facts import CHECKPOINTS
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.stores import open_stores
from tests.support.client import Client, ClientOptions, Location
from tests.support.client_admin import collect_garbage, compact_full

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "id BIGINT, name STRING"
ADA = {"id": 1, "name": "a"}


def points(path: Path) -> tuple[Checkpoint, ...]:
    return fetch_latest_manifest(open_stores(str(path), storage={}))[1].checkpoints


def test_keep_restore_clone(spark: SparkSession, tmp_path: Path) -> None:
    table = SlateTable.create(spark, str(tmp_path / "t"), SCHEMA, "id")
    store = SlateStore.open(str(tmp_path / "t"))
    store.write(pa.table({"id": [1, 2], "name": ["a", "b"]}))
    made = table.createCheckpoint("monday", "7d")
    store.delete("id = 1")
    clone = table.clone(str(tmp_path / "clone"), checkpoint="monday")
    assert (clone.get(1), table.get(1), table.get(1, checkpoint="monday")) == (ADA, None, ADA)
    restored = table.restoreToVersion(made.version)
    assert sorted(table.toDF().collect()) == [(1, "a"), (2, "b")]
    times = {facts.version: facts.committed_ms for facts in store.history()}  # to the ms, unlike a checkpoint's
    assert table.restoreToTimestamp(times[made.version]) > restored
    table.refreshCheckpoint("monday")
    frame = table.checkpoints()
    listed = CHECKPOINTS.replace(", ", ",").replace(" ", ":").lower().replace("timestamp_ltz", "timestamp")
    assert frame.schema.simpleString() == f"struct<{listed}>"
    kept = {row["name"]: row for row in frame.collect()}
    assert (kept["monday"]["id"], kept["monday"]["version"], kept["monday"]["expires"]) == (made.id, made.version, None)
    assert kept[f"slatespark/version/{restored}"]["expires"] > kept[f"slatespark/version/{restored}"]["created"]
    table.deleteCheckpoint("monday")
    with pytest.raises(InvalidRequestError, match="monday"):
        table.deleteCheckpoint("monday")
    with pytest.raises(InvalidRequestError, match="exist"):
        table.restoreToVersion(99)
    with pytest.raises(OptionError, match="pin"):
        table.toDF(pin="soon")


def test_a_pinned_read_outlives_a_collection(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = SlateTable.create(spark, str(path), SCHEMA, "id", versionRetention="none")
    store = SlateStore.open(str(path))
    store.write(pa.table({"id": list(range(100)), "name": ["first"] * 100}))
    pinned = table.toDF(pin="1h")
    assert pinned.count() == 100  # which fixes its snapshot
    (point,) = points(path)
    assert point.name == "slatespark/pin"
    store.write(pa.table({"id": [1], "name": ["second"]}), mode="overwrite")
    with Client.open(Location.local(path), ClientOptions(compactor=True)) as client:
        (row,) = client.scan()
        for _ in range(2):  # the collector's conditions: a job, and an L0 younger than the files
            compact_full(client)
            client.put(row.key, row.value)
            client.flush_memtable()
    collect_garbage(Location.local(path))
    assert pinned.where("name = 'first'").count() == 100
    assert [number for number in store.detail().versions if number < 6] == [point.manifest_id]
