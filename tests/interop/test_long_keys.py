"""Keys that slatespark writes no row for, as they are too long: a client's rows with such keys can be deleted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slatespark import SchemaError, SlateStore
from tests.support.client import Client, ClientOptions, Location, Put
from tests.support.client_admin import compact_full

LONG = b"k" * 70_000
OPTIONS = ClientOptions(compactor=True)
DELETIONS: dict[str, Callable[[SlateStore], object]] = {
    "key": lambda store: store.delete(keys=[LONG]),
    "condition on the key": lambda store: store.delete(f"key = X'{LONG.hex()}'"),
    "condition on the value": lambda store: store.delete("value = X'6f6c64'"),
}


@pytest.fixture
def store(database: Location) -> SlateStore:
    with Client.open(database, OPTIONS) as client:
        client.write([Put(b"a", b"1"), Put(LONG, b"old"), Put(LONG + b"l", b"2")])
        client.flush_memtable()
    return SlateStore.open(str(database.folder))


@pytest.mark.parametrize("deletion", DELETIONS)
@pytest.mark.parametrize("merges", [None, "ours", "client's"])
def test_they_are_deleted(store: SlateStore, database: Location, deletion: str, merges: str | None) -> None:
    DELETIONS[deletion](store)
    assert [len(row["key"]) for row in store.scan().read_all().to_pylist()] == [1, len(LONG) + 1]
    if merges == "ours":
        store.compact(full=True)
    with Client.open(database, OPTIONS) as client:
        if merges == "client's":
            compact_full(client)
        assert client.get(LONG) is None
        assert [row.key for row in client.scan()] == [b"a", LONG + b"l"]
    assert not store.verify().has_damage


def test_no_row_is_written_for_them(store: SlateStore) -> None:
    with pytest.raises(SchemaError):
        store.update("value = X'6f6c64'", {"value": b"new"})
    assert store.get(LONG) == {"key": LONG, "value": b"old"}
