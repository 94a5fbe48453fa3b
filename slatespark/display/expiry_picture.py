"""How much of a table expires when, as bars on a time axis for figures to draw. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from slatespark.display.key_axis import Tick
from slatespark.table.retention.expiry_plan import PERIODS
from slatespark.table.retention.expiry_tally import ExpiryPart, ExpiryReport
from slatespark.texts import plural
from slatespark.units import bytes_to_text, ms_to_text

TICKS: Final = 5
MAX_BARS: Final = 500  # for periods; if there are more periods, neighbours share a bar
SIDE_WIDTH: Final = 0.05  # of the bars beside the periods: expired, and beyond the horizon
SIDE_GAP: Final = 0.07  # between the side bars and the periods, to keep their names apart
FILL: Final = 0.9  # share of a period's width that its bar fills

_LENGTH: Final = {"hour": len("2026-01-31T12:00"), "day": len("2026-01-31")}  # of an instant on the axis


@dataclass(frozen=True, slots=True)
class ExpiryBar:
    """The bytes that expire in one or more adjacent periods, from `left` to `right` on the axis [0, 1]."""

    left: float
    right: float
    stored_bytes: int
    wal_bytes: int
    is_expired: bool = False


@dataclass(frozen=True, slots=True)
class ExpiryPicture:
    """Bars from left to right; `note` is the caption."""

    bars: tuple[ExpiryBar, ...]
    ticks: tuple[Tick, ...]
    note: str


def picture_expiry(report: ExpiryReport) -> ExpiryPicture:
    """Return the bars of a report: expired, each period from the one that contains `now`, beyond the horizon."""
    expired, *times, never = report.parts
    later = [part for part in times if part.end_ms is None]
    axis = _expiry_axis(report, times[: len(times) - len(later)], has_later=bool(later))
    bars = [ExpiryBar(0, SIDE_WIDTH, expired.stored_bytes, expired.wal_bytes, is_expired=True), *axis.bars()]
    ticks = [Tick(SIDE_WIDTH / 2, "expired"), *axis.ticks()]
    for part in later:
        bars.append(ExpiryBar(1 - SIDE_WIDTH, 1, part.stored_bytes, part.wal_bytes))
        ticks.append(Tick(1 - SIDE_WIDTH / 2, "later"))
    each = report.per if axis.periods_per_bar == 1 else plural(axis.periods_per_bar, report.per)
    note = (
        f"stored bytes that expire per {each}, UTC; now {ms_to_text(report.now_ms)}; never expire: "
        f"{bytes_to_text(never.stored_bytes)} in {plural(never.rows, 'row')}"
    )
    return ExpiryPicture(tuple(bars), tuple(ticks), note)


@dataclass(frozen=True, slots=True)
class _ExpiryAxis:
    """Periods between `left` and `right`; `periods_per_bar` adjacent periods share one of `count` places."""

    periods: tuple[ExpiryPart, ...]
    per: str
    origin_ms: int
    periods_per_bar: int
    count: int
    left: float
    right: float

    def bars(self) -> Iterator[ExpiryBar]:
        """Yield a bar for each bar that has rows."""
        for index, parts in groupby(self.periods, key=self._index):
            both = [(part.stored_bytes, part.wal_bytes) for part in parts]
            stored_bytes, wal_bytes = (sum(column) for column in zip(*both, strict=True))
            middle, half = self._at(index + 0.5), FILL / 2 * (self.right - self.left) / self.count
            yield ExpiryBar(middle - half, middle + half, stored_bytes, wal_bytes)

    def ticks(self) -> Iterator[Tick]:
        """Yield the start times of evenly spaced places."""
        for index in sorted({self.count * step // TICKS for step in range(TICKS)}):
            start = ms_to_text(self.origin_ms + index * self.periods_per_bar * PERIODS[self.per])
            yield Tick(self._at(index), start[: _LENGTH[self.per]])

    def _index(self, part: ExpiryPart) -> int:
        return ((part.start_ms or 0) - self.origin_ms) // PERIODS[self.per] // self.periods_per_bar

    def _at(self, index: float) -> float:
        return self.left + (self.right - self.left) * index / self.count


def _expiry_axis(report: ExpiryReport, periods: Sequence[ExpiryPart], *, has_later: bool) -> _ExpiryAxis:
    width_ms = PERIODS[report.per]
    origin_ms = report.now_ms // width_ms * width_ms
    last = ((periods[-1].start_ms or 0) - origin_ms) // width_ms if periods else 0
    periods_per_bar = last // MAX_BARS + 1
    side = SIDE_WIDTH + SIDE_GAP
    right = 1 - side if has_later else 1.0
    return _ExpiryAxis(tuple(periods), report.per, origin_ms, periods_per_bar, last // periods_per_bar + 1, side, right)
