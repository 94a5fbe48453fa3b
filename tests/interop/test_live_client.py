"""A real client writes without pause while we read: every read is one consistent snapshot."""

from __future__ import annotations

from contextlib import suppress

import pytest

from slatespark import SlateStore, SnapshotExpiredError
from tests.support.busy_client import KEYS, busy_client
from tests.support.client import Location
from tests.support.client_admin import collect_garbage

READS = 60


def test_every_read_is_one_snapshot(database: Location) -> None:
    with busy_client(database) as written:
        store = SlateStore.open(str(database.folder))
        seen = []
        for _ in range(READS):
            table = store.scan().read_all()
            assert table.column("key").to_pylist() == KEYS
            numbers = set(table.column("value").to_pylist())
            assert len(numbers) == 1
            seen.append(int(numbers.pop()))
        assert seen == sorted(seen)
        assert seen[-1] <= written[0] + 1
    assert len(set(seen)) > 5


def test_splits_of_one_read_are_of_one_snapshot(database: Location) -> None:
    with busy_client(database):
        store = SlateStore.open(str(database.folder))
        for _ in range(READS // 2):
            reader = store.scan(splitSize=100, readBuffer=1)
            assert len({value for batch in reader for value in batch.column("value").to_pylist()}) == 1


def test_point_reads_never_go_back(database: Location) -> None:
    with busy_client(database):
        store = SlateStore.open(str(database.folder))
        last = 0
        for at in range(READS * 2):
            row = store.get(KEYS[at % len(KEYS)])
            assert row is not None
            assert int(row["value"]) >= last
            last = int(row["value"])


@pytest.mark.slow
def test_garbage_collection_may_expire_a_read_but_never_mixes_it(database: Location) -> None:
    with busy_client(database):
        store = SlateStore.open(str(database.folder))
        complete = 0
        for _ in range(READS // 2):
            collect_garbage(database)
            with suppress(SnapshotExpiredError):
                table = store.scan(splitSize=100).read_all()
                assert len(set(table.column("value").to_pylist())) == 1
                complete += 1
    assert complete > 0
