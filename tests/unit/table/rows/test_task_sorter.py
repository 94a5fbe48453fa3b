"""The rows of a task come out sorted, one version per key, whatever is spilled on the way."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

from slatespark.encoding.row_codec import RAW_CODEC
from slatespark.errors import SchemaError
from slatespark.format.row import Row, RowKind
from slatespark.table.read.merge.merge_function import MergeFunction, resolve_operator
from slatespark.table.read.merge.windows import version_windows
from slatespark.table.rows import spill, task_sorter
from slatespark.table.rows.encoder import RowEncoder, Stamp
from slatespark.table.rows.task_sorter import TaskSorter
from slatespark.table.rows.versions import Versions
from tests.unit.table.rows.sorted_task import sorted_task

Change: TypeAlias = tuple[str, bytes, bytes]

ENCODER = RowEncoder(RAW_CODEC, op_column="op")
CONCAT = resolve_operator("concat")


def batches(changed: list[Change], batch_rows: int) -> list[pa.RecordBatch]:
    table = pa.table(
        {
            "op": pa.array([change[0] for change in changed], pa.string()),
            "key": pa.array([change[1] for change in changed], pa.binary()),
            "value": pa.array([change[2] for change in changed], pa.binary()),
        }
    )
    made: list[pa.RecordBatch] = table.to_batches(max_chunksize=batch_rows)
    return made


def run(
    changed: list[Change],
    *,
    buffer: int,
    batch_rows: int = 7,
    fold: MergeFunction | None = CONCAT,
    ttl_ms: int | None = 10,
    threads: int = 1,
    most_merged: int = spill.MOST_MERGED,
) -> list[Row]:
    stamp, made = Stamp(5, 1000, ttl_ms), batches(changed, batch_rows)
    rows, _ = sorted_task(made, ENCODER, stamp, fold, buffer=buffer, threads=threads, most_merged=most_merged)
    return rows


def model(changed: list[Change]) -> list[Row]:
    """What a dictionary makes of the same changes, one after the other."""
    state: dict[bytes, tuple[RowKind, bytes]] = {}
    for op, key, value in changed:
        kind, before = state.get(key, (None, b""))
        match op, kind:
            case "put", _:
                state[key] = (RowKind.PUT, value)
            case "delete", _:
                state[key] = (RowKind.DELETE, b"")
            case _, None:
                state[key] = (RowKind.MERGE, value)
            case _, RowKind.DELETE:
                state[key] = (RowKind.PUT, value)
            case _, RowKind():
                state[key] = (kind, before + value)
    return [
        Row(key, 5, kind, value, create_ts_ms=1000, expire_ts_ms=None if kind is RowKind.DELETE else 1010)
        for key, (kind, value) in sorted(state.items())
    ]


def test_no_rows() -> None:
    assert run([], buffer=1) == []


def test_a_batch_larger_than_the_buffer_is_cut() -> None:
    changed = [("put", b"%05d" % (number * 7919 % 5000), b"v%d" % number) for number in range(5000)]
    assert run(changed, buffer=10_000, batch_rows=5000) == model(changed)


@pytest.mark.parametrize("ordered", [False, True])
def test_several_threads_sort_spill_and_merge(ordered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    used: dict[str, set[str]] = {"sort": set(), "merge": set()}
    sort, merge = task_sorter._sort_chunk, spill.Spill.merge
    two_sort, two_merge = (threading.Barrier(2, timeout=60) for _ in range(2))

    def noted_sort(*arguments: Any, **named: Any) -> Any:
        if len(used["sort"]) < 2:
            used["sort"].add(threading.current_thread().name)
            two_sort.wait()
        return sort(*arguments, **named)

    def noted_merge(*arguments: Any, **named: Any) -> Any:
        if len(used["merge"]) < 2:
            used["merge"].add(threading.current_thread().name)
            two_merge.wait()
        yield from merge(*arguments, **named)

    monkeypatch.setattr(task_sorter, "_sort_chunk", noted_sort)
    monkeypatch.setattr(spill.Spill, "merge", noted_merge)
    changed: list[Change] = [("put", b"%05d" % (number * 7919 % 5000), b"v%d" % number) for number in range(5000)]
    changed = sorted(changed) if ordered else changed
    assert run(changed, buffer=60_000, batch_rows=100, threads=2) == model(changed)
    assert len(used["sort"]) == 2
    assert len(used["merge"]) == (0 if ordered else 2)


def test_each_thread_has_one_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slowly the rows are spilled."""
    lock, held, most = threading.Lock(), 0, 0
    sort, add = task_sorter._sort_chunk, spill.Spill.add

    def counted_sort(rows: list[pa.RecordBatch], *arguments: Any, **named: Any) -> Any:
        nonlocal held, most
        with lock:
            held += sum(map(len, rows))
            most = max(most, held)
        return sort(rows, *arguments, **named)

    def counted_add(self: spill.Spill, number: int, versions: Versions) -> None:
        nonlocal held
        time.sleep(0.002)
        add(self, number, versions)
        with lock:
            held -= len(versions.rows)

    monkeypatch.setattr(task_sorter, "_sort_chunk", counted_sort)
    monkeypatch.setattr(spill.Spill, "add", counted_add)
    changed: list[Change] = [("put", b"%05d" % (number * 7919 % 5000), b"v") for number in range(5000)]
    peaks = []
    for threads in (1, 4):
        held = most = 0
        run(changed, buffer=60_000, batch_rows=10, threads=threads)
        peaks.append(most)
    assert peaks[0] < 1000
    assert peaks[0] < peaks[1] <= 4 * peaks[0]


