"""The compaction worker for a live client: its merges against those of `compact`, and what the client can write."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from benchmarks.compaction import CODECS, LAYERS, compact_slate, data_bytes
from benchmarks.data import DataFolder
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.live_client import LiveWriter
from benchmarks.tasks import linked_copy, new_folder
from benchmarks.worker import Sample, Stopwatch, Task
from slatespark import CompactionWorker, SlateStore
from slatespark.format.compactions import CompactionStatus
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.stores import open_stores

TITLE: Final = "The compaction worker for a live client, against `compact` and the client's own worker"

POLL_S: Final = 0.01
TIMEOUT_S: Final = 120

OURS: Final = "client writes, our worker merges"
THEIRS: Final = "client writes, its own worker merges"

# The client's defaults, but for memtables so small that there is something to merge within a minute.
_WRITING: Final[dict[str, object]] = {"l0_sst_size_bytes": 4 << 20}
_QUICK: Final[dict[str, object]] = {
    "compactor_options.poll_interval": "50ms",
    "compactor_options.commit_compacted_interval": "50ms",
}
_OFF: Final[dict[str, object]] = {"compactor_options.worker": None}


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of `rows` rows in the files of a job; a quarter as many are written by a client."""
    written = rows // 4
    files = {ours: data.client_layers(rows, LAYERS, codec=theirs) for ours, theirs in CODECS.items()}
    merges = [
        Alternative(name=f"{who}, {codec}", task=Task.of(merge, source=path, codec=codec, rows=rows))
        for codec, path in files.items()
        for who, merge in (("worker", merge_for_client), ("compact", merge_at_rest))
    ]
    writes = [
        Alternative(name=name, task=Task.of(write_beside, rows=written, by_us=name == OURS)) for name in (OURS, THEIRS)
    ]
    pairs = [(f"worker, {codec}", f"compact, {codec}") for codec in CODECS]
    return Benchmark(
        alternatives=[*merges, *writes],
        base="compact, none",
        targets=[
            *(Target(alternative=ours, against=peer, at_most=1.0, measure="cpu_seconds") for ours, peer in pairs),
            Target(alternative=OURS, against=THEIRS, at_most=1.0),
        ],
        notes=[
            f"Merges: {rows:,} rows of 16 + 100 bytes, unique keys, {LAYERS} files of the client, which it schedules.",
            "MB of data: " + ", ".join(f"{codec} {data_bytes(path) / 1e6:.0f}" for codec, path in files.items()) + ".",
            "worker: from the claim to the hand-over, with heartbeats; the client is another process.",
            f"Writes: {written:,} rows in batches of 1,000 puts as fast as they go, memtables of 4 MiB, all else as it",
            "is by default: the client's worker, and its coordinator, look every 5 s; ours looks every second.",
        ],
        same=(),  # merges and writes differ; each counts its rows itself
    )


# --- tasks ----------------------------------------------------------------------------------------------------------


def merge_at_rest(source: str, codec: str, rows: int) -> Sample:
    """Merge the same files with `SlateStore.compact`."""
    sample = compact_slate(source, codec)
    assert sample["rows"] == rows
    return sample


def merge_for_client(source: str, codec: str, rows: int) -> Sample:
    """Merge the job that a client schedules for its L0 files."""
    with linked_copy(source) as path, LiveWriter(path, {**_QUICK, **_OFF}) as live:
        _await(lambda: CompactionStatus.SCHEDULED in _statuses(path))
        worker = CompactionWorker([path], options={"compression": codec})
        with Stopwatch() as watch:
            [outcome] = worker.runOnce()
        assert outcome.error is None, outcome.error
        _await(lambda: CompactionStatus.COMPLETED in _statuses(path))
        assert live.is_open()
        live.close()
        assert _rows(path) == rows
        return watch.sample(rows=rows)


def write_beside(rows: int, *, by_us: bool) -> Sample:
    """Let a client write as fast as it goes, while a worker merges for it."""
    settings = {**_WRITING, **(_OFF if by_us else {})}
    with new_folder() as folder, ExitStack() as stack:
        path = folder / "written"
        live = stack.enter_context(LiveWriter(path, settings))
        if by_us:
            stack.enter_context(_worker_process(path))
        answer = live.put_all(rows=rows, part=0)
        assert live.is_open()
        live.close()
        assert _rows(path) == rows
        return {**answer, "rows": rows}


@contextmanager
def _worker_process(path: Path) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-m", "slatespark", "worker", str(path)], stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0


def _statuses(path: Path) -> list[CompactionStatus]:
    return [job.status for job in fetch_compactions(open_stores(str(path), storage={})).value.jobs]


def _await(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end, "the client does not answer"
        time.sleep(POLL_S)


def _rows(path: Path) -> int:
    return sum(len(batch) for batch in SlateStore.open(str(path)).scan())
