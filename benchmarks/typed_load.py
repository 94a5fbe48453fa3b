"""A bulk load by `SlateTable.write` against Spark writing the same rows as sorted Parquet."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from benchmarks.data import DataFolder, stored_bytes
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.spark_session import MASTER, spark_session
from benchmarks.tasks import new_folder
from benchmarks.typed_rows import load_parquet, load_slate, parquet_parts
from benchmarks.worker import Sample, Stopwatch, Task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TITLE: Final = "Bulk load by SlateTable.write, against Spark writing sorted Parquet"

SLATE: Final = "slate, SlateTable.write"
PARQUET: Final = "parquet, range-partitioned and sorted"


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of `rows` rows."""
    source = parquet_parts(data, rows)
    alternatives = [
        Alternative(
            name=name,
            task=Task.of(write, source=source, kind=kind),
            process="spark",
        )
        for name, kind in ((PARQUET, "parquet"), (SLATE, "slate"))
    ]
    return Benchmark(
        alternatives=alternatives,
        base=PARQUET,
        targets=[Target(alternative=SLATE, against=PARQUET, at_most=2.0)],
        notes=[
            f"{rows:,} rows of 8 columns in random order, read from snappy Parquet; {MASTER}.",
            "Both range-partition and sort by the two key columns; slate syncs its files to disk, Parquet does not.",
        ],
    )


@cache
def _frame(source: str) -> DataFrame:
    return spark_session().read.parquet(source)


def write(source: str, kind: str) -> Sample:
    """Load all rows into a new place."""
    frame = _frame(source)
    with new_folder() as folder:
        with Stopwatch(children=True) as watch:
            (load_slate if kind == "slate" else load_parquet)(frame, str(folder / "written"))
        return watch.sample(rows=frame.count(), stored_bytes=stored_bytes(folder))
