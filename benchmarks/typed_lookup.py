"""`IN` of random keys of a typed table against its full scan, with `SlateStore` and through Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from benchmarks.data import SEED, DataFolder
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.spark_session import MASTER, spark_session
from benchmarks.tasks import scan, spark_sums
from benchmarks.typed_rows import TENANTS, key_columns, loaded
from benchmarks.typed_schema import KEYS, SUMS
from benchmarks.worker import Sample, Stopwatch, Task
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
            _task(SCAN, scan, table),
            _task(LOOK_UP, look_up, table, rows=rows),
            _task(ONE, get, table, rows=rows),
            _task(SPARK_SCAN, spark_sums, table, sums=list(SUMS.values()), options={}),
            _task(SPARK_LOOK_UP, look_up_with_spark, table, rows=rows),
            _task(SPARK_JOIN, join_keys, table, rows=rows),
            _task(SPARK_KEYS, look_up_keys, table, rows=rows),
            _task(SPARK_JOIN_MANY, join_keys, table, rows=rows, count=MANY),
            _task(SPARK_KEYS_MANY, look_up_keys, table, rows=rows, count=MANY),
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


def _task(name: str, function: Callable[..., Sample], table: Path, **given: Any) -> Alternative:
    is_spark = function in (spark_sums, look_up_with_spark, join_keys, look_up_keys)
    return Alternative(name=name, task=Task.of(function, path=table, **given), process="spark" if is_spark else None)


_rounds = iter(range(1_000_000))


def _filter(rows: int) -> str:
    generator = np.random.default_rng([SEED, 9, next(_rounds)])
    numbers = generator.choice(rows // TENANTS, KEYS_ASKED, replace=False) * 7
    return f"tenant = 'tenant-{TENANT:02d}' AND id IN ({', '.join(map(str, numbers))})"


# --- tasks ----------------------------------------------------------------------------------------------------------


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


def look_up_with_spark(path: str, rows: int) -> Sample:
    """Sum every column over random keys."""
    condition = _filter(rows)
    return _sums(lambda: spark_session().read.format("slate").option("filter", condition).load(path), KEYS_ASKED)


def join_keys(path: str, rows: int, count: int = KEYS_ASKED) -> Sample:
    """Sum every column of the rows that a join with random keys finds."""
    keys = _keys_frame(rows, count)
    return _sums(lambda: spark_session().read.format("slate").load(path).join(keys, list(KEYS)), count)


def look_up_keys(path: str, rows: int, count: int = KEYS_ASKED) -> Sample:
    """Sum every column of the rows that a lookup of random keys finds."""
    keys = _keys_frame(rows, count)
    return _sums(lambda: SlateTable.forPath(spark_session(), path).lookup(keys), count)


def _keys_frame(rows: int, count: int) -> DataFrame:
    """Return random keys of all tenants."""
    generator = np.random.default_rng([SEED, 11, next(_rounds)])
    keys = pa.table(key_columns(generator.choice(rows, count, replace=False)), KEYS)
    return spark_session().createDataFrame(keys)  # of which Spark knows the size, unlike that of a list


def _sums(read: Callable[[], DataFrame], count: int) -> Sample:
    """Time the sums of every column over rows that must be so many."""
    with Stopwatch(children=True) as watch:
        [row] = read().selectExpr("count(*) as n", *SUMS.values()).collect()
    assert row.n == count
    return watch.sample(rows=count)
