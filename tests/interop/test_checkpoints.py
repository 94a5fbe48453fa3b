"""Checkpoints of ours under the eyes of the real client: it lists them, reads at them, and keeps what they pin."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from slatedb import uniffi

from slatespark import InvalidRequestError, SlateStore
from slatespark.storage.local_store import LocalStore
from slatespark.table.checkpoints.store import create_checkpoint, delete_checkpoint, refresh_checkpoint
from slatespark.table.clock import SystemClock
from slatespark.table.commit.version_retention import is_retained
from slatespark.table.stores import TableStores
from tests.conftest import ClientFactory
from tests.faults.jobs import stores_of
from tests.support.client import ClientOptions, Location, read_rows, run_once
from tests.support.client_admin import collect_garbage, compact_full
from tests.support.fake_clock import FakeClock

COMPACTING = ClientOptions(compactor=True)


def stores_at(location: Location) -> TableStores:
    return stores_of(LocalStore(location.folder))


def listed(location: Location) -> list[tuple[str, str | None, int, int, bool]]:
    """Id, name, version, second of creation, and whether it lasts, as the client's administration tells."""
    admin = uniffi.AdminBuilder(location.path, location.object_store()).build()
    points = run_once(admin.list_checkpoints(None))
    return [(p.id, p.name, p.manifest_id, p.create_time_secs, p.expire_time_secs is None) for p in points]


def pairs(location: Location, checkpoint: str | None = None) -> dict[bytes, bytes]:
    return {row.key: row.value for row in read_rows(location, checkpoint=checkpoint)}


def our_pairs(location: Location, **options: Any) -> dict[bytes, bytes]:
    rows = SlateStore.open(str(location.folder)).scan(mergeOperator="concat", **options).read_all().to_pylist()
    return {row["key"]: row["value"] for row in rows}


def test_of_a_live_client_with_rows_in_the_wal(client_factory: ClientFactory, database: Location) -> None:
    client = client_factory(COMPACTING)
    client.put(b"a", b"1")
    client.flush_memtable()
    client.put(b"b", b"2")
    client.flush_wal()
    made = create_checkpoint(stores_at(database), SystemClock(), name="monday")
    seconds = made.created_ms // 1000
    assert listed(database) == [(made.id, "monday", made.version, seconds, True)]
    then = {b"a": b"1", b"b": b"2"}
    client.put(b"a", b"3")  # it goes on as if nothing had been
    client.delete(b"b")
    client.flush_memtable()
    compact_full(client)
    for number in range(3):
        client.put(b"more", b"%d" % number)
        client.flush_memtable()
    client.close()
    collect_garbage(database)
    now = {b"a": b"3", b"more": b"2"}
    assert (pairs(database), our_pairs(database)) == (now, now)
    assert pairs(database, made.id) == then
    assert our_pairs(database, checkpoint="monday") == our_pairs(database, versionAsOf=made.version) == then
    delete_checkpoint(stores_at(database), SystemClock(), "monday")
    assert "monday" not in [name for _, name, *_ in listed(database)]


def test_one_that_has_expired_can_be_read_until_it_is_collected(
    client_factory: ClientFactory, database: Location
) -> None:
    with client_factory() as client:
        client.put(b"a", b"1")
        client.flush_memtable()
        before = create_checkpoint(stores_at(database), SystemClock(), lifetime_ms=3_600_000)
        past = FakeClock(SystemClock().now_ms() - 3_600_000)
        made = create_checkpoint(stores_at(database), past, name="old", lifetime_ms=1_000)
        kept = create_checkpoint(stores_at(database), past, name="kept", lifetime_ms=1_000)
        refresh_checkpoint(stores_at(database), SystemClock(), "kept", 60_000)
        client.put(b"a", b"2")
        client.flush_memtable()
    assert our_pairs(database, checkpoint="old") == pairs(database, made.id) == {b"a": b"1"}
    collect_garbage(database)
    assert [entry[:3] for entry in listed(database)] == [
        (before.id, None, before.version),
        (kept.id, "kept", kept.version),
    ]
    with pytest.raises(InvalidRequestError, match="'old'"):
        our_pairs(database, checkpoint="old")
    assert our_pairs(database, checkpoint="kept") == pairs(database, kept.id) == {b"a": b"1"}


def test_versions_survive_its_collector_as_long_as_the_table_says(
    client_factory: ClientFactory, database: Location
) -> None:
    store = SlateStore.create(str(database.folder), versionRetention="1h")
    known: dict[int, dict[bytes, bytes]] = {}
    ours: list[int] = []
    for number in range(4):
        if number == 2:  # a client in between, whose rows are only in the WAL
            with client_factory() as client:
                client.put(b"theirs", b"1")
                client.flush_wal()
        before = our_pairs(database)
        version = store.write(pa.table({"key": [b"a", b"%d" % number], "value": [b"%d" % number] * 2}))
        ours.append(version)
        known[version] = our_pairs(database)
        known[max(set(kept_versions(database)) - {version})] = before
    with client_factory(COMPACTING) as client:
        for key in (b"a", b"b"):
            compact_full(client)
            client.put(key, b"9")
            client.flush_memtable()
    rows = pairs(database)
    collect_garbage(database)
    assert pairs(database) == our_pairs(database) == rows
    kept = kept_versions(database)
    assert set(kept) <= set(store.detail().versions) >= {facts.version for facts in store.history()}
    assert len(known) == 6  # the empty table, our versions, and that of the client's rows
    times = {facts.version: facts.committed_ms for facts in store.history()}
    for version in (ours[0], ours[2], ours[3]):  # when the client replaced ours[1], nobody knows
        assert our_pairs(database, timestampAsOf=times[version]) == known[version]
    for version, then in known.items():
        assert our_pairs(database, versionAsOf=version) == pairs(database, kept[version]) == then


def kept_versions(location: Location) -> dict[int, str]:
    """Versions that commits of ours keep, and the ids of their checkpoints."""
    return {version: point for point, name, version, *_ in listed(location) if is_retained(name)}
