"""The rows of a task come out sorted, one version per key, whatever is spilled on the way."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slatespark.errors import InvalidRequestError
from slatespark.table.rows.encoder import Stamp
from slatespark.table.rows.task_sorter import TaskSorter
from tests.support.effort import examples
from tests.unit.table.rows.test_task_sorter import ENCODER, Change, batches, model, run

SIZES = (  # buffer in bytes, rows of a batch, threads, and how many chunks are merged at a time
    st.sampled_from([1, 200, 500, 2000, 1 << 20]),
    st.sampled_from([1, 3, 1000]),
    st.integers(1, 3),
    st.sampled_from([2, 3, 64]),
)


def changes() -> st.SearchStrategy[list[Change]]:
    key = st.sampled_from([b"a", b"b", b"b\0", b"c", b"\xff", b"long" * 20])
    return st.lists(st.tuples(st.sampled_from(["put", "delete", "merge"]), key, st.binary(max_size=30)), max_size=60)


@settings(max_examples=examples(75))
@given(changes(), *SIZES)
def test_the_last_row_of_a_key_wins_and_operands_fold(
    changed: list[Change], buffer: int, batch_rows: int, threads: int, most_merged: int
) -> None:
    rows = run(changed, buffer=buffer, batch_rows=batch_rows, threads=threads, most_merged=most_merged)
    assert rows == model(changed)


@settings(max_examples=examples(20))
@given(changes(), st.sampled_from([1, 500, 1 << 20]))
def test_without_an_operator(changed: list[Change], buffer: int) -> None:
    """Needed where an operand is the last of several rows of a key; a spill in between may need one earlier."""
    if not _ends_with_repeated_operand(changed):
        try:
            assert run(changed, buffer=buffer, fold=None) == model(changed)
        except InvalidRequestError:
            assert buffer < 1 << 20
    else:
        with pytest.raises(InvalidRequestError, match="mergeOperator"):
            run(changed, buffer=buffer, fold=None)


def _ends_with_repeated_operand(changed: list[Change]) -> bool:
    ops: dict[bytes, list[str]] = {}
    for op, key, _ in changed:
        ops.setdefault(key, []).append(op)
    return any(len(found) > 1 and found[-1] == "merge" for found in ops.values())


@settings(max_examples=examples(5), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(taken=st.integers(0, 3))
def test_spills_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    changed = [("put", b"%05d" % (number * 7919 % 2000), b"v" * 200) for number in range(2000)]
    sorter = TaskSorter(batches(changed, 100), ENCODER, Stamp(5, 1000, None), None, buffer_bytes=30_000)
    assert list(sorter.ascending()) == []
    assert list(tmp_path.iterdir()) == []
    with sorter.spilled(None) as (pieces,):
        for _ in range(taken):
            next(pieces)
            assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=examples(50), deadline=None)
@given(changes(), st.data(), st.sampled_from([1, 200, 500]), st.integers(1, 9), st.integers(1, 3))
def test_rows_that_nearly_come_in_order(
    changed: list[Change], data: st.DataObject, buffer: int, batch_rows: int, threads: int
) -> None:
    changed.sort(key=lambda change: change[1])
    for _ in range(data.draw(st.integers(0, 2)) if changed else 0):
        moved = changed.pop(data.draw(st.integers(0, len(changed) - 1)))
        changed.insert(data.draw(st.integers(0, len(changed))), moved)
    assert run(changed, buffer=buffer, batch_rows=batch_rows, threads=threads) == model(changed)
