"""Who works on the table of a soak, each in a thread until the time is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slatespark import SlateError, SlateStore, Upkeep
from tests.soak.ledger import Ledger
from tests.support.client import ClientOptions, Location, Put
from tests.support.live_client import LiveClient

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COOPERATE = {"ifClientActive": "cooperate"}
CLIENT = ClientOptions(
    compactor=True,
    compact_by_itself=True,
    flush_interval="100ms",
    settings={
        "compactor_options.poll_interval": "200ms",
        "compactor_options.worker": None,  # ours does its compactions
        "compactor_options.scheduler_options.min_compaction_sources": "4",
        "l0_sst_size_bytes": 65_536,
    },
)


@dataclass
class Place:
    """Where the table is, and what everybody shares.

    Attributes
    ----------
    url, storage : as our actors open it, through the proxy
    location : as the client opens it, at the server itself
    """

    url: str
    storage: Mapping[str, str]
    location: Location
    ledger: Ledger = field(default_factory=Ledger)
    is_over: threading.Event = field(default_factory=threading.Event)

    def store(self) -> SlateStore:
        """The table as another process opens it."""
        return SlateStore.open(self.url, **self.storage)


class Actor(threading.Thread):
    """A thread that repeats its step; an error of ours is counted, and tried again."""

    pause_s = 0.5

    def __init__(self, name: str, place: Place) -> None:
        super().__init__(name=name, daemon=True)
        self.place, self.ledger = place, place.ledger
        self.random = np.random.default_rng(sum(name.encode()))
        self.failure: BaseException | None = None

    def step(self) -> None:
        """Do one piece of work."""
        raise NotImplementedError

    def end(self) -> None:
        """Let go of what is held."""

    def run(self) -> None:
        """Repeat the step until the time is over."""
        try:
            while not self.place.is_over.is_set():
                try:
                    self.step()
                    self.ledger.note(self.name, "done")
                except SlateError as error:
                    self.ledger.note(self.name, type(error).__name__)
                self.place.is_over.wait(self.pause_s)
            self.end()
        except BaseException as error:  # nobody waits for a thread: the report tells
            self.failure = error

    def keys(self, count: int) -> list[bytes]:
        """Return some keys of this actor."""
        chosen = self.random.choice(400, count, replace=False)
        return [b"%s-%04d" % (self.name.encode(), number) for number in sorted(chosen.tolist())]


def rows_of(numbers: Mapping[bytes, int]) -> pa.Table:
    """Return keys with their numbers."""
    return pa.table({"key": list(numbers), "value": [b"%d" % number for number in numbers.values()]})


def numbers_of(table: pa.Table) -> dict[bytes, int]:
    """Return the number of each key."""
    keys, values = (table.column(name).to_pylist() for name in ("key", "value"))
    return dict(zip(keys, map(int, values), strict=True))


class ClientWriter(Actor):
    """The real client, open all the time; it is killed now and then."""

    pause_s = 0.05
    live: LiveClient | None = None

    def step(self) -> None:
        """Write some keys, and make them durable."""
        if self.live is None:
            self.live = LiveClient(self.place.location, CLIENT)
        numbers = self.ledger.attempt(self.keys(20))
        self.live.write([Put(key, b"%d" % number) for key, number in numbers.items()])
        if self.random.random() < 0.1:
            self.live.flush_memtable()
        self.live.flush_wal()
        self.ledger.acknowledge(numbers)
        if self.random.random() < 0.002:
            self.live.kill()
            self.live = None

    def end(self) -> None:
        """Flush, since a stream of changes shows what a version has, and kill it."""
        self.live = self.live or LiveClient(self.place.location, CLIENT)
        self.live.flush_memtable()
        self.live.kill()


class StoreWriter(Actor):
    """Loads of ours that the client's coordinator commits."""

    def step(self) -> None:
        """Write some keys."""
        numbers = self.ledger.attempt(self.keys(50))
        self.place.store().write(rows_of(numbers), **COOPERATE)
        self.ledger.acknowledge(numbers)


class SparkWriter(Actor):
    """Loads of Spark."""

    pause_s = 2.0
    spark: SparkSession

    def step(self) -> None:
        """Write some keys."""
        numbers = self.ledger.attempt(self.keys(50))
        frame = self.spark.createDataFrame(rows_of(numbers)).repartition(2)
        options = {**COOPERATE, **{f"storage.{name}": value for name, value in self.place.storage.items()}}
        try:
            frame.write.format("slate").mode("append").options(**options).save(self.place.url)
        except Exception as error:  # Spark wraps errors of ours
            self.ledger.note(self.name, type(error).__name__)
            return
        self.ledger.acknowledge(numbers)


class Reader(Actor):
    """Scans, with and without a pin, and look-ups."""

    pause_s = 0.3

    def step(self) -> None:
        """Read once, and compare."""
        before, _ = self.ledger.state()
        store = self.place.store()
        if self.random.random() < 0.3 and before:
            wanted = sorted(before)[:: max(1, len(before) // 50)]
            found = numbers_of(store.lookup(pa.table({"key": wanted})).read_all())
            self.ledger.compare(self.name, found, {key: before[key] for key in wanted})
            return
        options: dict[str, Any] = {"pin": "5m"} if self.random.random() < 0.2 else {}
        self.ledger.compare(self.name, numbers_of(store.scan(**options).read_all()), before)


class Keeper(Actor):
    """Upkeep: compactions and vacuums."""

    pause_s = 5.0

    def step(self) -> None:
        """Do what is due."""
        upkeep = Upkeep(duties=["compact", "vacuum"], minAge="1h", options=COOPERATE)
        upkeep.add(self.place.url, **self.place.storage)
        for outcome in upkeep.runOnce():
            if outcome.error is not None:
                self.ledger.note(f"{self.name} {outcome.duty}", type(outcome.error).__name__)


class Stream(Actor):
    """A Spark stream of all changes, and the copy that it keeps."""

    spark: SparkSession
    checkpoint: str
    pause_s = 1.0

    def __init__(self, name: str, place: Place) -> None:
        super().__init__(name, place)
        self.copy: dict[bytes, int] = {}
        self.query: Any = None

    def step(self) -> None:
        """See to it that the query runs; one that failed is started again where it was."""
        if self.query is not None and self.query.isActive:
            return
        if self.query is not None:
            self.ledger.note(self.name, "restarted")
        options = {f"storage.{name}": value for name, value in self.place.storage.items()}
        source = self.spark.readStream.format("slate").option("readChangeFeed", "true").options(**options)
        frame = source.load(self.place.url)
        self.query = (
            frame.writeStream.foreachBatch(self.apply)
            .option("checkpointLocation", self.checkpoint)
            .trigger(processingTime="2 seconds")
            .start()
        )

    def apply(self, batch: DataFrame, _number: int) -> None:
        """Apply the changes to the copy."""
        for row in batch.collect():
            if row["_change_type"] in ("insert", "update_postimage"):
                self.copy[bytes(row["key"])] = int(bytes(row["value"]))
            elif row["_change_type"] == "delete":
                self.copy.pop(bytes(row["key"]), None)

    def catch_up(self, timeout_s: float) -> None:
        """Wait until the copy has what was acknowledged, and stop the query."""
        wanted, _ = self.ledger.state()
        until_s = time.monotonic() + timeout_s
        while any(self.copy.get(key, 0) < number for key, number in wanted.items()) and time.monotonic() < until_s:
            time.sleep(1)
            self.step()
        self.ledger.compare("stream", dict(self.copy), wanted)
        self.query.stop()
