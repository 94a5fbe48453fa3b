"""What tasks of frames do with their rows, in this process; no session is needed."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from slatespark import MemoryLimitError, SlateStore
from slatespark.options import ReadOptions
from slatespark.spark.frames import as_of, lookup, planned_read, upload
from slatespark.spark.frames.as_of import _Join
from slatespark.spark.frames.lookup import _LookUp
from slatespark.spark.frames.planned_read import _Scan
from slatespark.spark.frames.upload import upload_frame
from slatespark.spark.shown_times import LATEST_MS
from slatespark.spark.table_location import TableLocation
from slatespark.table.clock import SystemClock
from slatespark.table.read.as_of_join import parse_join
from slatespark.table.read.key_lookup import fetch_key_lookup
from slatespark.table.read.reader import fetch_as_of_join, fetch_read_plan
from slatespark.table.read.scan import scan_split
from tests.support.client import Client, Location, Put, Ttl
from tests.support.fake_clock import FakeClock

YEAR_12000_MS = 316_516_204_800_000
LAST_MS = (1 << 48) - 1  # of a clock: in the year 10,889


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table with 300 rows in files and one more in the WAL, which ends when Python cannot tell the time any more."""
    for module in (lookup, planned_read):
        monkeypatch.setattr(module, "freeze_gc", lambda: None)
    path = str(tmp_path / "t")
    keys = [b"%03d" % number for number in range(300)]
    SlateStore.create(path).write(pa.table({"key": keys, "value": [b"v"] * len(keys)}))
    with Client.open(Location.local(path)) as client:
        client.write([Put(b"x", b"far", Ttl(at_ms=YEAR_12000_MS))])
        client.flush_wal()
        client.close(flush=False)
    return path


def options(path: str, **given: Any) -> ReadOptions:
    return ReadOptions.parse({"path": path, "metadataColumns": "expire_ts", **given})


def keys_of(*keys: bytes) -> pa.RecordBatch:
    return pa.record_batch({"key": pa.array(keys, pa.binary())})


def test_a_lookup_finds_the_rows_of_each_of_its_batches(place: str) -> None:
    location, schema = TableLocation(place, None, {}), pa.schema([("key", pa.binary())])
    plan = fetch_key_lookup(location.open(), options(place), SystemClock(), schema, ["key"])
    batches = [keys_of(b"007", b"missing"), keys_of(), keys_of(b"x", b"004")]
    found = pa.Table.from_batches(_LookUp(location, plan)(iter(batches)))
    assert found["key"].to_pylist() == [b"007", b"004", b"x"], "in the order of the keys of a batch"
    assert found["_expire_ts"].cast(pa.int64()).to_pylist() == [None, None, LATEST_MS * 1000]


def test_a_scan_shows_the_rows_of_its_splits(place: str) -> None:
    location = TableLocation(place, None, {})
    plan = fetch_read_plan(location.open(), options(place, splitSize="1k"), SystemClock())
    assert len(plan.splits) > 1
    scan = _Scan(location, plan.settings, tuple(map(pickle.dumps, plan.splits)), scan_split)
    numbers = [pa.record_batch({"id": pa.array(ids, pa.int64())}) for ids in ([0], range(1, len(plan.splits)))]
    found = pa.Table.from_batches(scan(iter(numbers)))
    assert found["key"].to_pylist() == [*(b"%03d" % number for number in range(300)), b"x"]
    assert found["_expire_ts"].cast(pa.int64()).to_pylist() == [*[None] * 300, LATEST_MS * 1000]


def uploaded(monkeypatch: pytest.MonkeyPatch, rows: Sequence[object]) -> list[Any]:
    """The files of the tasks whose messages Spark's driver sends, and the row behind them."""
    sent: Any = SimpleNamespace(union=lambda _: SimpleNamespace(collect=lambda: list(rows)))
    monkeypatch.setattr(upload, "map_in_arrow", lambda *_: sent)
    monkeypatch.setattr(upload, "run_job", lambda _, collect: collect())
    frame: Any = SimpleNamespace(sparkSession=SimpleNamespace(sql=lambda _: None))
    nothing: Any = None
    return [*upload_frame(frame, nothing, nothing)]


MESSAGES = [SimpleNamespace(task=task, files=pickle.dumps((f"files of {task}",))) for task in (2, 10, 0, 1)]
LAST = SimpleNamespace(task=None, files=None)


def test_uploaded_files_come_in_the_order_of_the_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks end in any order."""
    found = uploaded(monkeypatch, [*MESSAGES, LAST])
    assert found == [("files of 0",), ("files of 1",), ("files of 2",), ("files of 10",)]
    assert uploaded(monkeypatch, [LAST]) == []


@pytest.mark.parametrize("arrived", range(len(MESSAGES) + 1))
def test_files_that_do_not_arrive_are_missed(monkeypatch: pytest.MonkeyPatch, arrived: int) -> None:
    """PySpark returns fewer rows where its JVM ends meanwhile; a transaction would commit without these files."""
    with pytest.raises(MemoryLimitError, match=r"spark\.driver\.memory"):
        uploaded(monkeypatch, MESSAGES[:arrived])


def test_a_join_bounds_the_times_that_it_adds_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(as_of, "freeze_gc", lambda: None)
    schema = pa.schema([("shop", pa.string()), ("price", pa.int64()), ("since", pa.int64())])
    store = SlateStore.create("memory://frames-as-of", schema, "shop", history=True, clock=FakeClock(LAST_MS))
    for shop, since_ms in (("a", LAST_MS - 5), ("b", 5)):
        store.write(pa.table({"shop": [shop], "price": [7], "since": [since_ms]}), timestampColumn="since")
    at_us = pa.array([(LAST_MS - 1) * 1000, 6000, 6000], pa.timestamp("us", "UTC"))
    rows = pa.record_batch({"shop": ["a", "b", "none"], "at": at_us})
    given = parse_join({"path": store.url}, {"columns": "price,_valid_from"}, "left")
    location = TableLocation(store.url, None, {})
    plan = fetch_as_of_join(location.open(), given, FakeClock(LAST_MS), rows.schema, rows.schema.names, "at", "left")
    found = pa.Table.from_batches(_Join(location, plan, 2)(iter([rows])))
    assert found.select(["shop", "at"]).to_batches() == [rows]
    assert found["price"].to_pylist() == [7, 7, None]
    assert found["_valid_from"].cast(pa.int64()).to_pylist() == [LATEST_MS * 1000, 5000, None]
