"""The last sequence number may be used; a write that needs one above it is refused before anything is published."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import InvalidRequestError, SlateStore
from slatespark.format.manifest_codec import decode_manifest, encode_manifest
from slatespark.options import WriteOptions
from slatespark.table.commit.job import LAST_SEQ, begin_write
from slatespark.table.commit.own_rows import OwnRows
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.records.operations import Operation
from tests.support.fake_clock import FakeClock

ROWS = pa.table({"key": [b"a"], "value": [b"1"]})


def table_at(folder: Path, seq: int) -> SlateStore:
    """A table whose last number is a given one, as after a client's write with a number of its own."""
    SlateStore.create(str(folder)).write(ROWS)
    newest = max((folder / "manifest").iterdir())
    changed = replace(decode_manifest(newest.read_bytes()), last_l0_seq=seq, recent_snapshot_min_seq=seq)
    newest.write_bytes(encode_manifest(changed))
    return SlateStore.open(str(folder))


def test_the_last_number_is_used(tmp_path: Path) -> None:
    store = table_at(tmp_path / "t", LAST_SEQ - 1)
    store.write(ROWS)
    assert fetch_latest_manifest(store._stores).value.last_l0_seq == LAST_SEQ
    assert store.scan().read_all().to_pylist() == ROWS.to_pylist()
    assert store.verify().findings == ()


def test_no_number_is_left(tmp_path: Path) -> None:
    store = table_at(tmp_path / "t", LAST_SEQ)
    before = sorted(path for path in (tmp_path / "t").rglob("*"))
    with pytest.raises(InvalidRequestError, match="used up"):
        store.write(ROWS)
    with pytest.raises(InvalidRequestError, match="used up"):
        store.deleteRange("key < X'62'")
    assert sorted(path for path in (tmp_path / "t").rglob("*")) == before
    assert store.scan().read_all().num_rows == 1


def test_a_later_task_needs_a_number_too(tmp_path: Path) -> None:
    store = table_at(tmp_path / "t", LAST_SEQ - 1)
    found = fetch_latest_manifest(store._stores)
    job = begin_write(store._stores, FakeClock(), operation=Operation.WRITE, found=found)
    assert job.stamp(0, WriteOptions(path="")).seq == LAST_SEQ
    with pytest.raises(InvalidRequestError, match="used up"):
        job.stamp(1, WriteOptions(path=""))


def test_rows_move_up_to_the_last_number(tmp_path: Path) -> None:
    store = table_at(tmp_path / "t", LAST_SEQ - 1)
    clock = FakeClock()
    job = begin_write(store._stores, clock, operation=Operation.WRITE, found=fetch_latest_manifest(store._stores))
    rows = OwnRows.of(store._stores, clock, job, WriteOptions(path=""), ())
    assert not rows.move_above(LAST_SEQ - 1, 0)
    with pytest.raises(InvalidRequestError, match="used up"):
        rows.move_above(LAST_SEQ, 0)
