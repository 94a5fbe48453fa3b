"""Ingests, reaps, trims, erasures and deletions of ranges spread over several executors."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from slatespark import SlateStore
from tests.support.client import Location, read_rows
from tests.support.cluster import Cluster
from tests.support.task_scenes import SCENES, use_small_splits

pytestmark = pytest.mark.cluster

SCRIPT = """
from contextlib import ExitStack
from pathlib import Path
from unittest import mock
from slatespark import SlateTable
from slatespark.spark.jobs.task_runner import SparkTasks
from tests.support.task_scenes import SCENES, use_small_splits

sizes, plain = [], SparkTasks.__call__

def counted(self, function, items):
    sizes.append(len(items))
    return plain(self, function, items)

result = {}
with ExitStack() as patches:
    use_small_splits(lambda name, value: patches.enter_context(mock.patch(name, value)))
    patches.enter_context(mock.patch.object(SparkTasks, "__call__", counted))
    for name, path in arguments["paths"].items():
        sizes.clear()
        SCENES[name].run(SlateTable.forPath(spark, path), Path(path))
        result[name] = {"tasks": max(sizes)}
"""


def test_operations_as_spark_jobs(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, twins = {}, {}
    for name, scene in SCENES.items():
        paths[name], twins[name] = tmp_path / name, tmp_path / f"{name}-twin"
        scene.make(paths[name])
        shutil.copytree(paths[name], twins[name])
    found = cluster.run(SCRIPT, paths={name: str(path) for name, path in paths.items()})
    use_small_splits(monkeypatch.setattr)
    for name, scene in SCENES.items():
        assert found[name]["tasks"] > 1, name
        shown = {row.key: row.value for row in read_rows(Location.local(paths[name]))}
        assert shown == scene.left, name
        twin = SlateStore.open(str(twins[name]))
        scene.run(twin, paths[name])
        store = SlateStore.open(str(paths[name]))
        assert scene.stored(store) == scene.stored(twin), name
        assert not store.verify().has_damage
        ours, theirs = store.history(1)[0], twin.history(1)[0]
        assert (ours.operation, ours.rows) == (theirs.operation, theirs.rows), name
