"""A load, or the drain of a segment, beside a client that dies in each state of the job, or that is always busy.

The client is killed with -9 and opened again, at once or too late. Then the work takes effect once, or is refused with
a clear error and has no effect; repeated under its pair it takes effect once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, Final

import pyarrow as pa
import pytest

from slatespark import ClockRegressionError, CommitConflictError, SlateStore, UnavailableError
from slatespark.format.compactions import CompactionStatus
from slatespark.storage.local_store import LocalStore
from slatespark.table.cooperation import load_commit, submission
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.records.handed_loads import fetch_handed_loads
from tests.faults.jobs import store_on, stores_of, table_of
from tests.interop.test_worker_faults import HOUR_MS, WrongClock
from tests.support.client import ClientOptions, Location, Put
from tests.support.client_admin import list_compactions, read_manifest
from tests.support.live_client import LiveClient
from tests.support.observers import awaited
from tests.support.segments import FixedPrefix

OPTIONS: Final = ClientOptions(
    compactor=True, settings={"compactor_options.poll_interval": "50ms", "compactor_options.worker": None}
)
# Where a call begins, or has ended, the job is in that state.
STATES: Final[dict[str, tuple[Any, str, bool]]] = {
    "not there yet": (load_commit, "await_flush", False),
    "submitted": (submission.Submitter, "_append", True),
    "scheduled": (submission, "claimed_jobs", False),
    "running": (load_commit, "publish_handed_load", False),
    "compacted": (load_commit, "await_end", False),
}


@dataclass(slots=True)
class MortalClient:
    """A client that is killed once in a state of the job, and opened again: then, or by the test."""

    location: Location
    options: ClientOptions = OPTIONS
    opened: int = 0
    live: LiveClient = field(init=False)

    def __post_init__(self) -> None:
        self.reopen()

    def reopen(self) -> None:
        self.live = LiveClient(self.location, self.options)
        self.opened += 1

    @contextmanager
    def killed_in(self, state: str, *, comes_back: bool) -> Iterator[None]:
        owner, name, afterwards = STATES[state]
        real: Callable[..., Any] = getattr(owner, name)
        killed: list[str] = []

        def kill() -> None:
            if not killed:
                killed.append(state)
                self.live.kill()
                if comes_back:
                    self.reopen()

        @wraps(real)
        def mortal(*args: Any, **kwargs: Any) -> Any:
            if not afterwards:
                kill()
            result = real(*args, **kwargs)
            if afterwards:
                kill()
            return result

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(owner, name, mortal)
            yield
        assert killed, f"the job was never {state}"

    def shown(self) -> dict[bytes, bytes]:
        return {row.key: row.value for row in self.live.scan()}


@pytest.fixture
def client(database: Location) -> Iterator[MortalClient]:
    found = MortalClient(database)
    found.live.write([Put(b"a", b"client"), Put(b"k", b"client")])
    found.live.flush_memtable()
    yield found
    found.live.kill()


def append(location: Location, number: int, **options: Any) -> None:
    """Append a number to a key, which shows how often that took effect."""
    rows = pa.table({"key": [b"k"], "value": [b"+%d" % number]})
    given = {"ifClientActive": "cooperate", "txnAppId": "loads", "txnVersion": number, **options}
    SlateStore.open(str(location.folder)).write(rows, operation="merge", mergeOperator="concat", **given)


def assert_settled(client: MortalClient) -> None:
    """Nothing of ours is left, and nobody raised an epoch but the client itself."""
    stores = stores_of(LocalStore(client.location.folder))
    assert awaited(lambda: fetch_compactions(stores).value.active_jobs(), ()) == ()
    assert fetch_handed_loads(stores.main) == []
    found = read_manifest(client.location)
    assert (found.writer_epoch, found.compactor_epoch) == (client.opened, client.opened)
    client.live.put(b"z", b"still open")
    assert client.live.is_open()


@pytest.mark.slow
def test_a_load_beside_a_client_that_comes_back(client: MortalClient) -> None:
    for number, state in enumerate(STATES):
        with client.killed_in(state, comes_back=True):
            append(client.location, number)
        expected = b"client" + b"".join(b"+%d" % each for each in range(number + 1))
        assert awaited(lambda: client.live.get(b"k"), expected) == expected, state
    assert_settled(client)


@pytest.mark.slow
def test_a_load_beside_a_client_that_does_not_come_back_in_time(client: MortalClient) -> None:
    expected = b"client"
    for number, state in enumerate(STATES):
        refused = (CommitConflictError, UnavailableError)
        # What was handed over may be committed before the client is dead.
        fails = suppress(*refused) if state == "compacted" else pytest.raises(refused)
        with client.killed_in(state, comes_back=False), fails:
            append(client.location, number, clientTimeout="500ms")
        client.reopen()
        append(client.location, number)
        expected += b"+%d" % number
        assert awaited(lambda: client.live.get(b"k"), expected) == expected, state
    assert_settled(client)


@pytest.mark.slow
@pytest.mark.parametrize("comes_back", [True, False])
def test_a_drain_beside_a_client_that_dies(comes_back: bool, database: Location) -> None:
    client = MortalClient(database, replace(OPTIONS, segments=FixedPrefix(1)))
    try:
        client.live.write([Put(b"a1", b"1"), Put(b"b1", b"1")])
        client.live.flush_memtable()
        store = SlateStore.open(str(database.folder))
        given: dict[str, Any] = {"keyPrefix": b"a", "ifClientActive": "cooperate"}
        with client.killed_in("submitted", comes_back=comes_back):
            if comes_back:
                store.deleteRange(**given)
            else:
                with pytest.raises((CommitConflictError, UnavailableError)):
                    store.deleteRange(clientTimeout="500ms", **given)
        if not comes_back:
            client.reopen()
            assert client.shown() == {b"a1": b"1", b"b1": b"1"}, "refused, so nothing happens later"
            store.deleteRange(**given)
        assert awaited(client.shown, {b"b1": b"1"}) == {b"b1": b"1"}
        assert_settled(client)
    finally:
        client.live.kill()


# --- clocks ---------------------------------------------------------------------------------------------------------


def test_a_load_whose_clock_is_ahead(client: MortalClient) -> None:
    """Its rows have that time; neither ids of jobs nor of files stop the client."""
    store = store_on(LocalStore(client.location.folder), WrongClock(HOUR_MS))
    for number in range(2):
        store.write(table_of([(b"k", b"load %d" % number)]), ifClientActive="cooperate")
        assert awaited(lambda: client.live.get(b"k"), b"load %d" % number) == b"load %d" % number
        client.live.put(b"b", b"%d" % number)
        client.live.flush_memtable()
    assert store.compact(full=True, ifClientActive="cooperate").jobs
    expected = {b"a": b"client", b"b": b"1", b"k": b"load 1"}
    assert awaited(client.shown, expected) == expected
    assert_settled(client)


def test_a_load_whose_clock_is_behind(client: MortalClient) -> None:
    """Its rows would be older than those that they replace."""
    before = sorted(client.location.folder.rglob("*.sst"))
    store = store_on(LocalStore(client.location.folder), WrongClock(-HOUR_MS))
    with pytest.raises(ClockRegressionError):
        store.write(table_of([(b"k", b"load")]), ifClientActive="cooperate")
    assert sorted(client.location.folder.rglob("*.sst")) == before
    assert client.live.get(b"k") == b"client"
    assert_settled(client)


def objects_of(database: Location) -> set[str]:
    """All objects, but for the logs of the client, which go on."""
    found = {str(path.relative_to(database.folder)) for path in database.folder.rglob("*") if path.is_file()}
    return {name for name in found if not name.startswith(("manifest/", "compactions/", "wal/"))}


# --- a client whose own scheduler always has an L0 job active -------------------------------------------------------


def test_a_load_waits_for_the_clients_own_jobs_and_gives_up(database: Location) -> None:
    client = MortalClient(database, replace(OPTIONS, compact_by_itself=True))
    try:
        for number in range(4):  # a job for these is scheduled, and no worker takes it
            client.live.put(b"k", b"%d" % number)
            client.live.flush_memtable()
        scheduled = [CompactionStatus.SCHEDULED]
        stores = stores_of(LocalStore(database.folder))
        assert awaited(lambda: [job.status for job in fetch_compactions(stores).value.jobs], scheduled) == scheduled
        before = objects_of(database)
        for options in ({}, {"throughputMBPerSec": "100"}):  # with it tasks upload files
            with pytest.raises(CommitConflictError, match="in the way"):
                append(database, 0, clientTimeout="500ms", **options)
        assert len(list_compactions(database)) == 1, "it left no job behind"
        assert objects_of(database) == before, "nor any file"
        assert client.live.get(b"k") == b"3"
        assert client.live.is_open()
    finally:
        client.live.kill()
