"""Errors that name keys with dates and times that Python's types cannot hold."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from slatespark import CommitConflictError, SlateStore, TransactionConflictError

_names = itertools.count()


def rows(kind: pa.DataType, key: int, v: int) -> pa.Table:
    return pa.table({"id": pa.array([key], kind), "v": [v]})


def store(kind: pa.DataType, **properties: object) -> SlateStore:
    schema = pa.schema([("id", kind), ("v", pa.int64())])
    return SlateStore.create(f"memory://far-keys/{next(_names)}", schema, keyColumns="id", **properties)  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "key"), [(pa.timestamp("us"), 2**62), (pa.date32(), 2**31 - 1)])
def test_a_conflict_names_the_number(kind: pa.DataType, key: int) -> None:
    table = store(kind)
    table.write(rows(kind, key, 1))
    transaction = table.begin()
    transaction.read().read_all()
    transaction.write(rows(kind, key, 2))
    table.write(rows(kind, key, 3))
    with pytest.raises(TransactionConflictError) as refused:
        transaction.commit()
    assert f"id={key}" in str(refused.value)


def test_rows_of_the_past_in_a_history_table() -> None:
    kind, key = pa.timestamp("us"), -(2**62)
    table = store(kind, history=True)
    table.write(rows(kind, key, 1), timestamp="2026-02-01")
    with pytest.raises(CommitConflictError) as refused:
        table.write(rows(kind, key, 2), timestamp="2026-01-01")
    assert f"id={key}" in str(refused.value)
