"""Rebase: every row of a write moves up by the same number of sequence numbers and the same time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from slatespark.errors import CommitConflictError
from slatespark.format.row import Row, RowKind
from slatespark.options import WriteOptions
from slatespark.table.commit.rebase import rebase_outputs
from tests.support.fake_clock import FakeClock
from tests.unit.table.layers import new_stores, rows_of, upload_rows

MAX_MS = 2**63 - 1
LIMITLESS = WriteOptions.parse({"path": "memory://unused"})


def moved(rows: Sequence[Row], *, by_seq: int = 0, by_ms: int = 0, moves_expiry: bool = True) -> list[Row]:
    stores, clock = new_stores(), FakeClock(1000)
    outputs = [upload_rows(stores, rows, clock)]
    (files,) = rebase_outputs(
        stores, outputs, LIMITLESS, clock, by_seq=by_seq, by_ms=by_ms, planned_ms=777, moves_expiry=moves_expiry
    )
    assert {file.handle.id.timestamp_ms for file in files} == {777}
    return [row for file in files for row in rows_of(stores, file)]


def put(key: bytes, seq: int, create_ms: int | None, expire_ms: int | None) -> Row:
    return Row(key, seq, value=b"v", create_ts_ms=create_ms, expire_ts_ms=expire_ms)


def test_rows_of_all_kinds() -> None:
    rows = [
        put(b"a", 9, 100, 150),
        put(b"a", 8, 90, None),
        put(b"b", 7, None, 150),
        Row(b"c", 6, RowKind.DELETE, create_ts_ms=100),
        Row(b"d", 5, RowKind.MERGE, value=b"+1", create_ts_ms=-3),
    ]
    assert moved(rows, by_seq=10, by_ms=5) == [
        put(b"a", 19, 105, 155),
        put(b"a", 18, 95, None),
        put(b"b", 17, None, 155),
        Row(b"c", 16, RowKind.DELETE, create_ts_ms=105),
        Row(b"d", 15, RowKind.MERGE, value=b"+1", create_ts_ms=2),
    ]
    assert moved(rows) == rows


def test_fixed_expiries_stay() -> None:
    assert moved([put(b"a", 1, 100, 150)], by_seq=1, by_ms=60, moves_expiry=False) == [put(b"a", 2, 160, 150)]


def test_times_may_move_back() -> None:
    assert moved([put(b"a", 1, 100, 150)], by_ms=-120) == [put(b"a", 1, -20, 30)]


@pytest.mark.parametrize(
    ("expire_ms", "by_ms", "expected"),
    [(MAX_MS - 5, 5, MAX_MS), (MAX_MS - 4, 5, None), (MAX_MS, 1, None), (MAX_MS, 0, MAX_MS), (MAX_MS, -1, MAX_MS - 1)],
)
def test_an_expiry_beyond_64_bits_is_none(expire_ms: int, by_ms: int, expected: int | None) -> None:
    assert moved([put(b"a", 1, 100, expire_ms)], by_ms=by_ms) == [put(b"a", 1, 100 + by_ms, expected)]


def test_times_further_apart_than_64_bits() -> None:
    lowest = -(2**63)
    assert moved([put(b"a", 1, lowest, None)], by_ms=2**64 - 1) == [put(b"a", 1, MAX_MS, None)]
    assert moved([put(b"a", 1, MAX_MS, None)], by_ms=-(2**64 - 1)) == [put(b"a", 1, lowest, None)]


def test_the_files_of_each_task_stay_apart() -> None:
    stores, clock = new_stores(), FakeClock(1000)
    tasks = [upload_rows(stores, [put(key, 1, None, None)], clock) for key in (b"b", b"a")]
    outputs = rebase_outputs(stores, [tasks[0], (), tasks[1]], LIMITLESS, clock, by_seq=1, by_ms=0, planned_ms=777)
    assert [[row.key for file in files for row in rows_of(stores, file)] for files in outputs] == [[b"b"], [], [b"a"]]


def test_at_most_the_rewrite_limit() -> None:
    stores, clock = new_stores(), FakeClock(1000)
    tasks = [upload_rows(stores, [put(key, 1, None, None)], clock) for key in (b"a", b"b")]
    total_bytes = sum(file.size for files in tasks for file in files)

    def rebase(limit_bytes: int) -> int:
        options = WriteOptions.parse({"path": "memory://unused", "commitRewriteLimit": str(limit_bytes)})
        return len(rebase_outputs(stores, tasks, options, clock, by_seq=1, by_ms=0, planned_ms=777))

    assert rebase(total_bytes) == 2
    with pytest.raises(CommitConflictError, match="commitRewriteLimit"):
        rebase(total_bytes - 1)


def test_a_key_that_continues_in_the_next_window_moves_once() -> None:
    rows = [Row(b"a", 9000, value=b"v"), *[Row(b"k", seq, value=b"v" * 1000) for seq in range(4000, 0, -1)]]
    assert [row.seq - 10_000 for row in moved(rows, by_seq=10_000)] == [row.seq for row in rows]
