"""Filters on databases of the real client: they wait for its snapshots, and it reads what they left."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from slatespark import FilterDecisions, SlateStore
from tests.conftest import ClientFactory
from tests.support.client import ClientOptions, Location, Ttl, read_rows
from tests.support.client_admin import compact_full


class Tidy:
    """Deletes what says bad, and marks the rest; operands and values alike."""

    def decide(self, versions: pa.RecordBatch) -> FilterDecisions:
        bad = pc.fill_null(pc.starts_with(versions["value"].cast(pa.string()), "bad"), False)
        live = pc.not_equal(versions["_op"], "delete")
        actions = pc.if_else(bad, "tombstone", pc.if_else(live, "replace", "keep"))
        marked = pc.binary_join_element_wise(versions["value"], b"!", b"")
        return FilterDecisions(actions, values=pa.table({"value": marked}))


def test_the_client_reads_what_filters_left_and_goes_on(database: Location, client_factory: ClientFactory) -> None:
    client = client_factory()
    client.put(b"a", b"good", Ttl(after_ms=3_600_000))
    client.put(b"b", b"bad")
    client.flush_memtable()
    client.put(b"b", b"bad again")
    client.put(b"c", b"good")
    client.delete(b"d")
    client.close()
    SlateStore.open(str(database.folder)).compact(full=True, filters=[Tidy()])
    found = read_rows(database)
    assert [(row.key, row.value) for row in found] == [(b"a", b"good!"), (b"c", b"good!")]
    assert found[0].expire_ts is not None
    again = client_factory(ClientOptions(compactor=True))
    again.put(b"b", b"back")
    again.flush_memtable()
    assert [row.key for row in again.scan()] == [b"a", b"b", b"c"]
    compact_full(again)
    assert [row.value for row in again.scan()] == [b"good!", b"back", b"good!"]


def test_filters_wait_while_a_snapshot_of_the_client_is_noted(
    database: Location, client_factory: ClientFactory
) -> None:
    client = client_factory()
    client.put(b"a", b"bad")
    client.put(b"b", b"bad")
    client.flush_memtable()
    held = client.take_snapshot()
    client.put(b"b", b"bad too")
    client.put(b"c", b"bad")
    client.flush_memtable()
    client.close()
    del held
    store = SlateStore.open(str(database.folder))
    report = store.compact(full=True, filters=[Tidy()])
    assert (report.filters_waited, report.filtered) == (True, 0)
    versions = store.scan(readVersions="all").read_all()
    assert versions["value"].to_pylist() == [b"bad", b"bad too", b"bad", b"bad"]  # the snapshot's b, too
    report = store.compact(full=True, filters=[Tidy()])  # the commit before has settled it
    assert not report.filters_waited
    assert read_rows(database) == []
