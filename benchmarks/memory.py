"""Peak memory of one task, which should not depend on how many rows it reads or writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from benchmarks import typed_rows, typed_schema
from benchmarks.data import DataFolder, make_batches
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.spark_session import spark_session
from benchmarks.tasks import linked_copy, new_folder, scan
from benchmarks.worker import Sample, Stopwatch, Task
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
    calls: dict[str, tuple[Callable[[int], Task], str]] = {
        "scan": (lambda size: Task.of(scan, path=tables[size], splitSize=ONE_SPLIT), "process"),
        "write": (lambda size: Task.of(write, rows=size), "process"),
        "typed write": (lambda size: Task.of(write_typed, rows=size), "process"),
        "compaction": (lambda size: Task.of(compact, path=tables[size]), "process"),
        "spark scan": (lambda size: Task.of(scan_with_spark, path=tables[size]), "python-workers"),
        "spark write": (lambda size: Task.of(write_with_spark, rows=size), "python-workers"),
    }
    alternatives, targets = [], []
    for kind, (call, watched) in calls.items():
        few, many = (
            Alternative(
                name=f"{kind} {size:,}",
                task=call(size),
                fresh=True,
                prepare=call(FIRST_ROWS),
                max_rounds=3,
                warm_up=False,
                watch=watched,
            )
            for size in sizes
        )
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


# --- tasks ----------------------------------------------------------------------------------------------------------


def compact(path: str) -> Sample:
    """Merge everything in a copy of a table, which is made of links."""
    with linked_copy(path) as copy:
        store = SlateStore.open(str(copy))
        with Stopwatch() as watch:
            rows = store.compact(full=True, sstSize=COMPACTED_BYTES).rows_out
    return watch.sample(rows=rows)


def write(rows: int) -> Sample:
    """Write rows that are made while they are written."""
    with new_folder() as folder, Stopwatch() as watch:
        SlateStore.create(str(folder / "table")).write(make_batches(rows))
    return watch.sample(rows=rows)


def write_typed(rows: int) -> Sample:
    """Write typed rows in random order that are made while they are written."""
    with new_folder() as folder:
        store = SlateStore.create(str(folder / "table"), schema=typed_schema.SCHEMA, keyColumns=typed_schema.KEYS)
        parts = max(1, rows // PART_ROWS)  # whose keys are drawn at once
        with Stopwatch() as watch:
            store.write(typed_rows.all_batches(rows, parts))
    return watch.sample(rows=rows)


def scan_with_spark(path: str) -> Sample:
    """Count a table as one split."""
    frame = spark_session().read.format("slate").option("splitSize", ONE_SPLIT).load(path)
    with Stopwatch(children=True) as watch:
        [row] = frame.selectExpr("count(*) as n", "sum(length(value))").collect()
    return watch.sample(rows=row.n)


def write_with_spark(rows: int) -> Sample:
    """Write rows that Spark makes, in one task."""
    digest = "md5(cast(cast(id as string) as binary))"
    value = f"cast(substring(repeat({digest}, 4), 1, 100) as binary)"
    frame = spark_session().range(0, rows, numPartitions=1).selectExpr(f"unhex({digest}) as key", f"{value} as value")
    with new_folder() as folder, Stopwatch(children=True) as watch:
        frame.write.format("slate").mode("append").save(str(folder / "table"))
    return watch.sample(rows=rows)
