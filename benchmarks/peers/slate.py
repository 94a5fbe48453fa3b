"""slatespark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.typed_schema import KEYS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from slatespark import SlateTable


class SlateSparkTable:
    """A table of slatespark, with its defaults."""

    PROPERTIES: Mapping[str, Any] = {}

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._path = spark, str(folder)

    @staticmethod
    def settings() -> dict[str, str]:
        return {}

    def _table(self) -> SlateTable:
        from slatespark import SlateTable

        return SlateTable.forPath(self._spark, self._path)

    def load(self, rows: DataFrame) -> None:
        from slatespark import SlateTable

        SlateTable.create(self._spark, self._path, rows.schema, list(KEYS), **self.PROPERTIES).write(rows)

    def frame(self) -> DataFrame:
        return self._table().toDF()

    def upsert(self, rows: DataFrame) -> None:
        self._table().write(rows)

    def look_up(self, condition: str) -> DataFrame:
        return self._table().toDF(where=condition)

    def look_up_keys(self, keys: DataFrame) -> DataFrame:
        return self._table().lookup(keys)

    def delete_keys(self, keys: DataFrame) -> None:
        self._table().write(keys, operation="delete")

    def delete_range(self, condition: str) -> None:
        self._table().deleteRange(condition)

    def replace_range(self, condition: str, rows: DataFrame) -> None:
        self._table().write(rows, mode="overwrite", replaceWhere=condition)

    def compact(self) -> None:
        self._table().compact(full=True)

    def stored_bytes(self) -> int:
        from slatespark import SlateStore

        facts = SlateStore.open(self._path).detail()
        return facts.stored_bytes + facts.copy_bytes

    def version(self) -> int:
        from slatespark import SlateStore

        return SlateStore.open(self._path).history(1)[0].version

    def changes(self, since: int, *, pre_images: bool) -> DataFrame:
        return self._table().changes(startingVersion=since, startingBoundInclusive=False, preImages=pre_images)

    def stream(self, rows: DataFrame, checkpoint: Path, *, is_new: bool) -> StreamingQuery:
        # A stream into a table that does not exist creates it
        writer = rows.writeStream.format("slate").option("checkpointLocation", str(checkpoint))
        if is_new:
            writer = writer.option("keyColumns", ",".join(KEYS))
        return writer.trigger(availableNow=True).start(self._path)


class SlateCopiesTable(SlateSparkTable):
    """A table of slatespark of which compactions write columnar copies."""

    PROPERTIES: Mapping[str, Any] = {"columnar": True}
