"""What does not cooperate stays away from a client that has just committed for us."""

from __future__ import annotations

import pyarrow as pa
import pytest

from slatespark import InvalidRequestError, SlateStore
from tests.support.client import ClientOptions, Location
from tests.support.client_admin import read_manifest
from tests.support.live_client import LiveClient

SETTINGS = {"compactor_options.poll_interval": "50ms", "compactor_options.worker": None}


@pytest.mark.parametrize("work", ["write", "compact"])
def test_drop_and_vacuum_know_that_it_is_open(work: str, database: Location) -> None:
    with LiveClient(database, ClientOptions(compactor=True, settings=SETTINGS)) as client:
        for key in (b"a", b"b", b"c", b"d", b"e"):
            client.put(key, b"1")
            client.flush_memtable()
        assert database.directory is not None
        folder = database.directory / database.path
        store = SlateStore.open(folder)
        if work == "write":
            store.write(pa.table({"key": [b"k"], "value": [b"v"]}), ifClientActive="cooperate")
        else:
            store.compact(full=True, ifClientActive="cooperate")
        before = read_manifest(database)
        with pytest.raises(InvalidRequestError, match="writer epoch"):
            SlateStore.drop(folder)
        store.vacuum("1h")
        after = read_manifest(database)
        assert (after.writer_epoch, after.compactor_epoch) == (before.writer_epoch, before.compactor_epoch)
        client.put(b"z", b"26")
        assert client.is_open()
