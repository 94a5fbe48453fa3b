"""Delta Lake, with deletion vectors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions

from benchmarks.peers.sql_table import SqlTable, in_key_order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class DeltaTable(SqlTable):
    """A table of Delta Lake, loaded in key order."""

    PROPERTIES: Mapping[str, str] = {"delta.enableDeletionVectors": "true"}

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._path = str(folder)
        super().__init__(spark, f"delta.`{folder}`")

    @staticmethod
    def settings() -> dict[str, str]:
        return {
            # For two task slots: by default 50 tasks read its log, which took most of a small upsert.
            "spark.databricks.delta.snapshotPartitions": "4",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }

    def load(self, rows: DataFrame) -> None:
        in_key_order(rows).write.format("delta").options(**self.PROPERTIES).save(self._path)

    def frame(self) -> DataFrame:
        return self._spark.read.format("delta").load(self._path)

    def replace_range(self, condition: str, rows: DataFrame) -> None:
        rows.write.format("delta").mode("overwrite").option("replaceWhere", condition).save(self._path)

    def compact(self) -> None:
        self._spark.sql(f"OPTIMIZE {self._name}")

    def stored_bytes(self) -> int:
        [facts] = self._spark.sql(f"DESCRIBE DETAIL {self._name}").collect()
        return int(facts.sizeInBytes)

    def version(self) -> int:
        [last] = self._spark.sql(f"DESCRIBE HISTORY {self._name} LIMIT 1").collect()
        return int(last.version)

    def changes(self, since: int, *, pre_images: bool) -> DataFrame:
        feed = self._spark.read.format("delta").option("readChangeFeed", "true")
        changes = feed.option("startingVersion", since + 1).load(self._path)
        if pre_images:
            return changes
        kind = "CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 'upsert' ELSE _change_type END"
        return changes.where("_change_type <> 'update_preimage'").withColumn("_change_type", functions.expr(kind))

    def stream(self, rows: DataFrame, checkpoint: Path, *, is_new: bool) -> StreamingQuery:
        writer = rows.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        if not is_new:
            return writer.foreachBatch(lambda batch, _: self.upsert(batch)).start()
        return writer.format("delta").options(**self.PROPERTIES).start(self._path)


class DeltaFeedTable(DeltaTable):
    """A table of Delta Lake that keeps its change feed."""

    PROPERTIES: Mapping[str, str] = {**DeltaTable.PROPERTIES, "delta.enableChangeDataFeed": "true"}
