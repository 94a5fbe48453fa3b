"""`python -m tests.simulation`: run seeds, one or as many as fit into some time."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.simulation.faults import Fault
from tests.simulation.run import SeedError, SeedReport, simulate

REPORT_EVERY: Final = 500


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one alone")
    parser.add_argument("--first", type=int, default=0, help="the first seed of many")
    parser.add_argument("--count", type=int, default=1 << 60, help="how many")
    parser.add_argument("--seconds", type=float, default=60.0, help="stop after this time")
    parser.add_argument(
        "--client-every", type=int, default=50, help="the real client opens the table of each n-th seed"
    )
    parser.add_argument("--whole", action="store_true", help="print the whole history of a seed")
    parser.add_argument("--keep-going", action="store_true", help="go on after a seed that fails")
    given = parser.parse_args()
    logging.getLogger("slatespark").setLevel(logging.ERROR)  # warnings of what fails and is tried again
    with tempfile.TemporaryDirectory() as folder:
        if given.seed is not None:
            return _run_one(given.seed, Path(folder), is_whole=given.whole)
        return _run_many(given, Path(folder))


def _run_one(seed: int, folder: Path, *, is_whole: bool) -> int:
    try:
        report = simulate(seed, client_folder=folder)
    except SeedError as exc:
        if is_whole:
            print(exc.history.whole())
        print(exc)
        return 1
    print("\n".join(map(str, report.history.events)) if is_whole else "\n".join(report.history.shortened()))
    print(f"seed {seed}: {report.steps} storage calls, {report.commits} versions, no difference")
    return 0


@dataclass(slots=True)
class _Totals:
    """What all seeds had together."""

    seeds: int = 0
    steps: int = 0
    commits: int = 0
    failures: int = 0
    faults: Counter[Fault] = field(default_factory=Counter)
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, report: SeedReport) -> None:
        self.steps, self.commits = self.steps + report.steps, self.commits + report.commits
        self.faults += report.faults
        self.outcomes += report.outcomes

    def __str__(self) -> str:
        faults = ", ".join(f"{count} {fault.name}" for fault, count in sorted(self.faults.items(), key=str))
        return (
            f"{self.seeds} seeds, {self.steps} storage calls, {self.commits} versions, {self.failures} failures\n"
            f"faults: {faults}"
        )


def _run_many(given: argparse.Namespace, folder: Path) -> int:
    begun, totals = time.monotonic(), _Totals()
    for seed in range(given.first, given.first + given.count):
        if time.monotonic() - begun > given.seconds:
            break
        totals.seeds += 1
        try:
            totals.add(simulate(seed, client_folder=folder if seed % given.client_every == 0 else None))
        except SeedError as exc:
            totals.failures += 1
            print(str(exc).rpartition("\n\n")[2] if given.keep_going else str(exc), flush=True)
            if not given.keep_going:
                break
        if totals.seeds % REPORT_EVERY == 0:
            print(totals, flush=True)
    print(totals)
    for (name, outcome), count in sorted(totals.outcomes.items()):
        print(f"  {name:<16} {outcome:<28} {count}")
    return 1 if totals.failures else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets of strings must be the same in each run
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    sys.exit(main())
