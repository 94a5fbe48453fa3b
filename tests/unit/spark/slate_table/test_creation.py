"""Creation and removal of tables, which need no Spark session."""

from __future__ import annotations

from inspect import signature

import pyarrow as pa

from slatespark import SlateStore, SlateTable
from slatespark.table.progress import Step


def test_a_drop_tells_its_progress() -> None:
    store = SlateStore.create("memory://dropped-by-spark", pa.schema([("id", pa.int64())]), "id")
    store.write(pa.table({"id": [1]}))
    steps: list[Step] = []
    report = SlateTable.drop(store.url, progress=lambda step, done, total: steps.append(step))
    assert (report.objects["sst"], set(steps)) == (1, {Step.DELETING})
    assert signature(SlateTable.drop).parameters["progress"] == signature(SlateStore.drop).parameters["progress"]
