"""Write a stream of measurements into a table that keeps the newest of each sensor, for an hour.

python examples/write_a_stream.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from slatespark import SlateTable

SENSORS = 7
BATCHES = 3


def main(spark: SparkSession, folder: Path) -> None:
    """Write some batches, and stop; a next run goes on where this one ended."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    measured = rows.selectExpr(f"value % {SENSORS} AS sensor", "timestamp AS at", "value * 0.1D AS celsius", "value")
    query = (
        measured.writeStream.format("slate")
        .option("checkpointLocation", f"{folder.absolute()}-checkpoint")
        .options(keyColumns="sensor", sequenceColumn="value", ttl="1h")
        .trigger(processingTime="1 second")
        .start(str(folder.absolute()))
    )
    while len(query.recentProgress) < BATCHES:
        query.awaitTermination(1)  # seconds; it raises what ended the query
    query.stop()
    table = SlateTable.forPath(spark, folder)
    table.toDF().show()
    print(f"{len(query.recentProgress)} batches, now version {table.resolve().version}")


if __name__ == "__main__":
    main(
        SparkSession.builder.master("local[2]").getOrCreate(),
        Path(sys.argv[1] if len(sys.argv) > 1 else "measurements"),
    )
