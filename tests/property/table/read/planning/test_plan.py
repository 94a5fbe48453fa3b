"""Layers cut to many ranges at once are what cutting them to each range gives."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark.ranges import KeyRange
from slatespark.table.read.planning.plan import cut_layers, partition_layers
from tests.support.effort import examples
from tests.unit.table.layers import Shape, new_stores, shapes


@settings(max_examples=examples(20))
@given(shapes(), st.sets(st.binary(min_size=1, max_size=3), max_size=8))
def test_cutting_apart_is_cutting_to_each_range(shape: Shape, borders: set[bytes]) -> None:
    layers = shape.store(new_stores())
    edges = [b"", *sorted(borders), None]
    ranges = [KeyRange(start or b"", end) for start, end in itertools.pairwise(edges)]
    assert partition_layers(layers, ranges) == [cut_layers(layers, keys) for keys in ranges]
