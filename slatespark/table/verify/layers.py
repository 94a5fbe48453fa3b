"""Layer order and sequence numbers: every version of a key in a newer layer is newer than all those in older layers.

Point reads stop at the first layer that has a key, scans take the highest sequence number; they agree only if this
holds. Only files whose keys overlap those of another layer are read. A buffer bounds the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeAlias

import numpy as np

from slatespark.kernels import gather_fields, merge_all, new_key_mask
from slatespark.kernels.columns import ROW_BITS, ROW_MASK
from slatespark.ranges import pair_overlapping
from slatespark.table.read.merge.cursor import Bound, LayerCursor, rows_before
from slatespark.table.read.planning.plan import FileSlice, Layer
from slatespark.table.stores import TableStores
from slatespark.table.tasks import TaskRunner
from slatespark.table.verify.findings import Findings, key_text
from slatespark.table.verify.parts import compare_parts

Pair: TypeAlias = tuple[FileSlice, FileSlice]  # newer, older


def overlapping_pairs(layers: Sequence[Layer]) -> frozenset[Pair]:
    """Return the pairs of slices of different layers, newer first, that share keys. Pure."""
    slices = [(part.keys, (rank, part)) for rank, layer in enumerate(layers) for part in layer.slices]
    pairs = (sorted(pair, key=itemgetter(0)) for pair in pair_overlapping(slices))
    return frozenset((newer, older) for (rank, newer), (below, older) in pairs if rank < below)


@dataclass(frozen=True, slots=True)
class Inversion:
    """A key with an older version in the newer layer."""

    key: bytes
    newer_layer: int
    older_layer: int
    seq: int  # found in the newer layer
    seq_below: int  # found in the older one, not below it


def check_layer_order(
    stores: TableStores,
    layers: Sequence[Layer],
    findings: Findings,
    runner: TaskRunner,
    object_url: str,
) -> None:
    """Note the first inversion of every pair of layers.

    Parameters
    ----------
    layers : newest first; without damaged files. The WAL needs no check: its visible rows are above `last_l0_seq`,
        those of files must not be
    runner : compares key ranges
    object_url : of the manifest
    """
    names = [layer.name for layer in layers]
    found: dict[tuple[int, int], Inversion] = {}
    with findings.noting(object_url, "layer order"):
        for inversions in compare_parts(stores, layers, _first_inversions, runner):
            found = inversions | found  # the first of each pair, wherever the parts begin
    for pair in sorted(found):
        findings.damage(object_url, "layer order", _describe(found[pair], names))


def _first_inversions(cursors: Sequence[LayerCursor]) -> dict[tuple[int, int], Inversion]:
    """Return the first inversion of every pair of layers."""
    found: dict[tuple[int, int], Inversion] = {}
    for inversion in find_inversions(cursors):
        found.setdefault((inversion.newer_layer, inversion.older_layer), inversion)
    return found


def _describe(inversion: Inversion, names: Sequence[str]) -> str:
    newer, older = names[inversion.newer_layer], names[inversion.older_layer]
    return (
        f"Key {key_text(inversion.key)} has seq {inversion.seq} in {newer}, layer {inversion.newer_layer}, but seq "
        f"{inversion.seq_below} in {older}, layer {inversion.older_layer}, which should be older."
    )


def find_inversions(cursors: Sequence[LayerCursor]) -> Iterator[Inversion]:
    """Yield every inversion between layers, given newest first."""
    while True:
        live = [(rank, cursor) for rank, cursor in enumerate(cursors) if cursor.load()]
        if not live:
            return
        cut = min((cursor.bound for _, cursor in live if cursor.bound is not None), default=None)
        lows, ends = rows_before([cursor for _, cursor in live], cut)
        if cut is not None and (lows == ends).all():
            yield from _drain_key(live, cut)
            continue
        highs: list[int] = ends.tolist()
        yield from _merged_inversions(live, highs)
        for (_, cursor), high in zip(live, highs, strict=True):
            cursor.low = high


def _merged_inversions(live: Sequence[tuple[int, LayerCursor]], highs: Sequence[int]) -> Iterator[Inversion]:
    """Merge windows by (key, seq descending): within a key, layers must be in order, with falling seqs."""
    taking = [
        (rank, cursor.rows, cursor.low, high)
        for (rank, cursor), high in zip(live, highs, strict=True)
        if cursor.rows is not None and cursor.low < high
    ]
    if len(taking) < 2:
        return
    sources = [rows for _, rows, _, _ in taking]
    lows, ends = (np.array([item[place] for item in taking], np.int64) for place in (2, 3))
    merged = merge_all(sources, lows, ends)
    layer = merged >> ROW_BITS
    seqs = gather_fields(sources, merged).seqs
    same_key = ~new_key_mask(sources, merged)[1:]
    # Equal seqs are in source order: the older layer comes second, and only the equal seq reveals the inversion.
    wrong = same_key & ((layer[1:] < layer[:-1]) | ((layer[1:] != layer[:-1]) & (seqs[1:] >= seqs[:-1])))
    for at in np.flatnonzero(wrong).tolist():
        (one, seq_one), (two, seq_two) = sorted((int(layer[place]), int(seqs[place])) for place in (at, at + 1))
        key = sources[one].key(int(merged[at if layer[at] == one else at + 1]) & ROW_MASK)
        yield Inversion(key, taking[one][0], taking[two][0], seq_one, seq_two)


def _drain_key(live: Sequence[tuple[int, LayerCursor]], cut: Bound) -> Iterator[Inversion]:
    """Consume one key whose versions exceed a window: its lowest seq so far bounds those of the next layer."""
    key = cut[0]
    lowest: tuple[int, int] | None = None  # seq, layer
    for rank, cursor in live:
        reached = lowest
        while cursor.load() and cursor.rows is not None and cursor.rows.key(cursor.low) == key:
            high = cursor.end_of(key)
            seqs = cursor.rows.seqs[cursor.low : high]
            if reached is not None and int(seqs[0]) >= reached[0]:
                yield Inversion(key, reached[1], rank, reached[0], int(seqs[0]))
                reached = None  # once per layer
            lowest = (int(seqs[-1]), rank) if lowest is None else min(lowest, (int(seqs[-1]), rank))
            cursor.low = high
