"""A compacted table with columnar copies: upserts and the next scan, beside formats that keep Parquet anyway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from benchmarks.data import DataFolder
from benchmarks.harness import Benchmark
from benchmarks.peers import changed_rows as changes
from benchmarks.peers.scenario import Step, compare
from benchmarks.typed_rows import parquet_parts
from benchmarks.typed_schema import SUMS

TITLE: Final = "Upserts on columnar copies, and the next scan: slatespark and {}"

_TWO: Final = {"columns": ["id", "amount"]}
_ALL: Final = {"columns": list(SUMS)}


def maker(environment: str) -> Callable[[DataFolder, int], Benchmark]:
    """Return what makes the benchmark beside one peer."""
    return lambda data, rows: make(data, rows, environment)


def make(data: DataFolder, rows: int, environment: str) -> Benchmark:
    """Return the benchmark of `rows` rows."""
    notes = [
        f"{rows:,} rows of 8 columns, 2 of them the key; a tenth of the rows of an upsert is new. slatespark: "
        "`columnar=true`, so that the compaction writes columnar copies; reads by `toDF`."
    ]
    return compare(lambda rows: _steps(data, rows), rows, environment, ("slatespark-copies", environment), notes)


def _steps(data: DataFolder, rows: int) -> list[Step]:
    changed = changes.changed_rows(data, rows)
    steps = [
        Step("load", "load", {"source": str(parquet_parts(data, rows))}),
        Step("compaction", "compact"),
        Step("scan", "scan", _ALL),
        Step("scan of two columns", "scan", _TWO),
    ]
    for name, what in {"thousand": "1,000 rows", "many": "a tenth"}.items():
        source = {"sources": [str(changed / f"{name}.parquet")]}
        steps += [
            Step(f"upsert of {what} and scan of two columns", "upsert_and_scan", {**source, **_TWO}),
            Step(f"scan of two columns, {what} newer", "scan", _TWO),
            Step(f"scan, {what} newer", "scan", _ALL),
        ]
    return steps
