"""Keys along the axis of a picture, and their names below it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.display.key_names import KeyNames

TICKS: Final = 5

_KEY_BYTES: Final = 8  # of a key, after the common prefix, that determine its distance from the next


@dataclass(frozen=True, slots=True)
class Tick:
    """A name on the axis [0, 1]."""

    at: float
    name: str


@dataclass(frozen=True, slots=True)
class KeyAxis:
    """The positions of keys between 0 and 1, ascending.

    Attributes
    ----------
    positions : by key; of None it is the end of an open range
    """

    positions: Mapping[bytes | None, float]

    def position(self, edge: bytes | None) -> float:
        """Return the position of a bound; a bound outside the axis is placed at the nearest end."""
        return self.positions.get(edge, 0.0 if edge == b"" else 1.0)

    def tick_edges(self) -> list[bytes | None]:
        """Return the edges with a tick: the first, the last, and those nearest to even spacing."""
        edges, positions = list(self.positions), np.array([*self.positions.values()])
        wanted = np.linspace(0, 1, TICKS) if edges else ()
        return [edges[at] for at in sorted({int(np.abs(positions - position).argmin()) for position in wanted})]

    def ticks(self, names: KeyNames) -> tuple[Tick, ...]:
        """Return the key labels below the axis; the first one is of a start, the others of an end."""
        first = next(iter(self.positions), None)
        return tuple(
            Tick(self.positions[edge], names.edge(edge) if edge is None or edge != first else names.first(edge))
            for edge in self.tick_edges()
        )


def sorted_edges(ranges: Iterable[tuple[bytes, bytes | None]]) -> list[bytes | None]:
    """Return where ranges of keys start or end, ascending; None, the end of an open range, is the last."""
    bounds = {bound for pair in ranges for bound in pair}
    known: list[bytes | None] = [*sorted(bound for bound in bounds if bound is not None)]
    return [*known, None] if None in bounds else known


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
