"""An archive of the classes that a Spark loads: a JVM that starts from it takes half of the processor time.

`python -m tests.support.spark_classes` makes it beside pyspark, unless it is there. A JVM takes from it what fits, and
nothing if it was made for another Java or another pyspark.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARCHIVE: Final = Path(sys.prefix) / "spark-classes.jsa"

_TIMEOUT_S: Final = 300


def archive_options(archive: Path = ARCHIVE) -> str:
    """Return the options of a JVM that uses the archive; none where it was not made.

    Without logs: of other programs, and after an update, it does not fit, which is no news.
    """
    return f"-XX:SharedArchiveFile={archive} -Xlog:disable" if archive.exists() else ""


def make_archive(archive: Path, options: str) -> None:
    """Run a Spark that does what tests do, and archive the classes that it has loaded when it ends."""
    from pyspark.sql import SparkSession

    made = archive.with_suffix(f".{os.getpid()}")
    with tempfile.TemporaryDirectory() as folder:
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
            .config("spark.driver.extraJavaOptions", f"{options} -XX:ArchiveClassesAtExit={made} -Xlog:disable")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("OFF")
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        _use(spark, Path(folder))
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()  # its JVM ends, and writes the archive
        gateway.proc.wait(_TIMEOUT_S)
    if made.exists():
        made.rename(archive)


def _use(spark: SparkSession, folder: Path) -> None:
    """Let Spark load the classes that most tests need."""
    from pyspark.sql import functions as sf

    table, options = str(folder / "table"), {"keyColumns": "id"}
    numbers = spark.range(100).selectExpr(
        "id", "id % 3 AS n", "CAST(id AS STRING) AS text", "current_timestamp() AS at"
    )
    numbers.write.format("slate").mode("append").options(**options).save(table)
    rows = spark.read.format("slate").load(table)
    rows.join(numbers, "id").groupBy(numbers["n"]).agg(sf.max(numbers["text"])).orderBy("n").collect()
    rows.dropDuplicates(["n"]).repartition(2).sortWithinPartitions("id").mapInArrow(
        lambda batches: batches, rows.schema
    )
    rows.coalesce(1).write.parquet(str(folder / "parquet"))
    spark.read.parquet(str(folder / "parquet")).union(rows).count()
    spark.createDataFrame([(1, bytearray(b"1"))], "id INT, data BINARY").collect()
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    sink = source.selectExpr("value AS id").writeStream.format("slate").options(**options)
    sink = sink.option("checkpointLocation", str(folder / "checkpoint")).trigger(once=True)
    sink.start(str(folder / "stream")).awaitTermination()


def main() -> None:
    """Make the archive."""
    from slatespark.spark.java import ensure_java
    from tests.support.cluster import JVM_FLAGS

    ensure_java()
    if not ARCHIVE.exists() and any(Path(os.environ["JAVA_HOME"]).glob("lib/server/classes*.jsa")):
        make_archive(ARCHIVE, JVM_FLAGS)


if __name__ == "__main__":
    main()
