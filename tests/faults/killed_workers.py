"""A live client whose compactions two workers do, which are killed at random: `python -m tests.faults.killed_workers`.

The client writes all the time. After every minute its rows are compared with a model: as the client shows them, a
reader, we, and a client that replays the WAL. Prints the backlog every few seconds, and the slowest puts of each
minute. A test would take too long for what it adds to `tests/interop/test_worker_processes.py`; this is run by hand.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from slatespark import SlateStore
from slatespark.table.compaction.worker_report import Backlog, backlog_of
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.stores import open_stores
from tests.support.client import ClientOptions, Location
from tests.support.client_admin import read_manifest
from tests.support.live_client import LiveClient, Traffic
from tests.support.model import Model
from tests.support.observers import check_observers

NOW_MS: Final = 2_000_000_000_000  # 2033: later than every write, before the far future
LOOK_S: Final = 5.0
START_S: Final = 10.0  # a worker is not killed before it can have begun anything

WORKER: Final = (
    *(sys.executable, "-m", "slatespark", "worker", "--poll-interval", "200ms"),
    *("--heartbeat-interval", "500ms", "--merge-operator", "concat"),
)


@dataclass(slots=True)
class Workers:
    """Two worker processes; a killed one is started again."""

    folder: Path
    chance: np.random.Generator
    running: dict[subprocess.Popen[bytes], float] = field(default_factory=dict)
    kills: int = 0

    def tend(self, kill_every_s: float, waited_s: float) -> None:
        """Kill each with the probability that fits the interval, and start what is missing."""
        for process, started in list(self.running.items()):
            if process.poll() is not None:
                raise AssertionError(f"A worker ended by itself with {process.returncode}.")
            is_old = time.monotonic() - started > START_S
            if is_old and self.chance.random() < waited_s / (kill_every_s - START_S):
                process.kill()
                process.wait()
                del self.running[process]
                self.kills += 1
        while len(self.running) < 2:
            process = subprocess.Popen([*WORKER, str(self.folder)], stdout=subprocess.DEVNULL)
            self.running[process] = time.monotonic()

    def stop(self) -> None:
        """End both."""
        for process in self.running:
            process.terminate()
        for process in self.running:
            assert process.wait(60) == 0


def run(folder: Path, given: argparse.Namespace) -> None:
    """Let the client write for as many rounds as there are minutes."""
    options = ClientOptions(
        compactor=True,
        compact_by_itself=True,
        settings={
            "compactor_options.worker": None,
            "compactor_options.worker_heartbeat_timeout": f"{given.timeout_s}s",
            "compactor_options.poll_interval": "500ms",
            "compactor_options.commit_compacted_interval": "500ms",
            "compactor_options.max_concurrent_compactions": 4,
            "l0_sst_size_bytes": given.memtable_kib << 10,
            "max_unflushed_bytes": given.memtable_kib << 12,  # beyond it puts wait for L0 to be merged
            "l0_max_ssts": 8,
            "l0_max_ssts_per_key": 8,
        },
    )
    model, location, backlogs = Model(), Location.local(folder), list[Backlog]()
    with LiveClient(location, options) as live:
        workers = Workers(folder, np.random.default_rng(given.seed))
        for number in range(given.minutes):
            live.start_writing(traffic_of(given, number))
            end = time.monotonic() + 60
            looked = 0.0
            while time.monotonic() < end:
                workers.tend(given.kill_every_s, 0.1)
                time.sleep(0.1)
                if time.monotonic() - looked > LOOK_S:
                    looked = time.monotonic()
                    backlogs.append(look(folder))
                    print(f"{time.strftime('%H:%M:%S')} {backlogs[-1]}, {workers.kills} kills", flush=True)
            told(f"minute {number + 1}", live.stop_writing())
            check_observers(live, model, NOW_MS)
            print(f"minute {number + 1}: all show the model", flush=True)
        workers.stop()
        shown = read_manifest(location)
        assert (shown.writer_epoch, shown.compactor_epoch) == (1, 1), "somebody was fenced"
        assert not SlateStore.open(str(folder)).verify().has_damage
    views = [backlog.l0_views for backlog in backlogs]
    print(
        f"L0 views: median {np.median(views):g}, at most {max(views)}; {workers.kills} kills; nothing lost", flush=True
    )


def traffic_of(given: argparse.Namespace, number: int) -> Traffic:
    """The writes of a round."""
    return Traffic(
        writes_per_s=given.writes_per_s,
        keys=5000,
        deletes=0.1,
        merges=0.1,
        ttls=0.05,
        past_ttls=0.05,
        snapshot_every=2000,
        value_bytes=100,
        seed=number,
    )


def look(folder: Path) -> Backlog:
    """What waits to be merged."""
    stores = open_stores(str(folder), storage={})
    listed = fetch_compactions(stores).value
    return backlog_of(fetch_latest_manifest(stores).value, listed)


def told(name: str, latencies: Sequence[float]) -> None:
    """Print how long puts took."""
    p50, p99 = np.percentile(latencies, [50, 99]) * 1000
    slow = sum(latency > 1 for latency in latencies)
    print(
        f"{name}: {len(latencies)} puts, p50 {p50:.2f} ms, p99 {p99:.1f} ms, slowest {max(latencies):.2f} s, "
        f"{slow} above a second",
        flush=True,
    )


def main() -> None:
    """Run in a temporary folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--writes-per-s", type=float, default=1000)
    parser.add_argument("--memtable-kib", type=int, default=64, help="size at which it is flushed")
    parser.add_argument("--kill-every-s", type=float, default=20, help="on average, of each worker; more than 10")
    parser.add_argument("--timeout-s", type=int, default=5, help="the client's worker_heartbeat_timeout")
    parser.add_argument("--seed", type=int, default=0)
    with tempfile.TemporaryDirectory(prefix="killed-workers-") as folder:
        run(Path(folder) / "db", parser.parse_args())


if __name__ == "__main__":
    main()
