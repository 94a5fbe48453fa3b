"""A keyed table of 8 columns through its life: load, scans, upserts, lookups, deletes, a replacement, compaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from benchmarks.data import DataFolder
from benchmarks.harness import Benchmark
from benchmarks.peers import changed_rows as changes
from benchmarks.peers.environments import ENVIRONMENTS
from benchmarks.peers.scenario import OURS, Step, compare
from benchmarks.typed_rows import parquet_parts
from benchmarks.typed_schema import SUMS

TITLE: Final = "A keyed table through the same steps: slatespark and {}"

_SCAN: Final = {"columns": list(SUMS)}
_PLAIN: Final = 1.4  # a scan is Parquet's own ground


def maker(environment: str) -> Callable[[DataFolder, int], Benchmark]:
    """Return what makes the benchmark beside one peer."""
    return lambda data, rows: make(data, rows, environment)


def make(data: DataFolder, rows: int, environment: str) -> Benchmark:
    """Return the benchmark of `rows` rows."""
    notes = [
        f"{rows:,} rows of 8 columns, 2 of them the key; an upsert of 0.01 % has {changes.few(rows):,} rows. A tenth "
        "of the rows of an upsert is new; a range is 1 % of the rows.",
    ]
    ours = "slatespark-store" if ENVIRONMENTS[environment].artifact is None else OURS
    return compare(lambda rows: _steps(data, rows), rows, environment, (ours, environment), notes)


def _steps(data: DataFolder, rows: int) -> list[Step]:
    source, changed = parquet_parts(data, rows), changes.changed_rows(data, rows)

    def file(name: str) -> str:
        return str(changed / f"{name}.parquet")

    small = [file(f"small-{number:02d}") for number in range(changes.SMALL_UPSERTS)]
    deleted, replaced = (changes.range_condition(one, rows) for one in (changes.DELETED, changes.REPLACED))
    asked = f"{changes.KEYS_ASKED:,} keys"
    return [
        Step("load", "load", {"source": str(source)}),
        Step("scan", "scan", _SCAN, _PLAIN),
        Step("scan of two columns", "scan", {"columns": ["id", "amount"]}, _PLAIN),
        Step("upsert of 0.01 %", "upsert", {"sources": [file("few")]}),
        Step("scan after it", "scan", _SCAN),
        Step("upsert of 10 %", "upsert", {"sources": [file("many")]}),
        Step("scan after that", "scan", _SCAN),
        Step(f"{len(small)} upserts of 0.01 %", "upsert", {"sources": small}),
        Step("scan after those", "scan", _SCAN),
        Step("lookup of a key", "look_up", {"condition": changes.key_condition()}),
        Step(f"lookup of {asked}", "look_up_keys", {"keys": file("asked")}),
        Step(f"delete of {asked}", "delete_keys", {"keys": file("deleted")}),
        Step("delete of a range", "delete_range", {"condition": deleted}),
        Step("replacement of a range", "replace_range", {"condition": replaced, "source": file("replacement")}),
        Step("scan before compaction", "scan", _SCAN),
        Step("compaction", "compact"),
        Step("scan after compaction", "scan", _SCAN, _PLAIN),
    ]