def test_spills_are_removed_when_a_row_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    changed: list[Change] = [*(("put", b"%05d" % number, b"v" * 200) for number in range(500)), ("put", b"", b"")]
    with pytest.raises(SchemaError, match="empty"):
        run(changed, buffer=10_000)
    assert list(tmp_path.iterdir()) == []


def test_memory_is_bounded_by_the_buffer() -> None:
    """Pieces of the merge are far smaller than all rows."""
    changed: list[Change] = [("put", b"%06d" % (number * 7919 % 60000), b"v" * 100) for number in range(60000)]
    sorter = TaskSorter(batches(changed, 1000), ENCODER, Stamp(5, 0, None), None, buffer_bytes=1 << 20)
    assert list(sorter.ascending()) == []
    with sorter.spilled(None) as (pieces,):
        sizes = [len(piece.rows) for piece in pieces]
    assert sum(sizes) == 60000
    assert max(sizes) < 15000


def test_many_chunks_are_merged_in_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window of each chunk would be more memory than the buffer, and a look at all of them for each."""
    made, merged = [], []
    put = spill.Spill.put

    def noted_put(self: spill.Spill, rows: Any) -> Any:
        made.append(len(rows))
        return put(self, rows)

    def noted_windows(cursors: Any) -> Any:
        merged.append(len(cursors))
        return version_windows(cursors)

    monkeypatch.setattr(spill.Spill, "put", noted_put)
    monkeypatch.setattr(spill, "version_windows", noted_windows)
    changed: list[Change] = [("put", b"%05d" % (number * 7919 % 4000), b"v%d" % number) for number in range(8000)]
    assert run(changed, buffer=5000) == model(changed)
    assert len(made) > 2 * spill.MOST_MERGED, "each a chunk"
    assert max(merged) == spill.MOST_MERGED
    assert sum(merged) < 2 * len(made) + len(merged), "no chunk is merged twice before all are"


def in_order(rows: int) -> list[Change]:
    """A sorted load: keys ascend, and each comes up to three times."""
    return [("put", b"%05d" % (number // 3 if number % 2 else number // 2), b"%d" % number) for number in range(rows)]


@pytest.mark.parametrize("late", [None, 0, 1000, 2999])
def test_a_sorted_load_does_not_spill_unless_a_row_comes_late(
    late: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    temporary = tempfile.TemporaryDirectory

    def noted(prefix: str) -> Any:
        made.append(prefix)
        return temporary(dir=tmp_path, prefix=prefix)

    monkeypatch.setattr(tempfile, "TemporaryDirectory", noted)
    changed = sorted(in_order(3000), key=lambda change: change[1])
    if late is not None:
        changed.insert(late, ("delete", b"00500", b""))
        changed.append(("put", b"00000", b"late"))
    assert run(changed, buffer=20_000, batch_rows=10) == model(changed)
    assert len(made) == (late is not None)


def test_operands_of_a_key_across_chunks_fold() -> None:
    changed: list[Change] = [("merge", b"%05d" % (number // 10), b"%d," % number) for number in range(2000)]
    assert run(changed, buffer=3000, batch_rows=3) == model(changed)
