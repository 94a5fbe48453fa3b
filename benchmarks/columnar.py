"""Reads of a typed table with columnar copies, against Parquet of the same rows and against reads of SSTs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.data import DataFolder, stored_bytes
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.spark_session import MASTER, spark_session
from benchmarks.tasks import linked_copy, spark_sums
from benchmarks.typed_rows import key_columns, loaded
from benchmarks.typed_schema import KEYS, SCHEMA, SUMS
from benchmarks.worker import Sample, Stopwatch, Task
from slatespark import SlateStore

TITLE: Final = "Reads of a typed table with columnar copies, against Parquet and SSTs"

TWO: Final = ("id", "amount")
FEW: Final = 1000
FILTER: Final = "quantity = 17"

PARQUET: Final = "spark: parquet, 8 columns"
PARQUET_TWO: Final = "spark: parquet, 2 columns"
FRAME: Final = "spark: toDF, 8 columns"
FRAME_TWO: Final = "spark: toDF, 2 columns"
FRAME_FEW: Final = "spark: toDF, 2 columns, 1,000 newer rows"
FRAME_MANY: Final = "spark: toDF, 2 columns, a tenth newer"
FRAME_MANY_SSTS: Final = "spark: toDF, 2 columns, a tenth newer, SSTs"
SLATE_TWO: Final = 'spark: format("slate"), 2 columns'
SLATE_TWO_SSTS: Final = 'spark: format("slate"), 2 columns, SSTs'
ARROW_TWO: Final = "pyarrow: 2 columns"
STORE_TWO: Final = "SlateStore: 2 columns"
STORE_TWO_SSTS: Final = "SlateStore: 2 columns, SSTs"
STORE_FILTER: Final = "SlateStore: value filter"
STORE_FILTER_SSTS: Final = "SlateStore: value filter, SSTs"
COMPACT: Final = "compact"
COMPACT_COPIES: Final = "compact with copies"


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of `rows` rows."""
    source = loaded(data, rows)
    parquet = source / "parquet"
    table = data.made(f"columnar-{rows}", lambda path: _with_copies(source / "slate", path))
    few = data.made(f"columnar-few-{rows}", lambda path: _with_newer(table, path, FEW, rows))
    many = data.made(f"columnar-many-{rows}", lambda path: _with_newer(table, path, rows // 10, rows))
    tenants = data.made(f"columnar-tenants-{rows}", lambda path: _by_tenant(parquet, path))
    layers = data.made(f"columnar-layers-{rows}", lambda path: _in_layers(parquet, path))
    return Benchmark(
        alternatives=[
            _query(PARQUET, "parquet", parquet, tuple(SUMS)),
            _query(FRAME, "toDF", table, tuple(SUMS)),
            _query(PARQUET_TWO, "parquet", parquet),
            _query(FRAME_TWO, "toDF", table),
            _query(FRAME_FEW, "toDF", few),
            _query(FRAME_MANY, "toDF", many),
            _query(FRAME_MANY_SSTS, "toDF", many, copies=False),
            _query(SLATE_TWO, "slate", table),
            _query(SLATE_TWO_SSTS, "slate", table, copies=False),
            _scan(ARROW_TWO, read_parquet, parquet),
            _scan(STORE_TWO, read_store, table),
            _scan(STORE_TWO_SSTS, read_store, table, useCopies=False),
            _scan(STORE_FILTER, read_store, tenants, filter=FILTER),
            _scan(STORE_FILTER_SSTS, read_store, tenants, filter=FILTER, useCopies=False),
            _compaction(COMPACT, layers, rows, copies=False),
            _compaction(COMPACT_COPIES, layers, rows, copies=True),
        ],
        base=PARQUET_TWO,
        targets=[
            Target(alternative=FRAME, against=PARQUET, at_most=1.15),
            Target(alternative=FRAME_TWO, against=PARQUET_TWO, at_most=1.15),
            Target(alternative=FRAME_FEW, against=PARQUET_TWO, at_most=1.4),
            Target(alternative=FRAME_MANY, against=FRAME_MANY_SSTS, at_most=1.0),
            Target(alternative=SLATE_TWO, against=PARQUET_TWO, at_most=2.2),
            Target(alternative=STORE_TWO, against=ARROW_TWO, at_most=1.3),
            Target(alternative=STORE_FILTER, against=STORE_FILTER_SSTS, at_least=10),
            Target(alternative=COMPACT_COPIES, against=COMPACT, at_most=2.5),
            Target(alternative=COMPACT_COPIES, against=COMPACT, at_most=1.9, measure="stored_bytes"),
        ],
        notes=[
            f"{rows:,} rows of 8 columns, 2 of them the key; {MASTER}, all in one session; warm page cache.",
            f"The table: one load, uncompressed, with copies {stored_bytes(table) / 1e6:.0f} MB, without "
            f"{stored_bytes(source / 'slate') / 1e6:.0f} MB. parquet: the same order, snappy, "
            f"{stored_bytes(parquet) / 1e6:.0f} MB.",
            "Newer rows replace random ones and are not compacted. One tenant in fifty passes the value filter.",
            "Compactions merge four layers; stored_bytes are those of the new version, copies included.",
        ],
        same=(),
        warm_ups=3,  # the JVM goes on compiling for some rounds
    )


def _query(name: str, kind: str, path: Path, columns: tuple[str, ...] = TWO, *, copies: bool = True) -> Alternative:
    sums = [SUMS[name] for name in columns]
    if kind == "toDF":
        task = Task.of(frame_sums, path=path, columns=columns, sums=sums, copies=copies)
    else:
        options = {} if kind == "parquet" else {"columns": ",".join(columns), "useCopies": str(copies).lower()}
        task = Task.of(spark_sums, path=path, sums=sums, options=options, kind=kind)
    return Alternative(name=name, task=task, process="spark")


def _scan(name: str, function: Callable[..., Sample], path: Path, **options: Any) -> Alternative:
    return Alternative(name=name, task=Task.of(function, path=path, columns=TWO, **options), process="pyarrow")


def _compaction(name: str, path: Path, rows: int, *, copies: bool) -> Alternative:
    task = Task.of(compact, path=path, rows=rows, copies=copies)
    return Alternative(name=name, task=task, process="pyarrow", max_rounds=2, warm_up=False)


# --- tables -----------------------------------------------------------------------------------------------------------


def _with_copies(source: Path, path: Path) -> None:
    shutil.copytree(source, path)
    store = SlateStore.open(str(path))
    store.setProperties(columnar=True, autoCompact=False)
    store.compact(columnar=True)


def _with_newer(source: Path, path: Path, count: int, rows: int) -> None:
    """Copy a table and upsert some of its rows."""
    shutil.copytree(source, path)
    numbers = np.sort(np.random.default_rng(count).choice(rows, count, replace=False))
    known = dict(zip(KEYS, key_columns(numbers), strict=True))
    nulls = {item.name: pa.nulls(count, item.type) for item in SCHEMA if item.name not in known}
    columns = {**nulls, **known, "amount": pa.array(np.zeros(count))}
    SlateStore.open(str(path)).write(pa.table(columns).select(SCHEMA.names))


def _by_tenant(parquet: Path, path: Path) -> None:
    """Load the rows with the number of the tenant as their quantity."""
    table = pq.read_table(parquet).cast(SCHEMA)
    numbers = pc.utf8_slice_codeunits(table["tenant"], len("tenant-")).cast(pa.int32())
    table = table.set_column(SCHEMA.names.index("quantity"), "quantity", numbers)
    store = SlateStore.create(str(path), SCHEMA, list(KEYS), columnar=True, autoCompact=False)
    store.write(table)
    store.compact(full=True)


def _in_layers(parquet: Path, path: Path) -> None:
    table = pq.read_table(parquet).cast(SCHEMA)
    store = SlateStore.create(str(path), SCHEMA, list(KEYS), autoCompact=False)
    for start in range(4):
        store.write(table.take(pa.array(range(start, len(table), 4))))


# --- tasks ------------------------------------------------------------------------------------------------------------


def frame_sums(path: str, columns: list[str], sums: list[str], *, copies: bool) -> Sample:
    """Compute sums of the rows of `SlateTable.toDF`; planning counts."""
    from slatespark import SlateTable

    with Stopwatch(children=True) as watch:
        frame = SlateTable.forPath(spark_session(), path).toDF(columns=columns, useCopies=copies)
        [row] = frame.selectExpr("count(*) as n", *sums).collect()
    return watch.sample(rows=row.n)


def read_parquet(path: str, columns: list[str]) -> Sample:
    """Read columns of Parquet files into memory."""
    with Stopwatch() as watch:
        rows = pq.read_table(path, columns=columns)
    return watch.sample(rows=len(rows))


def read_store(path: str, **options: Any) -> Sample:
    """Read rows of a table into memory."""
    with Stopwatch() as watch:
        rows = SlateStore.open(path).scan(**options).read_all()
    return watch.sample(rows=len(rows))


def compact(path: str, *, rows: int, copies: bool) -> Sample:
    """Compact a copy of a table, and look at what it stores."""
    with linked_copy(path) as table:
        store = SlateStore.open(str(table))
        with Stopwatch() as watch:
            store.compact(full=True, columnar=copies)
        facts = store.detail()
        return watch.sample(rows=rows, stored_bytes=facts.stored_bytes + facts.copy_bytes)
