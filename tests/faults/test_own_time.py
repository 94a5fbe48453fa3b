"""Tables with `clock=custom` beside others: siblings, and the real client."""

from __future__ import annotations

from pathlib import Path

import pytest

from slatespark import ClockRegressionError, SlateStore
from slatespark.options import WriteOptions
from slatespark.table.clock import SystemClock
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.stores import open_stores
from slatespark.table.write.load import Load
from slatespark.table.write.load_commit import commit_load
from slatespark.table.write.load_plan import begin_load
from slatespark.table.write.load_task import run_task
from tests.faults.jobs import table_of
from tests.support.client import Client, Location, ScanRow, read_rows

FAR_MS = 10**15  # the client would wait for it


class Write:
    """A write under way, with a time of its own."""

    def __init__(self, folder: Path, timestamp_ms: int, *rows: tuple[bytes, bytes]) -> None:
        self.stores = open_stores(str(folder), storage={})
        options = WriteOptions.parse({"path": str(folder), "timestamp": timestamp_ms, "ttl": 10})
        table = table_of(rows)
        load = begin_load(self.stores, SystemClock(), table.schema, options)
        assert load is not None
        self.load: Load = load
        self.files = run_task(self.stores, SystemClock(), load, 0, table.to_batches())

    def commit(self) -> CommitRecord | None:
        return commit_load(self.stores, SystemClock(), self.load, [self.files])


def times(folder: Path) -> list[tuple[bytes, int, int | None, int | None]]:
    return [(row.key, row.seq, row.create_ts, row.expire_ts) for row in read_rows(Location.local(folder))]


def test_siblings_are_ordered_by_the_times_that_they_were_given(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    SlateStore.create(str(folder), clock="custom")
    late, early, same = (
        Write(folder, FAR_MS + 1, (b"a", b"late"), (b"b", b"late")),
        Write(folder, FAR_MS, (b"a", b"early")),
        Write(folder, FAR_MS + 1, (b"a", b"same")),
    )
    late.commit()
    same.commit()
    with pytest.raises(ClockRegressionError, match=rf"\({FAR_MS}\).*\({FAR_MS + 1}\)"):
        early.commit()
    expected = [(b"a", 2, FAR_MS + 1, FAR_MS + 11), (b"b", 1, FAR_MS + 1, FAR_MS + 11)]
    assert times(folder) == expected
    store = SlateStore.open(str(folder))
    assert store.scan().read_all()["value"].to_pylist() == [b"same", b"late"]
    store.write(table_of([(b"c", b"c")]), timestamp=FAR_MS + 11)
    assert store.scan().read_all()["key"].to_pylist() == [b"c"]
    assert not store.verify().has_damage


def test_rows_of_a_client_carry_its_time(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    store = SlateStore.create(str(folder), clock="custom")
    store.write(table_of([(b"a", b"1")]), timestamp=5)
    with Client.open(Location.local(folder)) as client:
        tick = client.put(b"b", b"client").create_ts
        client.flush_wal()
    store = SlateStore.open(str(folder))
    with pytest.raises(ClockRegressionError, match=rf"\(6\).*\({tick}\)"):
        store.write(table_of([(b"c", b"1")]), timestamp=6)
    store.write(table_of([(b"c", b"1")]), timestamp=tick, ifClientActive="fence")
    assert read_rows(Location.local(folder)) == [
        ScanRow(b"a", b"1", 1, 5, None),
        ScanRow(b"b", b"client", 2, tick, None),
        ScanRow(b"c", b"1", 3, tick, None),
    ]
