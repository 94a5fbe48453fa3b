"""The changes of 1,000 upserts in a table: slatespark's change feed and Delta's."""

from __future__ import annotations

from typing import Final

from benchmarks.data import DataFolder
from benchmarks.harness import Benchmark
from benchmarks.peers import changed_rows as changes
from benchmarks.peers.scenario import OURS, Step, compare
from benchmarks.typed_rows import parquet_parts
from benchmarks.typed_schema import SUMS

TITLE: Final = "What 1,000 upserts changed: the change feeds of slatespark and delta"


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of a table of `rows` rows."""
    notes = [
        f"{rows:,} rows of 8 columns, 2 of them the key; a tenth of the rows of an upsert is new. delta writes its "
        "feed with each upsert (`delta.enableChangeDataFeed`); slatespark finds the changes when it is asked (`net`).",
        "Sums of all columns by kind of change; finding the versions and planning count.",
    ]
    return compare(lambda rows: _steps(data, rows), rows, "delta", (OURS, "delta-feed"), notes)


def _steps(data: DataFolder, rows: int) -> list[Step]:
    changed = changes.changed_rows(data, rows)
    return [
        Step("load", "load", {"source": str(parquet_parts(data, rows))}),
        Step("upsert of 1,000 rows", "upsert_for_feed", {"source": str(changed / "thousand.parquet")}),
        Step("changes", "changes", {"pre_images": True}),
        Step("changes again", "changes", {"pre_images": True}),
        Step("changes without old rows", "changes", {"pre_images": False}),
        Step("scan", "scan", {"columns": list(SUMS)}, 1.4),
        Step("upsert of 10 %", "upsert_for_feed", {"source": str(changed / "many.parquet")}),
        Step("changes of 10 %", "changes", {"pre_images": True}),
        Step("changes of 10 % without old rows", "changes", {"pre_images": False}),
    ]
