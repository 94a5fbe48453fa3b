"""The sorted chunks of a task on local disk: together they hold what the task wrote, and the table has none of it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatespark.format.paths import COMPACTED_DIR
from slatespark.format.row import Row
from slatespark.format.segments import WHOLE
from slatespark.options import WriteOptions
from slatespark.table.clock import SystemClock
from slatespark.table.read.merge.cursor import layer_windows
from slatespark.table.read.planning.plan import Layer
from slatespark.table.rows.chunk_upload import Chunks, upload_chunks, with_scratch
from slatespark.table.rows.encoder import Stamp
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.rows.task_sorter import TaskSorter
from slatespark.table.stores import OWN_ROOT, SCRATCH_ROOT, TableStores, open_stores
from tests.support.row_values import columns_to_rows
from tests.unit.table.rows.test_task_sorter import CONCAT, ENCODER, Change, batches, model

_numbers = count()
_OPTIONS = WriteOptions.parse({"path": "p", "compression": "zstd"})


def run(changed: list[Change], *, buffer: int, most_bytes: int = 1 << 30) -> tuple[Chunks, list[Row]]:
    """The files, and the rows that a reader makes of them: those of a later chunk hide others."""
    with with_scratch(open_stores(f"memory://chunks-{next(_numbers)}", storage={})) as stores:
        sorter = TaskSorter(batches(changed, 7), ENCODER, Stamp(5, 1000, 10), CONCAT, buffer_bytes=buffer)
        chunks = upload_chunks(stores, SystemClock(), sorter, _OPTIONS, 0, segments=WHOLE, most_bytes=most_bytes)
        uploaded = {file.handle.id for files in chunks for file in files if file.root == OWN_ROOT}
        assert len(stores.main.list(COMPACTED_DIR)) == len(uploaded)
        found = {row.key: row for files in chunks for row in rows_of(stores, files)}
        return chunks, [found[key] for key in sorted(found)]


def rows_of(stores: TableStores, files: Sequence[NewFile]) -> list[Row]:
    layer = Layer("new", tuple(file.whole() for file in files))
    rows = [row for window in layer_windows(stores, layer, 1 << 20) for row in columns_to_rows(window.rows)]
    assert [row.key for row in rows] == sorted({row.key for row in rows}), "a chunk has a key once"
    return rows


def changes(*kinds: str) -> st.SearchStrategy[list[Change]]:
    key = st.sampled_from([b"a", b"b", b"b\0", b"c", b"\xff"])
    return st.lists(st.tuples(st.sampled_from(kinds), key, st.binary(max_size=30)), max_size=60)


@given(changes("put", "delete"), st.sampled_from([1, 500, 2000, 1 << 20]))
def test_of_rows_of_one_key_the_last_one_is_in_the_last_chunk(changed: list[Change], buffer: int) -> None:
    assert run(changed, buffer=buffer)[1] == model(changed)


@given(changes("put", "delete", "merge"), st.sampled_from([500, 2000, 1 << 20]), st.sampled_from([1, 400, 1 << 30]))
def test_operands_and_more_than_the_limit_are_one_sequence(changed: list[Change], buffer: int, most_bytes: int) -> None:
    chunks, rows = run(changed, buffer=buffer, most_bytes=most_bytes)
    assert rows == model(changed)
    if any(kind == "merge" for kind, _, _ in changed) and len(chunks) > 1:
        merges = [file.properties.merges for files in chunks for file in files]
        assert not any(merges), "operands of several chunks would have to be folded"


def shuffled(rows: int) -> list[Change]:
    return [("put", b"%05d" % (number * 7919 % rows), b"v" * 100) for number in range(rows)]


def test_where_they_lie() -> None:
    chunks, _ = run(shuffled(2000), buffer=100_000)
    assert len(chunks) > 2
    assert {file.root for files in chunks for file in files} == {SCRATCH_ROOT}
    [files], _ = run(shuffled(2000), buffer=100_000, most_bytes=150_000)
    assert {file.root for file in files} == {OWN_ROOT}


def test_rows_that_come_sorted_go_to_the_table_at_once() -> None:
    [files], rows = run(sorted(shuffled(2000)), buffer=100_000)
    assert {file.root for file in files} == {OWN_ROOT}
    assert len(rows) == 2000


def test_the_disk_is_empty_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run(shuffled(500), buffer=20_000)
    assert list(tmp_path.iterdir()) == []
