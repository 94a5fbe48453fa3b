"""`python -m benchmarks NAME`: run one benchmark, or all of them, and print what came out."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final, TypeAlias

from benchmarks import (
    as_of,
    bulk_write,
    changes,
    cluster_compaction,
    cold,
    columnar,
    compaction,
    compaction_worker,
    cores,
    distant_calls,
    distant_load,
    distant_scan,
    erase,
    expiry_scan,
    key_kinds,
    live_load,
    live_scan,
    memory,
    plan,
    reap,
    replace,
    replace_days,
    scan,
    spark_count,
    spark_settings,
    stream_load,
    stream_sink,
    stream_source,
    tracker,
    typed_load,
    typed_lookup,
    typed_scan,
)
from benchmarks.data import DataFolder
from benchmarks.harness import Benchmark, profile, run
from benchmarks.machine import describe_machine, is_busy
from benchmarks.peers import copies, feed, keyed, sink
from benchmarks.peers.environments import ENVIRONMENTS
from benchmarks.report import print_machine, print_result, result_json

MakeBenchmark: TypeAlias = Callable[[DataFolder, int], Benchmark]

PEERS: Final = "peers-"  # these need environments of their own, so `all` leaves them out

# name -> (what it compares, rows of the full size, how its alternatives are set up)
BENCHMARKS: Final[dict[str, tuple[str, int, MakeBenchmark]]] = {
    "cold": (cold.TITLE, 1, cold.make),
    "scan": (scan.TITLE, 2_000_000, scan.make),
    "write": (bulk_write.TITLE, 1_000_000, bulk_write.make),
    "cores": (cores.TITLE, 4_000_000, cores.make),
    "spark-count": (spark_count.TITLE, 5_000_000, spark_count.make),
    "spark-settings": (spark_settings.TITLE, 5_000_000, spark_settings.make),
    "typed-scan": (typed_scan.TITLE, 10_000_000, typed_scan.make),
    "columnar": (columnar.TITLE, 10_000_000, columnar.make),
    "typed-lookup": (typed_lookup.TITLE, 10_000_000, typed_lookup.make),
    "distant-calls": (distant_calls.TITLE, 4_000, distant_calls.make),
    "distant-load": (distant_load.TITLE, 10_000_000, distant_load.make),
    "distant-scan": (distant_scan.TITLE, 1_000_000, distant_scan.make),
    "typed-load": (typed_load.TITLE, 10_000_000, typed_load.make),
    "expiry-scan": (expiry_scan.TITLE, 2_000_000, expiry_scan.make),
    "as-of": (as_of.TITLE, 10_000_000, as_of.make),
    "changes": (changes.TITLE, 10_000_000, changes.make),
    "stream-source": (stream_source.TITLE, 1_000, stream_source.make),
    "plan": (plan.TITLE, 300_000, plan.make),
    "reap": (reap.TITLE, 4_000_000, reap.make),
    "erase": (erase.TITLE, 10_000_000, erase.make),
    "replace": (replace.TITLE, 10_000_000, replace.make),
    "replace-days": (replace_days.TITLE, 3_100_000, replace_days.make),
    "compact": (compaction.TITLE, 2_000_000, compaction.make),
    "compact-cluster": (cluster_compaction.TITLE, 32_000_000, cluster_compaction.make),
    "worker": (compaction_worker.TITLE, 2_000_000, compaction_worker.make),
    "key-kinds": (key_kinds.TITLE, 2_000_000, key_kinds.make),
    "live-scan": (live_scan.TITLE, 2_000_000, live_scan.make),
    "live-load": (live_load.TITLE, 1_000_000, live_load.make),
    "stream-batches": (stream_sink.TITLE, stream_sink.BATCHES, stream_sink.make),
    "stream-load": (stream_load.TITLE, 1_000_000, stream_load.make),
    "tracker": (tracker.TITLE, tracker.POINTS, tracker.make),
    "memory": (memory.TITLE, 1_000_000, memory.make),
    **{f"{PEERS}{name}": (keyed.TITLE.format(name), 2_000_000, keyed.maker(name)) for name in ENVIRONMENTS},
    **{
        f"{PEERS}copies-{name}": (copies.TITLE.format(name), 2_000_000, copies.maker(name))
        for name in ("delta", "iceberg")
    },
    f"{PEERS}feed": (feed.TITLE, 2_000_000, feed.make),
    f"{PEERS}sink": (sink.TITLE, 200_000, sink.make),
}


def main() -> None:
    """Run what the command line asks for."""
    arguments = _parser().parse_args()
    if arguments.list:
        for name, (title, rows, _) in BENCHMARKS.items():
            print(f"{name:20} {title} [{rows:,} rows]")
        return
    alone = [name for name in BENCHMARKS if not name.startswith(PEERS)]
    names = alone if arguments.name == "all" else [arguments.name]
    machine = describe_machine()
    print_machine(machine, busy=is_busy())
    found = []
    with ExitStack() as stack:
        data = _data_folder(stack, arguments.data)
        for name in names:
            title, rows, make = BENCHMARKS[name]
            benchmark = make(data, arguments.rows or rows).only(arguments.only)
            if arguments.profile:
                print(profile(benchmark, data.scratch))
                continue
            result = run(benchmark, data.scratch, rounds=arguments.rounds, warm_ups=arguments.warm_ups)
            print_result(title, result)
            found.append(result_json(name, title, result, rows=arguments.rows or rows))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"machine": machine, "benchmarks": found}, indent=2) + "\n")


def _data_folder(stack: ExitStack, chosen: Path | None) -> DataFolder:
    """Return the folder chosen, or a temporary one; what is not data is removed at the end in any case."""
    if chosen is None:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slatespark-benchmarks-")))
    else:
        root = chosen.absolute()
        root.mkdir(parents=True, exist_ok=True)
    return DataFolder(root, Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scratch-", dir=root))))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="?", default="all", choices=["all", *BENCHMARKS], help="default: all")
    parser.add_argument("--list", action="store_true", help="name the benchmarks")
    parser.add_argument("--rows", type=int, help="instead of the full size")
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds (default 5)")
    parser.add_argument("--warm-ups", type=int, help="rounds before, not measured (default: the benchmark says)")
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="alternatives whose name holds TEXT"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="keep the data there for the next run (default: do not)"
    )
    parser.add_argument("--profile", action="store_true", help="profile each alternative once instead of timing it")
    return parser


if __name__ == "__main__":
    main()
