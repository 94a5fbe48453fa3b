"""Other engines take a scan, or a snapshot, as a stream of Arrow's C interface."""

from __future__ import annotations

from pathlib import Path

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pytest

from slatespark import SlateStore

NUMBERS = 100_000  # several batches


@pytest.fixture
def store(tmp_path: Path) -> SlateStore:
    store = SlateStore.create(tmp_path / "t", "id BIGINT, name STRING", "id")
    store.write(pa.table({"id": range(NUMBERS), "name": [None, "odd"] * (NUMBERS // 2)}))
    return store


TOTAL = NUMBERS * (NUMBERS - 1) // 2


def test_duckdb(store: SlateStore) -> None:
    scan = store.scan(filter="id < 10", columns=["id"])
    with duckdb.connect() as connection:
        assert connection.execute("SELECT sum(id) FROM scan").fetchone() == (45,)
        snapshot = store.snapshot()
        store.delete("id = 0")
        asked = "SELECT sum(a.id), count(b.name) FROM snapshot a JOIN snapshot b USING (id)"
        for _ in range(2):
            assert connection.execute(asked).fetchone() == (TOTAL, NUMBERS // 2)
    del scan, snapshot


def test_polars(store: SlateStore) -> None:
    assert pl.DataFrame(store.scan())["id"].sum() == TOTAL
    snapshot = store.snapshot()
    assert pl.DataFrame(snapshot).equals(pl.DataFrame(snapshot))


def test_datafusion(store: SlateStore) -> None:
    context = datafusion.SessionContext()
    context.from_arrow(store.snapshot(), name="rows")
    assert context.sql("SELECT sum(id) AS total FROM rows").to_pydict() == {"total": [TOTAL]}


def test_pyarrow_and_pandas(store: SlateStore) -> None:
    assert pa.table(store.snapshot()).num_rows == NUMBERS
    assert pa.RecordBatchReader.from_stream(store.snapshot()).schema.names == ["id", "name"]
