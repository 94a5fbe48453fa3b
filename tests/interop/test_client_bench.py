"""The bench itself: what the model says is what the real client shows."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.conftest import ClientFactory
from tests.support.client import Client, ClientOptions, Delete, Location, Merge, Put, Ttl, Write, read_rows
from tests.support.client_admin import (
    collect_garbage,
    compact_full,
    create_checkpoint,
    delete_checkpoint,
    read_manifest,
)
from tests.support.effort import examples
from tests.support.model import Model
from tests.support.workload import LONG_PAST_MS, Run, Step, client_options, without_keys, workloads

FOREVER_MS = 2**62


@settings(max_examples=examples(13))
@given(workload=workloads(), options=client_options())
def test_client_and_model_agree(workload: list[Step], options: ClientOptions) -> None:
    with tempfile.TemporaryDirectory() as folder, Run(Location.local(Path(folder) / "db"), options) as run:
        run.apply(workload)
        expected = run.model.visible(None, include_expired=True)
        assert run.client_rows() == expected
        run.make_durable()
        assert read_rows(run.location) == expected


@settings(max_examples=examples(8))
@given(workload=workloads(past_ttl=True), options=client_options())
def test_client_and_model_agree_where_nothing_was_purged(workload: list[Step], options: ClientOptions) -> None:
    with tempfile.TemporaryDirectory() as folder, Run(Location.local(Path(folder) / "db"), options) as run:
        run.apply(workload)
        purged = run.model.keys_with_expiry_by(LONG_PAST_MS + 10)
        expected = run.model.visible(None, include_expired=True)
        assert without_keys(run.client_rows(), purged) == without_keys(expected, purged)


def test_model_hides_what_is_expired() -> None:
    with tempfile.TemporaryDirectory() as folder, Run(Location.local(Path(folder) / "db")) as run:
        run.apply([Put(b"k", b"old"), Put(b"k", b"1", Ttl(at_ms=FOREVER_MS)), Merge(b"k", b"2"), Put(b"other", b"")])
        [merged, other] = run.model.visible(FOREVER_MS - 1)
        assert (merged.value, merged.seq, merged.expire_ts) == (b"12", 3, FOREVER_MS)
        [alone, same] = run.model.visible(FOREVER_MS)
        assert (alone.value, alone.seq, alone.expire_ts) == (b"2", 3, None)
        assert same == other
        assert run.model.visible(FOREVER_MS, include_expired=True) == [merged, other] == run.client_rows()
        assert [row.value for row in run.model.visible(0, max_seq=1)] == [b"old"]


def test_within_a_batch_the_last_write_of_a_key_counts(client_factory: ClientFactory) -> None:
    client, model = client_factory(), Model()
    model.apply([first := Put(b"k", b"0")], client.put(first.key, first.value))
    batch: list[Write] = [
        Put(b"k", b"1"),
        Delete(b"k"),
        Merge(b"k", b"2"),
        Merge(b"k", b"3"),
        Merge(b"new", b"4"),
        Delete(b"gone"),
    ]
    model.apply(batch, client.write(batch))
    expected = model.visible(None)
    assert [(row.key, row.value, row.seq) for row in expected] == [(b"k", b"23", 2), (b"new", b"4", 2)]
    assert client.scan() == expected
    client.flush_memtable()
    assert client.scan() == expected


def test_default_expiry(database: Location) -> None:
    with Client.open(database, ClientOptions(default_ttl_ms=FOREVER_MS - 10**15)) as client:
        model = Model(client.options.default_ttl_ms)
        for write in (Put(b"default", b""), Put(b"none", b"", Ttl()), Put(b"after", b"", Ttl(after_ms=5_000_000))):
            model.apply([write], client.put(write.key, write.value, write.ttl))
        assert client.scan() == model.visible(None)


def test_reader_and_point_reads(client_factory: ClientFactory, database: Location) -> None:
    client = client_factory()
    written = client.put(b"a", b"1")
    client.flush_wal()
    client.put(b"b", b"2")
    assert client.durable_seq() == written.seq
    assert [row.key for row in read_rows(database)] == [b"a"]
    assert (client.get(b"b"), client.get(b"c"), client.get_row(b"c")) == (b"2", None, None)
    assert client.get_row(b"a") == client.scan(b"a", b"b")[0] == client.scan(end=b"b")[0]
    assert [row.key for row in client.scan(b"a\x00")] == [b"b"]


@pytest.mark.parametrize("flush", [True, False])
def test_close_keeps_or_loses_what_is_not_durable(flush: bool, client_factory: ClientFactory) -> None:
    client = client_factory()
    client.put(b"a", b"1")
    client.close(flush=flush)
    assert len(client_factory().scan()) == int(flush)


def test_compaction_leaves_one_run(client_factory: ClientFactory, database: Location) -> None:
    client = client_factory(ClientOptions(compactor=True))
    for number in range(12):
        client.put(b"k%d" % number, b"v")
        client.flush_memtable()
    assert len(read_manifest(database).l0) == 12
    assert compact_full(client) == 0
    client.put(b"last", b"v")
    assert compact_full(client) == 0
    assert compact_full(client) is None
    manifest = read_manifest(database)
    assert (len(manifest.l0), [run.id for run in manifest.compacted]) == (0, [0])
    assert len(client.scan()) == 13


def test_checkpoint_survives_a_collection(client_factory: ClientFactory, database: Location) -> None:
    client = client_factory(ClientOptions(compactor=True))
    client.put(b"k", b"before")
    client.flush_memtable()
    checkpoint = create_checkpoint(database, "before")
    client.put(b"k", b"after")
    compact_full(client)
    collect_garbage(database)
    assert [row.value for row in read_rows(database, checkpoint=checkpoint.id)] == [b"before"]
    assert [row.value for row in read_rows(database)] == [b"after"]
    delete_checkpoint(database, checkpoint.id)
    assert "before" not in {found.name for found in read_manifest(database).checkpoints}


def test_no_thread_is_left(client_factory: ClientFactory, database: Location) -> None:
    before = set(threading.enumerate())
    client = client_factory()
    client.put(b"k", b"v")
    client.flush_wal()
    read_rows(database)
    client.close()
    assert set(threading.enumerate()) == before
