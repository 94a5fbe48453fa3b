"""An interval holds exactly the instants as of which a read shows that row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark.format.row import RowKind, rows_to_columns
from slatespark.kernels import merge_visible, take_rows
from slatespark.kernels.columns import Visibility
from slatespark.table.read.merge.cursor import LayerCursor, layer_windows
from slatespark.table.read.merge.fold_groups import fold_selection
from slatespark.table.read.merge.retention import hide_retired, retired_until_ms
from slatespark.table.read.merge.validity import ValiditySettings, valid_intervals
from slatespark.table.read.scan import visible_windows
from slatespark.units import MAX_MS, MIN_MS
from tests.support.effort import examples
from tests.support.row_values import columns_to_rows
from tests.unit.table.layers import Shape, new_stores, shapes
from tests.unit.table.read.merge.test_validity import CONCAT, collected

EVERYTHING = Visibility(2**64 - 1, 0, all_versions=True)


def timed(shape: Shape) -> Shape:
    """Give every operand, and what lies below it, a time: without one they cannot be put in order."""
    layers = tuple(
        tuple(replace(row, create_ts_ms=row.seq if row.kind is RowKind.MERGE else row.create_ts_ms) for row in rows)
        for rows in shape.layers
    )
    return replace(shape, layers=layers)


def shown_as_of(shape: Shape, instant: int, retention_ms: int | None) -> list[tuple[bytes, bytes]]:
    """The answer: one merge of all rows, as of an instant."""
    sources = [rows_to_columns(rows) for rows in shape.layers]
    lows, highs = np.zeros(len(sources), np.int64), np.array([len(rows) for rows in sources], np.int64)
    selection = merge_visible(sources, lows, highs, Visibility(2**64 - 1, instant, max_create_ts_ms=instant))
    retired_ms = retired_until_ms(retention_ms, instant)
    if retired_ms is not None:
        selection = hide_retired(sources, selection, retired_ms)
    folded, selection = fold_selection(list(sources), selection, CONCAT)
    return [(row.key, row.value) for row in columns_to_rows(take_rows(folded, selection.rows))]


@settings(max_examples=examples(30))
@given(
    shapes().map(timed),
    st.sampled_from([1, 60, 300, 1 << 20]),
    st.none() | st.integers(0, 200),
    st.lists(st.integers(-1, 420)),
)
def test_at_any_instant_the_intervals_are_the_table(
    shape: Shape, window_bytes: int, retention_ms: int | None, instants: list[int]
) -> None:
    stores = new_stores()
    cursors = [LayerCursor(layer_windows(stores, layer, window_bytes)) for layer in shape.store(stores)]
    windows = ((sources, selection.rows) for sources, selection in visible_windows(cursors, EVERYTHING, None))
    found = collected(valid_intervals(windows, ValiditySettings(0, retention_ms=retention_ms), CONCAT))
    edges = {edge for _, start, end in found for edge in (start, end)} - {MIN_MS, MAX_MS}
    for instant in {*instants, *edges, *(edge - 1 for edge in edges)}:
        valid = sorted((row.key, row.value) for row, start, end in found if start <= instant < end)
        assert valid == sorted(shown_as_of(shape, instant, retention_ms))
