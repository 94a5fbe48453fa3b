"""The layers of a table over its keys, as rectangles in the unit square, for HTML, figures and text to draw. Pure.

The axis shows the keys in order. It is cut wherever a file of any layer starts or ends. Each piece is as wide as the
bytes stored in it, so a layer's area is roughly its share of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.display.key_axis import KeyAxis, Tick, key_distances, sorted_edges
from slatespark.display.key_names import KeyNames
from slatespark.table.inspection.describe import TableSummary
from slatespark.table.inspection.files import FileFacts, LayerFacts
from slatespark.texts import plural
from slatespark.units import bytes_to_text, ms_to_text

MAX_LANES: Final = 24
MIN_WIDTH: Final = 1 / 250  # of a box; narrower neighbours are drawn as one
MAX_BOXES: Final = 2000  # approximate, in all lanes; each is an element of a page
EVEN_SHARE: Final = 0.08  # of the axis, divided evenly among all pieces so that small ones stay visible


@dataclass(frozen=True, slots=True)
class Box:
    """One file of a layer, or several narrow adjacent ones, from `left` to `right` on the axis [0, 1]."""

    left: float
    right: float
    files: int
    stored_bytes: int
    title: str


@dataclass(frozen=True, slots=True)
class Lane:
    """One layer; `kind` is `wal`, `l0` or `run`."""

    kind: str
    name: str
    text: str
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class LayerPicture:
    """Lanes from the newest layer down; `omitted` is the number of older layers not shown."""

    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]
    omitted: int


def picture_layers(summary: TableSummary) -> LayerPicture:
    """Return the picture of a table's layers; the WAL tail, whose keys are unknown, spans the whole axis."""
    shown = summary.layers[:MAX_LANES]
    axis = _axis(shown)
    min_width = max(MIN_WIDTH, 2 * len(shown) / MAX_BOXES)  # two neighbours are wider than it together
    groups = [list(_groups(layer.parts, axis, min_width)) for layer in shown]
    named = (key for lane in groups for group in lane for key in (group[0].start, group[-1].end))
    names = KeyNames(summary.codec, [*named, *axis.tick_edges()])
    lanes = [_lane(layer, lane, axis, names) for layer, lane in zip(shown, groups, strict=True)]
    wal = summary.facts.wal
    if wal.last_seq is not None:
        text = plural(wal.end - wal.start, "file")
        lanes.insert(0, Lane("wal", "WAL", text, (Box(0.0, 1.0, wal.end - wal.start, 0, f"WAL tail: {text}"),)))
    return LayerPicture(tuple(lanes), axis.ticks(names), len(summary.layers) - len(shown))


def _lane(layer: LayerFacts, groups: Iterable[Sequence[FileFacts]], axis: KeyAxis, names: KeyNames) -> Lane:
    boxes = tuple(_box(group, axis, names) for group in groups)
    text = f"{plural(layer.files, 'file')}, {bytes_to_text(layer.stored_bytes)}"
    return Lane("l0" if layer.name == "L0" else "run", layer.name, text, boxes)


def _groups(parts: Sequence[FileFacts], axis: KeyAxis, min_width: float) -> Iterator[list[FileFacts]]:
    """Yield groups of adjacent files, each wide enough to be visible and few enough to be drawn."""
    group: list[FileFacts] = []
    for part in parts:
        if group and axis.position(part.end) - axis.position(group[0].start) > min_width:
            yield group
            group = []
        group.append(part)
    if group:
        yield group


def _box(group: Sequence[FileFacts], axis: KeyAxis, names: KeyNames) -> Box:
    stored_bytes = sum(part.stored_bytes for part in group)
    what = group[0].id if len(group) == 1 else plural(len(group), "file")
    title = "\n".join(
        [
            f"{group[0].layer}: {what}, {bytes_to_text(stored_bytes)}",
            names.span(group[0].start, group[-1].end),
            f"created {ms_to_text(max(part.created_ms for part in group))}",
        ]
    )
    left, right = axis.position(group[0].start), axis.position(group[-1].end)
    return Box(left, right, len(group), stored_bytes, title)


def _axis(layers: Sequence[LayerFacts]) -> KeyAxis:
    """Return the axis for the files of these layers."""
    edges = sorted_edges((part.start, part.end) for layer in layers for part in layer.parts)
    index = {edge: number for number, edge in enumerate(edges)}
    return KeyAxis(dict(zip(edges, _positions(layers, edges, index).tolist(), strict=True)))


def _positions(
    layers: Sequence[LayerFacts], edges: Sequence[bytes | None], index: Mapping[bytes | None, int]
) -> NDArray[np.float64]:
    """Return the positions of the edges.

    Large layers are placed first, and smaller layers are scaled to them. So a gap between two files of a large run
    stays small even where a small file of another layer spans it.
    """
    pieces = len(edges) - 1
    if pieces < 1:
        return np.zeros(len(edges))
    weights = np.zeros(pieces)
    for layer in sorted(layers, key=lambda item: -item.stored_bytes):
        for part in layer.parts:
            start, end = index[part.start], index[part.end]
            covered = weights[start:end]
            known = covered.sum()
            covered += part.stored_bytes * (covered / known if known > 0 else key_distances(edges[start : end + 1]))
    total = weights.sum()
    shares = weights / total if total > 0 else np.full(pieces, 1 / pieces)
    reach = np.concatenate([[0.0], np.cumsum((1 - EVEN_SHARE) * shares + EVEN_SHARE / pieces)])
    positions: NDArray[np.float64] = reach / reach[-1]
    return positions
