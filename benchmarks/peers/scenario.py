"""A benchmark of steps: each is done by slatespark and by a peer in turn, a table each, before the next one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final

from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.peers.environments import ENVIRONMENTS, Environment
from benchmarks.spark_session import MASTER
from benchmarks.worker import Task
from slatespark.spark.java import ensure_java

OURS: Final = "slatespark"
PARTITIONS: Final = 4  # after a shuffle; 200, Spark's default, are many for two task slots
LEAST_ROWS: Final = 20_000
WARM_UP_PART: Final = 20  # before the first round each process takes the steps with a part of the rows
SETTINGS: Final = {"spark.sql.shuffle.partitions": str(PARTITIONS), "spark.sql.session.timeZone": "UTC"}


@dataclass(frozen=True)
class Step:
    """A step: a function of `benchmarks.peers.steps`, or of `arrow_steps` without Spark, and its arguments.

    Attributes
    ----------
    at_most : target: the time of slatespark over that of the peer
    """

    name: str
    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    at_most: float = 1.0


def compare(
    make_steps: Callable[[int], list[Step]], rows: int, environment: str, kinds: tuple[str, str], notes: Sequence[str]
) -> Benchmark:
    """Return the benchmark of steps in an environment.

    Parameters
    ----------
    make_steps : returns the steps for a table of so many rows
    kinds : of the tables of slatespark and of the peer, as `tables.new_table` takes them
    """
    place = ENVIRONMENTS[environment]
    if not place.is_built():
        raise SystemExit(f"Build the environment first: python -m benchmarks.peers {environment}")
    if place.artifact is not None:
        ensure_java()  # for the workers: not all of them have slatespark
    steps, warm_up = make_steps(rows), make_steps(max(rows // WARM_UP_PART, LEAST_ROWS))
    peers = dict(zip((OURS, environment), kinds, strict=True))
    return Benchmark(
        alternatives=[_alternative(step, peer, kind, place, warm_up) for step in steps for peer, kind in peers.items()],
        base=f"{steps[0].name}: {OURS}",
        targets=[
            Target(alternative=f"{step.name}: {OURS}", against=f"{step.name}: {environment}", at_most=step.at_most)
            for step in steps
        ],
        notes=[
            *notes,
            _conditions(place),
            f"Before the first round each takes all steps with 1/{WARM_UP_PART} of the rows.",
            "The ratio is to slatespark's time of the same step. written_bytes: what a step adds below its folder.",
        ],
        same=("answer",),
        warm_ups=0,
    )


def _conditions(place: Environment) -> str:
    if place.artifact is None:
        return f"{place.versions()}; no Spark, a process each; warm page cache."
    ours = "" if place.has_slatespark else f" slatespark runs with PySpark {version('pyspark')}, which it needs."
    return (
        f"{place.versions()}; {MASTER}, a session each, {PARTITIONS} partitions after a shuffle; warm page cache.{ours}"
    )


def _alternative(step: Step, peer: str, kind: str, place: Environment, warm_up: Sequence[Step]) -> Alternative:
    taken = [(one.function, one.arguments) for one in warm_up]
    module = "benchmarks.peers.arrow_steps"
    begin: dict[str, Any] = {"kind": kind, "warm_up": taken}
    if place.artifact is not None:
        module = "benchmarks.peers.steps"
        begin |= {"jars": [] if peer == OURS else [str(jar) for jar in place.jars], "settings": SETTINGS}
    return Alternative(
        name=f"{step.name}: {peer}",
        work=step.name,
        task=Task(f"{module}:{step.function}", step.arguments),
        process=peer,
        prepare=Task(f"{module}:start", begin),
        python=place.python if peer != OURS or place.has_slatespark else sys.executable,
    )
