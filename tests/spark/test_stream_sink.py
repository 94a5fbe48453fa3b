"""Streams into a table, with Spark."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from slatespark import InvalidRequestError, OptionError, SchemaError, SlateError, SlateStore
from slatespark.spark.failures import own_errors


@dataclass
class Scene:
    """JSON files that a stream reads, one in each batch, and its checkpoint location."""

    spark: SparkSession
    folder: Path
    schema: str = "id BIGINT, name STRING"
    given: int = field(default=0)

    @property
    def path(self) -> str:
        return str(self.folder / "table")

    @property
    def table(self) -> SlateStore:
        return SlateStore.open(self.path)

    def give(self, *rows: Mapping[str, Any]) -> None:
        """Give the stream another file."""
        source = self.folder / "source"
        source.mkdir(exist_ok=True)
        hidden = source / f"_{self.given}.json"
        hidden.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        at_s = 1_700_000_000 + self.given  # Spark takes the files in the order of their times
        os.utime(hidden, (at_s, at_s))
        hidden.rename(source / f"{self.given:03}.json")
        self.given += 1

    def read(self) -> DataFrame:
        source = self.spark.readStream.format("json").schema(self.schema).option("maxFilesPerTrigger", 1)
        return source.load(str(self.folder / "source"))

    def run(self, rows: DataFrame | None = None, mode: str = "append", **options: Any) -> StreamingQuery:
        """Write all that is there now, and wait."""
        sink = (self.read() if rows is None else rows).writeStream.format("slate").outputMode(mode)
        given = {"keyColumns": "id", "checkpointLocation": str(self.folder / "checkpoint"), **options}
        query = sink.options(**given).trigger(availableNow=True).start(self.path)
        with own_errors():
            query.awaitTermination()
        return query

    def rows(self) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in self.table.scan().read_all().to_pylist()]


@pytest.fixture
def scene(spark: SparkSession, tmp_path: Path) -> Scene:
    return Scene(spark, tmp_path)


@pytest.mark.smoke
def test_each_batch_is_one_commit_of_upserts(scene: Scene) -> None:
    scene.give({"id": 1, "name": "ada"}, {"id": 2, "name": "grace"})
    scene.give({"id": 2, "name": "edsger"}, {"id": 3, "name": "barbara"})
    first = scene.run()
    scene.give({"id": 3, "name": "adele"})
    again = scene.run()
    assert first.id == again.id
    assert scene.rows() == [(1, "ada"), (2, "edsger"), (3, "adele")]
    assert [entry.operation for entry in scene.table.history()].count("write") == 3
    assert list((Path(scene.path) / "slatespark" / "leases").glob("*")) == []


def test_options_of_rows(scene: Scene) -> None:
    scene.schema = "id BIGINT, name STRING, op STRING, at INT"
    scene.give({"id": 1, "name": "ada", "op": "put", "at": 1}, {"id": 2, "name": "grace", "op": "put", "at": 1})
    scene.give({"id": 1, "op": "delete", "at": 9}, {"id": 1, "name": "late", "op": "put", "at": 2})
    scene.run(opColumn="op", sequenceColumn="at", ttl="1h", queryName="people")
    assert scene.rows() == [(2, "grace", 1)]
    assert scene.table.scan(metadataColumns="expire_ts").read_all()["_expire_ts"].null_count == 0


def test_complete_mode_replaces_the_result(scene: Scene) -> None:
    scene.give({"id": 1, "name": "a"}, {"id": 2, "name": "b"})
    scene.give({"id": 3, "name": "b"})
    counts = scene.read().groupBy("name").count()
    scene.run(counts, "complete", keyColumns="name")
    assert scene.rows() == [("a", 1), ("b", 2)]


def test_update_mode_is_refused(scene: Scene) -> None:
    scene.give({"id": 1, "name": "a"})
    with pytest.raises(Exception, match=r"does not support Update"):
        scene.run(scene.read().groupBy("name").count(), "update", keyColumns="name")


def test_a_batch_that_fails_in_a_task_is_repeated(scene: Scene) -> None:
    scene.schema = "id BIGINT, name STRING, op STRING"
    scene.give({"id": 1, "name": "ada", "op": "put"})
    scene.give({"id": 2, "name": "grace", "op": "putt"}, {"id": 3, "name": "edsger", "op": "put"})
    with pytest.raises(SlateError, match="putt"):
        scene.run(opColumn="op")
    assert scene.rows() == [(1, "ada")]
    scene.run(scene.read().where("op = 'put'"), opColumn="op")
    assert scene.rows() == [(1, "ada"), (3, "edsger")]


def test_a_batch_that_fails_in_its_commit_is_repeated(scene: Scene) -> None:
    scene.give({"id": 1, "name": "ada"})
    scene.run(txnAppId="people")
    for name in ("checkpoint", "source"):
        (scene.folder / name).rename(scene.folder / f"old {name}")
    scene.give({"id": 2, "name": "grace"})
    with pytest.raises(InvalidRequestError, match="txnAppId 'people'"):
        scene.run(txnAppId="people")
    assert scene.rows() == [(1, "ada")]
    scene.run(txnAppId="people 2")
    assert scene.rows() == [(1, "ada"), (2, "grace")]
    assert list((Path(scene.path) / "slatespark" / "leases").glob("*")) == []


def test_a_checkpoint_that_was_set_back_is_refused(scene: Scene) -> None:
    for number in range(2):
        scene.give({"id": number, "name": "old"})
    scene.run()
    shutil.copytree(scene.folder / "checkpoint", scene.folder / "earlier")
    for number in range(2):
        scene.give({"id": number, "name": "new"})
    scene.run()
    (scene.folder / "checkpoint").rename(scene.folder / "later")
    (scene.folder / "earlier").rename(scene.folder / "checkpoint")
    with pytest.raises(InvalidRequestError, match="after its batch 3"):
        scene.run()
    assert scene.rows() == [(0, "new"), (1, "new")]


def test_bad_options_are_refused_before_anything_is_written(scene: Scene) -> None:
    scene.give({"id": 1, "name": "ada"})
    wrong: tuple[dict[str, Any], ...] = ({"txnVersion": "1"}, {"tlt": "1h"}, {"keyColumns": "nme"})
    for number, given in enumerate(wrong):
        with pytest.raises((OptionError, SchemaError)):
            scene.run(**given, checkpointLocation=str(scene.folder / f"checkpoint {number}"))
    assert not Path(scene.path).exists()


def test_errors_of_spark_pass(scene: Scene) -> None:
    scene.give({"id": 1, "name": "ada"})
    with pytest.raises(StreamingQueryException, match="broken"):
        scene.run(scene.read().selectExpr("id", "coalesce(raise_error('broken'), name) AS name"))
