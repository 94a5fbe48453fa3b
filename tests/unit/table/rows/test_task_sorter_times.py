"""The rows of a task that have times of their own come out with all versions of a key, whatever is spilled."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark.encoding.row_codec import RAW_CODEC
from slatespark.errors import InvalidRequestError
from slatespark.format.row import Row, RowKind
from slatespark.table.read.merge.merge_function import MergeFunction, resolve_operator
from slatespark.table.rows import spill
from slatespark.table.rows.encoder import RowEncoder, Stamp
from slatespark.table.rows.sst_upload import NewFile
from slatespark.units import MAX_MS
from tests.unit.table.rows.sorted_task import sorted_task

CONCAT = resolve_operator("concat")
FIRST_SEQ, TTL_MS = 5, 10


@dataclass(frozen=True, slots=True)
class Change:
    op: str
    key: bytes
    at_ms: int
    value: bytes = b""
    rank: int | None = None


def batches(changed: list[Change], batch_rows: int) -> list[pa.RecordBatch]:
    table = pa.table(
        {
            "op": pa.array([change.op for change in changed], pa.string()),
            "key": pa.array([change.key for change in changed], pa.binary()),
            "value": pa.array([change.value for change in changed], pa.binary()),
            "at": pa.array([change.at_ms for change in changed], pa.int64()),
            "rank": pa.array([change.rank for change in changed], pa.int64()),
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
    encoder: RowEncoder | None = None,
    sst_size: int = 3000,
    threads: int = 1,
    most_merged: int = spill.MOST_MERGED,
) -> tuple[list[Row], tuple[NewFile, ...]]:
    encoder = encoder or RowEncoder(RAW_CODEC, op_column="op", timestamp_column="at")
    stamp = Stamp(FIRST_SEQ, 0, TTL_MS)
    return sorted_task(
        batches(changed, batch_rows),
        encoder,
        stamp,
        fold,
        buffer=buffer,
        sst_size=sst_size,
        threads=threads,
        most_merged=most_merged,
    )


def model(changed: list[Change]) -> list[Row]:
    """What a dictionary of keys and times makes of the same changes, one after the other."""
    state: dict[bytes, dict[int, tuple[RowKind, bytes]]] = {}
    for change in changed:
        versions = state.setdefault(change.key, {})
        kind, before = versions.get(change.at_ms, (None, b""))
        match change.op, kind:
            case "put", _:
                versions[change.at_ms] = (RowKind.PUT, change.value)
            case "delete", _:
                versions[change.at_ms] = (RowKind.DELETE, b"")
            case _, None:
                versions[change.at_ms] = (RowKind.MERGE, change.value)
            case _, RowKind.DELETE:
                versions[change.at_ms] = (RowKind.PUT, change.value)
            case _, RowKind():
                versions[change.at_ms] = (kind, before + change.value)
    return rows_of(state)


def rows_of(state: dict[bytes, dict[int, tuple[RowKind, bytes]]]) -> list[Row]:
    """The versions of a key by time are numbered without gaps, and stand newest first."""
    rows = []
    for key, versions in sorted(state.items()):
        numbered = [(FIRST_SEQ + rank, at_ms) for rank, at_ms in enumerate(sorted(versions))]
        for seq, at_ms in reversed(numbered):
            kind, value = versions[at_ms]
            expires = kind is not RowKind.DELETE and at_ms + TTL_MS <= MAX_MS
            rows.append(Row(key, seq, kind, value, at_ms, at_ms + TTL_MS if expires else None))
    return rows


@pytest.mark.parametrize("buffer", [20_000, 700_000])
@pytest.mark.parametrize("order", ["oldest first", "newest first", "mixed", "behind another key"])
def test_a_key_of_more_versions_than_memory_and_files_hold(order: str, buffer: int) -> None:
    """Also than a window of a spill, where that is larger than a block."""
    times = list(range(4000))
    if order == "newest first":
        times.reverse()
    elif order != "oldest first":
        times = [number * 1237 % 4000 for number in times]
    changed = [Change("put", b"k", at_ms, b"%0100d" % at_ms) for at_ms in times]
    if order == "behind another key":
        changed.append(Change("put", b"a", 1, b"first of all"))
    rows, files = run(changed, buffer=buffer, batch_rows=100)
    assert rows == model(changed)
    assert len(files) > 5


def test_versions_of_a_key_stay_in_one_file_while_they_fit() -> None:
    changed = [Change("put", b"%03d" % (number // 20), number, b"x" * 20) for number in range(2000)]
    rows, files = run(changed, buffer=1 << 20, batch_rows=2000)
    assert rows == model(changed)
    assert len(files) > 5
    edges = [(file.handle.info.first_entry, file.handle.info.last_entry) for file in files]
    assert all(before[1] < after[0] for before, after in pairwise(edges))  # type: ignore[operator]


def test_operands_of_one_key_and_time_need_an_operator() -> None:
    changed = [Change("merge", b"k", 1, b"x"), Change("merge", b"k", 2, b"y")]
    assert run(changed, buffer=1000, fold=None)[0] == model(changed)
    with pytest.raises(InvalidRequestError, match="mergeOperator"):
        run([*changed, Change("merge", b"k", 1, b"z")], buffer=1000, fold=None)


def test_no_rows() -> None:
    assert run([], buffer=1)[0] == []


def test_spills_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run([Change("put", b"%d" % (7 - number), number) for number in range(8)], buffer=1, batch_rows=1)
    assert list(tmp_path.iterdir()) == []
