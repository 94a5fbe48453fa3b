"""Load a table with Spark, change it, and compare two versions of it.

python examples/spark_round_trip.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession


def main(spark: SparkSession, folder: Path) -> None:
    """Write a thousand accounts, reset some of them, delete others, and show what changed."""
    path = str(folder.absolute())
    accounts = spark.range(1000).selectExpr(
        "CAST(format_string('account/%06d', id) AS BINARY) AS key", "CAST(CAST(id * 10 AS STRING) AS BINARY) AS value"
    )
    ordered = accounts.repartitionByRange(2, "key").sortWithinPartitions("key")
    options = {"compression": "zstd", "ifExists": "error"}  # a new table, whose first version is 1
    ordered.write.format("slate").mode("append").options(**options).save(path)

    changes = accounts.where("CAST(value AS STRING) LIKE '%00'").selectExpr(
        "key", "CAST('0' AS BINARY) AS value", "IF(CAST(key AS STRING) LIKE '%50', 'delete', 'put') AS op"
    )
    changes.write.format("slate").mode("append").option("opColumn", "op").save(path)

    before = spark.read.format("slate").option("versionAsOf", 1).load(path)
    after = spark.read.format("slate").load(path)
    print(f"version 1: {before.count()} accounts; now: {after.count()}")
    both = before.alias("b").join(after.alias("a"), "key", "left")
    print(f"{both.where('a.value IS NULL').count()} gone, {both.where('a.value <> b.value').count()} changed")


if __name__ == "__main__":
    main(SparkSession.builder.getOrCreate(), Path(sys.argv[1] if len(sys.argv) > 1 else "spark-round-trip"))
