"""Filters applied to the versions that a compaction would keep, without a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from slatespark import FilterDecisions
from slatespark.encoding.avro_schema import avro_schema, fingerprint
from slatespark.encoding.row_codec import RAW_CODEC, RowCodec
from slatespark.errors import InvalidRequestError
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.kernels import take_rows
from slatespark.table.compaction import filter_rows
from slatespark.table.compaction.filter_rows import FilterStage, FilterTally
from slatespark.table.rows.sorted_rows import SortedRows
from tests.support.row_values import columns_to_rows

PUT, DELETE, MERGE = RowKind.PUT, RowKind.DELETE, RowKind.MERGE


@dataclass
class Asked:
    """A filter that records its batches, and calls a function."""

    answer: Callable[[pa.RecordBatch], Any]
    shown: list[pa.RecordBatch] = field(default_factory=list)

    def decide(self, versions: pa.RecordBatch) -> Any:
        self.shown.append(versions)
        return self.answer(versions)


def filtered(
    pieces: Iterable[list[Row]],
    *filters: Any,
    codec: RowCodec = RAW_CODEC,
    drops: bool = False,
    tally: FilterTally | None = None,
) -> list[Row]:
    stage = FilterStage(filters, codec, "memory://t", drops)
    given = [SortedRows([rows_to_columns(rows)], np.arange(len(rows), dtype=np.int64)) for rows in pieces]
    left = stage.apply(given, FilterTally() if tally is None else tally)
    return [row for piece in left for row in columns_to_rows(take_rows(piece.sources, piece.rows))]


def put(key: str, seq: int, value: str = "v", **more: Any) -> Row:
    return Row(
        key.encode(),
        seq,
        PUT,
        value.encode(),
        create_ts_ms=more.pop("created", 100),
        expire_ts_ms=more.pop("expires", None),
    )


def operand(key: str, seq: int, value: str = "m", expires: int | None = None) -> Row:
    return Row(key.encode(), seq, MERGE, value.encode(), create_ts_ms=100, expire_ts_ms=expires)


def delete(key: str, seq: int) -> Row:
    return Row(key.encode(), seq, DELETE, create_ts_ms=100)


def always(action: str) -> Callable[[pa.RecordBatch], Any]:
    return lambda versions: pa.array([action] * versions.num_rows)


def by_value(**actions: str) -> Callable[[pa.RecordBatch], Any]:
    """Decide by the text of the value; keep other values."""

    def answer(versions: pa.RecordBatch) -> pa.Array:
        return pa.array([actions.get((value or b"").decode(), "keep") for value in versions["value"].to_pylist()])

    return answer


# --- what is shown --------------------------------------------------------------------------------------------------


def test_a_filter_sees_what_a_read_of_all_versions_shows() -> None:
    keep = Asked(always("keep"))
    rows = [put("a", 7, "x", expires=900), delete("b", 3), operand("c", 5, "y"), put("c", 2, "z")]
    assert filtered([rows], keep) == rows
    batch = pa.Table.from_batches(keep.shown)
    assert batch.schema.names == ["key", "value", "_key", "_seq", "_op", "_create_ts", "_expire_ts"]
    assert batch["_op"].to_pylist() == ["put", "delete", "merge", "put"]
    assert batch["value"].to_pylist() == [b"x", None, b"y", b"z"]
    assert batch["_seq"].to_pylist() == [7, 3, 5, 2]
    assert batch["_expire_ts"].cast(pa.int64()).to_pylist() == [900_000, None, None, None]


def test_versions_of_a_key_stay_together_across_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_rows, "MAX_BATCH_ROWS", 2)
    keep = Asked(always("keep"))
    pieces = [
        [put("a", 9)],
        [operand("b", 8), operand("b", 7)],
        [operand("b", 6)],
        [put("b", 5), put("c", 4)],
        [],
        [put("d", 3)],
    ]
    assert filtered(pieces, keep) == [row for piece in pieces for row in piece]
    shown = [batch["key"].to_pylist() for batch in keep.shown]
    assert sorted(key for keys in shown for key in set(keys)) == [b"a", b"b", b"c", b"d"]  # none twice
    assert [b"b"] * 4 in shown


def test_batches_are_bounded_by_bytes_but_never_split_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_rows, "MAX_BATCH_BYTES", 20)
    keep = Asked(always("keep"))
    rows = [put("a", 3, "x" * 9), put("b", 3, "x" * 9), operand("c", 9, "x" * 15), put("c", 3, "x" * 15), put("d", 3)]
    assert filtered([rows], keep) == rows
    assert [batch["key"].to_pylist() for batch in keep.shown] == [[b"a", b"b"], [b"c", b"c"], [b"d"]]


def test_a_key_too_large_for_a_batch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_rows, "MAX_KEY_BYTES", 50)
    with pytest.raises(InvalidRequestError, match="key 61"):
        filtered([[operand("a", seq, "x" * 30)] for seq in (9, 8, 7)], Asked(always("keep")))


def test_each_filter_sees_the_result_of_the_previous_one() -> None:
    second = Asked(always("keep"))
    rows = [put("a", 3, "x"), put("b", 2, "y"), put("c", 1, "z")]
    assert filtered([rows], Asked(by_value(x="drop", y="tombstone")), second) == [delete("b", 2), put("c", 1, "z")]
    assert pa.Table.from_batches(second.shown)["_op"].to_pylist() == ["delete", "put"]


# --- what becomes of it ---------------------------------------------------------------------------------------------


def test_drop_removes_a_version_without_trace() -> None:
    tally = FilterTally()
    rows = [operand("a", 3, "x"), put("a", 2, "y"), put("b", 1, "x")]
    assert filtered([rows], Asked(by_value(x="drop")), tally=tally) == [put("a", 2, "y")]
    assert tally == FilterTally(dropped=2)


def test_a_tombstone_keeps_seq_and_time_and_hides_older_versions() -> None:
    rows = [operand("a", 3, "x", expires=500), put("a", 2, "y"), put("b", 1, "z", expires=700)]
    deleting = Asked(by_value(x="tombstone", z="tombstone"))
    tally = FilterTally()
    assert filtered([rows], deleting, tally=tally) == [delete("a", 3), delete("b", 1)]
    assert tally == FilterTally(tombstones=2)


def test_a_tombstone_is_dropped_if_nothing_older_lies_below() -> None:
    rows = [operand("a", 3, "x"), put("a", 2, "y"), put("b", 1, "z")]
    assert filtered([rows], Asked(by_value(x="tombstone")), drops=True) == [put("b", 1, "z")]


def test_a_value_is_replaced_with_seq_and_times_kept() -> None:
    rows = [put("a", 3, "x", expires=900), operand("b", 2, "x"), put("c", 1, "z")]
    upper = Asked(
        lambda versions: FilterDecisions(
            by_value(x="replace")(versions),
            values=pa.table({"VALUE": pc.binary_join_element_wise(versions["value"], b"!", b"")}),
        )
    )
    assert filtered([rows], upper) == [put("a", 3, "x!", expires=900), operand("b", 2, "x!"), put("c", 1, "z")]


def test_an_expiry_is_replaced_or_removed() -> None:
    instants = pa.array([800, None, 900], pa.timestamp("ms", tz="UTC"))
    rows = [put("a", 3), put("b", 2, expires=5), put("c", 1, "z", expires=6)]
    changed = Asked(lambda versions: FilterDecisions(by_value(v="replace")(versions), expiries=instants))
    assert filtered([rows], changed) == [put("a", 3, expires=800), put("b", 2), put("c", 1, "z", expires=6)]


# --- typed tables ---------------------------------------------------------------------------------------------------

SCHEMA = pa.schema(
    [pa.field("id", pa.int64()), pa.field("name", pa.string()), pa.field("age", pa.int32(), nullable=False)]
)


def people(*rows: tuple[int, str | None, int]) -> tuple[RowCodec, list[Row]]:
    plain = RowCodec(SCHEMA, ("id",), "tuple", "avro")
    writer = avro_schema(plain.value_fields)
    codec = RowCodec(SCHEMA, ("id",), "tuple", "avro", {fingerprint(writer): writer})
    table = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)
    (keys, key_at), (values, value_at) = codec.encode_keys(table), codec.encode_values(table)
    return codec, [
        Row(
            bytes(keys[key_at[n] : key_at[n + 1]]), 5, PUT, bytes(values[value_at[n] : value_at[n + 1]]), create_ts_ms=1
        )
        for n in range(len(rows))
    ]


def test_given_columns_of_a_typed_table_are_replaced() -> None:
    codec, rows = people((1, "ann", 30), (2, "bob", 40), (3, None, 50))
    masked = Asked(
        lambda versions: FilterDecisions(
            pc.if_else(pc.greater(versions["age"], 35), "replace", "keep"),
            values=pa.table({"name": pa.array(["***"] * versions.num_rows)}),
        )
    )
    assert filtered([rows], masked, codec=codec) == people((1, "ann", 30), (2, "***", 40), (3, "***", 50))[1]
    assert pa.Table.from_batches(masked.shown)["name"].to_pylist() == ["ann", "bob", None]


# --- what is refused ------------------------------------------------------------------------------------------------


def refusal(answer: Callable[[pa.RecordBatch], Any], rows: list[Row] | None = None, codec: RowCodec = RAW_CODEC) -> str:
    given = [put("a", 3, "x"), put("b", 2, "y"), delete("c", 1)] if rows is None else rows
    with pytest.raises(InvalidRequestError) as caught:
        filtered([given], Asked(answer), codec=codec)
    assert "Asked" in str(caught.value)
    return str(caught.value)


def replacing(**given: Any) -> Callable[[pa.RecordBatch], Any]:
    return lambda versions: FilterDecisions(pa.array(["replace", "replace", "keep"]), **given)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda _: None, "NoneType"),
        (lambda _: ["keep"] * 3, "list"),
        (lambda _: pa.array(["keep"]), "actions"),
        (lambda _: pa.array([1, 2, 3]), "int64"),
        (lambda _: pa.array(["keep", "kepe", "keep"]), "kepe"),
        (lambda _: pa.array(["keep", None, "keep"]), "null"),
        (lambda _: FilterDecisions(["keep"] * 3), "list"),
        (replacing(), "replaces"),
        (replacing(values=pa.array([b"x"] * 3)), "values"),
        (replacing(values=pa.table({"value": [b"x"]})), "values"),
        (replacing(values=pa.table({"key": [b"x"] * 3})), "value column"),
        (replacing(values=pa.table({"value": [b"x", None, b"z"]})), "null"),
        (replacing(values=pa.table({"value": [1, 2, 3]})), "values"),
        (replacing(expiries=pa.array([1, 2, 3])), "int64"),
        (replacing(expiries=pa.array([None, None])), "expiries"),
        (
            lambda _: FilterDecisions(pa.array(["replace"] * 3), values=pa.table({"value": [b"x"] * 3})),
            "tombstone",
        ),
    ],
)
def test_malformed_decisions_are_refused(answer: Callable[[pa.RecordBatch], Any], said: str) -> None:
    assert said in refusal(answer)


def test_a_filter_that_fails_is_named_with_the_key_and_the_cause() -> None:
    codec, rows = people(*((number, str(number), 1) for number in range(100)))

    def fragile(versions: pa.RecordBatch) -> pa.Array:
        if 77 in versions["id"].to_pylist():
            raise ZeroDivisionError("of 77")
        return pa.array(["keep"] * versions.num_rows)

    assert "id=77: ZeroDivisionError" in refusal(fragile, rows, codec)


def test_a_filter_that_fails_only_once_is_named_with_the_range() -> None:
    calls: list[int] = []

    def flaky(versions: pa.RecordBatch) -> pa.Array:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("gone")
        return pa.array(["keep"] * versions.num_rows)

    assert "OSError: gone" in refusal(flaky)
