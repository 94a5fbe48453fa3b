"""Apache Iceberg, format v3 with merge-on-read: deletions are vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.peers.sql_table import SqlTable, in_key_order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PROPERTIES: Final = {
    "format-version": "3",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
}


class IcebergTable(SqlTable):
    """A table of Iceberg in a catalog of folders, loaded in key order."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__(spark, f"lake.{folder.parent.name}.{folder.name}")

    @staticmethod
    def settings() -> dict[str, str]:
        return {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": str(Path.cwd()),
        }

    def load(self, rows: DataFrame) -> None:
        writer = in_key_order(rows).writeTo(self._name).using("iceberg")
        for name, value in _PROPERTIES.items():
            writer = writer.tableProperty(name, value)
        writer.create()

    def replace_range(self, condition: str, rows: DataFrame) -> None:
        # In two commits: its overwrite takes whole files only
        self.delete_range(condition)
        rows.writeTo(self._name).append()

    def compact(self) -> None:
        options = "map('delete-file-threshold', '1')"
        self._spark.sql(f"CALL lake.system.rewrite_data_files(table => '{self._name}', options => {options})")

    def stored_bytes(self) -> int:
        [found] = self._spark.sql(f"SELECT sum(file_size_in_bytes) AS n FROM {self._name}.files").collect()
        return int(found.n)
