"""A table that a process of its own commits to without pause, and that is reaped meanwhile."""

from __future__ import annotations

import json
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa

from benchmarks.tasks import new_folder
from benchmarks.worker import REPOSITORY, Sample, Stopwatch
from slatespark import SlateStore

DAY_MS: Final = 86_400_000
BEGAN_MS: Final = 1_700_000_000_000
NOW_MS: Final = BEGAN_MS + 40 * DAY_MS
DUE_ROWS: Final = 2000
YOUNG_ROWS: Final = 200_000
BATCH_ROWS: Final = 100
WARM_COMMITS: Final = 5
ALONE_S: Final = 3.0  # of the writer without a reap


def fill(path: Path) -> None:
    """Write one file of which 1 % of the rows are past retention, spread over all blocks."""
    store = SlateStore.create(str(path), retention="30d", autoCompact=False, versionRetention="none")
    step = YOUNG_ROWS // DUE_ROWS
    store.write(_rows(range(0, YOUNG_ROWS, step), 1), timestamp=BEGAN_MS)
    store.write(_rows(range(YOUNG_ROWS), 2).filter(_without_every(step)), timestamp=BEGAN_MS + 20 * DAY_MS)
    store.compact(full=True, now=BEGAN_MS)


def _rows(numbers: range, value: int) -> pa.Table:
    return pa.table({"key": [b"k%09d" % number for number in numbers], "value": [b"%d" % value * 100] * len(numbers)})


def _without_every(step: int) -> pa.Array:
    return pa.array([number % step != 0 for number in range(YOUNG_ROWS)])


def reap_alone(table: str) -> Sample:
    """Reap a copy of the table in small batches."""
    with _copied(table) as place, Stopwatch() as watch:
        report = SlateStore.open(str(place)).reap(now=NOW_MS, maxBatchRows=BATCH_ROWS)
    return watch.sample(rows=report.rows, passes=report.passes)


def reap_beside(table: str) -> Sample:
    """Reap a copy of the table beside the writer; `commit_s` is the writer's time per commit meanwhile."""
    with _copied(table) as place, _writer(place) as commits:
        began = time.monotonic()
        with Stopwatch() as watch:
            report = SlateStore.open(str(place)).reap(now=NOW_MS, maxBatchRows=BATCH_ROWS)
        ended = time.monotonic()
    return watch.sample(rows=report.rows, passes=report.passes, commit_s=_seconds_each(commits, began, ended))


def write_alone(table: str) -> Sample:
    """Let the writer commit alone for a while; `commit_s` is its time per commit."""
    with _copied(table) as place, _writer(place) as commits:
        began = time.monotonic()
        with Stopwatch() as watch:
            time.sleep(ALONE_S)
        ended = time.monotonic()
    return watch.sample(commit_s=_seconds_each(commits, began, ended))


def _seconds_each(commits: list[float], began: float, ended: float) -> float:
    return (ended - began) / max(1, sum(began <= at <= ended for at in commits))


@contextmanager
def _copied(table: str) -> Iterator[Path]:
    with new_folder() as folder:
        yield shutil.copytree(table, folder / "copy")


@contextmanager
def _writer(place: Path) -> Iterator[list[float]]:
    """Let another process commit without pause; yields when it did, in the end."""
    commits: list[float] = []
    command = [sys.executable, "-m", "benchmarks.busy_table", str(place)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()  # it has committed a few times
        try:
            yield commits
        finally:
            child.stdin.close()
            commits.extend(json.loads(child.stdout.readline()))


def commit_without_pause(place: str) -> None:
    """Write one row again and again until the standard input ends."""
    store = SlateStore.open(place)
    row, commits = pa.table({"key": [b"written"], "value": [b"v"]}), []
    while not select.select([sys.stdin], [], [], 0)[0]:
        store.write(row)
        commits.append(time.monotonic())
        if len(commits) == WARM_COMMITS:
            print("ready", flush=True)
    print(json.dumps(commits), flush=True)


if __name__ == "__main__":
    commit_without_pause(sys.argv[1])
