"""Layers that are compared in parts: key ranges, several at a time. No key lies in two of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.table.read.fetch import sample_indexes
from slatespark.table.read.merge.cursor import LayerCursor, layer_windows, window_size
from slatespark.table.read.planning.plan import Layer, cut_slices, plan_splits
from slatespark.table.stores import TableStores
from slatespark.table.tasks import TaskRunner

BUFFER_BYTES: Final = 64 << 20  # memory for stored bytes, of all layers and parts that are compared at a time
PART_BYTES: Final = 16 << 20  # at least: a smaller part is not worth a thread

Outcome = TypeVar("Outcome")


def compare_parts(
    stores: TableStores,
    layers: Sequence[Layer],
    compare: Callable[[Sequence[LayerCursor]], Outcome],
    runner: TaskRunner,
) -> Iterable[Outcome]:
    """Yield what a comparison makes of each part of some layers, in key order.

    Parameters
    ----------
    layers : newest first
    compare : takes a cursor for each layer, in their order; one has no rows where a layer has none in the part
    runner : calls it

    Raises
    ------
    CorruptDataError, SnapshotExpiredError
    """
    files = {part.file.id: part.file for layer in layers for part in layer.slices}
    stored_bytes = sum(file.data_bytes for file in files.values())
    parallelism = max(1, min(runner.parallelism, stored_bytes // PART_BYTES))
    sample = partial(sample_indexes, stores)
    splits = plan_splits(layers, ALL_KEYS, target_bytes=max(1, -(-stored_bytes // parallelism)), sample=sample)
    window_bytes = window_size(BUFFER_BYTES // parallelism, max(1, len(layers)))

    def run(keys: KeyRange) -> Outcome:
        parts = [Layer(layer.name, cut_slices(layer, keys)) for layer in layers]
        return compare([LayerCursor(layer_windows(stores, part, window_bytes)) for part in parts])

    return runner(run, [split.keys for split in splits])
