"""Plans that take parts of layers become jobs that take them whole."""

from __future__ import annotations

import pytest

from slatespark.format.compactions import Compactions, TieredSpec
from slatespark.format.manifest import Manifest
from slatespark.ranges import KeyRange
from slatespark.table.compaction.beside_client import whole_spec
from slatespark.table.compaction.plan import CompactionPlan, SourceLayer
from slatespark.table.read.planning.plan import Layer, plan_layers
from tests.unit.table.cooperation.lists import manifest, view_ids

TREES = manifest(l0=4, runs=(9, 7, 5, 2))


def plan(found: Manifest, *picked: int) -> CompactionPlan:
    """A plan of some of the layers, numbered from the newest on."""
    shown = [((view,), None) for view in found.l0] + [(run.views, run.id) for run in found.compacted]
    layers = [
        SourceLayer(Layer(layer.name, layer.slices), views, run_id)
        for layer, (views, run_id) in zip(plan_layers(found, {}), shown, strict=True)
    ]
    return CompactionPlan("interval", 1, tuple(layers[at] for at in picked), (KeyRange(b"a", b"b"),), 0, False)


@pytest.mark.parametrize(
    ("picked", "spec"),
    [
        ((0, 1, 2, 3), TieredSpec(view_ids(1, 2, 3, 4), (), 10)),
        ((1,), TieredSpec(view_ids(2, 3, 4), (), 10)),
        ((2, 5), TieredSpec(view_ids(3, 4), (9, 7), 7)),
        ((5,), TieredSpec((), (7,), 7)),
        ((4, 6), TieredSpec((), (9, 7, 5), 5)),
        ((0, 7), TieredSpec(view_ids(1, 2, 3, 4), (9, 7, 5, 2), 2)),
    ],
)
def test_the_slice_around_the_picked_layers(picked: tuple[int, ...], spec: TieredSpec) -> None:
    assert whole_spec(plan(TREES, *picked), TREES, Compactions(0)) == spec
