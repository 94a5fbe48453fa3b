"""Peak memory of one task, which should not depend on how many rows it reads or writes."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

from benchmarks import typed_rows, typed_schema
from benchmarks.data import DataFolder, make_batches
from benchmarks.harness import Alternative, Benchmark, Target, Task
from benchmarks.spark_session import spark_session
from benchmarks.worker import Sample, Stopwatch
from slatespark import SlateStore

TITLE: Final = "Peak memory of one task, for few and for many rows"
LAYERS: Final = 4
TIMES: Final = 10
FIRST_ROWS: Final = 20_000  # read or written before, so that compiled kernels are there
ONE_SPLIT: Final = "1000g"
TOLERANCE: Final = 1.1
COMPACTED_BYTES: Final = 16 << 20  # so that there is more than one range to merge
PART_ROWS: Final = 500_000


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of `rows` against ten times as many."""
    sizes = (rows, TIMES * rows)
    tables = {size: str(data.slate_layers(size, LAYERS, sst_size="64m")) for size in (FIRST_ROWS, *sizes)}
    kinds: dict[str, Any] = {
        "scan": lambda size: ("scan", {"path": tables[size]}, "process"),
        "write": lambda size: ("write", {"rows": size}, "process"),
        "typed write": lambda size: ("write_typed", {"rows": size}, "process"),
        "compaction": lambda size: ("compact", {"path": tables[size]}, "process"),
        "spark scan": lambda size: ("scan_with_spark", {"path": tables[size]}, "python-workers"),
        "spark write": lambda size: ("write_with_spark", {"rows": size}, "python-workers"),
    }
    alternatives, targets = [], []
    for kind, call in kinds.items():
        few, many = (_alternative(f"{kind} {size:,}", call(size), call(FIRST_ROWS)) for size in sizes)
        alternatives += [few, many]
        targets.append(Target(alternative=many.name, against=few.name, at_most=TOLERANCE, measure="peak_bytes"))
    return Benchmark(
        alternatives=alternatives,
        base=alternatives[0].name,
        targets=targets,
        notes=[
            "Anonymous resident memory (RssAnon, file-backed pages not counted) every 5 ms; the highest of all rounds.",
            f"scan: one split of {LAYERS} overlapping runs, files of 64 MiB. write: a stream of batches, defaults.",
            "compaction: full, of the same runs into files of 16 MiB; on two cores two ranges at a time.",
            "spark: the Python worker of one task. A new process for each row and round; idle: before the work.",
        ],
        same=(),
    )


def _alternative(
    name: str, call: tuple[str, dict[str, Any], str], first: tuple[str, dict[str, Any], str]
) -> Alternative:
    return Alternative(
        name=name,
        task=_task(call),
        fresh=True,
        prepare=_task(first),
        max_rounds=3,
        warm_up=False,
        watch=call[2],
    )


def _task(call: tuple[str, dict[str, Any], str]) -> Task:
    return Task(f"benchmarks.memory:{call[0]}", call[1])


# --- tasks ----------------------------------------------------------------------------------------------------------


def scan(path: str) -> Sample:
    """Drain a scan of one split."""
    with Stopwatch() as watch:
        rows = sum(len(batch) for batch in SlateStore.open(path).scan(splitSize=ONE_SPLIT))
    return watch.sample(rows=rows)


def compact(path: str) -> Sample:
    """Merge everything in a copy of a table, which is made of links."""
    folder = Path(tempfile.mkdtemp(dir=Path.cwd()))
    store = SlateStore.open(str(shutil.copytree(path, folder / "copy", copy_function=os.link)))
    with Stopwatch() as watch:
        rows = store.compact(full=True, sstSize=COMPACTED_BYTES).rows_out
    shutil.rmtree(folder)
    return watch.sample(rows=rows)


def write(rows: int) -> Sample:
    """Write rows that are made while they are written."""
    folder = tempfile.mkdtemp(dir=Path.cwd())
    with Stopwatch() as watch:
        SlateStore.create(f"{folder}/table").write(make_batches(rows))
    shutil.rmtree(folder)
    return watch.sample(rows=rows)


def write_typed(rows: int) -> Sample:
    """Write typed rows in random order that are made while they are written."""
    folder = tempfile.mkdtemp(dir=Path.cwd())
    store = SlateStore.create(f"{folder}/table", schema=typed_schema.SCHEMA, keyColumns=typed_schema.KEYS)
    parts = max(1, rows // PART_ROWS)  # whose keys are drawn at once
    with Stopwatch() as watch:
        store.write(batch for part in range(parts) for batch in typed_rows.make_batches(rows, part, parts))
    shutil.rmtree(folder)
    return watch.sample(rows=rows)


def scan_with_spark(path: str) -> Sample:
    """Count a table as one split."""
    frame = spark_session().read.format("slate").option("splitSize", ONE_SPLIT).load(path)
    with Stopwatch(children=True) as watch:
        [row] = frame.selectExpr("count(*) as n", "sum(length(value))").collect()
    return watch.sample(rows=row.n)


def write_with_spark(rows: int) -> Sample:
    """Write rows that Spark makes, in one task."""
    folder = tempfile.mkdtemp(dir=Path.cwd())
    digest = "md5(cast(cast(id as string) as binary))"
    value = f"cast(substring(repeat({digest}, 4), 1, 100) as binary)"
    frame = spark_session().range(0, rows, numPartitions=1).selectExpr(f"unhex({digest}) as key", f"{value} as value")
    with Stopwatch(children=True) as watch:
        frame.write.format("slate").mode("append").save(f"{folder}/table")
    shutil.rmtree(folder)
    return watch.sample(rows=rows)
