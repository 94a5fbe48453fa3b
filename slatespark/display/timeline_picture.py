"""The timeline of a table's keys as rectangles in the unit square. Pure.

There is a lane for each version that added files, newest on top. A lane is solid where rows of its version are visible
and faint where they are overshadowed. The interval that a version replaced is marked, even where the version added no
row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slatespark.display.key_axis import KeyAxis, Tick, key_distances, sorted_edges
from slatespark.display.key_names import KeyNames
from slatespark.table.inspection.timeline import KeyTimeline
from slatespark.table.inspection.timeline_intervals import FileVersion, Replacement, TimelineInterval
from slatespark.texts import plural

MAX_LANES: Final = 24
EVEN_SHARE: Final = 0.8  # of the axis, divided evenly among all intervals; the rest by the distances of their keys


@dataclass(frozen=True, slots=True)
class LaneSpan:
    """Keys from `left` to `right` on the axis [0, 1] where files of a lane are visible, or overshadowed."""

    left: float
    right: float
    is_visible: bool


@dataclass(frozen=True, slots=True)
class Mark:
    """An interval that the version of a lane replaced."""

    left: float
    right: float


@dataclass(frozen=True, slots=True)
class TimelineLane:
    """The keys at which one version added rows, and the intervals that it replaced."""

    name: str
    text: str
    spans: tuple[LaneSpan, ...]
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class TimelinePicture:
    """Lanes from the newest version down; `omitted` is the number of older versions not shown."""

    lanes: tuple[TimelineLane, ...]
    ticks: tuple[Tick, ...]
    omitted: int


_LaneKey = tuple[int, str]  # version that added the files, 0 if unknown; their layer, if only that is known


def picture_timeline(timeline: KeyTimeline) -> TimelinePicture:
    """Return the picture of a timeline."""
    axis = _axis(timeline.intervals)
    files: defaultdict[_LaneKey, list[tuple[TimelineInterval, FileVersion]]] = defaultdict(list)
    for interval in timeline.intervals:
        for file in interval.files:
            files[_lane_key(file)].append((interval, file))
    replaced: defaultdict[_LaneKey, list[Replacement]] = defaultdict(list)
    for item in timeline.replacements if timeline.intervals else ():
        replaced[item.version, ""].append(item)
    keys = sorted({*files, *replaced}, reverse=True)
    lanes = tuple(_lane(key, files[key], replaced[key], axis) for key in keys[:MAX_LANES])
    return TimelinePicture(lanes, axis.ticks(KeyNames(timeline.codec, axis.tick_edges())), len(keys) - len(lanes))


def _lane_key(file: FileVersion) -> _LaneKey:
    return (0, file.layer or "") if file.added is None else (file.added, "")


def _lane(
    key: _LaneKey,
    files: Sequence[tuple[TimelineInterval, FileVersion]],
    replaced: Sequence[Replacement],
    axis: KeyAxis,
) -> TimelineLane:
    version, layer = key
    count = len({file.id for _, file in files})
    text = plural(count, "file") if count else "no rows"
    if replaced:
        text = f"{replaced[0].operation}, {text}"
    spans: list[LaneSpan] = []
    for interval, is_visible in _by_interval(files):
        left, right = axis.position(interval.start), axis.position(interval.end)
        if spans and spans[-1].right == left and spans[-1].is_visible == is_visible:
            left = spans.pop().left
        spans.append(LaneSpan(left, right, is_visible))
    marks = tuple(Mark(axis.position(item.start), axis.position(item.end)) for item in replaced)
    return TimelineLane(f"version {version}" if version else layer or "unknown", text, tuple(spans), marks)


def _by_interval(files: Iterable[tuple[TimelineInterval, FileVersion]]) -> list[tuple[TimelineInterval, bool]]:
    """Return the intervals of a lane in order, and for each whether any of its files is visible."""
    found: dict[bytes, tuple[TimelineInterval, bool]] = {}
    for interval, file in files:
        known = found.get(interval.start)
        found[interval.start] = interval, file.is_visible or (known is not None and known[1])
    return [found[start] for start in sorted(found)]


def _axis(intervals: Sequence[TimelineInterval]) -> KeyAxis:
    edges = sorted_edges((item.start, item.end) for item in intervals)
    pieces = len(edges) - 1
    if pieces < 1:
        return KeyAxis(dict.fromkeys(edges, 0.0))
    distances = key_distances(edges)
    widths = EVEN_SHARE / pieces + (1 - EVEN_SHARE) * distances / distances.sum()
    return KeyAxis(dict(zip(edges, [0.0, *np.cumsum(widths).round(9).tolist()], strict=True)))
