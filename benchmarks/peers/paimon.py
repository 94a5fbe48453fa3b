"""Apache Paimon: a table with a primary key, merged on read; an insert is an upsert."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.peers.sql_table import SqlTable, in_key_order
from benchmarks.typed_schema import KEYS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BUCKETS: Final = "4"  # a key's bucket is its hash; as many as the others have partitions after a shuffle


class PaimonTable(SqlTable):
    """A table of Paimon, in a catalog of its own so that its files lie in its folder."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._catalog, self._table = folder.parent.name, f"default.{folder.name}"
        spark.conf.set(f"spark.sql.catalog.{self._catalog}", "org.apache.paimon.spark.SparkCatalog")
        spark.conf.set(f"spark.sql.catalog.{self._catalog}.warehouse", folder.parent.as_uri())
        super().__init__(spark, f"{self._catalog}.{self._table}")

    @staticmethod
    def settings() -> dict[str, str]:
        return {"spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions"}

    def load(self, rows: DataFrame) -> None:
        writer = in_key_order(rows).writeTo(self._name).tableProperty("primary-key", ",".join(KEYS))
        writer.tableProperty("bucket", _BUCKETS).create()

    def upsert(self, rows: DataFrame) -> None:
        rows.writeTo(self._name).append()

    def replace_range(self, condition: str, rows: DataFrame) -> None:
        # In two commits: its overwrite takes whole partitions only
        self.delete_range(condition)
        self.upsert(rows)

    def compact(self) -> None:
        self._spark.sql(f"CALL {self._catalog}.sys.compact(table => '{self._table}')")

    def stored_bytes(self) -> int:
        files = f"{self._catalog}.default.`{self._table.partition('.')[2]}$files`"
        [found] = self._spark.sql(f"SELECT sum(file_size_in_bytes) AS n FROM {files}").collect()
        return int(found.n)
