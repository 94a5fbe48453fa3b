from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from slatespark.errors import OptionError
from slatespark.units import bytes_to_text, duration_to_text, ms_to_text, parse_bytes, parse_duration_ms, parse_time_ms

pd = pytest.importorskip("pandas")  # slatespark does without

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("7d", 7 * DAY_MS),
        ("90m", 5_400_000),
        ("250ms", 250),
        ("1 h", 3_600_000),
        ("2W", 14 * DAY_MS),
        ("0", 0),
        ("3600000", 3_600_000),
        ("P7D", 7 * DAY_MS),
        ("P1W", 7 * DAY_MS),
        ("PT1H30M", 5_400_000),
        ("PT0.25S", 250),
        ("PT1.5S", 1500),
        (timedelta(hours=1), 3_600_000),
        (42, 42),
        (np.int32(42), 42),
    ],
)
def test_durations(text: str | int | timedelta, ms: int) -> None:
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        *("", "d", "7y", "-7d", "P", "PT", "1.5d", "7d7d", -1, "9223372036854775808", timedelta(days=-1), True),
        *("7\u017f", "PT7\u017f", "\u0667d", "7\u00a0d"),
        *(1.5, b"7d", [7], float("nan"), {}, np.bool_(True), np.float64(1), np.array([1, 2])),
        *("9" * 5000, "9" * 5000 + "d", "P" + "9" * 5000 + "D"),
    ],
)
def test_wrong_durations_are_refused_by_name(text: Any) -> None:
    with pytest.raises(OptionError, match="ttl"):
        parse_duration_ms(text, name="ttl")


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-02", DAY_MS),
        ("1970-01-01 01:00:00+01:00", 0),
        ("-5", -5),
        ("+20260131", 20_260_131),
        ("20261301", 20_261_301),
        ("1769860800000", 1_769_860_800_000),
        (20_260_131, 20_260_131),
        (17, 17),
        (np.int64(17), 17),
        (datetime(1970, 1, 1, 0, 0, 1), 1000),  # noqa: DTZ001  # a naive time is UTC
        (datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=1))), 3_600_000),
    ],
)
def test_instants(value: str | int | datetime, ms: int) -> None:
    assert parse_time_ms(value) == ms


@pytest.mark.parametrize(
    "value", ["", "yesterday", "2026-13-01", "20260131", "20260131235959", 2**63, True, 1.5, "9" * 5000]
)
def test_wrong_instants_are_refused(value: str | int) -> None:
    with pytest.raises(OptionError, match="now"):
        parse_time_ms(value, name="now")


def test_an_instant_beyond_the_calendar_stays_a_number() -> None:
    assert ms_to_text(2**62) == str(2**62)
    assert ms_to_text(0) == datetime(1970, 1, 1, tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


@pytest.mark.parametrize(
    ("text", "size"),
    [("64m", 64 << 20), ("1g", 1 << 30), ("512K", 512 << 10), ("7", 7), ("2MiB", 2 << 20), (9, 9), (np.uint8(9), 9)],
)
def test_sizes(text: str | int, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "1.5m", "m", "1x", 0, True, "9" * 5000 + "m", "1" + " " * 200 + "x", "7\u212a", "\u0667m"]
)
def test_wrong_sizes_are_refused(text: str | int) -> None:
    with pytest.raises(OptionError, match="splitSize"):
        parse_bytes(text, name="splitSize")


def test_sizes_for_people() -> None:
    assert [bytes_to_text(size) for size in (0, 1023, 1536, 5 << 20, 3 << 40)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "5.0 MiB",
        "3.0 TiB",
    ]


@pytest.mark.parametrize("text", ["0ms", "1ms", "1500ms", "90s", "5m", "90m", "24h", "168h"])
def test_durations_for_people(text: str) -> None:
    assert duration_to_text(parse_duration_ms(text)) == text


def test_no_time_of_pandas_is_no_instant() -> None:
    with pytest.raises(OptionError):
        parse_time_ms(pd.NaT)
