"""The Spark of the benchmarks: one process, two task slots."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from slatespark.spark.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER: Final = "local[2]"


@cache
def spark_session() -> SparkSession:
    """Return the session of this process; everything is Spark's default but its memory and its folders."""
    ensure_java()
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
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def start() -> None:
    """Start the session, so that its start is in no sample."""
    spark_session()
