"""Lookups between sequence numbers and times, in the sequence tracker of the newest version.

The tracker has at most one point a minute, and at most 8192: when full, every second point is removed. A point records
that a commit, or a client's flush, had reached a sequence number at a second of the wall clock. See
docs/reference/format/sequence-tracker.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from slatespark.format.sequence_tracker import SequenceTracker
from slatespark.shown import Shown
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.stores import TableStores
from slatespark.units import ms_to_s, s_to_ms


@dataclass(frozen=True, slots=True, repr=False)
class SequencePoint(Shown):
    """A point of the sequence tracker.

    Attributes
    ----------
    seq : a sequence number
    time_ms : when it was reached, in whole seconds
    """

    seq: int
    time_ms: int


@dataclass(frozen=True, slots=True, repr=False)
class SequenceMatch(Shown):
    """The point that a lookup found.

    Attributes
    ----------
    seq, time_ms : the number and the time of the point
    rounded : whether it is not exactly the requested point
    """

    seq: int
    time_ms: int
    rounded: bool


def list_sequences(stores: TableStores) -> tuple[SequencePoint, ...]:
    """Return all points, oldest first."""
    return tuple(SequencePoint(seq, s_to_ms(seconds)) for seq, seconds in _fetch_tracker(stores).points)


def find_seq_point(stores: TableStores, seq: int, *, round_up: bool) -> SequenceMatch | None:
    """Return the point of a sequence number, or the nearest one below it (above with `round_up`); None without any."""
    return _match(_fetch_tracker(stores).find_by_seq(seq, round_up=round_up), seq=seq)


def find_time_point(stores: TableStores, time_ms: int, *, round_up: bool) -> SequenceMatch | None:
    """Return the point of an instant, or the nearest one before it (after with `round_up`); None without any."""
    seconds = -ms_to_s(-time_ms) if round_up else ms_to_s(time_ms)
    return _match(_fetch_tracker(stores).find_by_seconds(seconds, round_up=round_up), time_ms=time_ms)


def _match(
    point: tuple[int, int] | None, *, seq: int | None = None, time_ms: int | None = None
) -> SequenceMatch | None:
    if point is None:
        return None
    found_seq, found_ms = point[0], s_to_ms(point[1])
    return SequenceMatch(found_seq, found_ms, rounded=seq not in (None, found_seq) or time_ms not in (None, found_ms))


def _fetch_tracker(stores: TableStores) -> SequenceTracker:
    return fetch_latest_manifest(stores)[1].sequence_tracker
