"""Let everybody work on one table for a while: `make soak SECONDS=600`.

A real client, loads of ours and of Spark, a stream, a worker, upkeep and readers share a table on versitygw, a real S3
server. Ours reach it through a proxy that loses requests and answers, cuts answers, and says that it is busy. With
`--rivals` nobody cooperates, and others share it: see `rivals`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psutil

from slatespark import SlateStore
from tests.soak.actors import Actor, ClientWriter, Keeper, Place, Reader, SparkWriter, StoreWriter, Stream, numbers_of
from tests.soak.rivals import (
    Accountants,
    Deleter,
    FencedClient,
    Group,
    LogMirror,
    Mirror,
    RivalKeeper,
    RivalReader,
    open_accounts,
)
from tests.support.s3_process import KEY, REGION, SECRET, S3Process
from tests.support.server_process import find_program, free_port
from tests.support.versitygw import PROGRAM
from tests.unit.storage.faulty_proxy import Fault, FaultyProxy, behind

_FAULTS: Sequence[Fault] = ("drop", "lose answer", "cut", (503, "SlowDown"), (500, "InternalError"), (500, "x", "late"))
_SAMPLE_S = 10
_CATCH_UP_S = 120


def main(arguments: Sequence[str]) -> int:
    """Run the soak and print its figures; 1 if something was lost, wrong, or failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--faults", type=float, default=0.01, help="share of requests of ours that go wrong")
    parser.add_argument("--without-spark", action="store_true")
    parser.add_argument("--rivals", action="store_true", help="nobody cooperates: each writer fences the others")
    given = parser.parse_args(arguments)
    port = free_port()
    place = ["--port", f"127.0.0.1:{port}", "--region", REGION, "--keep-alive", "--quiet", "posix", "."]
    command, environment = [find_program(*PROGRAM), *place], {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
    with S3Process(command, port, environment) as server, FaultyProxy(server.endpoint).running() as proxy:
        url = f"{server.create_bucket()}/soak/table"
        shared = Place(url, behind(proxy, server.options), server.location(url))
        return _run(shared, proxy, given)


def _run(place: Place, proxy: FaultyProxy, given: argparse.Namespace) -> int:
    SlateStore.create(place.url, versionRetention="1h", **place.storage)
    if given.rivals:
        return _run_rivals(place, proxy, given)
    actors: list[Actor] = [ClientWriter("client", place), StoreWriter("store", place), Keeper("upkeep", place)]
    actors += [Reader("reader", place), Reader("second reader", place)]
    stream: Stream | None = None
    folder = tempfile.TemporaryDirectory()
    if not given.without_spark:
        from pyspark.sql import SparkSession

        from slatespark.spark.java import ensure_java

        ensure_java()
        spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        SparkWriter.spark = Stream.spark = spark
        Stream.checkpoint = str(Path(folder.name) / "checkpoint")
        stream = Stream("stream", place)
        actors += [SparkWriter("spark", place), stream]
    storage = [part for name, value in place.storage.items() for part in ("--storage", f"{name}={value}")]
    worker = [sys.executable, "-m", "slatespark", "worker", place.url, "--poll-interval", "200ms", *storage]
    process = subprocess.Popen(worker, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    meter = _Meter(proxy, given.faults)
    began_s = time.monotonic()
    _let_work(place, meter, actors, given.seconds)
    if stream is not None and stream.failure is None:
        stream.catch_up(_CATCH_UP_S)
    process.terminate()
    process.wait()
    acknowledged, _ = place.ledger.state()
    place.ledger.compare("the end", numbers_of(place.store().scan().read_all()), acknowledged)
    return _report(place, meter, actors, time.monotonic() - began_s)


def _run_rivals(place: Place, proxy: FaultyProxy, given: argparse.Namespace) -> int:
    open_accounts(place)
    groups = [Group("group-a", place), Group("group-b", place)]
    readers = [RivalReader("reader", place, groups), RivalReader("second reader", place, groups)]
    actors: list[Actor] = [FencedClient("client", place), Deleter("deleter", place), RivalKeeper("upkeep", place)]
    actors += [*groups, *readers, *(Accountants(f"bank-{number}", place) for number in range(2))]
    actors += [Mirror("mirror", place), LogMirror("log mirror", place)]
    meter = _Meter(proxy, given.faults)
    began_s = time.monotonic()
    _let_work(place, meter, actors, given.seconds)
    before, _ = place.ledger.state()
    readers[0].compare(place.store().scan().read_all(), before)
    return _report(place, meter, actors, time.monotonic() - began_s)


def _let_work(place: Place, meter: _Meter, actors: Sequence[Actor], seconds: float) -> None:
    """Let all work for a while, or until one fails."""
    began_s = time.monotonic()
    for actor in actors:
        actor.start()
    while time.monotonic() - began_s < seconds and all(actor.failure is None for actor in actors):
        time.sleep(_SAMPLE_S)
        meter.sample()
    meter.share = 0.0
    place.is_over.set()
    for actor in actors:
        actor.join(_CATCH_UP_S)


class _Meter:
    """Decides what goes wrong, and counts."""

    def __init__(self, proxy: FaultyProxy, share: float) -> None:
        self.proxy, self.share = proxy, share
        self.random = np.random.default_rng(0)
        self.faults = self.requests = 0
        self.memory: list[dict[str, int]] = []
        self.lock = threading.Lock()
        proxy.decide = self.decide

    def decide(self, _method: str, _path: str) -> Fault:
        """Return what happens to a request."""
        with self.lock:
            self.requests += 1
            if self.random.random() >= self.share:
                return "pass"
            self.faults += 1
            return _FAULTS[int(self.random.integers(len(_FAULTS)))]

    def sample(self) -> None:
        """Note the memory of all processes, and let the proxy forget what it was asked."""
        self.proxy.requests.clear()
        self.proxy.headers.clear()
        here = psutil.Process()
        found = {"this process": here.memory_info().rss}
        for child in here.children(recursive=True):
            try:
                words = child.cmdline()
                name = "worker" if "worker" in words else Path(words[0]).name if words else "?"
                found[name] = found.get(name, 0) + child.memory_info().rss
            except psutil.Error:
                continue
        self.memory.append(found)


def _report(place: Place, meter: _Meter, actors: Sequence[Actor], took_s: float) -> int:
    ledger = place.ledger
    acknowledged, _ = ledger.state()
    findings = place.store().verify().findings
    print(
        f"{took_s:.0f} s; {meter.requests:,} requests of ours, {meter.faults:,} went wrong, {meter.proxy.bytes:,} bytes"
    )
    for (actor, outcome), count in sorted(ledger.outcomes.items()):
        stall = f", longest pause {ledger.stalls_s[actor]:.1f} s" if outcome == "done" else ""
        print(f"  {actor}: {outcome} {count:,}{stall}")
    print(f"keys {len(acknowledged):,}, numbers acknowledged {sum(acknowledged.values()):,}")
    for name in sorted({name for sample in meter.memory for name in sample}):
        sizes = [sample.get(name, 0) >> 20 for sample in meter.memory]
        print(f"  memory of {name}, MB: " + " ".join(map(str, sizes[:: max(1, len(sizes) // 10)])))
    failures = [f"{actor.name}: {actor.failure!r}" for actor in actors if actor.failure is not None]
    for what, found in (("lost", ledger.lost), ("wrong", ledger.wrong), ("failed", failures), ("findings", findings)):
        print(f"{what}: {len(found)}", *map(str, list(found)[:5]), sep="\n  ")
    return int(bool(ledger.lost or ledger.wrong or failures or findings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
