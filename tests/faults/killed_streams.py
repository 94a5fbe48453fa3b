"""A stream into a table whose processes are killed at random: `python -m tests.faults.killed_streams --kills 100`.

Most kills hit a Python worker of Spark: one that plans, writes or commits a batch, or the daemon that they come from.
Others hit the driver with all of its processes. In the end every row must be there, once.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import psutil
import pyarrow as pa

from slatespark import SlateStore, TableNotFoundError
from tests.faults.streaming_child import ROWS, STOP
from tests.support.cluster import REPOSITORY

PATIENCE_S: Final = 120.0  # for the next batch
LONGEST_S: Final = 0.8  # from a new batch to a kill; a batch takes less


@dataclass(slots=True)
class KilledStream:
    """A stream, and who kills its processes."""

    folder: Path
    chance: np.random.Generator
    driver: subprocess.Popen[str] | None = None
    kills: dict[str, int] = field(default_factory=lambda: {"driver": 0, "worker": 0})

    def run(self, *, kills: int, of_drivers: int) -> int:
        """Kill so often, let the stream end, and return how many rows it has written, each once."""
        schema = pa.schema([("id", pa.int64()), ("n", pa.binary())])
        table = str(self.folder / "table")
        SlateStore.create(table, schema, keyColumns="id", valueFormat="raw", mergeOperator="sum")
        victims = ["driver"] * of_drivers + ["worker"] * (kills - of_drivers)
        self.chance.shuffle(victims)
        try:
            for victim in victims:
                self._await_batch()
                time.sleep(self.chance.random() * LONGEST_S)
                self._kill(victim)
            self._await_batch()
            (self.folder / STOP).touch()
            status = self._running().wait(PATIENCE_S)
            assert status == 0, f"the stream ended with {status}: {self._said()}"
        finally:
            if self.driver is not None and self.driver.poll() is None:
                os.killpg(self.driver.pid, signal.SIGKILL)
        return check_rows(table)

    def _running(self) -> subprocess.Popen[str]:
        """Return the driver; a new one, if it was killed."""
        if self.driver is None:
            command = [sys.executable, "-m", "tests.faults.streaming_child", str(self.folder)]
            with (self.folder / "log").open("a") as log:
                self.driver = subprocess.Popen(
                    command, cwd=REPOSITORY, stdout=log, stderr=log, text=True, start_new_session=True
                )
        return self.driver

    def _await_batch(self) -> None:
        before, until_s = self._version(), time.monotonic() + PATIENCE_S
        while self._version() < before + 2:  # a claim comes before each commit
            status = self._running().poll()
            assert status is None, f"the stream ended with {status}: {self._said()}"
            assert time.monotonic() < until_s, f"no batch within {PATIENCE_S:g} s: {self._said()}"
            time.sleep(0.02)

    def _version(self) -> int:
        try:
            return SlateStore.open(str(self.folder / "table")).resolve().version
        except TableNotFoundError:
            return 0

    def _kill(self, victim: str) -> None:
        driver = self._running()
        if victim == "driver":
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
            self.driver = None  # a worker of its may live on for a moment, and commit beside its successor
        else:
            with contextlib.suppress(psutil.NoSuchProcess, ValueError):  # none is left
                workers = [each for each in psutil.Process(driver.pid).children(recursive=True) if is_python(each)]
                workers[self.chance.integers(len(workers))].kill()
        self.kills[victim] += 1

    def _said(self) -> str:
        return (self.folder / "log").read_text()[-4000:]


def is_python(process: psutil.Process) -> bool:
    """Tell whether a process is one of Python, and still there."""
    try:
        return "python" in process.name()
    except psutil.NoSuchProcess:
        return False


def check_rows(table: str) -> int:
    """Return how many rows there are; fails unless they are the first ones of the stream, each once."""
    rows = SlateStore.open(table).scan().read_all()
    assert rows["id"].to_pylist() == list(range(rows.num_rows)), "rows are missing"
    assert rows.num_rows % ROWS == 0
    sums = {int.from_bytes(value, "little") for value in rows["n"].to_pylist()}
    assert sums == {1}, f"rows came {sums} times"
    return int(rows.num_rows)


def main() -> None:
    """Run it by hand."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--drivers", type=int, default=10, help="how many of them hit the driver")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slatespark-killed-") as folder:
        stream = KilledStream(Path(folder), np.random.default_rng(given.seed))
        rows = stream.run(kills=given.kills, of_drivers=given.drivers)
        print(f"{rows} rows, each once, after {stream.kills}")


if __name__ == "__main__":
    main()
