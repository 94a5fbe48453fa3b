"""Coding of a full sequence tracker, which every manifest that is read or written costs."""

from __future__ import annotations

from typing import Final

import numpy as np

from benchmarks.data import DataFolder
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.worker import Sample, Stopwatch, Task
from slatespark.format.sequence_tracker import SequenceTracker, decode_sequence_tracker, encode_sequence_tracker

TITLE: Final = "Coding a sequence tracker"
POINTS: Final = 8192  # its capacity
LIMIT_S: Final = 0.005

# Name -> between the sequence numbers of two points at most, and seconds beyond a minute: short codes, and the longest.
SPANS: Final = {"even steps": (1, 0), "uneven steps": (100_000, 3), "wild steps": (1 << 29, 100_000)}


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of trackers of `rows` points."""
    del data
    tasks = {
        f"{code.__name__}, {name}": Task.of(code, points=rows, name=name) for name in SPANS for code in (encode, decode)
    }
    return Benchmark(
        alternatives=[Alternative(name=name, task=task) for name, task in tasks.items()],
        base=next(iter(tasks)),
        targets=[Target(alternative=name, within_s=LIMIT_S) for name in tasks],
        notes=["rows are points of the tracker here."],
        warm_ups=3,
    )


def _tracker(points: int, name: str) -> SequenceTracker:
    steps, beyond = SPANS[name]
    drawn = np.random.default_rng(points)
    seqs = np.cumsum(drawn.integers(1, steps, points, endpoint=True)).tolist()
    seconds = (1_700_000_000 + np.cumsum(60 + drawn.integers(0, beyond, points, endpoint=True))).tolist()
    return SequenceTracker(tuple(zip(seqs, seconds, strict=True)))


# --- tasks ----------------------------------------------------------------------------------------------------------


def encode(points: int, name: str) -> Sample:
    """Encode a tracker."""
    tracker = _tracker(points, name)
    with Stopwatch() as watch:
        encode_sequence_tracker(tracker)
    return watch.sample(rows=points)


def decode(points: int, name: str) -> Sample:
    """Decode a tracker."""
    data = encode_sequence_tracker(_tracker(points, name))
    with Stopwatch() as watch:
        decode_sequence_tracker(data)
    return watch.sample(rows=points)
