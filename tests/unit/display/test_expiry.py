from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.display.expiry_picture import MAX_BARS, picture_expiry
from slatespark.display.expiry_text import expiry_text
from slatespark.display.plots import plot_expiry
from slatespark.table.retention.expiry_tally import ExpiryPart, ExpiryReport

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
EXPIRED, NEVER = ExpiryPart("expired", None, None, 3, 300, 0, 0), ExpiryPart("never", None, None, 1, 2048, 0, 0)


def period(number: int, size: int = 100, *, wal: int = 0, width: int = HOUR_MS) -> ExpiryPart:
    return ExpiryPart("expires", number * width, (number + 1) * width, 2, size, wal // 10, wal)


def report(*parts: ExpiryPart, per: str = "hour", now_ms: int = 10 * HOUR_MS + 5) -> ExpiryReport:
    every = (EXPIRED, *parts, NEVER)
    rows, size = sum(part.rows for part in every), sum(part.stored_bytes for part in every)
    return ExpiryReport("file:///t$", 7, now_ms, per, rows, size, every, 2, 1, 9, 4)


LATER = ExpiryPart("expires", 3660 * DAY_MS, None, 1, 50, 0, 0)


def test_text() -> None:
    assert (
        expiry_text(report(period(10), period(12, wal=20), LATER))
        == """\
table       file:///t$
version     7
now         1970-01-01T10:00:00.005Z
stored      9 row versions, 2.5 KiB
files read  1 of 2

expires            before             rows    bytes  WAL rows  WAL bytes
expired            -                     3    300 B         0        0 B
1970-01-01T10:00Z  1970-01-01T11:00Z     2    100 B         0        0 B
1970-01-01T12:00Z  1970-01-01T13:00Z     2    100 B         2       20 B
1980-01-09T00:00Z  -                     1     50 B         0        0 B
never              -                     1  2.0 KiB         0        0 B"""
    )


def test_text_without_a_wal_has_no_columns_for_it() -> None:
    assert expiry_text(report()).splitlines()[-3:] == [
        "expires  before  rows    bytes",
        "expired  -          3    300 B",
        "never    -          1  2.0 KiB",
    ]


def test_the_retention_that_ends_rows_too_is_named() -> None:
    assert "retention   PT604800S" in expiry_text(replace(report(), retention_ms=7 * DAY_MS)).splitlines()
    assert "retention" not in expiry_text(report())


def test_bars_stand_where_their_period_does() -> None:
    picture = picture_expiry(report(period(10), period(19, wal=30), LATER))
    expired, first, last, later = picture.bars
    assert expired.is_expired
    assert expired.right < first.left < first.right < last.left < last.right < later.left < later.right == 1
    assert (last.right - first.left) / (first.right - first.left) == pytest.approx((10 - 0.1) / 0.9)
    assert (last.stored_bytes, last.wal_bytes) == (100, 30)
    assert [tick.name for tick in picture.ticks] == [
        "expired",
        *(f"1970-01-01T{hour}:00" for hour in range(10, 20, 2)),
        "later",
    ]
    assert picture.note == (
        "stored bytes that expire per hour, UTC; now 1970-01-01T10:00:00.005Z; never expire: 2.0 KiB in 1 row"
    )


def test_very_many_periods_share_bars() -> None:
    picture = picture_expiry(report(*(period(10 + at) for at in range(2 * MAX_BARS + 1))))
    assert len(picture.bars) == 1 + -(-(2 * MAX_BARS + 1) // 3)
    assert sum(bar.stored_bytes for bar in picture.bars) == 300 + 100 * (2 * MAX_BARS + 1)
    assert "per 3 hours" in picture.note


def test_nothing_left_to_expire() -> None:
    picture = picture_expiry(report(per="day"))
    assert [tick.name for tick in picture.ticks] == ["expired", "1970-01-01"]


def test_a_figure() -> None:
    figure = plot_expiry(report(period(10), period(12, wal=20), LATER))
    [axes] = figure.axes
    assert len(axes.patches) == 5  # one more for the WAL
    assert axes.get_title() == r"file:///t\$, version 7"
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]  # of the figures made here


@pytest.mark.parametrize(
    ("highest", "labels"),
    [
        (0, ["0 B"]),
        (100, ["0 B", "32 B", "64 B", "96 B"]),
        (2048, ["0 B", "512 B", "1.0 KiB", "1.5 KiB", "2.0 KiB"]),
        (5 << 20, ["0 B", "2.0 MiB", "4.0 MiB"]),
    ],
)
def test_sizes_are_labelled_where_binary_units_are_exact(highest: int, labels: list[str]) -> None:
    parts = ExpiryPart("expired", None, None, 1, highest, 0, 0), ExpiryPart("never", None, None, 0, 0, 0, 0)
    [axes] = plot_expiry(ExpiryReport("file:///t", 7, 0, "hour", 1, highest, parts, 1, 1, 1, 1)).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == labels
    units = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
    sizes = [float(number) * units[unit] for number, unit in map(str.split, labels)]
    assert list(axes.get_yticks()) == sizes


def test_figures_of_tables(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    store = SlateStore.create(str(tmp_path / "t"))
    axes = Figure().subplots()
    assert store.plotExpiry(axes) is axes.figure
    store.write(pa.table({"key": [b"a"], "value": [b"1"]}), ttl="5h")
    [axes] = store.plotExpiry(per="day").axes
    assert [round(patch.get_height()) for patch in axes.patches] == [0, store.expiry().stored_bytes]
