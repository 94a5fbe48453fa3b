"""Alternatives that do the same work, run interleaved (A B C A B C ...), each in a process of its own."""

from __future__ import annotations

import itertools
import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from benchmarks.resident_memory import MemoryWatch
from benchmarks.worker import Sample, Task, WorkerProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One way to do the work.

    Attributes
    ----------
    name : for the table
    task : does the work once and returns a sample
    process : alternatives of one name share a process (a Spark session, say); by default each has its own
    fresh : a new process for each round
    prepare : run once in each process before the first round
    max_rounds : slow alternatives take part in the first rounds only
    warm_up : whether it takes part in the rounds that are not measured
    watch : measure memory: None, `process` (of the worker) or `python-workers` (of the Spark it started)
    work : what it does, where a benchmark does several things: the first alternative of each is the base of the others
    python : interpreter of its process; by default the one that runs this
    """

    name: str
    task: Task
    process: str | None = None
    fresh: bool = False
    prepare: Task | None = None
    max_rounds: int | None = None
    warm_up: bool = True
    watch: str | None = None
    work: str = ""
    python: str = sys.executable


# Of which a target may be stated; a sample may have others.
Measure: TypeAlias = Literal[
    "seconds",
    "cpu_seconds",
    "peak_bytes",
    "written_bytes",
    "stored_bytes",
    "claimed_s",
    "put_p99_s",
    "commit_s",
    "median_s",
    "write_s",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """How an alternative should compare with another: `at_least` times faster, or `at_most` times its figure.

    Or its figure should be at most so many seconds, `within_s`, whatever the others do.
    """

    alternative: str
    against: str = ""
    at_least: float | None = None
    at_most: float | None = None
    within_s: float | None = None
    measure: Measure = "seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Alternatives, the one that the others are compared with, and what was aimed at.

    Attributes
    ----------
    notes : what a reader of the figures must know about data and conditions
    same : measures that must be equal in all samples of one work: the proof that all did the same
    warm_ups : rounds that are not measured, unless the caller wants another number
    """

    alternatives: Sequence[Alternative]
    base: str
    targets: Sequence[Target] = ()
    notes: Sequence[str] = ()
    same: Sequence[str] = ("rows",)
    warm_ups: int = 1

    def only(self, parts: Sequence[str]) -> Benchmark:
        """Return the benchmark with those alternatives whose name holds one of the texts; all for none."""
        if not parts:
            return self
        kept = [one for one in self.alternatives if any(part in one.name for part in parts)]
        if not kept:
            raise SystemExit(f"No alternative is named like {parts}: {[one.name for one in self.alternatives]}")
        names = {one.name for one in kept}
        targets = [target for target in self.targets if {target.alternative, target.against} <= {*names, ""}]
        base = self.base if self.base in names else kept[0].name
        return replace(self, alternatives=kept, base=base, targets=targets)


@dataclass(frozen=True, slots=True)
class Result:
    """The samples of every alternative, by name; the n-th ones belong to one round."""

    benchmark: Benchmark
    samples: Mapping[str, list[Sample]]

    def base_of(self, name: str) -> str:
        """Return the alternative that one is compared with: the benchmark's base, or the first of the same work."""
        works = {one.name: one.work for one in self.benchmark.alternatives}
        return (
            next(other for other, work in works.items() if work == works[name]) if works[name] else self.benchmark.base
        )

    def values(self, name: str, measure: str = "seconds") -> list[float]:
        """Return one measure of an alternative, by round."""
        return [float(sample[measure]) for sample in self.samples[name] if measure in sample]

    def median(self, name: str, measure: str = "seconds") -> float:
        """Return the median of a measure over the rounds."""
        return statistics.median(self.values(name, measure))

    def ratios(self, name: str, against: str, measure: str = "seconds") -> list[float]:
        """Return the ratios of two alternatives, round by round."""
        pairs = zip(self.values(name, measure), self.values(against, measure), strict=False)
        return [one / other for one, other in pairs]


def run(benchmark: Benchmark, scratch: Path, *, rounds: int, warm_ups: int | None = None) -> Result:
    """Run all alternatives in turn, and return the samples of `rounds` rounds after `warm_ups` without.

    Parameters
    ----------
    scratch : folder for the logs of the worker processes, and what they write
    """
    samples: dict[str, list[Sample]] = {one.name: [] for one in benchmark.alternatives}
    with ExitStack() as stack:
        workers = _Workers(stack, scratch)
        for number in range(-(benchmark.warm_ups if warm_ups is None else warm_ups), rounds):
            for one in benchmark.alternatives:
                left_out = not one.warm_up if number < 0 else number >= (one.max_rounds or rounds)
                if left_out:
                    continue
                _progress(f"round {number + 1} of {rounds}: {one.name}" if number >= 0 else f"warm-up: {one.name}")
                sample = workers.sample(one)
                if number >= 0:
                    samples[one.name].append(sample)
    _progress("")
    _check_same(benchmark, samples)
    return Result(benchmark, samples)


def profile(benchmark: Benchmark, scratch: Path) -> str:
    """Return the profile of one run of each alternative, after one without."""
    found = []
    with ExitStack() as stack:
        workers = _Workers(stack, scratch)
        for one in benchmark.alternatives:
            workers.sample(one)
            text = workers.of(one).profile(one.task)
            found.append(f"=== {one.name}\n{text}")
    return "\n".join(found)


class _Workers:
    """The worker processes of a run, started when they are first needed."""

    def __init__(self, stack: ExitStack, scratch: Path) -> None:
        self._stack, self._scratch = stack, scratch
        self._kept: dict[str, WorkerProcess] = {}

    def of(self, one: Alternative) -> WorkerProcess:
        name = one.process or one.name
        if name not in self._kept:
            self._kept[name] = self._start(self._stack, one)
        return self._kept[name]

    def sample(self, one: Alternative) -> Sample:
        if not one.fresh:
            return _sample_of(self.of(one), one)
        with ExitStack() as stack:
            return _sample_of(self._start(stack, one), one)

    def _start(self, stack: ExitStack, one: Alternative) -> WorkerProcess:
        worker = stack.enter_context(WorkerProcess(one.process or one.name, self._scratch, one.python))
        if one.prepare is not None:
            worker.run(one.prepare)
        return worker


def _sample_of(worker: WorkerProcess, one: Alternative) -> Sample:
    if one.watch is None:
        return worker.run(one.task)
    with MemoryWatch(worker.pid, python_workers=one.watch == "python-workers") as watch:
        sample = worker.run(one.task)
    return {**sample, "idle_bytes": watch.idle_bytes, "peak_bytes": watch.peak_bytes}


def _check_same(benchmark: Benchmark, samples: Mapping[str, list[Sample]]) -> None:
    works = {one.name: one.work for one in benchmark.alternatives}
    for measure, work in itertools.product(benchmark.same, dict.fromkeys(works.values())):
        found = {name: {one.get(measure) for one in taken} for name, taken in samples.items() if works[name] == work}
        if len(set().union(*found.values())) > 1:
            raise SystemExit(f"The alternatives did not do the same work; {measure} are {found}.")


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
