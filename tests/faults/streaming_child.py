"""A program that streams numbers into a table until it is told to stop; a query whose worker was killed starts again.

Each row is an operand 1 on a key of its own, so a row that was lost or came twice shows in its sum.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from slatespark.spark.failures import find_own_error
from slatespark.spark.java import ensure_java
from tests.support.cluster import JVM_OPTIONS

ROWS: Final = 20  # of a batch
STOP: Final = "stop"  # the file that tells it to
OWN_ERROR: Final = 3  # exit status


def main(folder: Path) -> int:
    ensure_java()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", JVM_OPTIONS)
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    while True:
        query = start(spark, folder)
        while query.isActive:
            if (folder / STOP).exists() and query.recentProgress:
                query.stop()
                return 0
            time.sleep(0.05)
        text = str(query.exception())
        if find_own_error(text) is not None:
            print(text, flush=True)
            return OWN_ERROR


def start(spark: SparkSession, folder: Path) -> StreamingQuery:
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 2)
    rows = source.load().selectExpr("value AS id", "X'0100000000000000' AS n")
    sink = rows.writeStream.format("slate").option("operation", "merge")
    return sink.option("checkpointLocation", str(folder / "checkpoint")).start(str(folder / "table"))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
