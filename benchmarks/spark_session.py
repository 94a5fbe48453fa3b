"""The Spark of the benchmarks: one process, two task slots."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER: Final = "local[2]"


@cache
def spark_session(setting: str = "") -> SparkSession:
    """Return the session of this process; `setting` is one that is not Spark's default, `name=value`."""
    from slatespark.spark.java import ensure_java

    ensure_java()
    name, _, value = setting.partition("=")
    return build_session({name: value} if name else {})


def build_session(settings: Mapping[str, str]) -> SparkSession:
    """Start a session; everything is Spark's default but its memory, its folders and what the settings say.

    slatespark is not needed: the process has a `JAVA_HOME`, or Spark finds Java itself.
    """
    from pyspark.sql import SparkSession

    folder = Path.cwd() / f"spark-{os.getpid()}"
    session = (
        SparkSession.builder.master(MASTER)
        .appName("slatespark benchmarks")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
        .config(map=dict(settings))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def start() -> None:
    """Start the session, so that its start is in no sample."""
    spark_session()
