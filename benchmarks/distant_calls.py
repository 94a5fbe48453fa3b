"""How long calls on a table behind a link take, by the time of a round trip: the seconds of the page on requests."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from benchmarks.data import DataFolder
from benchmarks.distant_store import BYTES_PER_S, open_distant
from benchmarks.harness import Alternative, Benchmark
from benchmarks.worker import Sample, Stopwatch, Task
from slatespark import SlateStore

TITLE: Final = "Calls on a table behind a link, by the time of a round trip"
DELAYS_MS: Final = (0, 30, 100)
COMMITS: Final = 4

_SCHEMA: Final = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
Call = Callable[[SlateStore], Any]
_names = itertools.count()


def _rows(start: int, end: int) -> pa.Table:
    return pa.table({"id": range(start, end), "name": [f"n{number}" for number in range(start, end)]}, _SCHEMA)


_CALLS: Final[dict[str, Call]] = {
    "get": lambda store: store.get(17),
    "scan": lambda store: store.scan().read_all(),
    "write of 1,000 rows": lambda store: store.write(_rows(0, 1000)),
    "write with replaceWhere": lambda store: store.write(
        _rows(0, 10), mode="overwrite", replaceWhere="id BETWEEN 0 AND 9"
    ),
    "createCheckpoint": lambda store: store.createCheckpoint(f"c{next(_names)}"),
    "history()": lambda store: store.history(),
    "vacuum": lambda store: store.vacuum(),
}


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of a table of `rows` rows in a few commits."""

    def load(path: Path) -> None:
        store = SlateStore.create(str(path), _SCHEMA, "id")
        for part in range(COMMITS):
            store.write(_rows(part * rows // COMMITS, (part + 1) * rows // COMMITS))

    path = data.made(f"distant-calls-{rows}", load)
    alternatives = [
        Alternative(
            name=f"{call}, {'first, ' if first else ''}{delay} ms",
            task=Task.of(run, path=path, call=call, delay_ms=delay, first=first),
            process="distant",
        )
        for call in _CALLS
        for first in (True, False)
        for delay in DELAYS_MS
    ]
    return Benchmark(
        alternatives=alternatives,
        base=alternatives[0].name,
        notes=[
            f"{rows:,} rows in {COMMITS} commits; a link of {BYTES_PER_S:,} bytes/s.",
            "'first' is the first call on a table that has just been opened, and opens it.",
        ],
        same=(),
    )


# --- tasks ----------------------------------------------------------------------------------------------------------


def run(path: str, call: str, delay_ms: int, first: bool) -> Sample:
    """Make a call on a copy of the table."""
    copy = f"{path}-copy"
    shutil.copytree(path, copy)
    try:
        if not first:
            store = open_distant(copy, delay_ms)
            for _ in range(2):
                _CALLS[call](store)
        with Stopwatch() as watch:
            if first:
                store = open_distant(copy, delay_ms)
            _CALLS[call](store)
    finally:
        shutil.rmtree(copy)
    return watch.sample(rows=1)
