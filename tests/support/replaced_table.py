"""A table of which intervals are replaced and deleted at random, and what it must show."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from numpy.random import Generator, default_rng

from slatespark import SlateStore
from slatespark.table.log.manifests import fetch_latest_manifest
from tests.support.fake_clock import FakeClock

HOUR_MS = 3_600_000
DAYS = 400
SHOPS = ("a", "b", "c")
SCHEMA = pa.schema([("shop", pa.string()), ("day", pa.date32()), ("n", pa.int64()), ("value", pa.string())])
FIRST = dt.date(2025, 1, 1)
Key = tuple[str, dt.date, int]
State = dict[Key, str]


def date(day: int) -> dt.date:
    return FIRST + dt.timedelta(days=day)


class ReplacedTable:
    """A table of shops and days, a few rows in each, and what it must show.

    Attributes
    ----------
    seconds : that each commit took
    """

    def __init__(self, url: str, seed: int, **properties: Any) -> None:
        self.clock = FakeClock()
        self.random: Generator = default_rng(seed)
        self.store = SlateStore.create(
            url,
            SCHEMA,
            ["shop", "day", "n"],
            clock=self.clock,
            versionRetention="none",
            valueFormat="utf8",
            **properties,
        )
        self.state: State = {}
        self.seconds: list[float] = []
        self.put({(shop, date(day), n): "first" for shop in SHOPS for day in range(DAYS) for n in range(3)})

    def put(self, rows: State, where: str | None = None) -> None:
        columns = list(zip(*(key for key in rows), strict=True)) or [(), (), ()]
        arrays = [pa.array(list(column), kind) for column, kind in zip(columns, SCHEMA.types, strict=False)]
        table = pa.table([*arrays, pa.array(list(rows.values()), pa.string())], SCHEMA.names)
        options: dict[str, Any] = {} if where is None else {"mode": "overwrite", "replaceWhere": where}
        with self._timed():
            self.store.write(table, **options)
        self.state.update(rows)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds.append(time.perf_counter() - began)

    def intervals(self) -> Iterator[tuple[str, int, int]]:
        """Shops with days [start, end), neighbours often."""
        count = int(self.random.integers(1, 4))
        for _ in range(count):
            start = int(self.random.integers(0, DAYS // 10)) * 10
            days = int(self.random.choice([1, 10, 10, 10, 40]))
            yield SHOPS[int(self.random.integers(len(SHOPS)))], start, min(start + days, DAYS)

    def replace(self, number: int) -> None:
        """Replace or delete some intervals."""
        if self.random.random() < 0.1:
            self.store.setProperties(columnar=bool(self.random.integers(2)))
        found = list(self.intervals())
        where = " OR ".join(self._text(*interval) for interval in found)
        self.state = {key: value for key, value in self.state.items() if not any(_is_in(key, *each) for each in found)}
        if self.random.random() < 0.3:
            with self._timed():
                self.store.deleteRange(where)
            return
        shop, start, end = found[0]
        rows = int(self.random.integers(0, 3))
        self.put({(shop, date(day), n): f"{number}" for day in range(start, end) for n in range(rows)}, where)

    def _text(self, shop: str, start: int, end: int) -> str:
        forms = [
            f"day >= '{date(start)}' AND day < '{date(end)}'",
            f"day BETWEEN '{date(start)}' AND '{date(end - 1)}'",
        ]
        return f"shop = '{shop}' AND {forms[int(self.random.integers(2))]}"

    def check(self) -> None:
        rows = self.store.scan().read_all().to_pylist()
        assert {(row["shop"], row["day"], row["n"]): row["value"] for row in rows} == self.state
        assert self.store.verify().empty_views == ()

    def check_files(self) -> None:
        """After a vacuum, exactly the files of the newest version are left."""
        self.clock.advance(2 * HOUR_MS)
        self.store.vacuum("1h")
        stored = {meta.path for meta in self.store._stores.main.list("compacted/")}
        shown = fetch_latest_manifest(self.store._stores)[1].ssts
        assert stored == {f"compacted/{sst_id}.sst" for sst_id in shown}


def _is_in(key: Key, shop: str, start: int, end: int) -> bool:
    return key[0] == shop and date(start) <= key[1] < date(end)
