"""A run of 1,000 random replacements of one table: `python -m tests.property.many_replacements [--commits N]`.

It prints the time of the commits by hundreds, automatic compactions included. It fails if a view shows nothing, or a
file is left that no version needs; it exits with 1 if the median of a hundred exceeds 1.5 times that of the first.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Final

from slatespark.table.log.manifests import fetch_latest_manifest
from tests.support.replaced_table import ReplacedTable

GROUP: Final = 100
MOST: Final = 1.5


def run(folder: Path, commits: int, seed: int) -> list[float]:
    """Replace intervals at random, and return the seconds that each commit took."""
    table = ReplacedTable(str(folder / "db"), seed)
    table.seconds.clear()
    for number in range(commits):
        table.replace(number)
        if number % GROUP == GROUP - 1:
            print(_line(table), flush=True)
            table.check()
            table.check_files()
    return table.seconds


def _line(table: ReplacedTable) -> str:
    latest = fetch_latest_manifest(table.store._stores)[1]
    last = table.seconds[-GROUP:]
    times = f"median {statistics.median(last) * 1000:6.1f} ms, slowest {max(last) * 1000:6.1f} ms"
    return f"{len(table.seconds):5} commits: {times}; {len(latest.ssts)} files, {len(list(latest.views()))} views"


def main() -> int:
    """Run, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--commits", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        times = run(Path(folder), given.commits, given.seed)
    medians = [statistics.median(times[at : at + GROUP]) for at in range(0, len(times), GROUP)]
    worst = max(medians) / medians[0]
    print(f"slowest hundred: {worst:.2f} times the first")
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())
