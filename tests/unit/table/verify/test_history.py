"""Versions of a history table with times out of order are found, in one file and between layers."""

from __future__ import annotations

from itertools import count

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.options import WriteOptions
from slatespark.table.commit import requirements
from slatespark.table.rows.versions import Versions
from slatespark.table.stores import open_stores
from slatespark.table.write.load_run import load_batches
from tests.support.fake_clock import FakeClock

NOW_MS = 1_700_000_000_000

_numbers = count()


def write(store: SlateStore, *rows: tuple[bytes, int]) -> None:
    keys, times = pa.array([key for key, _ in rows], pa.binary()), [at for _, at in rows]
    table = pa.table({"key": keys, "value": keys, "at": times})
    options = WriteOptions.parse({"path": store.url, "timestampColumn": "at", "blockSize": "1k"})
    stores, clock = open_stores(store.url, storage={}), FakeClock(NOW_MS, seed=next(_numbers))
    load_batches(stores, clock, table.schema, table.to_batches(), options)


def new_store(*, history: bool = True) -> SlateStore:
    url = f"memory://verify-history-{next(_numbers)}"
    return SlateStore.create(url, history=history, clock=FakeClock(NOW_MS))


def test_ordered_times_have_no_findings() -> None:
    store = new_store()
    write(store, *((b"%03d" % key, at) for key in range(200) for at in (1, 2, 3)))
    write(store, (b"005", 3), (b"005", 7), (b"999", 0))
    assert store.verify().findings == ()


def test_an_earlier_time_above_a_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    store = new_store()
    write(store, *((b"%03d" % key, 20) for key in range(200)))
    monkeypatch.setattr(requirements, "check_order_in_trees", lambda *args, **options: None)
    write(store, (b"005", 7), (b"005", 9), (b"006", 20), (b"007", 1))
    [finding] = store.verify().findings
    assert finding.section == "times"
    assert finding.what == (
        "Key 303035 has seq 2 at 1970-01-01T00:00:00.007Z, above seq 1 at 1970-01-01T00:00:00.020Z, on a history table."
        " Such versions: 2."
    )


def test_a_file_with_versions_out_of_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def turned(versions: Versions, first_seq: int) -> None:
        versions.sources[0].seqs[versions.rows] = range(first_seq + len(versions.rows) - 1, first_seq - 1, -1)
        versions.sources[0].create_ts[:] *= -1

    store = new_store()
    monkeypatch.setattr("slatespark.table.rows.task_sorter.number_versions", turned)
    write(store, *((b"k", at) for at in range(1, 500)))
    [finding] = store.verify().findings
    assert "498" in finding.what
