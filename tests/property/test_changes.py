"""The change feed between any two versions of tables that both writers change: what makes one from the other."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from slatespark.errors import HistoryTrimmedError
from slatespark.table.log.manifests import list_manifests
from slatespark.table.stores import open_stores
from tests.support.client import Client, ClientOptions, Delete, Location, Merge, Put, Ttl, Write
from tests.support.client_admin import compact_full, compact_segments
from tests.support.effort import examples
from tests.support.fake_clock import FakeClock
from tests.support.feeds import check_feed, check_ignored
from tests.support.segments import FixedPrefix

FENCE: dict[str, Any] = {"ifClientActive": "fence"}
NAMES = itertools.count(1)
KEYS = [b"a1", b"a2", b"a22", b"b1", b"b2", b"c1", b"c\xff"]
FILES = st.fixed_dictionaries({"sstSize": st.sampled_from([100, 1 << 20]), "blockSize": st.sampled_from([1024, 4096])})
ROWS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["put", "put", "same", "delete", "merge"]), max_size=6)
BOUNDS = st.lists(st.sampled_from([*KEYS, b"\xff\xff"]), min_size=2, max_size=2, unique=True).map(sorted)
TTLS = st.sampled_from([None, None, None, 8])

STEPS = st.one_of(
    st.tuples(st.just("write"), ROWS, TTLS, FILES),
    st.tuples(st.just("write"), ROWS, TTLS, FILES),
    st.tuples(st.just("overwrite"), ROWS, FILES),
    st.tuples(st.just("delete_range"), BOUNDS),
    st.tuples(st.just("restore"), st.integers(0, 20)),
    st.tuples(st.just("compact"), st.booleans(), BOUNDS),
    st.tuples(st.just("reap")),
    st.tuples(st.just("erase"), st.sampled_from(KEYS)),
    st.tuples(st.just("checkpoint")),
    st.tuples(st.just("run_client"), st.lists(ROWS, max_size=3), TTLS, st.sampled_from(["wal", "flush", "compact"])),
    st.tuples(st.just("run_client"), st.lists(ROWS, max_size=3), TTLS, st.sampled_from(["wal", "flush", "compact"])),
    st.tuples(st.just("sleep")),
)
BESIDE = st.one_of(STEPS, st.tuples(st.just("cooperate"), ROWS), st.tuples(st.just("vacuum")))
COORDINATOR = {"compactor_options.poll_interval": "20ms", "compactor_options.worker": None}


@dataclass
class RawLife:
    """A raw table under both writers; its versions are all kept, but for those that an erasure takes away."""

    location: Location
    segmented: bool = False
    retention_ms: int | None = None
    serial: Any = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        extractor = FixedPrefix(1) if self.segmented else None
        shape = {} if extractor is None else extractor.options
        retention = None if self.retention_ms is None else f"{self.retention_ms}ms"
        self.store = SlateStore.create(str(self.location.folder), retention=retention, mergeOperator="concat", **shape)
        self.client_options = ClientOptions(compactor=True, segments=extractor)

    def take(self, name: str, *arguments: Any) -> None:
        steps: dict[str, Callable[..., object]] = {
            "write": self.write,
            "overwrite": self.overwrite,
            "delete_range": self.delete_range,
            "restore": self.restore,
            "compact": self.compact,
            "reap": lambda: self.retention_ms is not None and self.store.reap(**FENCE),
            "erase": lambda key: self.store.erase(key, releaseVersions=True, **FENCE),
            "checkpoint": lambda: self.store.createCheckpoint(lifetime="1h"),
            "run_client": self.run_client,
            "sleep": lambda: time.sleep(0.012),
            "cooperate": self.cooperate,
            "vacuum": lambda: self.store.vacuum(minAge="0s", force=True, fences=True),
        }
        steps[name](*arguments)

    def value(self, key: bytes, kind: str) -> bytes:
        return key + b"-same" if kind == "same" else b"%d" % next(self.serial)

    def table(self, kinds: dict[bytes, str]) -> pa.Table:
        ops = ["put" if kind == "same" else kind for kind in kinds.values()]
        values = [self.value(key, kind) for key, kind in kinds.items()]
        return pa.table(
            {
                "key": pa.array(kinds, pa.binary()),
                "value": pa.array(values, pa.binary()),
                "op": pa.array(ops, pa.string()),
            }
        )

    def write(self, kinds: dict[bytes, str], ttl_ms: int | None, files: dict[str, Any]) -> None:
        self.store.write(self.table(kinds), opColumn="op", ttl=ttl_ms or "none", **FENCE, **files)

    def overwrite(self, kinds: dict[bytes, str], files: dict[str, Any]) -> None:
        puts = {key: kind for key, kind in kinds.items() if kind in ("put", "same")}
        self.store.write(self.table(puts), opColumn="op", mode="overwrite", **FENCE, **files)

    def delete_range(self, bounds: list[bytes]) -> None:
        self.store.deleteRange(startKey=bounds[0], endKey=bounds[1], **FENCE)

    def restore(self, number: int) -> None:
        versions = self.versions()
        try:
            self.store.restoreToVersion(versions[number % len(versions)], **FENCE)
        except HistoryTrimmedError:  # erased
            return

    def compact(self, full: bool, bounds: list[bytes]) -> None:
        what: dict[str, Any] = {"full": True} if full else {"startKey": bounds[0], "endKey": bounds[1]}
        self.store.compact(**what, **FENCE)

    def run_client(self, batches: list[dict[bytes, str]], ttl_ms: int | None, end: str) -> None:
        with Client.open(self.location, self.client_options) as client:
            for rows in batches:
                if rows:
                    client.write([self.written(key, kind, ttl_ms) for key, kind in rows.items()])
                client.flush_wal()
                if end != "wal":
                    client.flush_memtable()
            if end == "compact":
                (compact_segments if self.segmented else compact_full)(client)

    def cooperate(self, kinds: dict[bytes, str]) -> None:
        """A load that the client commits, at the number of rows that were there before."""
        options = replace(self.client_options, settings=COORDINATOR)
        with Client.open(self.location, options) as client:
            client.put(KEYS[0], self.value(KEYS[0], "put"))
            client.flush_memtable()
            if kinds:
                self.store.write(self.table(kinds), opColumn="op", ifClientActive="cooperate")

    def written(self, key: bytes, kind: str, ttl_ms: int | None) -> Write:
        ttl = None if ttl_ms is None else Ttl(after_ms=ttl_ms)
        if kind == "delete":
            return Delete(key)
        return Merge(key, self.value(key, kind), ttl) if kind == "merge" else Put(key, self.value(key, kind), ttl)

    def versions(self) -> list[int]:
        return list_manifests(open_stores(str(self.location.folder), storage={}))


def check_pairs(store: SlateStore, keys: list[str], versions: list[int], data: st.DataObject, **more: Any) -> None:
    """Compare the feeds of some pairs of versions; an erased one is refused."""
    pairs = [(before, after) for before, after in itertools.combinations([0, *versions], 2) if before < after]
    chosen = data.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=12, unique=True))
    for before, after in [*chosen, pairs[-1]]:
        options = data.draw(st.sampled_from([{}, {"splitSize": 40}, *more.get("options", [])]))
        try:
            check_feed(store, keys, before, after, **options)
            if before:
                check_ignored(store, keys, before, after)
        except HistoryTrimmedError:
            assert more.get("may_be_gone")


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["plain", "segmented"])
@settings(max_examples=examples(6))
@given(steps=st.lists(STEPS, min_size=2, max_size=9), retention_ms=st.sampled_from([None, None, 40]), data=st.data())
def test_raw_tables(shape: str, steps: list[tuple[Any, ...]], retention_ms: int | None, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = RawLife(Location.local(Path(folder) / "db"), shape == "segmented", retention_ms)
        for step in steps:
            life.take(*step)
        options: list[dict[str, Any]] = [
            {"includeExpired": True},
            {"filter": "key IN (X'6131', X'6331')"},
            {"filter": "key >= X'6132' AND value < X'33'"},
            {"startKey": b"a2", "endKey": b"c"},
        ]
        erased = any(step[0] == "erase" for step in steps)
        check_pairs(
            life.store,
            ["key"],
            life.versions(),
            data,
            options=options,
            may_be_gone=erased,
        )


@pytest.mark.slow
@settings(max_examples=examples(4))
@given(steps=st.lists(BESIDE, min_size=2, max_size=8), data=st.data())
def test_beside_loads_and_vacuums(steps: list[tuple[Any, ...]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = RawLife(Location.local(Path(folder) / "db"))
        for step in steps:
            life.take(*step)
        gone = any(step[0] in ("erase", "vacuum") for step in steps)
        check_pairs(life.store, ["key"], life.versions(), data, may_be_gone=gone)


# --- typed tables, and tables with history: ours alone, on a clock that goes on when it is told -----------------------

TYPED = pa.schema([("shop", pa.string()), ("id", pa.int32()), ("n", pa.int32()), ("at", pa.timestamp("us", "UTC"))])
WIDER = TYPED.append(pa.field("more", pa.string()))
SHOPS = ("east", "west")
TYPED_ROWS = st.lists(
    st.tuples(st.sampled_from(SHOPS), st.integers(1, 3), st.integers(1, 2), st.booleans()), max_size=5
)

TYPED_STEPS = st.one_of(
    st.tuples(st.just("write"), TYPED_ROWS, st.sampled_from([None, 1000]), st.sampled_from([None, "more"])),
    st.tuples(st.just("write"), TYPED_ROWS, st.sampled_from([None, 1000]), st.none()),
    st.tuples(st.just("replace"), st.sampled_from(SHOPS), TYPED_ROWS),
    st.tuples(st.just("delete_range"), st.sampled_from(SHOPS), st.integers(1, 3)),
    st.tuples(st.just("restore"), st.integers(0, 20)),
    st.tuples(st.just("trim")),
    st.tuples(st.just("floor")),
    st.tuples(st.just("compact")),
    st.tuples(st.just("reap")),
    st.tuples(st.just("wait"), st.sampled_from([1, 600, 3000])),
)


class TypedLife:
    """A typed table under our writes."""

    def __init__(self, name: str, *, history: bool, retention_ms: int | None) -> None:
        self.clock, self.history, self.reaps = FakeClock(), history, retention_ms is not None
        retention = None if retention_ms is None else f"{retention_ms}ms"
        self.store = SlateStore.create(
            f"memory://{name}", TYPED, ["shop", "id"], clock=self.clock, history=history, retention=retention
        )

    def take(self, name: str, *arguments: Any) -> None:
        self.clock.advance(3)
        getattr(self, name)(*arguments)

    def table(self, rows: list[tuple[str, int, int, bool]], more: str | None) -> pa.Table:
        """The last of several rows of a key; on a history table its time is that of the write."""
        last = {(shop, number): (value, gone) for shop, number, value, gone in rows}
        time_us = self.clock.now_ms() * 1000 if self.history else 0
        columns = [(*key, value, time_us, more, "delete" if gone else "put") for key, (value, gone) in last.items()]
        schema = WIDER.append(pa.field("op", pa.string()))
        table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in columns], schema)
        return table if more else table.drop_columns("more")

    def write(self, rows: list[tuple[str, int, int, bool]], ttl_ms: int | None, more: str | None) -> None:
        timed = {"timestampColumn": "at"} if self.history else {}
        self.store.write(self.table(rows, more), opColumn="op", ttl=ttl_ms or "none", mergeSchema=True, **timed)

    def replace(self, shop: str, rows: list[tuple[str, int, int, bool]]) -> None:
        kept = self.table([row for row in rows if row[0] == shop and not row[3]], None).drop_columns("op")
        self.store.write(kept, mode="overwrite", replaceWhere=f"shop = '{shop}'", mergeSchema=True)

    def delete_range(self, shop: str, number: int) -> None:
        self.store.deleteRange(f"shop = '{shop}' AND id >= {number}")

    def restore(self, number: int) -> None:
        versions = self.versions()
        self.store.restoreToVersion(versions[number % len(versions)])

    def trim(self) -> None:
        if self.history:
            with contextlib.suppress(HistoryTrimmedError):  # below the floor
                self.store.trimHistory(self.clock.now_ms() - 500)

    def floor(self) -> None:
        if self.history:
            self.store.setHistoryFloor(self.clock.now_ms())

    def compact(self) -> None:
        self.store.compact(full=True, now=self.clock.now_ms())

    def reap(self) -> None:
        if self.reaps:
            self.store.reap(now=self.clock.now_ms())

    def wait(self, by_ms: int) -> None:
        self.clock.advance(by_ms)

    def versions(self) -> list[int]:
        return list_manifests(self.store._stores)


@pytest.mark.slow
@pytest.mark.parametrize("history", [False, True], ids=["plain", "history"])
@settings(max_examples=examples(13))
@given(steps=st.lists(TYPED_STEPS, min_size=2, max_size=10), retention_ms=st.sampled_from([None, 2000]), data=st.data())
def test_typed_tables(
    history: bool, steps: list[tuple[Any, ...]], retention_ms: int | None, data: st.DataObject
) -> None:
    life = TypedLife(f"feeds/{next(NAMES)}", history=history, retention_ms=retention_ms)
    for step in steps:
        life.take(*step)
    options: list[dict[str, Any]] = [
        {"filter": "shop = 'east' AND id IN (1, 3)"},
        {"filter": "n = 1"},
        {"filter": "shop >= 'f' AND n > 1", "includeExpired": True},
    ]
    check_pairs(life.store, ["shop", "id"], life.versions(), data, options=options)
