"""Compaction filters on their way to the executors."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import InvalidRequestError, SlateStore
from slatespark.spark.slate_table import SlateTable
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.stores import open_stores


class Locked:
    """A filter that cannot travel."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def decide(self, versions: pa.RecordBatch) -> pa.Array:
        return pa.array(["keep"] * versions.num_rows)


def test_a_filter_that_cannot_travel_is_refused_before_anything_is_listed(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "db"))
    store.write(pa.table({"key": [b"k"], "value": [b"v"]}))
    session: Any = None  # Spark is not used
    with pytest.raises(InvalidRequestError, match="Locked"):
        SlateTable.forPath(session, store.url).compact(full=True, filters=[Locked()])
    assert fetch_compactions(open_stores(store.url, storage={}))[1].jobs == ()
