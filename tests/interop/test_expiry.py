"""The expiry report of a database that the real client and we wrote to in turns."""

from __future__ import annotations

import pyarrow as pa

from slatespark import SlateStore
from slatespark.table.retention.expiry_tally import ExpiryReport
from tests.conftest import ClientFactory
from tests.support.client import ClientOptions, Location, Ttl

HOUR_MS = 3_600_000


def counts(report: ExpiryReport) -> list[tuple[str, int | None, int, int]]:
    return [(part.state, part.start_ms, part.rows, part.wal_rows) for part in report.parts]


def test_files_of_both_and_the_wal_of_the_client(client_factory: ClientFactory, database: Location) -> None:
    client = client_factory(ClientOptions(codec="Snappy"))
    first = client.put(b"a", b"1" * 100, Ttl(after_ms=HOUR_MS))
    hour_ms = (first.create_ts // HOUR_MS + 3) * HOUR_MS  # every write of this test lies long before it
    client.put(b"b", b"2", Ttl(at_ms=hour_ms))
    client.put(b"c", b"3")
    client.flush_memtable()
    client.close(flush=False)
    store = SlateStore.open(str(database.folder))
    ours = pa.table({"key": [b"b", b"d"], "value": [b"22", b"4"], "keep": [None, 50 * HOUR_MS]})
    store.write(ours, ttlColumn="keep", ttl="none")
    [our_expiry] = [
        row["_expire_ts"] for row in store.scan(metadataColumns="expire_ts", startKey=b"d").read_all().to_pylist()
    ]
    our_hour_ms = round(our_expiry.timestamp() * 1000) // HOUR_MS * HOUR_MS
    client = client_factory(ClientOptions())
    client.put(b"e", b"5", Ttl(at_ms=hour_ms + HOUR_MS - 1))
    client.delete(b"a")
    client.flush_wal()
    report = store.expiry("hour", now=hour_ms - 1)
    assert counts(report) == [
        ("expired", None, 1, 0),  # the first version of a, though a tombstone hides it
        ("expires", hour_ms, 2, 1),
        ("expires", our_hour_ms, 1, 0),
        ("never", None, 3, 1),  # c, b as we wrote it, the tombstone
    ]
    assert counts(store.expiry("hour", now=hour_ms))[:2] == [("expired", None, 2, 0), ("expires", hour_ms, 1, 1)]
    assert report.rows == store.scan(readVersions="all").read_all().num_rows
    client.close(flush=False)
