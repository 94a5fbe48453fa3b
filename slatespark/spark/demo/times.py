"""Scenes about time: an undo, a history table, expiry and retention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from slatespark.display.reap_text import reap_text
from slatespark.errors import InternalError
from slatespark.slate_store import SlateStore
from slatespark.spark.demo.tables import DemoEvent, DemoTables
from slatespark.texts import align_table
from slatespark.units import bytes_to_text, ms_to_text

if TYPE_CHECKING:
    from slatespark.spark.slate_table import SlateTable

WEATHER_TTL_DAYS: Final = 30
EARLIER_DAYS: Final = 20  # age of the first half of the weather
DAY_MS: Final = 86_400_000
_RETENTION_DAYS: Final = 14

TIMETABLE: Final = "carrier STRING, flight INT, origin STRING, dest STRING, state STRING, delay INT, known_at TIMESTAMP"
TIMETABLE_KEY: Final = "carrier,flight,origin"

# News of each flight of a day, and when it was known: the plan a day ahead, the departure, the landing.
NEWS_SQL: Final = """\
WITH day AS (
  SELECT *, time_hour + make_dt_interval(0, 0, minute) AS planned
  FROM flights WHERE year = 2013 AND month = 7 AND day = 4)
SELECT carrier, flight, origin, dest, 'planned' AS state, CAST(NULL AS INT) AS delay,
       planned - INTERVAL 1 DAY AS known_at FROM day
UNION ALL
SELECT carrier, flight, origin, dest, 'in the air', dep_delay,
       planned + make_dt_interval(0, 0, dep_delay) FROM day WHERE dep_delay IS NOT NULL
UNION ALL
SELECT carrier, flight, origin, dest, 'landed', arr_delay,
       planned + make_dt_interval(0, 0, dep_delay + air_time) FROM day WHERE arr_delay IS NOT NULL"""

INSTANTS: Final = ("2013-07-04T09:00Z", "2013-07-04T16:00Z", "2013-07-05T00:00Z")
ONE_FLIGHT: Final = "carrier = 'B6' AND flight = 1 AND origin = 'JFK'"


def undo_delete(tables: DemoTables, before: int) -> Iterator[DemoEvent]:
    """Restore the flights of an earlier version."""
    table = tables.table("flights")
    yield DemoEvent("step", "Undo: make the version before the deletion the newest one again")
    yield DemoEvent("code", f"flights.restoreToVersion({before})")
    yield tables.change("flights", lambda: table.restoreToVersion(before))
    yield DemoEvent("result", f"{tables.table('flights').toDF(columns=['year']).count():,} flights are back.")


def show_timetable(tables: DemoTables) -> Iterator[DemoEvent]:
    """Load the news of a day of flights, and read the table as of several instants."""
    yield DemoEvent("step", "A table with a history: the 4th of July as it became known, in one commit")
    yield DemoEvent(
        "code",
        "timetable = SlateTable.create(spark, path, 'carrier STRING, flight INT, ...',\n"
        f"    '{TIMETABLE_KEY}', history=True)\n"
        "timetable.write(news, timestampColumn='known_at')",
    )
    table = _create_timetable(tables)
    yield tables.change("timetable", lambda: table.write(tables.spark.sql(NEWS_SQL), timestampColumn="known_at"))
    yield DemoEvent("step", "The timetable as of three instants: each row as it was known then")
    yield DemoEvent("code", f"timetable.toDF(timestampAsOf='{INSTANTS[0]}').groupBy('state').count()")
    states = ("planned", "in the air", "landed")
    rows = []
    for instant in INSTANTS:
        known = table.toDF(columns=["state"], timestampAsOf=instant).groupBy("state").count().collect()
        counts = {row["state"]: row["count"] for row in known}
        rows.append([instant, *(f"{counts.get(state, 0):,}" for state in states)])
    yield DemoEvent("result", align_table(["as of", *states], rows, right=set(states)))
    yield DemoEvent("step", "One flight over time")
    yield DemoEvent("code", f'timetable.versions(filter="{ONE_FLIGHT}")')
    columns = ["state", "delay", "_valid_from", "_valid_to"]
    versions = table.versions(filter=ONE_FLIGHT).select(*columns).orderBy("_valid_from").collect()
    yield DemoEvent("result", align_table(columns, [[_text(value) for value in row] for row in versions]))


def _create_timetable(tables: DemoTables) -> SlateTable:
    from slatespark.spark.slate_table import SlateTable

    return SlateTable.create(tables.spark, tables.path("timetable"), TIMETABLE, TIMETABLE_KEY, history=True)


def _text(value: object) -> str:
    return "" if value is None else str(value)


def expire_weather(tables: DemoTables) -> Iterator[DemoEvent]:
    """Count the rows that have not expired at different instants."""
    yield DemoEvent("step", "Expiry: the weather today, and as readers will see it later")
    days = (0, WEATHER_TTL_DAYS - EARLIER_DAYS + 1, WEATHER_TTL_DAYS + 1)
    instants = [tables.clock.now_ms() + number * DAY_MS for number in days]
    yield DemoEvent("code", f"weather.toDF(now='{ms_to_text(instants[1])}')")
    counts = [
        (f"in {number} days" if number else "today", f"{_count_weather(tables, now=instant):,}")
        for number, instant in zip(days, instants, strict=True)
    ]
    yield DemoEvent("result", align_table(["now", "weather rows"], counts, right={"weather rows"}))


def retire_weather(tables: DemoTables) -> Iterator[DemoEvent]:
    """Retain rows for a time after they arrived, whatever their TTL."""
    table = tables.table("weather")
    yield DemoEvent(
        "step", f"Retention: keep weather for {_RETENTION_DAYS} days; reads comply at once, the reaper frees the space"
    )
    yield DemoEvent("code", f"weather.setProperties(retention='{_RETENTION_DAYS}d')\nweather.reap()")
    before = _weather_facts(tables, "before")
    table.setProperties(retention=f"{_RETENTION_DAYS}d")
    hidden = _weather_facts(tables, "with retention")
    report = table.reap()
    facts = [before, hidden, _weather_facts(tables, "reaped")]
    yield DemoEvent("result", reap_text(report))
    yield DemoEvent("result", align_table(["weather", "rows", "stored"], facts, right={"rows", "stored"}))
    if facts[2][1] != facts[1][1] or not report.rows:
        raise InternalError("The reaper removed other rows than those past retention.", todo="Report this.")


def _count_weather(tables: DemoTables, **options: Any) -> int:
    return tables.table("weather").toDF(columns=["origin"], **options).count()


def _weather_facts(tables: DemoTables, when: str) -> tuple[str, str, str]:
    stored_bytes = sum(file.stored_bytes for file in SlateStore.open(tables.path("weather")).files())
    return when, f"{_count_weather(tables):,}", bytes_to_text(stored_bytes)
