"""The times that a commit may have: not before the last tick, at most ten seconds ahead of our clock."""

from __future__ import annotations

import contextlib

import pytest

from slatespark.errors import ClockRegressionError
from slatespark.table.commit.write_time import check_not_ahead, check_tick, check_timestamp
from tests.unit.table.layers import new_stores

NOW_MS = 1_700_000_000_000
AHEAD_MS = 10_000  # as far as the client waits for its clock
STORES = new_stores()


def refuses(is_refused: bool) -> contextlib.AbstractContextManager[object]:
    return pytest.raises(ClockRegressionError) if is_refused else contextlib.nullcontext()


@pytest.mark.parametrize(
    ("tick_ms", "now_ms", "is_refused"),
    [
        (NOW_MS - 1, NOW_MS, False),
        (NOW_MS + AHEAD_MS, NOW_MS, False),
        (NOW_MS + AHEAD_MS + 1, NOW_MS, True),
        (NOW_MS + AHEAD_MS + 1, None, False),
        (-(2**63), NOW_MS, False),
    ],
)
def test_the_last_tick(tick_ms: int, now_ms: int | None, is_refused: bool) -> None:
    with refuses(is_refused):
        check_tick(STORES, tick_ms, now_ms)


def test_the_message_names_when_to_write_again() -> None:
    with pytest.raises(ClockRegressionError) as raised:
        check_tick(STORES, NOW_MS + 60_000, NOW_MS)
    assert "Write again from 2023-11-14T22:14:10.000Z" in raised.value.todo, "now + 60 s - 10 s"


@pytest.mark.parametrize(
    ("timestamp_ms", "tick_ms", "now_ms", "is_refused"),
    [
        (99, 100, NOW_MS, True),
        (100, 100, NOW_MS, False),
        (99, 100, None, True),
        (NOW_MS + AHEAD_MS, 100, NOW_MS, False),
        (NOW_MS + AHEAD_MS + 1, 100, NOW_MS, True),
        (NOW_MS + AHEAD_MS + 1, 100, None, False),
    ],
)
def test_a_given_timestamp(timestamp_ms: int, tick_ms: int, now_ms: int | None, is_refused: bool) -> None:
    with refuses(is_refused):
        check_timestamp(STORES, timestamp_ms, tick_ms, now_ms)


@pytest.mark.parametrize(
    ("timestamp_ms", "now_ms", "is_refused"),
    [(AHEAD_MS, 0, False), (AHEAD_MS + 1, 0, True), (AHEAD_MS + 1, None, False)],
)
def test_a_time_in_the_future(timestamp_ms: int, now_ms: int | None, is_refused: bool) -> None:
    with refuses(is_refused):
        check_not_ahead("the time", timestamp_ms, now_ms)
