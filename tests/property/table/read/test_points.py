"""Looking up keys shows what a full scan shows of them, and reads little."""

from __future__ import annotations

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark.format.row import Row, rows_to_columns
from slatespark.kernels.columns import Visibility
from slatespark.ranges import KeyRange
from slatespark.table.read.fetch import measure_slices, sample_indexes
from slatespark.table.read.planning.plan import Split, plan_points, plan_ranges
from tests.property.table.read.test_scan import everything, visibilities
from tests.support.effort import examples
from tests.unit.table.layers import Shape, new_stores, shapes
from tests.unit.table.read.test_points import looked_up
from tests.unit.table.read.test_scan import windowed

points = st.lists(st.binary(min_size=1, max_size=3), max_size=6)


@settings(max_examples=examples(75))
@given(shapes(), visibilities(), points, st.data(), st.sampled_from([1, 150, 1 << 20]))
def test_points_show_what_a_scan_shows_of_them(
    shape: Shape, visibility: Visibility, others: list[bytes], data: st.DataObject, buffer_bytes: int
) -> None:
    stores = new_stores()
    layers = shape.store(stores)
    stored = sorted({row.key for rows in shape.layers for row in rows})
    wanted = sorted({*others, *data.draw(st.lists(st.sampled_from(stored)) if stored else st.just([]))})
    found: list[Row] = []
    for split in plan_points(layers, wanted, target_bytes=data.draw(st.sampled_from([1, 8192, 1 << 20]))):
        assert all(split.keys.contains(key) for key in split.points or ())
        found.extend(looked_up(stores, split, visibility, buffer_bytes=buffer_bytes))
    assert found == [row for row in everything(shape, visibility) if row.key in wanted]


@settings(max_examples=examples(20))
@given(shapes(), visibilities(), st.data())
def test_rows_of_the_wal_are_looked_up_too(shape: Shape, visibility: Visibility, data: st.DataObject) -> None:
    stores = new_stores()
    layers = shape.store(stores)
    stored = sorted({row.key for rows in shape.layers for row in rows})
    wanted = tuple(sorted(set(data.draw(st.lists(st.sampled_from(stored), min_size=1)))))
    split = Split(KeyRange(), tuple(layers[1:]), points=wanted)
    found = looked_up(stores, split, visibility, tail=[rows_to_columns(shape.layers[0])])
    assert found == [row for row in everything(shape, visibility) if row.key in wanted]


@settings(max_examples=examples(50))
@given(shapes(), visibilities(), st.lists(st.binary(max_size=3), max_size=8, unique=True), st.data())
def test_several_ranges_show_what_a_scan_shows_of_them(
    shape: Shape, visibility: Visibility, edges: list[bytes], data: st.DataObject
) -> None:
    stores = new_stores()
    layers = shape.store(stores)
    bounds: list[bytes | None] = [*sorted(edges)]
    if len(bounds) % 2:
        bounds.append(None)
    ranges = [KeyRange(start or b"", end) for start, end in zip(bounds[::2], bounds[1::2], strict=True)]
    splits = plan_ranges(
        layers,
        ranges,
        target_bytes=data.draw(st.sampled_from([1, 200, 1 << 20])),
        sample=partial(sample_indexes, stores),
        measure=partial(measure_slices, stores),
    )
    found = [row for split in splits for row in windowed(stores, split.layers, 100, visibility)]
    assert found == [row for row in everything(shape, visibility) if any(keys.contains(row.key) for keys in ranges)]
