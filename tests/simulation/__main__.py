"""`python -m tests.simulation`: run seeds, one or as many as fit into some time."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.simulation.run import SeedError, simulate


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


def _run_many(given: argparse.Namespace, folder: Path) -> int:
    begun = time.monotonic()
    seeds = steps = commits = failures = 0
    faults: Counter[str] = Counter()
    outcomes: Counter[tuple[str, str]] = Counter()
    for seed in range(given.first, given.first + given.count):
        if time.monotonic() - begun > given.seconds:
            break
        seeds += 1
        try:
            report = simulate(seed, client_folder=folder if seed % given.client_every == 0 else None)
        except SeedError as exc:
            failures += 1
            print(str(exc) if not given.keep_going else str(exc).rpartition("\n\n")[2], flush=True)
            if not given.keep_going:
                break
            continue
        steps, commits = steps + report.steps, commits + report.commits
        faults.update({fault.name: count for fault, count in report.faults.items()})
        outcomes.update(report.outcomes)
    print(f"{seeds} seeds, {steps} storage calls, {commits} versions, {failures} failures")
    print("faults:", ", ".join(f"{count} {name}" for name, count in sorted(faults.items())))
    for (name, outcome), count in sorted(outcomes.items()):
        print(f"  {name:<16} {outcome:<28} {count}")
    return 1 if failures else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets of strings must be the same in each run
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    sys.exit(main())
