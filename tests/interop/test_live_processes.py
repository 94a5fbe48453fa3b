"""A client that is open in another process, as tests use it: what it says of its writes is what everybody sees."""

from __future__ import annotations

import pytest

from tests.support.client import ClientOptions, Delete, Location, Put
from tests.support.client_admin import read_manifest
from tests.support.live_client import LiveClient, LiveClientError, Traffic
from tests.support.model import Model
from tests.support.observers import check_observers

NOW_MS = 2_000_000_000_000  # 2033: later than every write, before the far future

BY_ITSELF = ClientOptions(
    compactor=True,
    compact_by_itself=True,
    flush_interval="20ms",
    settings={
        "compactor_options.scheduler_options.min_compaction_sources": "2",
        "compactor_options.poll_interval": "200ms",  # between two jobs others have a chance
    },
)
EXTERNAL_WORKERS = ClientOptions(compactor=True, flush_interval="20ms", settings={"compactor_options.worker": None})


@pytest.mark.parametrize("options", [BY_ITSELF, EXTERNAL_WORKERS, ClientOptions()], ids=["all", "external", "none"])
def test_its_log_is_what_everybody_sees(options: ClientOptions, database: Location) -> None:
    model = Model()
    traffic = Traffic(keys=80, deletes=0.2, merges=0.2, ttls=0.1, past_ttls=0.1, flush_every=40, snapshot_every=100)
    with LiveClient(database, options) as live:
        live.start_writing(traffic)
        while read_manifest(database).last_l0_seq < 400:
            live.put(b"called", b"while it writes")
        latencies = live.stop_writing()
        assert len(latencies) > 100
        check_observers(live, model, NOW_MS)
        live.close()


def test_snapshots_and_transactions_are_held_there(database: Location) -> None:
    with LiveClient(database) as live:
        live.write([Put(b"a", b"1"), Put(b"b", b"1")])
        snapshot, transaction = live.take_snapshot(), live.begin()
        live.write([Put(b"a", b"2"), Delete(b"b")])
        assert live.get(b"a", at=snapshot) == b"1"
        assert [row.key for row in live.scan(at=snapshot)] == [b"a", b"b"]
        assert live.get_in(transaction, b"a") == b"1"
        live.put_in(transaction, b"a", b"3")
        with pytest.raises(LiveClientError):
            live.commit(transaction)
        live.release(snapshot)
        assert live.get(b"a") == b"2"


def test_a_killed_client_loses_what_is_not_durable(database: Location) -> None:
    with LiveClient(database, ClientOptions()) as live:
        live.put(b"a", b"durable")
        live.flush_wal()
        live.put(b"a", b"lost")
        live.kill()
    with LiveClient(database, ClientOptions()) as live:
        assert live.get(b"a") == b"durable"
        assert live.is_open()
