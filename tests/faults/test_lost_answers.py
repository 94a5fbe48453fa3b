"""A commit on S3 whose answers get lost: what took effect is found out by reading back, and the write succeeds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pyarrow as pa
import pytest

from slatespark.storage import open_store, s3_driver
from slatespark.storage.remote_store import RemoteStore
from slatespark.storage.retry import RetryPolicy
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.records.commits import fetch_commit_records
from tests.faults.jobs import Job, store_on, stores_of, table_of
from tests.interop.test_cooperative_writes import IDLE
from tests.support.client import read_rows
from tests.support.live_client import LiveClient
from tests.support.moto_server import MotoServer
from tests.support.observers import awaited
from tests.support.s3_location import s3_location
from tests.unit.storage.faulty_proxy import Fault, FaultyProxy

pytestmark = pytest.mark.s3

_names = itertools.count()
IMPATIENT = RetryPolicy(attempts=3, first_wait_s=0.001)


@pytest.fixture
def proxy(moto_server: MotoServer) -> Iterator[FaultyProxy]:
    with FaultyProxy(moto_server.endpoint).running() as proxy:
        yield proxy


@pytest.fixture
def shaky(moto_server: MotoServer, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch) -> RemoteStore:
    """A store behind the proxy; the library below repeats nothing, so that we have to."""
    arguments = s3_driver.s3_arguments

    def without_repetition(options: dict[str, str]) -> dict[str, object]:
        changed = arguments(options)
        changed["config_kwargs"]["retries"]["total_max_attempts"] = 1
        return changed

    monkeypatch.setattr(s3_driver, "s3_arguments", without_repetition)
    bucket = moto_server.create_bucket(f"lost-{next(_names)}")
    return RemoteStore(f"{bucket}/db", {**moto_server.options, "endpoint_url": proxy.endpoint}, policy=IMPATIENT)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["lose answer", "drop", (409, "ConditionalRequestConflict"), (503, "SlowDown")])
def test_any_request_that_writes_may_lose_its_answer(
    fault: Fault, shaky: RemoteStore, proxy: FaultyProxy, moto_server: MotoServer
) -> None:
    straight = open_store(shaky.url, moto_server.options)
    Job(shaky).upload(table_of([(b"key0", b"0")])).commit()
    proxy.requests.clear()
    Job(shaky).upload(table_of([(b"key0", b"0")])).commit()
    writes = sum(method == "PUT" for method, _ in proxy.requests)
    assert writes >= 5  # lease, file, claim, manifest, fence, manifest, record
    for nth in range(1, writes + 1):
        seen = itertools.count(1)

        def decide(method: str, path: str, nth: int = nth, seen: Iterator[int] = seen) -> Fault:
            return fault if method == "PUT" and next(seen) == nth else "pass"

        proxy.decide = decide
        Job(shaky).upload(table_of([(b"key%d" % nth, b"%d" % nth)])).commit()
    store = store_on(straight)
    rows = [(row["key"], row["value"]) for row in store.scan().read_all().to_pylist()]
    assert dict(rows) == {b"key%d" % nth: b"%d" % nth for nth in range(writes + 1)}
    location = s3_location(moto_server, shaky.url)
    assert [(row.key, row.value) for row in read_rows(location)] == rows
    # Each write committed once: a manifest that was created is not created again under the next number.
    latest, _ = fetch_latest_manifest(stores_of(straight))
    assert latest == 1 + 2 * (writes + 1)
    assert len(fetch_commit_records(straight)) == writes + 2


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "step"), [("lose answer", 1), ((503, "SlowDown"), 4)])
def test_a_load_beside_a_client_takes_effect_once(
    fault: Fault, step: int, shaky: RemoteStore, proxy: FaultyProxy, moto_server: MotoServer
) -> None:
    """Whichever request that writes is hit: each load appends its number once, and the client goes on."""
    location = s3_location(moto_server, shaky.url)
    with LiveClient(location, IDLE) as live:
        live.put(b"k", b"client")
        live.flush_memtable()
        append(shaky, 0)
        proxy.requests.clear()
        append(shaky, 1)
        writes = sum(method == "PUT" for method, _ in proxy.requests)
        assert writes >= 7  # lease, file, merged file, three versions of the list, record of the load, commit record
        hit = range(1, writes + 1, step)
        for number, nth in enumerate(hit, 2):
            seen = itertools.count(1)

            def decide(method: str, path: str, nth: int = nth, seen: Iterator[int] = seen) -> Fault:
                return fault if method == "PUT" and next(seen) == nth else "pass"

            proxy.decide = decide
            append(shaky, number)
        expected = b"client" + b"".join(b"+%d" % number for number in range(len(hit) + 2))
        assert awaited(lambda: live.get(b"k"), expected) == expected
        live.put(b"z", b"still open")
        assert live.is_open()


def append(store: RemoteStore, number: int) -> None:
    operand = pa.table({"key": [b"k"], "value": [b"+%d" % number]})
    store_on(store).write(operand, operation="merge", mergeOperator="concat", ifClientActive="cooperate")
