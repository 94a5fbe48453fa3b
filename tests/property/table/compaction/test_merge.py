"""Merged layers match the model, however they are cut into files, blocks and windows."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from slatespark.format.row import Row
from slatespark.kernels import take_rows
from slatespark.kernels.columns import Visibility
from slatespark.ranges import KeyRange
from slatespark.table.compaction.merge import MergeRules
from slatespark.table.read.merge.cursor import LayerCursor, layer_windows
from slatespark.table.read.merge.merge_function import resolve_operator
from slatespark.table.read.planning.plan import Layer, cut_layers
from slatespark.table.read.scan import visible_windows
from slatespark.table.stores import TableStores
from tests.support.compaction_model import compacted
from tests.support.row_values import columns_to_rows
from tests.unit.table.compaction.test_merge import PLAIN, merged, run
from tests.unit.table.layers import Shape, new_stores, shapes

WINDOWS = st.sampled_from([1, 200, 1 << 20])

CONCAT = resolve_operator("concat")

instants = st.none() | st.sampled_from([0, 50, 100, 150, 250])

rules_of_any_table = st.builds(
    MergeRules,
    now_ms=instants,
    min_seq=st.sampled_from([0, 100, 200, 2**64 - 1]),
    drops_tombstones=st.booleans(),
    floor_ms=instants,
    has_history=st.just(True),
    merge_operator=st.just("concat"),
) | st.builds(
    MergeRules,
    now_ms=instants,
    min_seq=st.sampled_from([0, 100, 200, 2**64 - 1]),
    drops_tombstones=st.booleans(),
    retired_ms=instants,
    merge_operator=st.just("concat"),
)


@given(shapes(), rules_of_any_table, WINDOWS)
def test_kept_versions_match_the_model(shape: Shape, rules: MergeRules, window_bytes: int) -> None:
    stores = new_stores()
    assert merged(stores, shape.store(stores), rules, window_bytes) == compacted(shape.layers, rules)


@given(shapes(), st.binary(max_size=2), st.binary(max_size=2), WINDOWS)
def test_only_the_range_is_merged(shape: Shape, start: bytes, end: bytes, window_bytes: int) -> None:
    stores, keys = new_stores(), KeyRange(min(start, end), max(start, end))
    rows = [[row for row in layer if keys.contains(row.key)] for layer in shape.layers]
    layers = cut_layers(shape.store(stores), keys)
    assert merged(stores, layers, PLAIN, window_bytes) == compacted(rows, PLAIN)


def shown(stores: TableStores, layers: Sequence[Layer], visibility: Visibility, retired_ms: int | None) -> list[Row]:
    cursors = [LayerCursor(layer_windows(stores, layer, 1 << 20)) for layer in layers]
    found: list[Row] = []
    for sources, selection in visible_windows(cursors, visibility, CONCAT, retired_ms=retired_ms):
        found += columns_to_rows(take_rows(sources, selection.rows))
    return found


@given(shapes(), rules_of_any_table, st.data())
def test_reads_find_the_same_before_and_after(shape: Shape, rules: MergeRules, data: st.DataObject) -> None:
    """Adjacent layers are merged, and read at instants, numbers and times that stay readable under the rules."""
    stores = new_stores()
    before = shape.store(stores)
    first = data.draw(st.integers(0, len(before) - 1), label="first")
    end = data.draw(st.integers(first + 1, len(before)), label="end")
    if rules.retired_ms is not None and first:
        first = 0  # what is above might hold operands that keep the group alive
    if end < len(before):
        rules = MergeRules(
            rules.now_ms, rules.min_seq, False, rules.floor_ms, rules.has_history, rules.retired_ms, "concat"
        )
    files = run(stores, before[first:end], rules).files
    after = [*before[:first], Layer("merged", tuple(file.whole() for file in files)), *before[end:]]
    now_ms = max(rules.now_ms or 0, data.draw(st.sampled_from([0, 50, 150, 1000]), label="now"))
    as_of = None
    if rules.has_history:
        as_of = max(rules.floor_ms or 0, data.draw(st.sampled_from([0, 60, 120, 400]), label="as of"))
    max_seq = 2**64 - 1
    if not rules.has_history and rules.min_seq < 2**64 - 1:
        max_seq = max(rules.min_seq, data.draw(st.sampled_from([0, 150, 250]), label="seq"))
    visibility = Visibility(max_seq, now_ms, max_create_ts_ms=as_of)
    retired_ms = rules.retired_ms
    assert shown(stores, after, visibility, retired_ms) == shown(stores, before, visibility, retired_ms)
