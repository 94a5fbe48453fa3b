"""Sums of columns of a typed table through Spark, against Spark's own Parquet of the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from benchmarks.data import DataFolder, stored_bytes
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.spark_session import MASTER
from benchmarks.tasks import spark_sums
from benchmarks.typed_rows import loaded
from benchmarks.typed_schema import SUMS
from benchmarks.worker import Task

TITLE: Final = "Sum of every column of a typed table through Spark, against Spark's Parquet"
TWO: Final = ("id", "amount")

PARQUET: Final = "parquet, 8 columns"
PARQUET_TWO: Final = "parquet, 2 columns"
SLATE: Final = "slate, 8 columns"
SLATE_TWO: Final = "slate, 2 of 8 columns"


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of `rows` rows."""
    folder = loaded(data, rows)
    table, parquet = folder / "slate", folder / "parquet"
    return Benchmark(
        alternatives=[
            _query(PARQUET, "parquet", parquet),
            _query(SLATE, "slate", table),
            _query(PARQUET_TWO, "parquet", parquet, TWO),
            _query(SLATE_TWO, "slate", table, TWO),
        ],
        base=PARQUET,
        targets=[
            Target(alternative=SLATE, against=PARQUET, at_most=1.35),
            Target(alternative=SLATE_TWO, against=PARQUET_TWO, at_most=3.0),
            Target(alternative=SLATE_TWO, against=SLATE, at_most=0.5),
        ],
        notes=[
            f"{rows:,} rows of 8 columns, 2 of them the key; {MASTER}, all in one session; warm page cache.",
            f"slate: one load by SlateTable.write, uncompressed, {stored_bytes(table) / 1e6:.0f} MB. "
            f"parquet: the same order, snappy, {stored_bytes(parquet) / 1e6:.0f} MB.",
        ],
        warm_ups=3,  # the JVM goes on compiling for some rounds
    )


def _query(name: str, kind: str, path: Path, columns: tuple[str, ...] = tuple(SUMS)) -> Alternative:
    options = {} if kind == "parquet" or len(columns) == len(SUMS) else {"columns": ",".join(columns)}
    task = Task.of(spark_sums, path=path, sums=[SUMS[name] for name in columns], options=options, kind=kind)
    return Alternative(name=name, task=task, process="spark")
