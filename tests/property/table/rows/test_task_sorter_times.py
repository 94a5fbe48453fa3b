"""The rows of a task that have times of their own come out with all versions of a key, whatever is spilled."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark.encoding.row_codec import RowCodec
from slatespark.format.row import Row, RowKind
from slatespark.table.rows.encoder import RowEncoder
from slatespark.units import MAX_MS, MIN_MS
from tests.property.table.rows.test_task_sorter import SIZES
from tests.support.effort import examples
from tests.unit.table.rows.test_task_sorter_times import Change, model, rows_of, run

KEYS = [b"a", b"b", b"b\0", b"c", b"\xff", b"long" * 20]


def changes(*, ops: tuple[str, ...] = ("put", "delete", "merge"), keys: list[bytes] = KEYS) -> st.SearchStrategy:
    times = st.one_of(st.integers(-3, 8), st.sampled_from([MIN_MS, MAX_MS - 5, MAX_MS, 10**12]))
    rank = st.one_of(st.none(), st.integers(0, 3))
    one = st.builds(Change, st.sampled_from(ops), st.sampled_from(keys), times, st.binary(max_size=30), rank)
    return st.lists(one, max_size=80)


@settings(max_examples=examples(40))
@given(changes(), *SIZES)
def test_all_times_of_a_key_are_kept_in_their_order(
    changed: list[Change], buffer: int, batch_rows: int, threads: int, most_merged: int
) -> None:
    rows, _ = run(changed, buffer=buffer, batch_rows=batch_rows, threads=threads, most_merged=most_merged)
    assert rows == model(changed)


@settings(max_examples=examples(20))
@given(changes(ops=("put", "delete")), st.booleans(), st.sampled_from([1, 300, 1000, 1 << 20]), st.sampled_from([1, 4]))
def test_a_load_that_comes_in_key_order(changed: list[Change], by_time: bool, buffer: int, batch_rows: int) -> None:
    changed.sort(key=lambda change: (change.key, change.at_ms if by_time else 0))
    assert run(changed, buffer=buffer, batch_rows=batch_rows, fold=None)[0] == model(changed)


@settings(max_examples=examples(20))
@given(
    changes(ops=("put",), keys=[b"a", b"b"]),
    st.sampled_from([1, 300, 1 << 20]),
    st.integers(1, 3),
    st.sampled_from([2, 64]),
)
def test_the_highest_sequence_wins_among_rows_of_one_time(
    changed: list[Change], buffer: int, threads: int, most_merged: int
) -> None:
    schema = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("rank", pa.int64())])
    codec = RowCodec(schema, ("key",), "raw", "json", {})
    encoder = RowEncoder(codec, op_column="op", timestamp_column="at", sequence_column="rank")
    winners: dict[tuple[bytes, int], Change] = {}
    for change in changed:
        before = winners.get((change.key, change.at_ms))
        if before is None or (change.rank is not None, change.rank or 0) >= (before.rank is not None, before.rank or 0):
            winners[change.key, change.at_ms] = change
    shape = {"buffer": buffer, "threads": threads, "most_merged": most_merged}
    rows, _ = run(changed, batch_rows=3, fold=None, encoder=encoder, **shape)
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
