"""Which parts of files two versions share, and which only one of them shows. Pure.

The rows of a key are the same in both where both show the same parts of the same files for it: files never change. So
only keys with a row in a part that is not shared can have changed, expiry aside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slatespark.format.ulid import Ulid
from slatespark.ranges import KeyRange, complement_ranges, merge_ranges, parts_within
from slatespark.table.read.planning.plan import FileSlice, Layer


@dataclass(frozen=True, slots=True)
class LayerDifferences:
    """The layers of two versions, told apart.

    Attributes
    ----------
    old_only, new_only : what only one of them shows; newest first
    shared : what both show, in the layers of the new one
    """

    old_only: tuple[Layer, ...]
    new_only: tuple[Layer, ...]
    shared: tuple[Layer, ...]


def compare_layers(old: Sequence[Layer], new: Sequence[Layer]) -> LayerDifferences:
    """Return which parts of files two versions share, wherever in their layers they are."""
    shown_by_old, shown_by_new = _shown(old), _shown(new)
    return LayerDifferences(
        old_only=_cut(old, _outside(shown_by_new)),
        new_only=_cut(new, _outside(shown_by_old)),
        shared=_cut(new, shown_by_old, elsewhere=()),
    )


def _shown(layers: Sequence[Layer]) -> dict[Ulid, tuple[KeyRange, ...]]:
    """Return the keys that are shown of each file."""
    found: dict[Ulid, list[KeyRange]] = {}
    for layer in layers:
        for part in layer.slices:
            found.setdefault(part.file.id, []).append(part.keys)
    return {sst_id: merge_ranges(ranges) for sst_id, ranges in found.items()}


def _outside(shown: Mapping[Ulid, Sequence[KeyRange]]) -> dict[Ulid, tuple[KeyRange, ...]]:
    return {sst_id: complement_ranges(ranges) for sst_id, ranges in shown.items()}


def _cut(
    layers: Sequence[Layer],
    wanted: Mapping[Ulid, Sequence[KeyRange]],
    *,
    elsewhere: Sequence[KeyRange] = (KeyRange(),),
) -> tuple[Layer, ...]:
    """Return layers with only the wanted keys of each file, and of files that are not named `elsewhere`."""
    found = []
    for layer in layers:
        parts = tuple(
            FileSlice(part.file, keys)
            for part in layer.slices
            for keys in parts_within(wanted.get(part.file.id, elsewhere), part.keys)
        )
        if parts:
            found.append(Layer(layer.name, parts))
    return tuple(found)
