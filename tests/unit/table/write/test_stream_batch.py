"""Batches of streams: each takes effect once, in order, and leaves little behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import InvalidRequestError, SlateStore
from slatespark.storage.local_store import LocalStore
from slatespark.table.records.idempotent_writes import TXN_DIR
from slatespark.table.write import stream_batch
from slatespark.table.write.load_commit import commit_load
from tests.support.streams import Stream


def letters(text: bytes) -> pa.Table:
    return pa.table({"key": pa.array([b"k"], pa.binary()), "value": pa.array([text], pa.binary())})


def stream(folder: Path, query: str = "query", name: str | None = None) -> Stream:
    """Return a stream that adds letters to one value, so that a second effect would show."""
    return Stream(LocalStore(folder), query, {"operation": "merge", "txnAppId": name})


def value(folder: Path) -> bytes | None:
    row = SlateStore.open(str(folder)).get(b"k", mergeOperator="concat")
    return None if row is None else row["value"]


def version(folder: Path) -> int:
    return SlateStore.open(str(folder)).resolve().version


def test_a_batch_that_is_repeated_takes_effect_once(tmp_path: Path) -> None:
    query = stream(tmp_path)
    query.write(0, letters(b"a"))
    first = query.write(1, letters(b"b"))
    before = version(tmp_path)
    again = query.write(1, letters(b"b"))
    assert first is not None
    assert again is not None
    assert again.manifest_id == first.manifest_id
    assert version(tmp_path) == before
    query.write(2, letters(b"c"))
    assert value(tmp_path) == b"abc"
    assert LocalStore(tmp_path).list("slatespark/leases/") == []


def test_a_number_below_the_last_one_is_refused(tmp_path: Path) -> None:
    query = stream(tmp_path)
    for number, text in enumerate((b"a", b"b", b"c")):
        query.write(number, letters(text))
    before = version(tmp_path)
    for number in (0, 1):
        with pytest.raises(InvalidRequestError, match="after its batch 2"):
            query.write(number, letters(b"-"))
    assert version(tmp_path) == before
    query.write(3, letters(b"d"))
    assert value(tmp_path) == b"abcd"


def test_numbers_below_are_refused_when_their_records_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_batch, "CLEAN_EVERY", 4)
    query = stream(tmp_path)
    for number in range(10):
        query.write(number, letters(b"%d" % number))
        assert len(list((tmp_path / TXN_DIR).rglob("*.json"))) <= 5
    with pytest.raises(InvalidRequestError, match="after its batch 9"):
        query.write(2, letters(b"-"))
    query.write(9, letters(b"9"))
    assert value(tmp_path) == b"0123456789"


@pytest.mark.parametrize("records", ["kept", "unwritten"])
@pytest.mark.parametrize("passes", [1, 2, 5])
def test_a_late_commit_takes_no_effect_once_a_later_batch_was_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passes: int, records: str
) -> None:
    """A process that outlives its killed driver goes on when the next driver has repeated its batch."""
    monkeypatch.setattr(stream_batch, "CLEAN_EVERY", 4)
    query = stream(tmp_path)
    query.write(2, letters(b"2"))
    late = query.upload(3, letters(b"3"))

    def overtaken(*args: Any, **given: Any) -> Any:
        monkeypatch.setattr(stream_batch, "commit_load", commit_load)
        for number in range(3, 3 + passes):
            query.write(number, letters(b"%d" % number))
        if records == "unwritten" and passes > 1:  # a record may fail: the manifest names the last batch
            for path in LocalStore(tmp_path).list(TXN_DIR + "stream=3aquery/"):
                LocalStore(tmp_path).delete(path.path)
        return commit_load(*args, **given)

    monkeypatch.setattr(stream_batch, "commit_load", overtaken)
    if passes == 1:
        assert late.commit() is not None
    else:
        with pytest.raises(InvalidRequestError):
            late.commit()
    assert value(tmp_path) == b"2" + b"".join(b"%d" % number for number in range(3, 3 + passes))
    query.write(3 + passes, letters(b"-"))
    assert (value(tmp_path) or b"").endswith(b"-")


def test_fewer_replaced_versions_are_kept_than_of_other_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_batch, "MAX_RETAINED", 3)
    store = SlateStore.create(str(tmp_path), versionRetention="7d")
    for _ in range(5):
        store.write(letters(b"a"))
    kept = len(store.checkpoints())
    assert kept > 4
    stream(tmp_path).write(0, letters(b"b"))
    assert len(store.checkpoints()) <= 4  # with the one that names the batch


def test_a_query_with_a_new_checkpoint_does_not_take_the_name_of_the_old_one(tmp_path: Path) -> None:
    stream(tmp_path, "old", "orders").write(0, letters(b"a"))
    before = version(tmp_path)
    with pytest.raises(InvalidRequestError, match=r"orders.*old.*new"):
        stream(tmp_path, "new", "orders").write(0, letters(b"-"))
    assert version(tmp_path) == before
    stream(tmp_path, "new", "orders 2").write(0, letters(b"b"))
    stream(tmp_path, "new").write(0, letters(b"c"))
    stream(tmp_path, "old", "orders").write(1, letters(b"d"))
    assert value(tmp_path) == b"abcd"


def test_a_write_with_the_name_of_a_stream_is_another_one(tmp_path: Path) -> None:
    stream(tmp_path, name="orders").write(0, letters(b"a"))
    store = SlateStore.open(str(tmp_path))
    store.write(letters(b"b"), operation="merge", txnAppId="orders", txnVersion=0)
    store.write(letters(b"c"), operation="merge", txnAppId="orders", txnVersion=7)
    stream(tmp_path, name="orders").write(1, letters(b"d"))
    assert value(tmp_path) == b"abcd"


def test_queries_that_commit_at_the_same_time(tmp_path: Path) -> None:
    stream(tmp_path, "first").write(0, letters(b"a"))
    one, two = stream(tmp_path, "one").upload(0, letters(b"b")), stream(tmp_path, "two").upload(0, letters(b"c"))
    two.commit()
    one.commit()
    assert value(tmp_path) == b"acb"


def test_a_batch_without_rows_adds_no_version(tmp_path: Path) -> None:
    query = stream(tmp_path)
    query.write(0, letters(b"a")[:0])  # it creates the table
    assert version(tmp_path) == 1
    query.write(1, letters(b"a")[:0])
    assert version(tmp_path) == 1
    query.write(2, letters(b"a"))
    assert value(tmp_path) == b"a"


def test_the_whole_result_replaces_the_last_one(tmp_path: Path) -> None:
    query = Stream(LocalStore(tmp_path), options={"keyColumns": "id"})
    counts = [pa.table({"id": [1, 2], "n": [1, 1]}), pa.table({"id": [2, 3], "n": [5, 5]})]
    for number, rows in enumerate(counts):
        query.write(number, rows, overwrite=True)
    query.write(1, counts[0], overwrite=True)
    assert SlateStore.open(str(tmp_path)).scan().read_all().equals(counts[1])
    query.write(2, counts[0][:0], overwrite=True)
    assert SlateStore.open(str(tmp_path)).scan().read_all().num_rows == 0
