"""`IN` of random keys of a typed table against its full scan, with `SlateStore` and through Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from benchmarks.data import SEED, DataFolder
from benchmarks.harness import Alternative, Benchmark, Target, Task
from benchmarks.spark_session import MASTER, spark_session
from benchmarks.typed_rows import TENANTS, key_columns, loaded
from benchmarks.typed_schema import KEYS, SUMS
from benchmarks.worker import Sample, Stopwatch
from slatespark import SlateStore, SlateTable

TITLE: Final = "Lookup of 1,000 random keys of a typed table, against its full scan"
KEYS_ASKED: Final = 1000
TENANT: Final = 7

SCAN: Final = "SlateStore, full scan"
LOOK_UP: Final = "SlateStore, IN of 1,000 keys"
ONE: Final = "SlateStore, get of one key"
SPARK_SCAN: Final = "spark, full scan"
SPARK_LOOK_UP: Final = "spark, IN of 1,000 keys"
SPARK_JOIN: Final = "spark, join with 1,000 keys"
SPARK_KEYS: Final = "spark, lookup of 1,000 keys"
MANY: Final = 100_000
SPARK_JOIN_MANY: Final = "spark, join with 100,000 keys"
SPARK_KEYS_MANY: Final = "spark, lookup of 100,000 keys"


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of a table of `rows` rows."""
    table = loaded(data, rows) / "slate"
    return Benchmark(
        alternatives=[
            _task(SCAN, "scan", table),
            _task(LOOK_UP, "look_up", table, rows=rows),
            _task(ONE, "get", table, rows=rows),
            _task(SPARK_SCAN, "scan_with_spark", table, process="spark"),
            _task(SPARK_LOOK_UP, "look_up_with_spark", table, process="spark", rows=rows),
            _task(SPARK_JOIN, "join_keys", table, process="spark", rows=rows),
            _task(SPARK_KEYS, "look_up_keys", table, process="spark", rows=rows),
            _task(SPARK_JOIN_MANY, "join_keys", table, process="spark", rows=rows, count=MANY),
            _task(SPARK_KEYS_MANY, "look_up_keys", table, process="spark", rows=rows, count=MANY),
        ],
        base=SCAN,
        targets=[
            Target(alternative=LOOK_UP, against=SCAN, at_least=20),
            Target(alternative=SPARK_LOOK_UP, against=SPARK_SCAN, at_least=8),
            Target(alternative=SPARK_KEYS, against=SPARK_JOIN, at_least=20),
            Target(alternative=SPARK_KEYS_MANY, against=SPARK_JOIN_MANY, at_least=1),
        ],
        notes=[
            f"{rows:,} rows of 8 columns, one sorted load; all columns are produced; planning counts.",
            f"IN: tenant = '...' AND id IN ({KEYS_ASKED} numbers), other ones each round. spark: {MASTER}.",
        ],
        same=(),
        warm_ups=3,
    )


def _task(name: str, function: str, table: Path, process: str | None = None, **given: Any) -> Alternative:
    task = Task(f"benchmarks.typed_lookup:{function}", {"path": str(table), **given})
    return Alternative(name=name, task=task, process=process)


_rounds = iter(range(1_000_000))


def _numbers(rows: int) -> list[int]:
    generator = np.random.default_rng([SEED, 9, next(_rounds)])
    numbers: list[int] = (generator.choice(rows // TENANTS, KEYS_ASKED, replace=False) * 7).tolist()
    return numbers


def _filter(rows: int) -> str:
    numbers = _numbers(rows)
    return f"tenant = 'tenant-{TENANT:02d}' AND id IN ({', '.join(map(str, numbers))})"


# --- tasks ----------------------------------------------------------------------------------------------------------


def scan(path: str) -> Sample:
    """Drain all rows and columns."""
    with Stopwatch() as watch:
        rows = sum(len(batch) for batch in SlateStore.open(path).scan())
    return watch.sample(rows=rows)


def look_up(path: str, rows: int) -> Sample:
    """Read the rows of random keys."""
    condition = _filter(rows)
    with Stopwatch() as watch:
        found = sum(len(batch) for batch in SlateStore.open(path).scan(filter=condition))
    assert found == KEYS_ASKED
    return watch.sample(rows=found)


def get(path: str, rows: int) -> Sample:
    """Read one row of an open table."""
    number = int(np.random.default_rng([SEED, 10, next(_rounds)]).integers(0, rows // TENANTS)) * 7
    store = SlateStore.open(path)
    with Stopwatch() as watch:
        row = store.get(f"tenant-{TENANT:02d}", number)
    assert row is not None
    return watch.sample(rows=1)


def scan_with_spark(path: str) -> Sample:
    """Sum every column."""
    with Stopwatch(children=True) as watch:
        frame = spark_session().read.format("slate").load(path)
        [row] = frame.selectExpr("count(*) as n", *SUMS.values()).collect()
    return watch.sample(rows=row.n)


def look_up_with_spark(path: str, rows: int) -> Sample:
    """Sum every column over random keys."""
    condition = _filter(rows)
    with Stopwatch(children=True) as watch:
        frame = spark_session().read.format("slate").option("filter", condition).load(path)
        [row] = frame.selectExpr("count(*) as n", *SUMS.values()).collect()
    assert row.n == KEYS_ASKED
    return watch.sample(rows=row.n)


def _keys_frame(rows: int, count: int) -> DataFrame:
    """Return random keys of all tenants."""
    generator = np.random.default_rng([SEED, 11, next(_rounds)])
    keys = pa.table(key_columns(generator.choice(rows, count, replace=False)), KEYS)
    return spark_session().createDataFrame(keys)  # of which Spark knows the size, unlike that of a list


def join_keys(path: str, rows: int, count: int = KEYS_ASKED) -> Sample:
    """Sum every column of the rows that a join with random keys finds."""
    keys = _keys_frame(rows, count)
    with Stopwatch(children=True) as watch:
        frame = spark_session().read.format("slate").load(path).join(keys, ["tenant", "id"])
        [row] = frame.selectExpr("count(*) as n", *SUMS.values()).collect()
    assert row.n == count
    return watch.sample(rows=row.n)


def look_up_keys(path: str, rows: int, count: int = KEYS_ASKED) -> Sample:
    """Sum every column of the rows that a lookup of random keys finds."""
    keys = _keys_frame(rows, count)
    with Stopwatch(children=True) as watch:
        frame = SlateTable.forPath(spark_session(), path).lookup(keys)
        [row] = frame.selectExpr("count(*) as n", *SUMS.values()).collect()
    assert row.n == count
    return watch.sample(rows=row.n)
