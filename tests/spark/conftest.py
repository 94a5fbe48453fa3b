"""One Spark session for all tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slatespark.spark.java import ensure_java
from tests.support.cluster import JVM_OPTIONS, Cluster
from tests.support.warm_python import warm_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    if version("pyspark").startswith("4.1."):  # it leaves sockets to its JVM to the garbage collector
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Send these tests to one worker, so that one session serves them all; tests with a cluster go to another."""
    for item in items:
        if HERE in item.path.parents:
            cluster = item.get_closest_marker("cluster") is not None
            item.add_marker("cluster" if cluster else "spark")
            item.add_marker(pytest.mark.xdist_group("cluster" if cluster else "spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local Spark with two task slots."""
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = warm_python().command
    from pyspark.sql import SparkSession

    home = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("slatespark tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.local.dir", str(home / "local"))
        .config("spark.driver.extraJavaOptions", f"{JVM_OPTIONS} -Dderby.system.home={home / 'derby'}")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A Spark of two executors for the scripts of all tests; a task that fails is not repeated."""
    with Cluster(settings={"spark.task.maxFailures": "1"}) as started:
        yield started
