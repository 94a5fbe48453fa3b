"""Apache Hudi: a table with a record key, merged on read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pyspark.sql import functions

from benchmarks.peers.sql_table import in_key_order
from benchmarks.typed_schema import KEYS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class HudiTable:
    """A table of Hudi, loaded in key order."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._path = spark, str(folder)
        self._options = {
            "hoodie.table.name": folder.name,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.recordkey.field": ",".join(KEYS),
        }

    @staticmethod
    def settings() -> dict[str, str]:
        return {
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
            "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        }

    def load(self, rows: DataFrame) -> None:
        self._write(in_key_order(rows), "bulk_insert")

    def frame(self) -> DataFrame:
        return self._spark.read.format("hudi").load(self._path)

    def upsert(self, rows: DataFrame) -> None:
        self._write(rows, "upsert")

    def look_up(self, condition: str) -> DataFrame:
        return self.frame().where(condition)

    def look_up_keys(self, keys: DataFrame) -> DataFrame:
        return self.frame().join(keys, list(KEYS))

    def delete_keys(self, keys: DataFrame) -> None:
        self._write(keys, "delete")

    def delete_range(self, condition: str) -> None:
        self.delete_keys(self.look_up(condition).select(*KEYS))

    def replace_range(self, condition: str, rows: DataFrame) -> None:
        # In two commits: its overwrite takes whole partitions only
        self.delete_range(condition)
        self.upsert(rows)

    def compact(self) -> None:
        self._spark.sql(f"CALL run_compaction(op => 'scheduleAndExecute', path => '{self._path}')").collect()

    def stored_bytes(self) -> int:
        # Right after a compaction, when all current rows are in base files
        files = self.frame().select(functions.input_file_name()).distinct().collect()
        return sum(Path(urlsplit(name).path).stat().st_size for [name] in files)

    def _write(self, rows: DataFrame, operation: str) -> None:
        writer = rows.write.format("hudi").options(**self._options).mode("append")
        writer.option("hoodie.datasource.write.operation", operation).save(self._path)
