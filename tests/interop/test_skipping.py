"""Files of ours are skipped beside a real client's: its rows may lie in the WAL, in L0, or where it compacted them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.table.clock import SystemClock
from tests.conftest import ClientFactory
from tests.support.client import ClientOptions
from tests.support.client_admin import compact_full
from tests.support.fake_clock import FakeClock
from tests.unit.table.read.planning.test_skipping import START_MS, read_files

OLD: Final = b"old,"


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table with a retention, whose one file is long past it."""
    store = SlateStore.create(str(tmp_path / "database"), clock=FakeClock(START_MS), retention="1h")
    store.write(pa.table({"key": [b"a", b"b", b"c"], "value": [OLD] * 3}), ttl=None)
    return str(tmp_path / "database")


def rows(path: str) -> dict[bytes, bytes]:
    found = SlateStore.open(path).scan(mergeOperator="concat").read_all().to_pylist()
    return {row["key"]: row["value"] for row in found}


def files(path: str) -> int:
    return read_files(SlateStore.open(path), SystemClock())


@pytest.mark.parametrize("flush", ["wal", "memtable", "compaction"])
def test_operands_of_a_client_fold_onto_retired_rows(path: str, client_factory: ClientFactory, flush: str) -> None:
    assert (rows(path), files(path)) == ({}, 0)
    client = client_factory(ClientOptions(compactor=True))
    client.merge(b"b", b"new")
    client.flush_wal()
    if flush != "wal":
        client.flush_memtable()
    assert rows(path) == {b"b": OLD + b"new"}
    if flush == "compaction":
        compact_full(client)
        assert rows(path) == {b"b": OLD + b"new"}


def test_a_put_of_a_client_leaves_retired_rows_below_it_hidden(path: str, client_factory: ClientFactory) -> None:
    with client_factory() as client:
        client.put(b"b", b"new")
        client.flush_memtable()
    assert rows(path) == {b"b": b"new"}


def test_expired_files_of_ours_are_read_above_files_of_a_client(path: str, client_factory: ClientFactory) -> None:
    with client_factory() as client:
        client.put(b"a", b"1")
        client.put(b"b", b"2")
        client.flush_memtable()
    store = SlateStore.open(path)
    store.setProperties(retention="none")
    store.write(pa.table({"key": [b"b", b"c"], "value": [b"x", b"y"]}), ttl="1ms")
    later = SystemClock().now_ms() + 1000
    shown = store.scan(now=later).read_all().to_pylist()
    assert shown == [{"key": b"a", "value": b"1"}]
    assert read_files(store, SystemClock(), now=later) == 3
    assert read_files(store, SystemClock(), now=later, startKey="63") == 2
