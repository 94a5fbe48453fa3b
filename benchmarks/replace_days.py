"""A month loaded again day by day: what stays on disk, against a fresh load of the same rows."""

from __future__ import annotations

import datetime as dt
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks.data import SEED, DataFolder, stored_bytes
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.worker import Sample, Stopwatch, Task
from slatespark import SlateStore

TITLE: Final = "A month replaced day by day, against a fresh load"

IN_ORDER: Final = "slate, days in order"
SHUFFLED: Final = "slate, days in any order"
FRESH: Final = "slate, a fresh load"

DAYS: Final = 31
_FIRST: Final = dt.date(2026, 1, 1)
_SCHEMA: Final = pa.schema([("day", pa.date32()), ("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64())])


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of `rows` rows."""
    kinds = {IN_ORDER: "order", SHUFFLED: "shuffled", FRESH: "fresh"}
    targets = [
        Target(alternative=name, against=FRESH, at_most=1.02, measure="stored_bytes") for name in (IN_ORDER, SHUFFLED)
    ]
    return Benchmark(
        alternatives=[Alternative(name=name, task=Task.of(load, kind=kind, rows=rows)) for name, kind in kinds.items()],
        base=FRESH,
        targets=targets,
        notes=[
            f"{rows:,} rows of {DAYS} days; the key is day and number; snappy.",
            "Each day is a commit with replaceWhere on a table that holds the month already; small runs merge by "
            "themselves. Vacuumed at the end; the vacuum is not timed.",
        ],
    )


@cache
def month(rows: int) -> tuple[pa.Table, ...]:
    """Return the rows of each day, in key order."""
    generator = np.random.default_rng(SEED)
    days = []
    for day in range(DAYS):
        count = rows // DAYS
        names = [f"customer-{number:06d}" for number in generator.integers(0, 10**6, count)]
        columns = [
            pa.array([_FIRST + dt.timedelta(days=day)] * count, pa.date32()),
            pa.array(np.arange(count)),
            pa.array(names),
            pa.array(generator.random(count)),
        ]
        days.append(pa.table(columns, schema=_SCHEMA))
    return tuple(days)


def load(kind: str, rows: int) -> Sample:
    """Load the month, and unless the load is to be fresh, each day again."""
    days = month(rows)
    path = Path(tempfile.mkdtemp(dir=Path.cwd())) / kind
    store = SlateStore.create(str(path), _SCHEMA, ["day", "id"], versionRetention="none")
    order = list(range(DAYS)) if kind == "order" else np.random.default_rng(SEED).permutation(DAYS).tolist()
    if kind != "fresh":
        store.write(pa.concat_tables(days), compression="snappy")
    with Stopwatch() as watch:
        if kind == "fresh":
            store.write(pa.concat_tables(days), compression="snappy")
        for day in order if kind != "fresh" else ():
            where = f"day = '{_FIRST + dt.timedelta(days=day)}'"
            store.write(days[day], mode="overwrite", replaceWhere=where, compression="snappy")
    for point in store.checkpoints():
        store.deleteCheckpoint(point.id)
    store.vacuum("0s", force=True)
    shown = store.scan(columns="id").read_all().num_rows
    return watch.sample(rows=shown, stored_bytes=stored_bytes(path / "compacted"), files=len(store.files()))
