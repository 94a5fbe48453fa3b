"""What the last call committed: nothing if it found nothing to do, whatever others committed meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore, SstWriter
from slatespark.slate_store.base import last_commit

_numbers = count()


def new_store(**properties: Any) -> SlateStore:
    store = SlateStore.create(f"memory://last-commit-{next(_numbers)}", "id BIGINT, n BIGINT", "id", **properties)
    store.write(pa.table({"id": [1, 2, 3], "n": [1, 2, 3]}))
    return store


def test_every_call_tells_what_it_committed() -> None:
    store, file = new_store(), f"memory://last-commit-file-{next(_numbers)}/1.sst"
    SstWriter(file, keyColumns="id").write(pa.table({"id": [7], "n": [7]}))
    calls: list[tuple[Callable[[], int], dict[str, int]]] = [
        (lambda: store.write(pa.table({"id": [4], "n": [4]})), {"put": 1}),
        (lambda: store.update("id < 3", {"n": 0}), {"put": 2}),
        (lambda: store.delete("id = 1"), {"delete": 1}),
        (lambda: store.delete(keys=[2, 9]), {"delete": 2}),
        (lambda: store.ingest(file), {"put": 1}),
        (lambda: store.deleteRange("id >= 7"), {}),
        (lambda: store.restoreToVersion(3), {}),
    ]
    for call, rows in calls:
        version, record = call(), last_commit(store)
        assert record is not None
        assert record.manifest_id == version
        assert {kind: number for kind, number in record.rows.items() if number} == rows
    history = new_store(history=True)
    history.trimHistory(1)
    assert last_commit(history) is not None


@pytest.mark.parametrize("call", ["write", "update", "delete", "keys", "deleteRange", "trimHistory", "ingest"])
def test_a_call_that_finds_nothing_to_do_committed_nothing(call: str) -> None:
    store = new_store(**({"history": True} if call == "trimHistory" else {}))
    file = f"memory://last-commit-file-{next(_numbers)}/1.sst"
    pair: dict[str, Any] = {"txnAppId": "job", "txnVersion": 1}
    if call == "ingest":
        SstWriter(file, keyColumns="id").write(pa.table({"id": [7], "n": [7]}))
        store.ingest(file, **pair)
    calls: dict[str, Any] = {
        "write": lambda: store.write(pa.table({"id": pa.array([], pa.int64()), "n": pa.array([], pa.int64())})),
        "update": lambda: store.update("id = 9", {"n": 0}),
        "delete": lambda: store.delete("id = 9"),
        "keys": lambda: store.delete(keys=[9]),
        "deleteRange": lambda: store.deleteRange("id = 9"),
        "trimHistory": lambda: store.trimHistory("2999-01-01"),
        "ingest": lambda: store.ingest(file, **pair),
    }
    other = SlateStore.open(store.url).write(pa.table({"id": [8], "n": [8]}))
    assert calls[call]() == other
    assert last_commit(store) is None
