"""Retention of a database that the real client wrote: its rows have create_ts too, and so have those of its clones."""

from __future__ import annotations

from pathlib import Path

from slatespark import SlateStore
from tests.support.client import Client, ClientOptions, Location, read_rows
from tests.support.client_admin import clone_database, compact_full
from tests.support.our_reads import our_rows


def test_rows_in_the_wal_the_trees_and_a_clone(tmp_path: Path) -> None:
    location = Location.local(tmp_path / "db")
    with Client.open(location, ClientOptions(compactor=True)) as client:
        client.put(b"a", b"old")
        client.put(b"b", b"old")
        compact_full(client)
        client.put(b"a", b"hides the old one")
        last = client.put(b"c", b"in the WAL").create_ts
        client.flush_wal()
        store = SlateStore.open(str(location.folder))
        store.setProperties(retention="1h")
        deadline = last + 3_600_000
        assert [row.key for row in our_rows(store, now=deadline - 3_600_000)] == [b"a", b"b", b"c"]
        assert our_rows(store, now=deadline) == []
        assert store.get(b"a", now=deadline) is None
        assert len(our_rows(store, now=deadline, includeExpired=True)) == 3
        assert client.get(b"a") == b"hides the old one", "the client knows nothing of it, and is not fenced"
    clone_database(location, "clone")
    clone = SlateStore.open(str(tmp_path / "clone"))
    assert our_rows(clone, now=deadline) == [], "the definition of the parent"
    assert len(our_rows(clone, now=deadline - 3_600_000)) == 3
    clone.setProperties(retention="2h")
    assert len(our_rows(clone, now=deadline)) == 3, "its own definition from now on"
    assert our_rows(store, now=deadline) == []
    assert len(read_rows(location)) == 3
