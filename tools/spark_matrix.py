"""Run the Spark tests against each minor release of PySpark that slatespark supports, in an environment of its own.

    python tools/spark_matrix.py [--smoke] [--pyspark 4.1 4.2] [--python python3.13] [-- arguments of pytest]
    python tools/spark_matrix.py --bounds [--python python3.11] [-- arguments of pytest]

With `--bounds`, everything that slatespark requires is as old as setup.cfg accepts; besides the smoke tests, those run
that use it most. What it requires in turn is new, and warns of its old users: warnings are no errors there.

The environments stay in `.matrix/`. Each holds the patch release that was the newest one when it was built, and no
pandas. Java is looked up as slatespark does it. A table at the end has a row for each release. The exit status is 1 if
a test failed, or an environment could not be built.
"""

from __future__ import annotations

import argparse
import configparser
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parent.parent
RELEASES: Final = ("4.1", "4.2", "4.3")
HEADER: Final = ("PySpark", "Python", "Java", "passed", "failed", "errors", "skipped", "seconds")
COUNTED: Final = ("failures", "errors", "skipped")

_SMOKE: Final = ("tests/spark", "-m", "smoke")
# Arrow, S3 and the command line at their oldest; with the oldest s3fs a forked child hangs.
_BOUNDS: Final = (
    "tests/spark", "tests/unit/encoding", "tests/unit/cli", "tests/unit/storage/test_servers.py",
    "-m", "smoke or (not slow and not spark and not cluster)",
    "-k", "not (Minio or Azure or Google or Fsspec)", "-o", "filterwarnings=", "-n", "2", "--dist", "loadgroup",
)  # fmt: skip
_ALL: Final = ("tests", "-m", "spark or cluster", "-n", "2", "--dist", "loadgroup")


@dataclass(frozen=True)
class Environment:
    """An environment with some releases of what slatespark requires.

    Attributes
    ----------
    folder : of the environment
    pins : requirements, as `pyspark==4.1.*`
    """

    folder: Path
    pins: tuple[str, ...]

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.folder / "bin" / "python")

    def build(self, interpreter: str) -> None:
        """Build it, unless it is current."""
        wanted = ("-e", ".[test]", *self.pins)
        environment = {**os.environ, "PYTHON": interpreter}
        subprocess.run(["sh", "tools/venv.sh", str(self.folder), *wanted], cwd=REPOSITORY, env=environment, check=True)

    def ask(self, code: str) -> str:
        """Return what a line of Python prints in it."""
        answer = subprocess.run([self.python, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY)
        return answer.stdout.strip()


def main() -> int:
    """Run everything, and print the table."""
    options = _parse_arguments()
    folder = REPOSITORY / ".matrix"
    folder.mkdir(exist_ok=True)
    version = _run_quietly([options.python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
    if options.bounds:
        settings = _read_settings((REPOSITORY / "setup.cfg").read_text())
        if (oldest := settings["options"]["python_requires"].removeprefix(">=")) != version:
            print(f"The oldest releases have wheels for Python {oldest}: nothing was run on {version}.")
            return 0
        runs = [("lower bounds", lower_bounds(settings), _BOUNDS)]
    else:
        chosen = _SMOKE if options.smoke else _ALL
        runs = [(f"PySpark {release}", (f"pyspark=={release}.*",), chosen) for release in options.pyspark]
    rows, is_good = [], True
    for name, pins, tests in runs:
        print(f"\n=== {name} on Python {version} ===", flush=True)
        environment = Environment(folder / f"{name.lower().replace(' ', '-')}-python-{version}", pins)
        try:
            environment.build(options.python)
        except subprocess.CalledProcessError:
            rows.append((name.removeprefix("PySpark "), version, "", "the environment could not be built"))
            is_good = False
            continue
        row, status = _run_tests(environment, (*tests, *options.pytest))
        rows.append(row)
        is_good = is_good and status == 0
    print("\n" + format_table([HEADER, *rows]), flush=True)
    return 0 if is_good else 1


def _read_settings(setup_cfg: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read_string(setup_cfg)
    return parser


def lower_bounds(settings: configparser.ConfigParser) -> tuple[str, ...]:
    """Return pins to the oldest releases of everything that slatespark requires."""
    lines = [line for line in settings["options"]["install_requires"].split("\n") if line]
    found = [re.fullmatch(r"([\w-]+)>=([\d.]+)", line) for line in lines]
    if not all(found):
        raise ValueError(f"Every requirement needs a lower bound and nothing else: {', '.join(lines)}.")
    return tuple(f"{each[1]}=={each[2]}" for each in found if each)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="only the tests marked smoke")
    parser.add_argument("--bounds", action="store_true", help="every requirement as old as setup.cfg accepts")
    parser.add_argument("--pyspark", nargs="+", default=RELEASES, metavar="RELEASE", help="minor releases, as 4.1")
    parser.add_argument("--python", default=sys.executable, help="the interpreter; by default the one that runs this")
    parser.add_argument("pytest", nargs="*", help="more arguments of pytest, behind --")
    return parser.parse_args()


def _run_tests(environment: Environment, arguments: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """Run pytest in an environment; return its row of the table, and its exit status."""
    java_home = _run_quietly([environment.python, "-m", "slatespark.spark.java"])
    report = environment.folder / "results.xml"
    report.unlink(missing_ok=True)
    command = [environment.python, "-m", "pytest", "-p", "no:cacheprovider", f"--junit-xml={report}", *arguments]
    variables = {**os.environ, "JAVA_HOME": java_home, "PYSPARK_PYTHON": environment.python}
    started = time.monotonic()
    status = subprocess.run(command, cwd=REPOSITORY, env=variables, check=False).returncode
    seconds = f"{time.monotonic() - started:.0f}"
    versions = environment.ask("import pyspark, sys; print(pyspark.__version__, sys.version.split()[0])").split()
    return (*versions, _java_version(java_home), *count_results(report), seconds), status


def count_results(report: Path) -> tuple[str, ...]:
    """Return how many tests passed, failed, had errors and were skipped; dashes where pytest came to no end."""
    if not report.is_file():
        return ("-",) * 4
    suites = list(ET.parse(report).getroot().iter("testsuite"))
    failed, errors, skipped = (sum(int(suite.get(name, 0)) for suite in suites) for name in COUNTED)
    passed = sum(int(suite.get("tests", 0)) for suite in suites) - failed - errors - skipped
    return str(passed), str(failed), str(errors), str(skipped)


def _java_version(home: str) -> str:
    answer = subprocess.run([f"{home}/bin/java", "-version"], capture_output=True, text=True, check=True)
    found = re.search(r'version "([^"]+)"', answer.stderr)
    return found[1] if found else "?"


def _run_quietly(command: Sequence[str]) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=REPOSITORY).stdout.strip()


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows with their columns below each other; rows that are too short do not count for the widths."""
    widths = [max(len(row[place]) for row in rows if len(row) == len(HEADER)) for place in range(len(HEADER))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows
    )


if __name__ == "__main__":
    sys.exit(main())
