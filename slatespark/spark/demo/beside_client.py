"""The scene about a live client: it writes all the time while Spark loads into its database."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slatespark.errors import InternalError
from slatespark.slate_store import SlateStore
from slatespark.spark.demo import client
from slatespark.spark.demo.tables import DemoEvent, DemoTables
from slatespark.table.clock import SystemClock

TABLE: Final = "planes"

_PLANES_SQL: Final = """\
SELECT CAST(tailnum AS BINARY) AS key, CAST(CAST(count(*) AS STRING) AS BINARY) AS value
FROM flights WHERE tailnum IS NOT NULL GROUP BY tailnum"""
_CODE: Final = f"""\
planes = spark.sql(\"\"\"{_PLANES_SQL}\"\"\")
planes.write.format('slate').mode('append').option('ifClientActive', 'cooperate').save(path)"""
_QUICK: Final = {"compactor_options.poll_interval": '"100ms"', "manifest_poll_interval": '"100ms"'}
_PAUSE_S: Final = 0.002  # between two puts
_PATIENCE_S: Final = 10.0  # until the client shows what it committed


@dataclass(frozen=True, slots=True)
class ClientReport:
    """What the client says at the end.

    Attributes
    ----------
    puts, slowest_ms : while Spark loaded
    loaded : how many rows of the load it shows
    interrupted : why something closed its database; None if nothing did
    """

    puts: int
    slowest_ms: int
    loaded: int
    interrupted: str | None


def load_beside_client(tables: DemoTables) -> Iterator[DemoEvent]:
    """Let a client put rows all the time, and Spark load into the same database.

    Requires: the view `flights`.
    """
    yield DemoEvent("step", "Load beside a live client: it writes all the time, and commits the rows for Spark")
    if not client.is_installed():
        yield DemoEvent("result", client.SKIPPED)
        return
    yield DemoEvent("code", _CODE)
    planes = tables.spark.sql(_PLANES_SQL)
    wanted = planes.count()
    is_open, is_loaded = threading.Event(), threading.Event()
    folder = Path(tables.path(TABLE)).absolute()
    with ThreadPoolExecutor(1, thread_name_prefix="demo client") as pool:
        served = pool.submit(asyncio.run, _serve(folder, wanted, is_open, is_loaded))
        served.add_done_callback(lambda _: is_open.set())
        is_open.wait()
        try:
            yield tables.write(TABLE, planes, ifClientActive="cooperate")
        finally:
            is_loaded.set()
        report = served.result()
    ours = SlateStore.open(str(folder)).scan(columns=["key"]).read_all().num_rows
    if report.interrupted is not None or report.loaded != wanted or ours < wanted + report.puts:
        raise InternalError(f"The client was interrupted, or lost rows: {report}.", todo="Report this.")
    yield DemoEvent(
        "result",
        f"The client put {report.puts:,} rows meanwhile, the slowest in {report.slowest_ms} ms, and shows "
        f"{report.loaded:,} rows of Spark.\nIt was never interrupted.",
    )


async def _serve(folder: Path, wanted: int, is_open: threading.Event, is_loaded: threading.Event) -> ClientReport:
    """Open the database as an application would, put rows until Spark has loaded, and look at its rows.

    Parameters
    ----------
    wanted : rows of the load
    is_open, is_loaded : set by the client, and by Spark
    """
    from slatedb import uniffi

    settings = uniffi.Settings.default()
    for name, value in _QUICK.items():
        settings.set(name, value)
    folder.parent.mkdir(parents=True, exist_ok=True)
    opening = uniffi.DbBuilder(folder.name, client.local_store(folder.parent))
    opening.with_settings(settings)
    db = await opening.build()
    try:
        await db.put(b"client", b"0")
        await db.flush_with_options(uniffi.FlushOptions(flush_type=uniffi.FlushType.MEM_TABLE))
        is_open.set()
        clock = SystemClock()
        puts, slowest_ms = 1, 0
        while not is_loaded.is_set():
            before_ms = clock.now_ms()
            await db.put(b"client %08d" % puts, b"%d" % puts)
            slowest_ms = max(slowest_ms, clock.now_ms() - before_ms)
            puts += 1
            await asyncio.sleep(_PAUSE_S)
        loaded = 0
        for _ in range(int(_PATIENCE_S / 0.1)):
            loaded = await client.count_rows(db) - puts
            if loaded == wanted:
                break
            await asyncio.sleep(0.1)
        reason = db.status().close_reason
        return ClientReport(puts, slowest_ms, loaded, None if reason is None else str(reason))
    finally:
        await db.shutdown()
