"""The real client in a process of its own, which writes at a steady rate or as fast as it goes.

`python -m benchmarks.live_client` answers lines of JSON. It keeps to one event loop, so that what it measures is the
time of a put, and not how its threads take turns.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from slatedb import uniffi

from benchmarks.client import open_client, pairs_of, put_pairs
from benchmarks.data import make_table
from benchmarks.worker import REPOSITORY
from tests.support.client import Location

STOP_TIMEOUT_S: Final = 60


class LiveWriter:
    """A client that has a database open; use it in a `with` statement.

    Parameters
    ----------
    path : of the database
    settings : of the client, by dotted name; the others are its defaults
    """

    def __init__(self, path: Path, settings: Mapping[str, object] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.live_client"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
        )
        self._ask("open", path=str(path), settings=dict(settings or {}))

    def start(self, *, rows_per_s: int, part: int, part_rows: int) -> None:
        """Let it put rows, one after the other at that rate, whose keys are among those of a part of the data."""
        self._ask("start", rows_per_s=rows_per_s, part=part, part_rows=part_rows)

    def latencies(self) -> list[float]:
        """Return how long each put has taken since the last call, in seconds."""
        found: list[float] = self._ask("latencies")
        return found

    def stop(self) -> None:
        """End what `start` began."""
        self._ask("stop")

    def put_all(self, *, rows: int, part: int) -> dict[str, Any]:
        """Put a part of the data as fast as it goes; return the seconds, until all is durable, and the slowest put."""
        answer: dict[str, Any] = self._ask("put_all", rows=rows, part=part)
        return answer

    def is_open(self) -> bool:
        """Whether nothing has closed the database."""
        return bool(self._ask("is_open"))

    def close(self) -> None:
        """Close the database, with everything flushed."""
        self._ask("close")

    def _ask(self, name: str, **arguments: object) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None  # both are pipes
        assert stdout is not None
        stdin.write(json.dumps([name, arguments]) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise SystemExit(f"The client failed at {name}; its output is above.")
        return json.loads(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


# --- the other process ------------------------------------------------------------------------------------------------


class _Server:
    def __init__(self) -> None:
        self._db: Any = None
        self._task: asyncio.Task[None] | None = None
        self._latencies: list[float] = []

    async def open(self, path: str, settings: dict[str, object]) -> None:
        self._db = await open_client(Location.local(path), settings)

    async def start(self, rows_per_s: int, part: int, part_rows: int) -> None:
        self._latencies = []
        pairs = [pair for batch in pairs_of(make_table(part_rows, part)) for pair in batch]
        self._task = asyncio.create_task(self._put_on(rows_per_s, pairs))

    async def _put_on(self, rows_per_s: int, pairs: list[tuple[bytes, bytes]]) -> None:
        chosen = np.random.default_rng(0)
        began, count = time.perf_counter(), 0
        while True:
            key, value = pairs[chosen.integers(len(pairs))]
            before = time.perf_counter()
            await self._db.put(key, value)
            now = time.perf_counter()
            self._latencies.append(now - before)
            count += 1
            if (ahead_s := began + count / rows_per_s - now) > 0:
                await asyncio.sleep(ahead_s)

    async def latencies(self) -> list[float]:
        found, self._latencies = self._latencies, []
        return found

    async def stop(self) -> None:
        assert self._task is not None
        if self._task.done():
            await self._task  # raises what ended it
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def put_all(self, rows: int, part: int) -> dict[str, Any]:
        batches = list(pairs_of(make_table(rows, part)))
        slowest, began = 0.0, time.perf_counter()
        for pairs in batches:
            before = time.perf_counter()
            await put_pairs(self._db, pairs)
            slowest = max(slowest, time.perf_counter() - before)
        await self._db.flush_with_options(uniffi.FlushOptions(flush_type=uniffi.FlushType.WAL))
        return {"seconds": time.perf_counter() - began, "slowest_s": slowest}

    async def is_open(self) -> bool:
        return self._db.status().close_reason is None

    async def close(self) -> None:
        await self._db.shutdown()


async def _serve() -> None:
    server = _Server()
    while line := await asyncio.to_thread(sys.stdin.readline):
        name, arguments = json.loads(line)
        print(json.dumps(await getattr(server, name)(**arguments)), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve())
