"""Fuzz every decoder: `make fuzz SECONDS=600`, or `python -m tests.fuzz --help`."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import checked_memory
from tests.fuzz.corpus import MAX_INPUT_BYTES, minimise, read_corpus, write_corpus
from tests.fuzz.seeds import make_seeds
from tests.fuzz.targets import TARGETS

_COVERED = re.compile(r"cov: (\d+) ft: (\d+)")
_TRIED = re.compile(r"stat::number_of_executed_units: *(\d+)")
_INPUT_SECONDS, _MEMORY_MB = 20, 2048


@dataclass(frozen=True)
class Outcome:
    """What a run of one decoder came to; `failure` is the path of an input, or the end of what it printed."""

    target: str
    tried: int
    branches: int
    processor_s: float
    failure: str | None


def main(arguments: Sequence[str]) -> int:
    """Fuzz decoders one after the other, for an equal time each; 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", default=[*TARGETS], help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=float, default=600, help="for all decoders together")
    parser.add_argument("--work", type=Path, default=Path(".fuzz"), help="folder of inputs found, kept between runs")
    parser.add_argument("--keep", action="store_true", help="only minimise the inputs found, into tests/data/fuzz")
    given = parser.parse_args(arguments)
    if given.keep:
        checked_memory.install()  # so that the lines of kernels count
        seeds = make_seeds()
        for target in given.targets:
            _keep(target, given.work / target, seeds[target])
        return 0
    outcomes = [_fuzz(target, given.work, given.seconds / len(given.targets)) for target in given.targets]
    print("decoder         inputs  branches  processor s")
    for each in outcomes:
        print(f"{each.target:14}{each.tried:8,}{each.branches:10,}{each.processor_s:13.0f}  {each.failure or ''}")
    return int(any(each.failure for each in outcomes))


def _fuzz(target: str, work: Path, seconds: float) -> Outcome:
    """Run one decoder in a process of its own."""
    folder, failures = work / target, work / "failures"
    folder.mkdir(parents=True, exist_ok=True)
    failures.mkdir(exist_ok=True)
    for number, data in enumerate(read_corpus(target)):
        (folder / f"corpus-{number}").write_bytes(data)
    options = {
        "max_total_time": max(1, round(seconds)),
        "timeout": _INPUT_SECONDS,
        "rss_limit_mb": _MEMORY_MB,
        "max_len": MAX_INPUT_BYTES,
        "print_final_stats": 1,
        "artifact_prefix": f"{failures}/{target}-",
    }
    began = os.times()
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.decoder", target, *_flags(options), str(folder)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    ended = os.times()
    (failures / f"{target}.log").write_text(done.stdout + done.stderr)
    branches = [int(found[0]) for found in _COVERED.findall(done.stderr)]
    tried = _TRIED.search(done.stderr)
    return Outcome(
        target,
        int(tried[1]) if tried else 0,
        max(branches, default=0),
        ended.children_user - began.children_user + ended.children_system - began.children_system,
        None if done.returncode == 0 else f"failed: {failures}/{target}.log",
    )


def _flags(options: dict[str, object]) -> Iterator[str]:
    return (f"-{name}={value}" for name, value in options.items())


def _keep(target: str, folder: Path, seeds: list[bytes]) -> None:
    began = time.monotonic()
    found = [path.read_bytes() for path in folder.glob("*")] if folder.exists() else []
    inputs, steps = minimise(target, [*read_corpus(target), *seeds, *found])
    write_corpus(target, inputs)
    size = sum(map(len, inputs))
    print(f"{target}: {len(inputs)} inputs, {size:,} bytes, {len(steps):,} steps, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
