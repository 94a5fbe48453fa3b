"""The layers of a table over its keys, as rectangles in the unit square, for HTML, figures and text to draw. Pure.

The axis shows the keys in order. It is cut wherever a file of any layer starts or ends. Each piece is as wide as the
bytes stored in it, so a layer's area is roughly its share of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.display.key_names import KeyNames
from slatespark.table.inspection.describe import TableSummary
from slatespark.table.inspection.files import FileFacts, LayerFacts
from slatespark.texts import plural
from slatespark.units import bytes_to_text, ms_to_text

MAX_LANES: Final = 24
MIN_WIDTH: Final = 1 / 250  # of a box; narrower neighbours are drawn as one
MAX_BOXES: Final = 2000  # approximate, in all lanes; each is an element of a page
TICKS: Final = 5
EVEN_SHARE: Final = 0.08  # of the axis, divided evenly among all pieces so that small ones stay visible

_KEY_BYTES: Final = 8  # of a key, after the common prefix, that determine its distance from the next


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
class Tick:
    """A key on the axis."""

    at: float
    name: str


@dataclass(frozen=True, slots=True)
class LayerPicture:
    """Lanes from the newest layer down; `omitted` is the number of older layers not shown."""

    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]
    omitted: int


def picture_layers(summary: TableSummary) -> LayerPicture:
    """Return the picture of a table's layers; the WAL tail, whose keys are unknown, spans the whole axis."""
    shown = summary.layers[:MAX_LANES]
    axis = _LayerAxis.of(shown)
    names = KeyNames(summary.codec, _named_keys(axis, shown))
    lanes = [_lane(layer, axis, names) for layer in shown]
    wal = summary.facts.wal
    if wal.last_seq is not None:
        text = plural(wal.end - wal.start, "file")
        lanes.insert(0, Lane("wal", "WAL", text, (Box(0.0, 1.0, wal.end - wal.start, 0, f"WAL tail: {text}"),)))
    return LayerPicture(tuple(lanes), axis.ticks(names), len(summary.layers) - len(shown))


def _lane(layer: LayerFacts, axis: _LayerAxis, names: KeyNames) -> Lane:
    boxes = tuple(_box(group, axis, names) for group in _groups(layer.parts, axis))
    text = f"{plural(layer.files, 'file')}, {bytes_to_text(layer.stored_bytes)}"
    return Lane("l0" if layer.name == "L0" else "run", layer.name, text, boxes)


def _groups(parts: Sequence[FileFacts], axis: _LayerAxis) -> Iterable[list[FileFacts]]:
    """Yield groups of adjacent files, each wide enough to be visible and few enough to be drawn."""
    group: list[FileFacts] = []
    for part in parts:
        if group and axis.right_of(part) - axis.left_of(group[0]) > axis.min_width:
            yield group
            group = []
        group.append(part)
    if group:
        yield group


def _box(group: Sequence[FileFacts], axis: _LayerAxis, names: KeyNames) -> Box:
    stored_bytes = sum(part.stored_bytes for part in group)
    what = group[0].id if len(group) == 1 else plural(len(group), "file")
    title = "\n".join(
        [
            f"{group[0].layer}: {what}, {bytes_to_text(stored_bytes)}",
            names.span(group[0].start, group[-1].end),
            f"created {ms_to_text(max(part.created_ms for part in group))}",
        ]
    )
    return Box(axis.left_of(group[0]), axis.right_of(group[-1]), len(group), stored_bytes, title)


def _named_keys(axis: _LayerAxis, layers: Iterable[LayerFacts]) -> Iterable[bytes | None]:
    """Yield the keys whose names are shown, in boxes and ticks."""
    for layer in layers:
        for group in _groups(layer.parts, axis):
            yield from (group[0].start, group[-1].end)
    for at in axis.tick_edges():
        yield axis.edges[at]


@dataclass(frozen=True, slots=True, eq=False)
class _LayerAxis:
    """The positions of keys between 0 and 1.

    Attributes
    ----------
    edges : keys at which a file starts or ends, ascending; None, the open end, is last
    positions : positions of the edges, ascending from 0 to 1
    index : edge -> its position in `edges`
    min_width : the least width of a box
    """

    edges: tuple[bytes | None, ...]
    positions: NDArray[np.float64]
    index: dict[bytes | None, int]
    min_width: float

    @classmethod
    def of(cls, layers: Sequence[LayerFacts]) -> _LayerAxis:
        """Return the axis for the files of these layers."""
        parts = [part for layer in layers for part in layer.parts]
        keys: set[bytes] = {part.start for part in parts} | {part.end for part in parts if part.end is not None}
        edges: list[bytes | None] = [*sorted(keys)]
        if any(part.end is None for part in parts):
            edges.append(None)
        index = {edge: number for number, edge in enumerate(edges)}
        min_width = max(MIN_WIDTH, 2 * len(layers) / MAX_BOXES)  # two neighbours are wider than it together
        return cls(tuple(edges), _positions(layers, edges, index), index, min_width)

    def left_of(self, part: FileFacts) -> float:
        """Return where a file starts."""
        return float(self.positions[self.index[part.start]])

    def right_of(self, part: FileFacts) -> float:
        """Return where a file ends."""
        return float(self.positions[self.index[part.end]])

    def tick_edges(self) -> list[int]:
        """Return the indexes of the edges with a tick: the first, the last, and those nearest to even spacing."""
        if not self.edges:
            return []
        wanted = np.linspace(0, 1, TICKS)
        return sorted({int(np.abs(self.positions - position).argmin()) for position in wanted})

    def ticks(self, names: KeyNames) -> tuple[Tick, ...]:
        """Return the key labels below the axis."""
        found = []
        for at in self.tick_edges():
            edge = self.edges[at]
            name = names.edge(edge) if at else names.first(edge or b"")
            found.append(Tick(float(self.positions[at]), name))
        return tuple(found)


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


def key_distances(edges: Sequence[bytes | None]) -> NDArray[np.float64]:
    """Return the distances between adjacent keys as shares of 1, from the bytes after the common prefix as numbers."""
    if len(edges) < 3:
        return np.ones(len(edges) - 1)
    bounds = [(b"\xff" * _KEY_BYTES) if edge is None else edge for edge in edges]
    pairs = enumerate(zip(bounds[0], bounds[-1], strict=False))
    common = next((at for at, (low, high) in pairs if low != high), min(len(bounds[0]), len(bounds[-1])))
    numbers = [int.from_bytes(key[common : common + _KEY_BYTES].ljust(_KEY_BYTES, b"\0")) for key in bounds]
    steps = np.maximum(np.diff(np.array(numbers, np.float64)), 0.0)
    total = steps.sum()
    return steps / total if total > 0 else np.full(len(steps), 1 / len(steps))
