"""The table of how exact the sequence tracker is, against points that are recorded and halved as the code does it."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

import pytest

from slatespark.format.sequence_tracker import INTERVAL_S, MAX_POINTS, SequenceTracker
from tests.docs.pages import REPOSITORY

PAGE: Final = REPOSITORY / "docs" / "reference" / "format" / "sequence-tracker.md"
DAY_MINUTES: Final = 1440
AGES: Final = {
    "a day": 1,
    "3 days": 3,
    "a week": 7,
    "two weeks": 14,
    "three weeks": 21,
    "four weeks": 28,
    "six weeks": 42,
    "a year": 365,
}
UNITS: Final = {"minutes": 1, "hours": 60, "days": DAY_MINUTES}


def widest_gaps(ages: list[int], years: int) -> dict[int, int]:
    """The largest distance of the points around each age, both in commits, over a long time with steady commits."""
    points = [0]
    widest = dict.fromkeys(ages, 0)
    for now in range(1, years * 365 * DAY_MINUTES):
        points.append(now)
        if len(points) <= MAX_POINTS:
            continue
        points = points[::2]
        for before, after in pairwise(points):
            for age in ages:
                if before <= now - age < after:
                    widest[age] = max(widest[age], after - before)
    return widest


def shown() -> dict[str, list[str]]:
    rows = re.findall(r"^\| ([\w ]+) \| ([\w ]+) \| ([\w ]+) \|$", PAGE.read_text(), re.MULTILINE)
    return {age: texts for age, *texts in rows if age in AGES}


def minutes(text: str) -> int:
    count, unit = text.split()
    return int(count) * UNITS[unit]


@pytest.mark.parametrize(("column", "step"), [(0, 1), (1, 60)], ids=["a minute", "an hour"])
def test_the_table_says_how_far_apart_points_are(column: int, step: int) -> None:
    ages = {name: days * DAY_MINUTES // step for name, days in AGES.items()}
    widest = widest_gaps(list(ages.values()), years=2)
    table = shown()
    assert set(table) == set(AGES)
    for name, age in ages.items():
        text, gap = table[name][column], widest[age] * step
        if text == "no second point":
            assert gap > 365 * DAY_MINUTES
        else:
            assert minutes(text) == pytest.approx(gap, rel=0.1), name


def test_the_horizon_is_that_of_the_code() -> None:
    text = " ".join(PAGE.read_text().split())
    assert f"{MAX_POINTS:,} points" in text
    assert f"first {MAX_POINTS * INTERVAL_S / 86_400:.1f} days to the minute" in text
    assert f"halved every {MAX_POINTS // 2 * INTERVAL_S / 86_400:.1f} days" in text
    full = SequenceTracker(tuple((number, number * INTERVAL_S) for number in range(MAX_POINTS)))
    assert len(full.record(MAX_POINTS, MAX_POINTS * INTERVAL_S).points) == MAX_POINTS // 2 + 1
