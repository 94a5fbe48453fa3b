from __future__ import annotations

import pytest

from slatespark.errors import UnavailableError
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.records.server_time import fetch_server_time
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock

NOW_MS = 1_700_000_000_000


def test_the_time_is_that_of_the_store() -> None:
    store = MemoryStore("server-time", lambda: NOW_MS)
    assert fetch_server_time(store, FakeClock(5)) == NOW_MS
    assert store.list_below("") == []


@pytest.mark.parametrize(("times", "is_known"), [(4, True), (5, False)])
def test_a_probe_that_a_vacuum_deletes_is_put_again(times: int, is_known: bool) -> None:
    inner = MemoryStore("vanishing-probes", lambda: NOW_MS)

    def collect() -> None:
        inner.delete_many([meta.path for meta in inner.list_below("")])

    store = FailingStore(inner)
    for nth in range(1, times + 1):
        store.run(collect, "head", nth=nth)
    if is_known:
        assert fetch_server_time(store, FakeClock(5)) == NOW_MS
        return
    with pytest.raises(UnavailableError):
        fetch_server_time(store, FakeClock(5))


def test_a_probe_that_cannot_be_deleted_does_no_harm() -> None:
    store = FailingStore(MemoryStore("lasting-probe", lambda: NOW_MS)).fail("delete")
    assert fetch_server_time(store, FakeClock(5)) == NOW_MS
