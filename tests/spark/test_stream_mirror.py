"""A mirror that a stream keeps, source to sink, equals its table: stopped, killed, failed, restarted, under collectors.

A usual run makes 20 changes; `make test-long` makes 200, and kills drivers too.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import psutil
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

from slatespark import SlateStore, TableNotFoundError
from slatespark.spark.java import ensure_java
from tests.support.cluster import JVM_OPTIONS, REPOSITORY
from tests.support.effort import THOROUGH, examples
from tests.support.moto_server import MotoServer
from tests.support.moto_server import moto_server as moto_server
from tests.support.warm_python import warm_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SCHEMA: Final = pa.schema([("id", pa.int64()), ("n", pa.int64())])
IDS: Final = 40
WAIT_S: Final = 300
ROUNDS: Final = 10  # of a thorough run
CONTINUOUSLY: Final = {"processingTime": "0 seconds"}
ENDS: Final = ("stopped", "killed", "awaited")
FAILURES: Final = ("read", "write", "commit")


def start_mirror(
    spark: SparkSession, source: str, target: str, checkpoint: str, trigger: dict[str, Any], **options: Any
) -> StreamingQuery:
    """A query that keeps a copy of a table; `storage.*` are options of both."""
    storage = {name: value for name, value in options.items() if name.startswith("storage.")}
    given = {"readChangeFeed": "true", "preImages": "false", "pollInterval": "100ms", "streamId": "mirror", **options}
    feed = spark.readStream.format("slate").options(**given).load(source)
    written = feed.selectExpr("id", "n", "if(_change_type = 'delete', 'delete', 'put') AS op")
    query = written.writeStream.format("slate").options(keyColumns="id", opColumn="op", **storage)
    return query.option("checkpointLocation", checkpoint).trigger(**trigger).start(target)


@dataclass
class Mirror:
    """A table that changes at random, whose versions are collected at once, and its copy."""

    url: str  # of the folder of both
    storage: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.source, self.target = f"{self.url}/source", f"{self.url}/copy"
        self.store = SlateStore.create(self.source, SCHEMA, "id", versionRetention="none", **self.storage)
        self.draw, self.serial = np.random.default_rng(7), 0

    def change(self, count: int = 1) -> None:
        for _ in range(count):
            kind = self.draw.random()
            self.serial += 1
            if kind < 0.7:
                ids = self.draw.permutation(IDS)[: self.draw.integers(1, 7)].tolist()
                self.store.write(pa.table({"id": ids, "n": [self.serial] * len(ids)}, SCHEMA))
            elif kind < 0.9:
                low = int(self.draw.integers(IDS))
                self.store.delete(f"id >= {low} AND id < {low + 5}")
            elif kind < 0.95:
                self.store.compact(full=True)
            else:
                self.vacuum()

    def vacuum(self) -> None:
        self.store.vacuum(minAge="0s", force=True)

    def rows(self, path: str) -> dict[int, int]:
        """The rows of a table; none where there is no table yet."""
        try:
            found = SlateStore.open(path, **self.storage).scan().read_all().to_pylist()
        except TableNotFoundError:
            return {}
        return {row["id"]: row["n"] for row in found}

    def is_equal(self) -> bool:
        return self.rows(self.target) == self.rows(self.source)

    def wait(self, query: StreamingQuery | None = None) -> None:
        ends = time.monotonic() + WAIT_S
        while not self.is_equal():
            assert time.monotonic() < ends
            assert query is None or query.isActive, query.exception()
            time.sleep(0.2)


@dataclass
class Runs:
    """The runs of the query of a mirror."""

    spark: SparkSession
    mirror: Mirror
    checkpoint: Path

    def start(self, trigger: dict[str, Any], **options: Any) -> StreamingQuery:
        storage = {f"storage.{name}": value for name, value in self.mirror.storage.items()}
        mirror, checkpoint = self.mirror, str(self.checkpoint)
        return start_mirror(self.spark, mirror.source, mirror.target, checkpoint, trigger, **options, **storage)

    def run(self, end: str, changes: int, **options: Any) -> None:
        """Let the query follow some changes, until it ends in a certain way."""
        if end in FAILURES:
            self._fail(end, changes, **options)
            return
        query = self.start(CONTINUOUSLY, **options)
        self.mirror.change(changes)
        if end == "awaited":
            self.mirror.wait(query)
        if end == "killed":
            kill_all(python_of_spark())
            self.mirror.change()
            with contextlib.suppress(StreamingQueryException):
                query.awaitTermination(5)  # it may have noticed nothing
        query.stop()

    def _fail(self, step: str, changes: int, **options: Any) -> None:
        folders = {"read": ("source", "compacted"), "write": ("copy", "compacted"), "commit": ("copy", "manifest")}
        before, version = self.mirror.rows(self.mirror.target), self.mirror.store.resolve().version
        self.mirror.change(changes)
        if self.mirror.is_equal() or self.mirror.store.resolve().version == version:
            return
        with blocked(Path(self.mirror.url, *folders[step])), pytest.raises(StreamingQueryException):
            self.start(CONTINUOUSLY, **options).awaitTermination(WAIT_S)
        assert self.mirror.rows(self.mirror.target) == before

    def finish(self, **options: Any) -> None:
        """Run batches until the copy is equal; PySpark 4.1 runs one at a time."""
        while not self.mirror.is_equal():
            self.start({"availableNow": True}, **options).awaitTermination()


@contextlib.contextmanager
def blocked(folder: Path) -> Iterator[None]:
    """Put a file in the place of a folder for a while: nothing in it can be read or created."""
    hidden = folder.rename(folder.with_name("hidden"))
    folder.touch()
    try:
        yield
    finally:
        folder.unlink()
        hidden.rename(folder)


def python_of_spark() -> list[psutil.Process]:
    """The Python processes of the session's JVM: those of sources and sinks, and the workers of tasks.

    Not the daemon that forks the workers: Spark notices its death only when it has failed one more call.
    """
    daemons = psutil.Process(warm_python().pid).children()
    found = [worker for daemon in daemons for worker in daemon.children(recursive=True)]
    for jvm in (each for each in psutil.Process().children(recursive=True) if each.name() == "java"):
        for each in jvm.children(recursive=True):
            with contextlib.suppress(psutil.Error):  # it has ended meanwhile
                if "python" in each.name() and "pyspark.daemon" not in each.cmdline():
                    found.append(each)
    return found


def kill_all(processes: list[psutil.Process]) -> None:
    assert processes
    for each in processes:
        with contextlib.suppress(psutil.Error):
            each.kill()


@pytest.mark.spark
@pytest.mark.slow
def test_a_mirror_under_stops_kills_and_failures(spark: SparkSession, tmp_path: Path) -> None:
    runs = Runs(spark, Mirror(str(tmp_path)), tmp_path / "checkpoint")
    rounds = [*ENDS, *FAILURES] * ROUNDS if THOROUGH else ["killed"]
    runs.mirror.change(examples(4))
    for number, end in enumerate(rounds):
        limit = {"maxRowsPerTrigger": "1"} if THOROUGH and number % 4 == 3 else {}
        runs.run(end, changes=examples(16) // len(rounds), **limit)
        runs.mirror.vacuum()
    runs.finish(maxRowsPerTrigger="1" if THOROUGH else "5")


@pytest.mark.spark
@pytest.mark.s3
def test_a_mirror_in_s3(spark: SparkSession, tmp_path: Path, moto_server: MotoServer) -> None:
    mirror = Mirror(f"{moto_server.create_bucket('mirror')}/tables", moto_server.options)
    runs = Runs(spark, mirror, tmp_path / "checkpoint")
    rounds = ENDS * 4 if THOROUGH else ()
    mirror.change(4)
    for end in rounds:
        runs.run(end, changes=200 // len(rounds))
        mirror.vacuum()
    runs.finish(maxRowsPerTrigger="20")


DRIVER: Final = """
import json, sys
from pyspark.sql import SparkSession
from tests.spark.test_stream_mirror import start_mirror
source, target, checkpoint, trigger, settings = map(json.loads, sys.argv[1:])
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
start_mirror(spark, source, target, checkpoint, trigger).awaitTermination()
"""


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.skipif(not THOROUGH, reason="each driver costs ten seconds; test_killed_streams.py kills one in any run")
def test_a_mirror_whose_driver_is_killed(tmp_path: Path) -> None:
    ensure_java()
    mirror = Mirror(str(tmp_path))
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": JVM_OPTIONS,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        "spark.local.dir": str(tmp_path / "local"),
    }

    def start(trigger: dict[str, Any]) -> subprocess.Popen[bytes]:
        given = [mirror.source, mirror.target, str(tmp_path / "checkpoint"), trigger, settings]
        command = [sys.executable, "-c", DRIVER, *map(json.dumps, given)]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYSPARK_PYTHON": sys.executable}
        return subprocess.Popen(command, env=environment, cwd=tmp_path, start_new_session=True)

    mirror.change(50)
    for number in range(4):
        with start(CONTINUOUSLY) as driver:
            if number % 2:
                mirror.wait()
            mirror.change(40)
            time.sleep(number * mirror.draw.random() * 5)
            os.killpg(driver.pid, signal.SIGKILL)
        mirror.vacuum()
    with start({"availableNow": True}) as driver:
        assert driver.wait(WAIT_S) == 0
    assert mirror.is_equal()
