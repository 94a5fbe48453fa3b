"""Filters over random versions leave what a model leaves, and built-in ones do what the rules of the merge do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import CompactionFilter, ExpireFilter, FilterDecisions, HistoryFloorFilter
from slatespark.encoding.row_codec import RAW_CODEC
from slatespark.format.row import Row, RowKind
from slatespark.kernels import take_rows
from slatespark.table.compaction.filter_rows import FilterStage, FilterTally
from slatespark.table.compaction.merge import LayerMerge, MergeRules
from slatespark.table.read.merge.merge_function import resolve_operator
from slatespark.table.rows.row_keeper import RowKeeper
from tests.support.compaction_model import compacted
from tests.support.effort import examples
from tests.support.row_values import columns_to_rows
from tests.unit.table.layers import Shape, new_stores, shapes

ANY_SEQ = 2**64 - 1
PLAIN = MergeRules(now_ms=100, min_seq=ANY_SEQ, drops_tombstones=True, merge_operator="concat")
WINDOWS = st.sampled_from([1, 200, 1 << 20])

few = settings(max_examples=examples(17))  # each takes 30 ms


def merged(shape: Shape, rules: MergeRules, window_bytes: int, *filters: CompactionFilter) -> list[Row]:
    stores = new_stores()
    keeper = RowKeeper(rules.retention(), resolve_operator(rules.merge_operator))
    pieces = LayerMerge(stores, shape.store(stores), keeper, window_bytes).pieces()
    stage = FilterStage(filters, RAW_CODEC, stores.url, rules.drops_tombstones)
    left = stage.apply(pieces, FilterTally()) if filters else pieces
    return [row for piece in left for row in columns_to_rows(take_rows(piece.sources, piece.rows))]


# --- any filter -----------------------------------------------------------------------------------------------------


def action(kind: RowKind, seq: int, salt: int) -> str:
    chosen = ("keep", "drop", "tombstone", "replace")[seq * salt % 7 % 4]
    return "keep" if chosen == "replace" and kind is RowKind.DELETE else chosen


class Salted:
    """Decides by sequence number; what it replaces gets a longer value, and an expiry or none."""

    def __init__(self, salt: int) -> None:
        self.salt = salt

    def decide(self, versions: pa.RecordBatch) -> FilterDecisions:
        kinds = {"put": RowKind.PUT, "delete": RowKind.DELETE, "merge": RowKind.MERGE}
        seqs, ops = versions["_seq"].to_pylist(), versions["_op"].to_pylist()
        keys = versions["_key"].to_pylist()
        assert [keys.index(key) for key in keys] == sorted(keys.index(key) for key in keys)
        actions = [action(kinds[op], seq, self.salt) for op, seq in zip(ops, seqs, strict=True)]
        values = pa.table({"value": pa.array([(value or b"") + b"!" for value in versions["value"].to_pylist()])})
        expiries = pa.array([None if seq % 2 else seq for seq in seqs], pa.timestamp("ms", tz="UTC"))
        return FilterDecisions(pa.array(actions, pa.string()), values=values, expiries=expiries)


def filtered(rows: Sequence[Row], salt: int, *, drops: bool) -> list[Row]:
    """The same for rows that a merge left."""
    found: list[Row] = []
    for _, versions in groupby(rows, lambda row: row.key):
        hidden = False
        for row in versions:
            chosen = action(row.kind, row.seq, salt)
            if chosen == "drop" or hidden:
                continue
            changed = row
            if chosen == "tombstone":
                changed = Row(row.key, row.seq, RowKind.DELETE, create_ts_ms=row.create_ts_ms)
            if chosen == "replace":
                changed = replace(row, value=row.value + b"!", expire_ts_ms=None if row.seq % 2 else row.seq)
            hidden = changed.kind is not RowKind.MERGE
            if not (drops and changed.kind is RowKind.DELETE):
                found.append(changed)
    return found


@few
@given(shapes(), st.integers(1, 6), st.booleans(), WINDOWS)
def test_what_filters_leave_is_what_the_model_leaves(shape: Shape, salt: int, drops: bool, window_bytes: int) -> None:
    rules = replace(PLAIN, drops_tombstones=drops)
    expected = filtered(compacted(shape.layers, rules), salt, drops=drops)
    assert merged(shape, rules, window_bytes, Salted(salt)) == expected


# --- built-in filters and the rules that they stand for -------------------------------------------------------------


@few
@given(shapes(), st.sampled_from([0, 50, 100, 200]), st.booleans(), WINDOWS)
def test_the_expire_filter_does_what_the_rule_does(shape: Shape, now_ms: int, drops: bool, window_bytes: int) -> None:
    rules = replace(PLAIN, now_ms=None, drops_tombstones=drops)
    by_rule = merged(shape, replace(rules, now_ms=now_ms), window_bytes)
    assert merged(shape, rules, window_bytes, ExpireFilter(now=now_ms)) == by_rule


@few
@given(shapes(expiry=False), st.sampled_from([0, 50, 100, 200]), WINDOWS)
def test_the_floor_filter_does_what_the_rule_does(shape: Shape, floor_ms: int, window_bytes: int) -> None:
    rules = MergeRules(None, ANY_SEQ, drops_tombstones=False, has_history=True)
    plain = without_operands(shape)
    by_rule = merged(plain, replace(rules, floor_ms=floor_ms), window_bytes)
    assert merged(plain, rules, window_bytes, HistoryFloorFilter(floor_ms)) == by_rule


def without_operands(shape: Shape) -> Shape:
    """Operands fold below a floor, which no filter does."""
    change: dict[str, Any] = {"kind": RowKind.PUT}
    layers = tuple(
        tuple(replace(row, **change) if row.kind is RowKind.MERGE else row for row in rows) for rows in shape.layers
    )
    return replace(shape, layers=layers)
