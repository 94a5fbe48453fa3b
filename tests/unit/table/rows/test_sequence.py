"""`sequenceColumn`: the highest value of a key wins, within a chunk, across spills, and across tasks that overlap."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.errors import InvalidRequestError, OptionError
from slatespark.options import WriteOptions
from slatespark.table.clock import SystemClock
from slatespark.table.rows.sequence import check_sequence_type, order_repeats, rank_values
from slatespark.table.stores import open_stores
from slatespark.table.write.load_commit import commit_load
from slatespark.table.write.load_plan import begin_load
from slatespark.table.write.load_task import run_task

_numbers = count()


def naive(microsecond: int) -> dt.datetime:
    return dt.datetime(1900, 1, 1, 0, 0, 0, microsecond, tzinfo=dt.UTC).replace(tzinfo=None)


ORDERED: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [None, -(2**63), -1, 0, 2**63 - 1]),
    (pa.int8(), [None, -128, 127]),
    (pa.bool_(), [None, False, True]),
    (pa.date32(), [None, dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
    (pa.timestamp("us", "UTC"), [None, dt.datetime(1900, 1, 1, tzinfo=dt.UTC), dt.datetime(2100, 1, 1, tzinfo=dt.UTC)]),
    (pa.timestamp("us"), [None, naive(0), naive(1)]),
    (pa.float64(), [None, -math.inf, -1e308, -5e-324, 0.0, 5e-324, 1.5, math.inf, math.nan]),
    (pa.float32(), [None, -math.inf, -1.5, 0.0, 1.5, math.inf, math.nan]),
    (
        pa.decimal128(18, 2),
        [None, Decimal("-9999999999999999.99"), Decimal("-0.01"), Decimal(0), Decimal("9999999999999999.99")],
    ),
]


@pytest.mark.parametrize(
    ("kind", "values"), ORDERED, ids=lambda item: str(item) if isinstance(item, pa.DataType) else ""
)
def test_ranks_are_in_the_order_of_the_values(kind: pa.DataType, values: list[Any]) -> None:
    check_sequence_type(pa.field("c", kind))
    array = pa.array([*reversed(values), values[0]], kind).slice(0, len(values))
    ranks = rank_values(array)
    assert np.lexsort((ranks.order, ranks.there)).tolist() == list(reversed(range(len(values))))
    assert ranks.there.tolist() == [value is not None for value in reversed(values)]


def test_equal_floats_tie() -> None:
    ranks = rank_values(pa.array([0.0, -0.0, math.nan, -math.nan]))
    assert ranks.order[0] == ranks.order[1]
    assert ranks.order[2] == ranks.order[3]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.binary(), pa.decimal128(19, 0), pa.list_(pa.int8()), pa.time64("ns")], ids=str
)
def test_columns_without_such_an_order(kind: pa.DataType) -> None:
    with pytest.raises(OptionError, match="sequenceColumn"):
        check_sequence_type(pa.field("c", kind))


def test_rows_of_one_key_are_arranged() -> None:
    first = np.array([True, False, False, True, True, False])
    ranks = rank_values(pa.array([5, 9, None, 0, 3, 3]))
    arranged = order_repeats(first, ranks)
    assert arranged.tolist() == [2, 0, 1, 3, 4, 5]
    assert order_repeats(np.array([True, True]), rank_values(pa.array([1, 0]))).tolist() == [0, 1]


# --- whole writes ---------------------------------------------------------------------------------------------------

SCHEMA = pa.schema([("k", pa.int32()), ("at", pa.int64()), ("v", pa.string())])
Rows = list[tuple[int, int | None, str]]


def table_of(rows: Rows) -> pa.Table:
    columns: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def found(url: str) -> Rows:
    return [tuple(row.values()) for row in SlateStore.open(url).scan().read_all().to_pylist()]


def write_tasks(url: str, tasks: list[Rows], **options: Any) -> None:
    stores = open_stores(url, storage={})
    given_options = WriteOptions.parse({"path": url, "sequenceColumn": "at", **options})
    load = begin_load(stores, SystemClock(), SCHEMA, given_options)
    assert load is not None
    outputs = [run_task(stores, SystemClock(), load, n, table_of(rows).to_batches()) for n, rows in enumerate(tasks)]
    commit_load(stores, SystemClock(), load, outputs)


def test_tasks_that_overlap_too_much_are_refused() -> None:
    url = f"memory://sequence-{next(_numbers)}"
    SlateStore.create(url, SCHEMA, "k")
    tasks: list[Rows] = [[(1, 5, "a"), (9, 1, "b")], [(3, 1, "c")], [(20, 1, "apart")]]
    with pytest.raises(InvalidRequestError, match="commitRewriteLimit"):
        write_tasks(url, tasks, commitRewriteLimit=10)
    assert found(url) == []
    write_tasks(url, [tasks[0], tasks[2]], commitRewriteLimit=10)
    assert found(url) == [(1, 5, "a"), (9, 1, "b"), (20, 1, "apart")]


def test_deletes_among_overlapping_tasks_are_refused() -> None:
    url = f"memory://sequence-{next(_numbers)}"
    stores, clock = open_stores(url, storage={}), SystemClock()
    SlateStore.create(url, SCHEMA, "k")
    changes = table_of([(1, 5, "a")]).append_column("op", pa.array(["delete"]))
    options = WriteOptions.parse({"path": url, "sequenceColumn": "at", "opColumn": "op"})
    load = begin_load(stores, clock, changes.schema, options)
    assert load is not None
    outputs = [run_task(stores, clock, load, task, changes.to_batches()) for task in range(2)]
    with pytest.raises(InvalidRequestError, match="delet"):
        commit_load(stores, clock, load, outputs)
    commit_load(stores, clock, load, outputs[:1])


def test_deletes_within_a_task_go_by_the_column_too() -> None:
    store = SlateStore.create(f"memory://sequence-{next(_numbers)}", SCHEMA, "k")
    rows = table_of([(1, 5, "new"), (1, 4, "old"), (2, 4, "old"), (2, 5, "gone")])
    store.write(
        rows.append_column("op", pa.array(["put", "delete", "put", "delete"])), sequenceColumn="at", opColumn="op"
    )
    assert [row["v"] for row in store.scan().read_all().to_pylist()] == ["new"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sequenceColumn": "vv"}, r"\bv\?"),
        ({"sequenceColumn": "v"}, "sequenceColumn"),
        ({"sequenceColumn": "at", "mergeSchema": True}, r"\bat\b"),
    ],
)
def test_a_column_that_cannot_be_used(options: dict[str, Any], message: str) -> None:
    store = SlateStore.create(f"memory://sequence-{next(_numbers)}", SCHEMA, "k")
    with pytest.raises(OptionError, match=message):
        store.write(pa.table({"k": [1], "v": ["x"]}), **{"mergeSchema": True, **options})


def test_a_key_column_changes_nothing() -> None:
    store = SlateStore.create(f"memory://sequence-{next(_numbers)}", SCHEMA, "k")
    store.write(table_of([(1, 9, "a"), (1, 1, "b")]), sequenceColumn="k")
    assert store.get(1) == {"k": 1, "at": 1, "v": "b"}


def test_times_come_before_ranks() -> None:
    first = np.array([True, False, False])
    times = np.array([5, 3, 5])
    assert order_repeats(first, None, times).tolist() == [1, 0, 2]
    assert order_repeats(first, rank_values(pa.array([2, 9, 1])), times).tolist() == [1, 2, 0]
