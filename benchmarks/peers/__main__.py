"""Build the environments of the peers, or those that are named: `python -m benchmarks.peers [NAME...]`.

Maven must be on the path, for the jars; a Java is found as slatespark finds it. They stay in `.matrix/`.
"""

from __future__ import annotations

import argparse

from benchmarks.peers.environments import ENVIRONMENTS
from slatespark.spark.java import ensure_java


def main() -> None:
    """Build."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ENVIRONMENTS)}; default: all")
    names = parser.parse_args().names
    if unknown := set(names) - set(ENVIRONMENTS):
        parser.error(f"no such environment: {', '.join(sorted(unknown))}")
    ensure_java()
    for name in names or ENVIRONMENTS:
        ENVIRONMENTS[name].build()
        print(f"{name}: {ENVIRONMENTS[name].versions()}")


if __name__ == "__main__":
    main()
