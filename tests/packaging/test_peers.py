"""The parts of the benchmarks beside other formats that need no jars."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pyarrow.parquet as pq
import pytest

from benchmarks.__main__ import BENCHMARKS, PEERS
from benchmarks.data import DataFolder
from benchmarks.harness import Alternative, Benchmark, Result, run
from benchmarks.peers import arrow_steps, steps
from benchmarks.peers.changed_rows import changed_rows, few
from benchmarks.peers.environments import ENVIRONMENTS, Environment
from benchmarks.peers.tables import _KINDS, session_settings
from benchmarks.typed_schema import KEYS
from benchmarks.worker import Task

ROWS = 20_000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataFolder:
    return DataFolder(tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("scratch"))


def test_upserts_name_each_key_once_and_a_tenth_is_new(data: DataFolder) -> None:
    folder, seen = changed_rows(data, ROWS), set()
    new = 0
    for file in sorted(folder.glob("[fmst]*.parquet")):  # few, many, small-..., thousand
        rows = pq.read_table(file)
        keys = list(zip(*(rows[key].to_pylist() for key in KEYS), strict=True))
        assert max(Counter(keys).values()) == 1
        above = {key for key in keys if _number(*key) >= ROWS}
        assert len(above) == len(keys) // 10
        seen |= above
        new += len(above)
    assert len(seen) == new, "a row is new once"
    assert pq.read_metadata(folder / "few.parquet").num_rows == few(ROWS) == 20


def _number(tenant: str, identity: int) -> int:
    return identity // 7 * 50 + int(tenant.removeprefix("tenant-"))


@pytest.mark.parametrize("name", [name for name in BENCHMARKS if name.startswith(PEERS)])
def test_workers_know_every_step(name: str, data: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Environment, "is_built", lambda _: True)
    monkeypatch.setattr(Environment, "versions", lambda _: "")
    monkeypatch.setattr("benchmarks.peers.sink._BATCHES", (1, 1))
    make: Callable[[DataFolder, int], Benchmark] = BENCHMARKS[name][2]
    benchmark = make(data, ROWS)
    place = ENVIRONMENTS.get(name.removeprefix(PEERS))
    taken = arrow_steps if place is not None and place.artifact is None else steps
    for one in benchmark.alternatives:
        for task in filter(None, (one.prepare, one.task)):
            module, _, function = task.function.partition(":")
            assert module == taken.__name__
            inspect.signature(getattr(taken, function)).bind(**task.arguments)
    assert all(count == 2 for count in Counter(one.work for one in benchmark.alternatives).values())


def test_an_environment_that_is_not_built_says_how(data: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Environment, "is_built", lambda _: False)
    with pytest.raises(SystemExit, match=r"python -m benchmarks\.peers delta"):
        BENCHMARKS["peers-delta"][2](data, ROWS)


@pytest.mark.parametrize("kind", _KINDS)
def test_every_format_has_settings_and_takes_jars(kind: str) -> None:
    assert session_settings(kind, ["a.jar", "b.jar"])["spark.jars"] == "a.jar,b.jar"
    assert "spark.jars" not in session_settings(kind, [])


@pytest.mark.parametrize("artifact", [one.artifact for one in ENVIRONMENTS.values() if one.artifact is not None])
def test_a_pom_asks_for_the_format_and_for_nothing_of_spark(artifact: str) -> None:
    pom = ET.fromstring(Environment._pom(artifact))
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    [dependency] = pom.findall("m:dependencies/m:dependency", space)
    found = ":".join(dependency.findtext(f"m:{part}", "", space) for part in ("groupId", "artifactId", "version"))
    assert found == artifact
    excluded = [one.findtext("m:groupId", "", space) for one in dependency.findall("m:exclusions/m:exclusion", space)]
    assert "org.apache.spark" in excluded


def test_answers_are_compared_within_a_work(tmp_path: Path) -> None:
    def alternative(name: str, work: str, answer: int) -> Alternative:
        return Alternative(name=name, work=work, task=Task(f"{__name__}:answer", {"value": answer}), process="one")

    good = [alternative("a", "x", 1), alternative("b", "x", 1), alternative("c", "y", 2)]
    result = run(Benchmark(alternatives=good, base="a", same=("answer",), warm_ups=0), tmp_path, rounds=1)
    assert [result.base_of(one.name) for one in good] == ["a", "a", "c"]
    bad = [*good, alternative("d", "y", 3)]
    with pytest.raises(SystemExit, match="not do the same work"):
        run(Benchmark(alternatives=bad, base="a", same=("answer",), warm_ups=0), tmp_path, rounds=1)


def test_without_works_the_base_is_that_of_the_benchmark() -> None:
    alternatives = [Alternative(name=name, task=Task("")) for name in "ab"]
    assert Result(Benchmark(alternatives=alternatives, base="b"), {}).base_of("a") == "b"


# --- task -------------------------------------------------------------------------------------------------------------


def answer(value: int) -> dict[str, int]:
    return {"seconds": 1, "answer": value}
