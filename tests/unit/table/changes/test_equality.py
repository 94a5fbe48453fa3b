"""Values that are compared, more of them than one array holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from slatespark import SlateStore
from slatespark.format.row import Row, rows_to_columns
from slatespark.kernels.columns import RowColumns
from slatespark.table.changes.equality import same_values
from slatespark.table.read import batch_cuts

VALUE_BYTES = 96 << 20
ROWS = 24  # 2.25 GiB: an array has less than 2


def large_rows(value: bytes) -> RowColumns:
    """Rows whose large values are all at one place, so that they take little memory."""
    rows = rows_to_columns([Row(b"%02d" % number, 1, value=b"") for number in range(ROWS)])
    return replace(
        rows,
        value_bytes=np.frombuffer(value, np.uint8),
        value_starts=np.zeros(ROWS, np.int64),
        value_lengths=np.full(ROWS, len(value), np.int64),
    )


def test_values_that_are_together_more_than_an_array_holds() -> None:
    rows = large_rows(b"v" * VALUE_BYTES)
    every = np.arange(ROWS, dtype=np.int64)
    assert same_values([rows], every, every).all()


def test_a_feed_is_the_same_where_its_rows_are_compared_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the rows whose bytes differ although they are equal: their values are of an earlier schema."""
    store = SlateStore.create("memory://equality", "id BIGINT, n BIGINT, s STRING", keyColumns="id")
    rows = pa.table({"id": range(50), "n": range(50), "s": ["s" * (number % 7) for number in range(50)]})
    before = store.write(rows)
    added = rows.append_column("more", pa.nulls(50, pa.int64()))
    store.write(added.set_column(1, "n", pc.if_else(pc.less(rows["id"], 40), rows["n"], 0)), mergeSchema=True)
    asked: list[dict[str, Any]] = [
        {},
        {"filter": "n > 20"},
        {"filter": "s = 'ss'"},
        {"filter": "n > 20", "preImages": False},
    ]
    feeds = [_feed(store, before, **options) for options in asked]
    assert [len(feed) for feed in feeds] == [20, 10, 2, 50]
    monkeypatch.setattr(batch_cuts, "MAX_BATCH_BYTES", 40)  # one row or two
    assert [_feed(store, before, **options) for options in asked] == feeds


def _feed(store: SlateStore, before: int | None, **options: Any) -> list[dict[str, Any]]:
    feed = store.changes(startingVersion=before, startingBoundInclusive=False, **options)
    rows: list[dict[str, Any]] = feed.read_all().to_pylist()
    return rows
