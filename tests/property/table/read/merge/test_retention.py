"""Rows past a table's retention are hidden wherever rows are read, and never uncover older versions."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark.format.row import Row, RowKind
from slatespark.kernels.columns import Visibility
from slatespark.table.read.merge.cursor import LayerCursor, layer_windows
from slatespark.table.read.planning.plan import plan_points
from slatespark.table.read.points import key_cursors
from slatespark.table.read.scan import visible_windows
from tests.property.table.read.test_scan import everything, visibilities
from tests.support.effort import examples
from tests.unit.table.layers import Shape, new_stores, shapes
from tests.unit.table.read.merge.test_retention import shown
from tests.unit.table.read.test_scan import CONCAT


def kept(rows: list[Row], retired_ms: int) -> list[Row]:
    """The answer: of what a read shows, what is young enough."""
    return [
        row for row in rows if row.kind is RowKind.DELETE or row.create_ts_ms is None or row.create_ts_ms > retired_ms
    ]


def folding(visibility: Visibility) -> Visibility:
    return replace(visibility, all_versions=False)  # a read of all versions retires nothing


@settings(max_examples=examples(100))
@given(shapes(), visibilities().map(folding), st.integers(-2, 301), st.sampled_from([1, 60, 300, 1 << 20]))
def test_windows_hide_what_is_retired(shape: Shape, visibility: Visibility, retired_ms: int, window_bytes: int) -> None:
    stores = new_stores()
    cursors = [LayerCursor(layer_windows(stores, layer, window_bytes)) for layer in shape.store(stores)]
    found = shown(visible_windows(cursors, visibility, CONCAT, retired_ms=retired_ms))
    assert found == kept(everything(shape, visibility), retired_ms)


@settings(max_examples=examples(30))
@given(shapes(), visibilities().map(folding), st.integers(0, 301), st.sampled_from([1, 150, 1 << 20]))
def test_looked_up_rows_retire_too(shape: Shape, visibility: Visibility, retired_ms: int, buffer_bytes: int) -> None:
    stores = new_stores()
    layers = shape.store(stores)
    keys = sorted({row.key for rows in shape.layers for row in rows})
    found: list[Row] = []
    for split in plan_points(layers, keys, target_bytes=1 << 20):
        for cursors in key_cursors(
            stores, split.layers, split.points or (), (), buffer_bytes=buffer_bytes, window_bytes=100
        ):
            found += shown(visible_windows(cursors, visibility, CONCAT, retired_ms=retired_ms))
    assert found == kept(everything(shape, visibility), retired_ms)
