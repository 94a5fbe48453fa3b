"""Calls of `SlateStore` on all cores, against the same ones on one thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import pyarrow as pa

from benchmarks.data import DataFolder, make_table, stored_bytes
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.tasks import new_folder
from benchmarks.worker import Sample, Stopwatch, Task
from slatespark import SlateStore

TITLE: Final = "Writes and verifications on all cores, against one thread"
LAYERS: Final = 4


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of `rows` rows."""
    overlapping = data.slate_layers(rows, LAYERS)
    calls: dict[str, tuple[Callable[..., Sample], dict[str, Any]]] = {
        "write": (write, {"rows": rows}),
        "write, zstd": (write, {"rows": rows, "compression": "zstd"}),
        "write, sorted input, zstd": (write, {"rows": rows, "compression": "zstd", "in_order": True}),
        f"verify, {LAYERS} layers": (verify, {"path": overlapping}),
    }
    alternatives = [
        Alternative(name=f"{name}, {threads}", task=Task.of(function, parallelism=count, **given))
        for name, (function, given) in calls.items()
        for threads, count in (("one thread", 1), ("all cores", None))
    ]
    return Benchmark(
        alternatives=alternatives,
        base=alternatives[0].name,
        targets=[
            Target(alternative=f"{name}, all cores", against=f"{name}, one thread", at_least=1.7) for name in calls
        ],
        notes=[
            f"{rows:,} rows of 16 + 100 bytes, with random keys: from an Arrow table in memory, in one commit; or in "
            f"{LAYERS} layers that overlap fully, {stored_bytes(overlapping) / 1e6:.0f} MB; warm page cache.",
        ],
    )


# --- tasks ----------------------------------------------------------------------------------------------------------


@cache
def _rows(rows: int, *, in_order: bool) -> pa.Table:
    table = make_table(rows)
    return table.sort_by("key") if in_order else table


def write(rows: int, *, in_order: bool = False, **options: Any) -> Sample:
    """Write a table with `SlateStore.write`, which does not compact a table of one run."""
    table = _rows(rows, in_order=in_order)
    with new_folder() as folder:
        store = SlateStore.create(str(folder / "written"))
        with Stopwatch() as watch:
            store.write(table, **options)
    return watch.sample(rows=rows)


def verify(path: str, parallelism: int | None) -> Sample:
    """Read every byte of a table."""
    with Stopwatch() as watch:
        report = SlateStore.open(path).verify(parallelism=parallelism)
    return watch.sample(rows=report.rows)
