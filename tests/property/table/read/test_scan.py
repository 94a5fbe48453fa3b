"""The windowed merge shows what a merge of everything at once shows, whatever the windows, blocks and files."""

from __future__ import annotations

from functools import partial

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark.format.row import Row, rows_to_columns
from slatespark.kernels import merge_visible, take_rows
from slatespark.kernels.columns import Visibility
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.table.read.fetch import sample_indexes
from slatespark.table.read.merge.cursor import (
    LayerCursor,
    layer_windows,
    memory_windows,
)
from slatespark.table.read.merge.fold_groups import fold_selection
from slatespark.table.read.planning.plan import cut_layers, plan_splits
from slatespark.table.read.scan import visible_windows
from tests.support.effort import examples
from tests.support.row_values import columns_to_rows
from tests.unit.table.layers import Shape, new_stores, shapes
from tests.unit.table.read.test_scan import CONCAT, windowed


def visibilities() -> st.SearchStrategy[Visibility]:
    return st.builds(
        Visibility,
        max_seq=st.sampled_from([0, 100, 200, 2**64 - 1]),
        now_ms=st.sampled_from([0, 50, 51, 1000]),
        include_expired=st.booleans(),
        include_deleted=st.booleans(),
        all_versions=st.booleans(),
        max_create_ts_ms=st.sampled_from([None, None, 0, 150]),
    )


def everything(shape: Shape, visibility: Visibility, keys: KeyRange = ALL_KEYS) -> list[Row]:
    """The answer: one merge of all rows."""
    sources = [rows_to_columns([row for row in rows if keys.contains(row.key)]) for rows in shape.layers]
    lows, highs = np.zeros(len(sources), np.int64), np.array([len(rows) for rows in sources], np.int64)
    folded, selection = fold_selection(list(sources), merge_visible(sources, lows, highs, visibility), CONCAT)
    return columns_to_rows(take_rows(folded, selection.rows))


@settings(max_examples=examples(75))
@given(shapes(), visibilities(), st.sampled_from([1, 60, 300, 1 << 20]))
def test_windows_show_what_one_merge_shows(shape: Shape, visibility: Visibility, window_bytes: int) -> None:
    stores = new_stores()
    assert windowed(stores, shape.store(stores), window_bytes, visibility) == everything(shape, visibility)


@settings(max_examples=examples(20))
@given(shapes(), visibilities(), st.sampled_from([1, 200]))
def test_rows_in_memory_are_a_layer_like_any_other(shape: Shape, visibility: Visibility, window_bytes: int) -> None:
    stores = new_stores()
    layers = shape.store(stores)
    cursors = [
        LayerCursor(memory_windows(rows_to_columns(shape.layers[0]))),
        *(LayerCursor(layer_windows(stores, layer, window_bytes)) for layer in layers[1:]),
    ]
    found: list[Row] = []
    for sources, selection in visible_windows(cursors, visibility, CONCAT):
        found.extend(columns_to_rows(take_rows(sources, selection.rows)))
    assert found == everything(shape, visibility)


@settings(max_examples=examples(30))
@given(shapes(), visibilities(), st.tuples(st.binary(max_size=2), st.none() | st.binary(max_size=3)))
def test_a_key_range_cuts_layers(shape: Shape, visibility: Visibility, bounds: tuple[bytes, bytes | None]) -> None:
    stores = new_stores()
    keys = KeyRange(*bounds)
    found = windowed(stores, cut_layers(shape.store(stores), keys), 100, visibility)
    assert found == everything(shape, visibility, keys)


@settings(max_examples=examples(30))
@given(shapes(), visibilities(), st.integers(1, 2000))
def test_splits_together_show_every_row_once(shape: Shape, visibility: Visibility, target_bytes: int) -> None:
    stores = new_stores()
    splits = plan_splits(
        shape.store(stores),
        ALL_KEYS,
        target_bytes=target_bytes,
        sample=partial(sample_indexes, stores),
    )
    edges = [split.keys for split in splits]
    assert (edges[0].start, edges[-1].end) == (b"", None)
    assert [keys.end for keys in edges[:-1]] == [keys.start for keys in edges[1:]]
    found = [row for split in splits for row in windowed(stores, split.layers, 100, visibility)]
    assert found == everything(shape, visibility)
