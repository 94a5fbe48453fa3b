"""Times in conditions on keys get the offset of the session; a stub of a session says what Spark would."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from slatespark import OptionError
from slatespark.spark.sql import upkeep
from slatespark.spark.sql.session_times import in_session_zone
from slatespark.spark.sql.statement import Statement

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("name", pa.string()),
    ]
)
NOON = 1_704_110_400_000_000  # 2024-01-01 12:00 UTC


class Session:
    """A session that takes every literal for the same instant, and remembers what it was asked."""

    def __init__(self, zone: str, micros: int | None = NOON) -> None:
        self.conf, self.zone, self.micros, self.asked = self, zone, micros, ""

    def get(self, name: str) -> str:
        assert name == "spark.sql.session.timeZone"
        return self.zone

    def sql(self, text: str) -> Session:
        self.asked = text
        return self

    def collect(self) -> list[list[int | None]]:
        return [[self.micros] * self.asked.count("unix_micros")]


def read(condition: str, session: Session) -> str:
    given: Any = session
    return in_session_zone(condition, SCHEMA, given, name="replaceWhere")


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("ts >= TIMESTAMP '2024-01-01'", "ts >= @"),
        ("'2024' < TS AND name = '2024'", "@ < TS AND name = '2024'"),
        ("ts = '2024' OR ts IN (DATE '2024-01-01', TIMESTAMP_NTZ '2024-01-01')", "ts = @ OR ts IN (@, @)"),
        ("(ts, name) IN (('2024', '2024'))", "(ts, name) IN ((@, '2024'))"),
        (
            "(ts > '2024' OR ts IS NULL) AND (ts < '2025' OR ts < '2026')",
            "(ts > @ OR ts IS NULL) AND (ts < @ OR ts < @)",
        ),
        ("day = '2024-01-01' AND local >= '2024' AND local < TIMESTAMP_NTZ '2025-01-01'", None),
    ],
)
def test_instants_get_the_offset_of_the_session(condition: str, wanted: str | None) -> None:
    session = Session("America/New_York")
    replaced = condition if wanted is None else wanted.replace("@", "TIMESTAMP '2024-01-01T12:00:00.000000Z'")
    assert read(condition, session) == replaced
    assert session.asked.count("unix_micros") == (0 if wanted is None else wanted.count("@"))
    assert read(condition, Session("UTC")) == condition


def test_instants_of_any_year() -> None:
    assert read("ts < '9999-12-31 23:00:00'", Session("Asia/Tokyo", 253_402_318_800_000_000)).endswith(
        "'10000-01-01T05:00:00.000000Z'"
    )


@pytest.mark.parametrize("condition", ["local = TIMESTAMP '2024-01-01'", "day > TIMESTAMP_LTZ '2024-01-01 00:00:00Z'"])
def test_an_instant_beside_a_column_without_a_zone_is_refused(condition: str) -> None:
    with pytest.raises(OptionError, match="no time zone") as caught:
        read(condition, Session("Europe/Berlin"))
    assert ">>>TIMESTAMP" in str(caught.value)
    assert read(condition, Session("UTC")) == condition


def test_what_is_no_time_or_no_column_is_refused() -> None:
    session = Session("Europe/Berlin")
    for condition, kind in (("ts = 'x'", OptionError), ("ts ~ 1", OptionError), ("other = 1", OptionError)):
        with pytest.raises(kind):
            read(condition, session)
    assert not session.asked
    with pytest.raises(OptionError, match="not a timestamp"):
        read("ts = '2024'", Session("Europe/Berlin", None))


def test_the_condition_of_optimize_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Table:
        jobs = ()
        _frames = SimpleNamespace(codec=lambda: SimpleNamespace(schema=SCHEMA))

        def compact(self, full: bool, where: str | None) -> Table:
            merged.append((full, where))
            return self

    merged: list[tuple[bool, str | None]] = []
    table: Any = Table()
    session: Any = Session("America/New_York")
    monkeypatch.setattr(upkeep, "local_frame", lambda *_: None)
    upkeep.optimize(Statement("WHERE ts < '2024-01-01'"), table, session)
    upkeep.optimize(Statement("FULL"), table, session)
    assert merged == [(False, "ts < TIMESTAMP '2024-01-01T12:00:00.000000Z'"), (True, None)]
