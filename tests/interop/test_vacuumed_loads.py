"""What a vacuum makes of a load beside a live client whose process died."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.format.references import SstHandle
from slatespark.storage.local_store import LocalStore
from slatespark.table.cooperation import load_commit
from slatespark.table.cooperation.claimed_job import ClaimedJob, hand_over_together
from slatespark.table.gc.report import VacuumReport
from slatespark.table.records.commits import newest_commit_records
from slatespark.table.records.operations import Operation
from tests.interop.test_cooperative_writes import IDLE, flushed, shows
from tests.support.client import Location
from tests.support.cooperative_loads import load_beside
from tests.support.live_client import LiveClient


@pytest.fixture
def live(database: Location) -> Iterator[LiveClient]:
    with LiveClient(database, IDLE) as client:
        yield client


class KilledError(BaseException):
    """Ends a load at some step, as if its process had been killed."""


def killed_load(monkeypatch: pytest.MonkeyPatch, live: LiveClient, step: str) -> SlateStore:
    """A load whose process is killed right before a step; returns the table."""

    def killed(*_: Any, **__: Any) -> Any:
        raise KilledError

    flushed(live, a="old")
    with monkeypatch.context() as patched:
        patched.setattr(load_commit, step, killed)
        with pytest.raises(KilledError):
            load_beside(live.location.folder, {b"a": b"load"}, txnAppId="app", txnVersion=1)
    return SlateStore.open(str(live.location.folder))


def loads_in(report: VacuumReport) -> list[str]:
    return [file.action for file in report.files if file.kind == "load"]


def test_a_vacuum_records_a_load_that_nobody_recorded(live: LiveClient, monkeypatch: pytest.MonkeyPatch) -> None:
    store = killed_load(monkeypatch, live, "record_load")
    version = store.resolve().version
    for _ in range(3):  # versions that the vacuum deletes, and without which nobody could tell
        flushed(live, b="new")
    report = store.vacuum("0s", force=True)
    assert loads_in(report) == ["deleted"]
    rows = pa.table({"key": [b"a"], "value": [b"load"]})
    store.write(rows, ifClientActive="cooperate", txnAppId="app", txnVersion=1)
    records = list(newest_commit_records(LocalStore(live.location.folder)))
    assert [(record.manifest_id, record.operation) for record in records] == [(version, Operation.COOPERATIVE_WRITE)]
    shows(live, {"a": "load", "b": "new"})
    assert loads_in(store.vacuum("0s", force=True)) == []
    assert live.is_open()


def test_a_vacuum_keeps_what_the_client_may_still_take(database: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client dies with the process of the load, and takes the load when it is back."""
    hand_over = hand_over_together
    with LiveClient(database, IDLE) as live:

        def last_words(outputs: Mapping[ClaimedJob, Sequence[SstHandle]]) -> None:
            live.kill()
            hand_over(outputs)

        monkeypatch.setattr(load_commit, "hand_over_together", last_words)
        store = killed_load(monkeypatch, live, "await_end")
    for _ in range(2):
        report = store.vacuum("0s", force=True)
        assert loads_in(report) == ["kept"]
        assert store.get(b"a") == {"key": b"a", "value": b"old"}
    with LiveClient(database, IDLE) as live:
        shows(live, {"a": "load"})
        assert loads_in(store.vacuum("0s", force=True)) == ["deleted"]
        shows(live, {"a": "load"})
    assert [facts.operation for facts in store.history(1)] == [Operation.COOPERATIVE_WRITE]
