"""A write of ours merges small runs, and the real client opens the database right after it: nobody shuts it out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.table.compaction import after_write
from slatespark.table.compaction import auto as auto_compaction
from slatespark.table.compaction.small_runs import MIN_RUNS
from tests.support.client import Client, Location


@pytest.mark.parametrize("moment", ["before the look", "before the plan"])
@pytest.mark.parametrize("writes", [False, True])
def test_a_client_that_came_after_the_write_stays(
    moment: str, writes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = Location.local(tmp_path / "db")
    store = SlateStore.create(str(location.folder))
    for number in range(MIN_RUNS - 1):
        store.write(pa.table({"key": [b"k"], "value": [b"%d" % number]}))
    module, name = (after_write, "_compact") if moment == "before the look" else (auto_compaction, "compact_table")
    original, clients = getattr(module, name), list[Client]()

    def after_a_client(*arguments: Any, **named: Any) -> Any:
        clients.append(Client.open(location))
        if writes:
            clients[0].put(b"c", b"v")
            clients[0].flush_wal()
        return original(*arguments, **named)

    monkeypatch.setattr(module, name, after_a_client)
    store.write(pa.table({"key": [b"k"], "value": [b"last"]}))
    (client,) = clients
    with client:
        client.put(b"d", b"v")
        client.flush_wal()
    assert len(store.runs()) >= MIN_RUNS
    assert store.get(b"k") == {"key": b"k", "value": b"last"}
    assert store.get(b"d") == {"key": b"d", "value": b"v"}
