"""A commit whose answers get lost: what took effect is found out by reading back, and the write succeeds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
import pytest

from slatespark.storage import open_store
from slatespark.storage.remote_store import RemoteStore
from slatespark.storage.retry import RetryPolicy
from slatespark.table.compaction.worker import Worker
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.records.commits import newest_commit_records
from tests.faults.jobs import Job, store_on, stores_of, table_of
from tests.interop.test_compaction_worker import handed_over
from tests.interop.test_cooperative_writes import IDLE
from tests.support.azurite import Azurite
from tests.support.client import read_rows
from tests.support.effort import THOROUGH, points
from tests.support.live_client import LiveClient
from tests.support.observers import awaited
from tests.support.server_process import program_path
from tests.support.servers import Server
from tests.support.servers import azurite as azurite
from tests.support.servers import google_server as google_server
from tests.support.servers import minio as minio
from tests.support.servers import versitygw as versitygw
from tests.support.versitygw import PROGRAM
from tests.unit.storage.faulty_proxy import Fault, FaultyProxy, behind, hurry_libraries

pytestmark = [pytest.mark.s3, pytest.mark.xdist_group("servers")]  # each server starts once

IMPATIENT: Final = RetryPolicy(attempts=4, first_wait_s=0.001)
WAYS: Final = [
    # moto takes ten times the processor time for a request; where it is all there is, it does
    (("versitygw" if program_path(*PROGRAM) and not THOROUGH else "moto_server"), "fsspec"),
    ("versitygw", "obstore"),
    ("minio", "obstore"),
    ("google_server", "obstore"),
    ("azurite", "obstore"),
]


class Place:
    """A database behind a proxy, and the way past it."""

    def __init__(self, server: Server, driver: str, proxy: FaultyProxy) -> None:
        self.is_azure, self.gets_all_faults = isinstance(server, Azurite), driver == "fsspec" or THOROUGH
        self.proxy, url = proxy, f"{server.create_bucket()}/db"
        self.shaky = RemoteStore(url, {**behind(proxy, server.options), "driver": driver}, policy=IMPATIENT)
        self.straight = open_store(url, server.options)
        self.location, self.options = server.location(url), server.options

    def writes(self, job: Callable[[], object]) -> int:
        """How many requests of a job write."""
        self.proxy.requests.clear()
        job()
        return sum(method == "PUT" for method, _ in self.proxy.requests)

    def break_nth_write(self, fault: Fault, nth: int) -> None:
        """The nth request that writes fails, from now on."""
        seen = itertools.count(1)
        self.proxy.decide = lambda method, path: fault if method == "PUT" and next(seen) == nth else "pass"


@pytest.fixture(params=WAYS, ids=lambda way: " through ".join(way))
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """The library below repeats nothing, or soon, so that we have to."""
    name, driver = request.param
    hurry_libraries(monkeypatch)
    server: Server = request.getfixturevalue(name)
    with FaultyProxy(server.options["endpoint_url"]).running() as proxy:
        yield Place(server, driver, proxy)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["lose answer", "drop", (409, "ConditionalRequestConflict"), (503, "SlowDown")])
def test_any_request_that_writes_may_lose_its_answer(fault: Fault, place: Place) -> None:
    if not place.gets_all_faults and fault in ("drop", (503, "SlowDown")):
        pytest.skip("a thorough run does this")
    if place.is_azure and fault == (409, "ConditionalRequestConflict"):
        pytest.skip("an answer of S3")
    shaky = place.shaky
    Job(shaky).upload(table_of([(b"key0", b"0")])).commit()
    writes = place.writes(lambda: Job(shaky).upload(table_of([(b"key0", b"0")])).commit())
    assert writes >= 5  # lease, file, claim, manifest, fence, manifest, record
    for nth in range(1, writes + 1):
        place.break_nth_write(fault, nth)
        Job(shaky).upload(table_of([(b"key%d" % nth, b"%d" % nth)])).commit()
    store = store_on(place.straight)
    rows = [(row["key"], row["value"]) for row in store.scan().read_all().to_pylist()]
    assert dict(rows) == {b"key%d" % nth: b"%d" % nth for nth in range(writes + 1)}
    assert [(row.key, row.value) for row in read_rows(place.location)] == rows
    # Each write committed once: a manifest that was created is not created again under the next number.
    latest, _ = fetch_latest_manifest(stores_of(place.straight))
    assert latest == 1 + 2 * (writes + 1)
    assert len(list(newest_commit_records(place.straight))) == writes + 2


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "step"), [("lose answer", 2), ((503, "SlowDown"), 6)])
def test_a_load_beside_a_client_takes_effect_once(fault: Fault, step: int, place: Place) -> None:
    """Whichever request that writes is hit: each load appends its number once, and the client goes on."""
    if not place.gets_all_faults:
        pytest.skip("a thorough run does this")
    with LiveClient(place.location, IDLE) as live:
        live.put(b"k", b"client")
        live.flush_memtable()
        append(place.shaky, 0)
        writes = place.writes(lambda: append(place.shaky, 1))
        assert writes >= 7  # lease, file, merged file, three versions of the list, record of the load, commit record
        hit = points(writes, step)
        for number, nth in enumerate(hit, 2):
            place.break_nth_write(fault, nth)
            append(place.shaky, number)
        expected = b"client" + b"".join(b"+%d" % number for number in range(len(hit) + 2))
        assert awaited(lambda: live.get(b"k"), expected) == expected
        live.put(b"z", b"still open")
        assert live.is_open()


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "step"), [("lose answer", 1), ((503, "SlowDown"), 3)])
def test_a_worker_merges_once_for_a_client(fault: Fault, step: int, place: Place) -> None:
    """Whichever request that writes is hit: the client commits each job once, and goes on."""
    if not place.gets_all_faults:
        pytest.skip("a thorough run does this")
    options: dict[str, Any] = behind(place.proxy, place.options)
    worker = Worker([place.shaky.url], mergeOperator="concat", **options)
    with LiveClient(place.location, handed_over()) as live:

        def merge() -> None:
            for _ in range(4):
                live.merge(b"k", b"+")
                live.flush_memtable()
            assert awaited(lambda: bool(worker.runOnce()), True)

        writes = place.writes(merge)
        assert writes >= 3  # claim, file, hand-over
        hit = points(writes, step)
        for nth in hit:
            place.break_nth_write(fault, nth)
            merge()
        place.proxy.decide = lambda method, path: "pass"
        merged = 1 + len(hit)
        [status] = worker.status()
        assert (status.handed_over, status.last_error) == (merged, None)
        assert live.get(b"k") == b"+" * 4 * merged
        live.put(b"z", b"still open")
        live.flush_memtable()
        assert live.is_open()
    assert [(row.key, row.value) for row in read_rows(place.location)] == [
        (b"k", b"+" * 4 * merged),
        (b"z", b"still open"),
    ]


def append(store: RemoteStore, number: int) -> None:
    operand = pa.table({"key": [b"k"], "value": [b"+%d" % number]})
    store_on(store).write(operand, operation="merge", mergeOperator="concat", ifClientActive="cooperate")
