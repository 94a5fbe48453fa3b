"""The rows of a task that have times of their own come out with all versions of a key, whatever is spilled."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark.encoding.row_codec import RAW_CODEC, RowCodec
from slatespark.errors import InvalidRequestError
from slatespark.format.paths import COMPACTED_DIR
from slatespark.format.row import Row, RowKind
from slatespark.options import WriteOptions
from slatespark.table.clock import SystemClock
from slatespark.table.read.cursor import layer_windows
from slatespark.table.read.merge_function import MergeFunction, resolve_operator
from slatespark.table.read.plan import Layer
from slatespark.table.rows.encoder import RowEncoder, Stamp
from slatespark.table.rows.sst_upload import NewFile, upload_task
from slatespark.table.rows.task_sorter import TaskSorter
from slatespark.table.stores import open_stores
from slatespark.units import MAX_MS, MIN_MS
from tests.support.effort import examples
from tests.support.row_values import columns_to_rows

_numbers = count()

KEYS = [b"a", b"b", b"b\0", b"c", b"\xff", b"long" * 20]
CONCAT = resolve_operator("concat")
FIRST_SEQ, TTL_MS = 5, 10


@dataclass(frozen=True, slots=True)
class Change:
    op: str
    key: bytes
    at_ms: int
    value: bytes = b""
    rank: int | None = None


def changes(*, ops: tuple[str, ...] = ("put", "delete", "merge"), keys: list[bytes] = KEYS) -> st.SearchStrategy:
    times = st.one_of(st.integers(-3, 8), st.sampled_from([MIN_MS, MAX_MS - 5, MAX_MS, 10**12]))
    rank = st.one_of(st.none(), st.integers(0, 3))
    one = st.builds(Change, st.sampled_from(ops), st.sampled_from(keys), times, st.binary(max_size=30), rank)
    return st.lists(one, max_size=80)


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
) -> tuple[list[Row], tuple[NewFile, ...]]:
    stores = open_stores(f"memory://version-sort-{next(_numbers)}", storage={})
    made = batches(changed, batch_rows)
    encoder = encoder or RowEncoder(RAW_CODEC, op_column="op", timestamp_column="at")
    sorter = TaskSorter(made, encoder, Stamp(FIRST_SEQ, 0, TTL_MS), fold, buffer_bytes=buffer)
    options = WriteOptions.parse({"path": "p", "sstSize": sst_size, "blockSize": 1024})
    files = upload_task(stores, SystemClock(), sorter, options, 0)
    assert len(stores.main.list(COMPACTED_DIR)) == len(files), "what was merged again is gone"
    layer = Layer("new", tuple(file.whole() for file in files))
    windows = layer_windows(stores, layer, 1 << 20)
    return [row for window in windows for row in columns_to_rows(window.rows)[window.low : window.high]], files


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


@settings(max_examples=examples(80))
@given(changes(), st.sampled_from([1, 200, 500, 2000, 1 << 20]), st.sampled_from([1, 3, 1000]))
def test_all_times_of_a_key_are_kept_in_their_order(changed: list[Change], buffer: int, batch_rows: int) -> None:
    assert run(changed, buffer=buffer, batch_rows=batch_rows)[0] == model(changed)


@settings(max_examples=examples(40))
@given(changes(ops=("put", "delete")), st.booleans(), st.sampled_from([1, 300, 1000, 1 << 20]), st.sampled_from([1, 4]))
def test_a_load_that_comes_in_key_order(changed: list[Change], by_time: bool, buffer: int, batch_rows: int) -> None:
    changed.sort(key=lambda change: (change.key, change.at_ms if by_time else 0))
    assert run(changed, buffer=buffer, batch_rows=batch_rows, fold=None)[0] == model(changed)


@settings(max_examples=examples(40))
@given(changes(ops=("put",), keys=[b"a", b"b"]), st.sampled_from([1, 300, 1 << 20]))
def test_the_highest_sequence_wins_among_rows_of_one_time(changed: list[Change], buffer: int) -> None:
    schema = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("rank", pa.int64())])
    codec = RowCodec(schema, ("key",), "raw", "json", {})
    encoder = RowEncoder(codec, op_column="op", timestamp_column="at", sequence_column="rank")
    winners: dict[tuple[bytes, int], Change] = {}
    for change in changed:
        before = winners.get((change.key, change.at_ms))
        if before is None or (change.rank is not None, change.rank or 0) >= (before.rank is not None, before.rank or 0):
            winners[change.key, change.at_ms] = change
    rows, _ = run(changed, buffer=buffer, batch_rows=3, fold=None, encoder=encoder)
    chosen = [winners[row.key, row.create_ts_ms or 0] for row in rows]
    state: dict[bytes, dict[int, tuple[RowKind, bytes]]] = {}
    for row, change in zip(rows, chosen, strict=True):
        state.setdefault(change.key, {})[change.at_ms] = (RowKind.PUT, row.value)
        assert codec_value(codec, row)["value"] == change.value
        assert codec_value(codec, row)["rank"] == change.rank
    assert len(rows) == len(winners)
    assert rows == rows_of(state)


def codec_value(codec: RowCodec, row: Row) -> dict[str, object]:
    from slatespark.format.row import rows_to_columns

    columns = codec.decode([rows_to_columns([row])], pa.array([0]).to_numpy(), ["value", "rank"])
    return {name: column[0].as_py() for name, column in columns.items()}


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
