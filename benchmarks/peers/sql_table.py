"""What the formats share that change rows by Spark's SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.typed_schema import KEYS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SqlTable:
    """A table with a name in SQL that takes MERGE and DELETE.

    Parameters
    ----------
    name : as SQL takes it
    """

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark, self._name = spark, name

    def frame(self) -> DataFrame:
        return self._spark.table(self._name)

    def upsert(self, rows: DataFrame) -> None:
        self._merge(rows, "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")

    def look_up(self, condition: str) -> DataFrame:
        return self.frame().where(condition)

    def look_up_keys(self, keys: DataFrame) -> DataFrame:
        return self.frame().join(keys, list(KEYS))

    def delete_keys(self, keys: DataFrame) -> None:
        self._merge(keys, "WHEN MATCHED THEN DELETE")

    def delete_range(self, condition: str) -> None:
        self._spark.sql(f"DELETE FROM {self._name} WHERE {condition}")

    def _merge(self, rows: DataFrame, clauses: str) -> None:
        rows.createOrReplaceTempView("changed")  # in the session of the rows: a batch of a stream has its own
        condition = " AND ".join(f"old.{key} = changed.{key}" for key in KEYS)
        rows.sparkSession.sql(f"MERGE INTO {self._name} old USING changed ON {condition} {clauses}")


def in_key_order(rows: DataFrame) -> DataFrame:
    """Return rows so that no two files that are written from them overlap: lookups and ranges then skip files."""
    return rows.repartitionByRange(*KEYS).sortWithinPartitions(*KEYS)
