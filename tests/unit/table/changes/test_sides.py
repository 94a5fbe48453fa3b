"""Which keys are looked up, and which are picked from all rows around them. That both show the same: `check_feed`."""

from __future__ import annotations

import pytest

from slatespark.format.row import Row
from slatespark.ranges import KeyRange
from slatespark.table.changes.sides import are_dense
from slatespark.table.read.planning.plan import Layer, cut_layers
from tests.unit.table.layers import new_stores, put_file

ROWS = 20_000


def key(number: int) -> bytes:
    return b"%08d" % number


@pytest.mark.parametrize(
    ("keys", "is_dense"),
    [
        pytest.param(range(ROWS), True, id="all"),
        pytest.param(range(0, ROWS, 2), True, id="every other one"),
        pytest.param(range(5000, 6000), True, id="all of a part"),
        pytest.param(range(0, ROWS, 20), False, id="a few of each block"),
        pytest.param(range(100), False, id="so few that nothing is asked"),
        pytest.param([], False, id="none"),
    ],
)
def test_keys_that_each_block_has_many_of(keys: range, is_dense: bool) -> None:
    stores = new_stores()
    layer = Layer("run", (put_file(stores, [Row(key(number), 1, value=b"v" * 40) for number in range(ROWS)]),))
    assert are_dense(stores, [layer], [key(number) for number in keys]) is is_dense


def test_each_layer_has_blocks_to_read() -> None:
    stores = new_stores()
    rows = [Row(key(number), 1, value=b"v" * 40) for number in range(ROWS)]
    layers = [Layer(f"{number}", (put_file(stores, rows),)) for number in range(4)]
    every_other = [key(number) for number in range(0, ROWS, 2)]
    assert are_dense(stores, layers[:1], every_other)
    assert not are_dense(stores, layers, every_other)
    below = [*layers[:1], *cut_layers(layers[1:], KeyRange(key(ROWS)))]
    assert are_dense(stores, below, every_other)
