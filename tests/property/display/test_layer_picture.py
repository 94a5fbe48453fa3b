"""Pictures of layers as text: `tests/data/display/layers.txt`; and what holds for any picture."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slatespark.display.layer_picture import MAX_LANES, picture_layers
from slatespark.table.inspection.files import LayerFacts
from tests.unit.display.summaries import layer, summary


@st.composite
def layer_lists(draw: st.DrawFn) -> list[LayerFacts]:
    layers = []
    for number in range(draw(st.integers(1, MAX_LANES + 3))):
        keys = sorted(draw(st.sets(st.binary(min_size=1, max_size=3), min_size=2, max_size=12)))
        parts = [(start, end, draw(st.integers(0, 1000))) for start, end in zip(keys[::2], keys[1::2], strict=False)]
        layers.append(layer(number, f"run {number}", parts))
    return layers


@given(layer_lists())
def test_boxes_lie_on_the_axis_in_key_order(layers: list[LayerFacts]) -> None:
    picture = picture_layers(summary(layers))
    assert len(picture.lanes) + picture.omitted == len(layers)
    for lane, facts in zip(picture.lanes, layers, strict=False):
        places = [place for box in lane.boxes for place in (box.left, box.right)]
        assert places == sorted(places)
        assert places[0] >= 0
        assert places[-1] <= 1
        assert sum(box.files for box in lane.boxes) == facts.files
        assert sum(box.stored_bytes for box in lane.boxes) == facts.stored_bytes
    ticks = [tick.at for tick in picture.ticks]
    assert (ticks[0], ticks[-1]) == (0.0, 1.0)
    assert ticks == sorted(ticks)
