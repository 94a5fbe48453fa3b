"""Erasing from databases of the real client: it opens them, finds everything else, and brings nothing back."""

from __future__ import annotations

from pathlib import Path

import pytest

from slatespark import CommitConflictError, SlateStore
from tests.faults.jobs import table_of
from tests.support.client import Client, ClientOptions, Delete, Location, Merge, Put
from tests.support.client_admin import clone_database, compact_full, compact_segments, create_checkpoint
from tests.support.our_reads import our_rows
from tests.support.segments import UpTo

SECRET = b"alice-in-the-clear"
OPTIONS = ClientOptions(compactor=True)


def objects_with(folder: Path, text: bytes) -> list[str]:
    wanted = text, text.hex().encode()
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [str(path) for path in files if any(each in path.read_bytes() for each in wanted)]


@pytest.fixture
def location(tmp_path: Path) -> Location:
    """A run, two L0 files and a WAL, each with rows of the secret key: values, operands, a deletion, a value again."""
    location = Location.local(tmp_path / "db")
    with Client.open(location, OPTIONS) as client:
        client.write([Put(b"a%d" % number, b"x") for number in range(50)])
        client.write([Put(SECRET, SECRET + b" in a run"), Put(b"z", b"x")])
        client.flush_memtable()
        compact_full(client)
        client.write([Merge(SECRET, SECRET + b" an operand"), Put(b"b", b"x")])
        client.flush_memtable()
        client.write([Delete(SECRET), Delete(b"a1")])
        client.flush_memtable()
        client.write([Put(SECRET, SECRET + b" in the WAL"), Put(b"c", b"x")])
        client.flush_wal()
        client.close(flush=False)
    return location


def test_a_client_goes_on_without_the_key(location: Location) -> None:
    store = SlateStore.open(str(location.folder))
    before = [row for row in our_rows(store) if row.key != SECRET]
    report = store.erase(SECRET, ifClientActive="fence")
    assert report.erasure is not None
    assert report.erasure.removed.rows == 4
    assert {place.checkpoints for place in report.found} <= {
        (name,) for place in report.found for name in place.checkpoints
    }
    assert all(place.is_kept and not place.is_current and place.until_ms for place in report.found)
    for name in {name for place in report.found for name in place.checkpoints}:  # of the client's compaction
        store.deleteCheckpoint(name)
    assert store.erase(SECRET).gone
    assert objects_with(location.folder, SECRET) == []
    with Client.open(location, OPTIONS) as client:
        assert client.get(SECRET) is None
        assert client.scan() == before
        client.write([Put(b"d", b"x")])
        client.flush_memtable()
        compact_full(client)
        assert [row.key for row in client.scan()] == sorted([*(row.key for row in before), b"d"])
        client.write([Put(SECRET, b"a new person")])
        assert client.get(SECRET) == b"a new person"
    assert not store.verify().has_damage


def test_beside_an_open_client(location: Location) -> None:
    store = SlateStore.open(str(location.folder))
    with Client.open(location, OPTIONS) as client:
        client.write([Put(SECRET, b"unflushed")])
        client.flush_wal()
        store.erase(SECRET, ifClientActive="fence")
        with pytest.raises(Exception, match=r"(?i)fenced"):
            client.put(SECRET, b"again")  # which waits until it is durable
    assert store.get(SECRET) is None
    with Client.open(location, OPTIONS) as client:
        assert client.get(SECRET) is None


def test_clones_and_checkpoints_of_the_client_are_named(location: Location) -> None:
    store = SlateStore.open(str(location.folder))
    create_checkpoint(location, lifetime_ms=3_600_000)
    clone_database(location, "copy")
    report = store.erase(SECRET, ifClientActive="fence")
    assert not report.gone
    rows = [place for place in report.found if place.rows]
    assert rows
    assert all(place.checkpoints for place in rows)
    assert report.until_ms is None, "the clone keeps its files for ever"
    copied = SlateStore.open(str(location.folder.parent / "copy"))
    assert copied.get(SECRET) is not None
    copied.erase(SECRET, ifClientActive="fence")
    with Client.open(Location.local(location.folder.parent / "copy"), OPTIONS) as client:
        assert client.get(SECRET) is None
        assert len(client.scan()) == len(our_rows(store))


def test_a_client_that_wrote_meanwhile_is_not_fenced(location: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SlateStore.open(str(location.folder))
    store.write(table_of([(b"e", b"x")]))
    with Client.open(location, OPTIONS) as client:
        put = type(store._stores.main).put

        def put_and_write(self: object, path: str, parts: object) -> None:
            put(self, path, parts)  # type: ignore[arg-type]  # a method
            if path.startswith("compacted/"):
                client.write([Put(b"f", b"x")])
                client.flush_wal()

        monkeypatch.setattr(type(store._stores.main), "put", put_and_write)
        with pytest.raises(CommitConflictError):
            store.erase(SECRET)
        client.write([Put(b"g", b"x")])
        assert client.get(SECRET) is not None


def test_a_segmented_database(database: Location) -> None:
    """A key of a segment, one that is only in the WAL, and a whole segment, whose prefix goes with it."""
    slash = UpTo(b"/")
    options = ClientOptions(compactor=True, segments=slash)
    with Client.open(database, options) as client:
        for key in (b"alice/1", b"alice/2", b"bob/1", b"bob/2"):
            client.put(key, key)
        client.flush_memtable()
        compact_segments(client)
        client.put(b"bob/1", b"bob/1 again")
        client.flush_memtable()
        client.put(b"cyd/1", b"cyd/1")  # a segment of which only the WAL knows, and no extractor is declared
        client.flush_wal()
    store = SlateStore.open(str(database.folder))
    store.erase(b"cyd/1", ifClientActive="fence")
    store.erase(b"bob/1", ifClientActive="fence")
    report = store.erase(keyPrefix=b"alice/")
    for name in {name for place in report.found for name in place.checkpoints}:  # of the client's compaction
        store.deleteCheckpoint(name)
    for erased in (b"alice/", b"bob/1", b"cyd/"):
        assert store.erase(keyPrefix=erased).gone
        assert objects_with(database.folder, erased) == []
    with Client.open(database, options) as client:
        assert [row.key for row in client.scan()] == [b"bob/2"]
        client.put(b"alice/3", b"again")
        assert client.get(b"alice/1") is None
