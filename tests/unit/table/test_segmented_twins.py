"""A segmented table shows the rows of a plain one after the same calls, whatever the calls are."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

from slatespark import ExpireFilter, OptionError, SlateStore, SstWriter
from slatespark.display.describe_text import describe_text
from slatespark.table.compaction.small_runs import MIN_RUNS
from slatespark.table.log.manifests import fetch_latest_manifest
from tests.support.fake_clock import FakeClock

START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
BY_TENANT = {"segmentExtractor": "by_tenant", "segmentDelimiter": "X'00'"}
SCHEMA = pa.schema([("tenant", pa.string()), ("id", pa.int64()), ("n", pa.int64())])
_names = itertools.count()

Row: TypeAlias = tuple[str, int, int]


@dataclass
class Twin:
    """One of two tables that take the same calls."""

    store: SlateStore
    clock: FakeClock
    is_segmented: bool

    def write(self, *rows: Row, **options: Any) -> int:
        return self.store.write(table_of(*rows), **options)

    def pass_time(self, hours: int) -> None:
        self.clock.advance(hours * HOUR_MS)

    def rows(self, **read: Any) -> list[dict[str, Any]]:
        found = self.store.scan(metadataColumns="op,create_ts,expire_ts", **read).read_all().to_pylist()
        assert isinstance(found, list)
        return found


def table_of(*rows: Row) -> pa.Table:
    return pa.table({name: [row[at] for row in rows] for at, name in enumerate(SCHEMA.names)}, SCHEMA)


def numbered(*tenants: str, count: int = 3, n: int = 0) -> list[Row]:
    return [(tenant, number, n) for tenant in tenants for number in range(count)]


def timed(*rows: tuple[str, int, int, int]) -> pa.Table:
    """Rows with hours after the start."""
    at = pa.array([START_MS + hours * HOUR_MS for *_, hours in rows], pa.timestamp("ms", "UTC"))
    return table_of(*(row[:3] for row in rows)).append_column("at", at)


# --- calls ------------------------------------------------------------------------------------------------------------


def upserts_and_deletes(twin: Twin) -> None:
    twin.write(*numbered("a", "b", "c"))
    twin.write(*numbered("c", "b", "d", count=2, n=1))
    twin.store.write(table_of(("a", 1, 0)).select(["tenant", "id"]), operation="delete")
    twin.store.delete("id = 0 AND tenant > 'b'")
    twin.store.update("tenant = 'c'", {"n": 9})


def overwrites(twin: Twin) -> None:
    twin.write(*numbered("a", "b", "c"))
    twin.write(*numbered("b", n=1), mode="overwrite", replaceWhere="tenant = 'b'")
    twin.write(*numbered("c", count=1, n=2), mode="overwrite", replaceWhere="tenant >= 'b' AND tenant < 'd'")
    twin.store.deleteRange("tenant = 'a' AND id > 1 OR tenant = 'x'")


def removal_of_all(twin: Twin) -> None:
    twin.write(*numbered("a", "b"))
    twin.write(mode="overwrite")
    twin.write(*numbered("b", "c"))
    twin.store.deleteRange("tenant >= 'a'")


def duplicates_in_a_write(twin: Twin) -> None:
    twin.store.write(table_of(("b", 1, 1), ("a", 1, 1), ("b", 1, 3), ("b", 1, 2)), sequenceColumn="n", writeBuffer=1)
    twin.write(("a", 1, 4), ("b", 2, 1), ("a", 1, 5), writeBuffer=1)


def rows_that_expire(twin: Twin) -> None:
    twin.write(*numbered("a", "b"), ttl="2h")
    twin.write(*numbered("b", "c", n=1), ttl="9h")
    twin.pass_time(4)
    twin.store.compact(full=True)


def a_due_compaction(twin: Twin) -> None:
    twin.store.setProperties(periodicCompactionInterval="3h")
    rows_that_expire(twin)
    twin.pass_time(4)
    twin.store.compact(due=True)


def a_compaction_with_a_filter(twin: Twin) -> None:
    for n in range(3):
        twin.write(*numbered("a", "b", "c", n=n), ttl=f"{n + 1}h")
    twin.pass_time(2)
    twin.store.compact(full=True, filters=[ExpireFilter()])


def a_compaction_of_an_interval(twin: Twin) -> None:
    for n in range(3):
        twin.write(*numbered("a", "b", "c", n=n))
    twin.store.deleteRange("tenant = 'b' AND id = 1")
    twin.store.compact(where="tenant >= 'a' AND tenant <= 'b'")


def many_writes(twin: Twin) -> None:
    for n in range(2 * MIN_RUNS):
        twin.write(*numbered("a", "b", "c", n=n))
    if twin.is_segmented:
        assert all(len(tree.compacted) < MIN_RUNS + 8 for tree in fetch_latest_manifest(twin.store._stores)[1].segments)


def a_reap(twin: Twin) -> None:
    twin.store.setProperties(retention="3h")
    twin.write(*numbered("a", "b"))
    twin.pass_time(2)
    twin.write(*numbered("b", "c", count=1, n=1))
    twin.pass_time(2)
    twin.store.reap()
    twin.store.compact(full=True)


def a_transaction(twin: Twin) -> None:
    twin.write(*numbered("a", "b"))
    with twin.store.begin() as transaction:
        transaction.write(table_of(("b", 1, 7), ("c", 1, 7)))
        transaction.write(table_of(("c", 1, 8), ("a", 1, 8)))
        assert transaction.read().read_all().num_rows == 7
        transaction.delete("tenant = 'a' AND id = 0")


def an_idempotent_write(twin: Twin) -> None:
    for n in range(2):
        twin.write(*numbered("a", "b", n=n), txnAppId="job", txnVersion=1)


def an_ingest(twin: Twin) -> None:
    url = f"memory://twins-files/{next(_names)}.sst"
    SstWriter(url, SCHEMA, "tenant,id", clock=twin.clock).write(table_of(*numbered("d", "b", "a", n=3)))
    twin.write(*numbered("a", "c"))
    twin.store.ingest([url])


def a_restore(twin: Twin) -> None:
    version = twin.write(*numbered("a", "b"))
    twin.write(*numbered("b", "c", n=1))
    twin.store.deleteRange("tenant = 'a'")
    twin.store.restoreToVersion(version)
    twin.write(*numbered("d"))


def kept_versions(twin: Twin) -> None:
    twin.write(*numbered("a", "b"))
    first = twin.store.createCheckpoint("first").version
    twin.store.deleteRange("tenant = 'a'")
    twin.write(*numbered("c"))
    twin.store.vacuum("0h", force=True)
    assert len(twin.rows(versionAsOf=first)) == len(twin.rows(checkpoint="first")) == 6


def history(twin: Twin) -> None:
    """Versions with their own times, a range deleted in the past, and a trim."""
    twin.pass_time(20)
    twin.store.write(timed(("b", 1, 0, 3), ("a", 1, 0, 1), ("b", 1, 1, 5), ("c", 1, 1, 2)), timestampColumn="at")
    twin.store.write(timed(("a", 1, 3, 7), ("d", 1, 3, 9)), timestampColumn="at")
    twin.store.deleteRange("tenant = 'b'", timestamp=START_MS + 8 * HOUR_MS)
    before = [twin.rows(timestampAsOf=START_MS + hours * HOUR_MS) for hours in range(3, 10)]
    twin.store.compact(full=True)
    assert [twin.rows(timestampAsOf=START_MS + hours * HOUR_MS) for hours in range(3, 10)] == before
    twin.store.trimHistory(START_MS + 8 * HOUR_MS)
    twin.store.setHistoryFloor(START_MS + 5 * HOUR_MS)
    twin.store.compact(full=True)


CALLS: dict[Callable[[Twin], None], dict[str, Any]] = {
    upserts_and_deletes: {},
    overwrites: {},
    removal_of_all: {},
    duplicates_in_a_write: {},
    rows_that_expire: {},
    a_due_compaction: {"autoCompact": False},
    a_compaction_with_a_filter: {},
    a_compaction_of_an_interval: {},
    many_writes: {},
    a_reap: {},
    a_transaction: {},
    an_idempotent_write: {},
    an_ingest: {},
    a_restore: {},
    kept_versions: {"versionRetention": "none"},
    history: {"history": True},
}


def twins(schema: pa.Schema, **properties: Any) -> list[Twin]:
    number = next(_names)
    found = []
    for is_segmented in (False, True):
        clock = FakeClock(START_MS, seed=number)
        given = {**properties, **(BY_TENANT if is_segmented else {})}
        url = f"memory://twins/{number}/{'segmented' if is_segmented else 'plain'}"
        found.append(Twin(SlateStore.create(url, schema, "tenant,id", clock=clock, **given), clock, is_segmented))
    return found


@pytest.mark.parametrize("calls", CALLS, ids=lambda calls: calls.__name__)
def test_the_same_calls_lead_to_the_same_rows(calls: Callable[[Twin], None]) -> None:
    properties = CALLS[calls]
    schema = SCHEMA.append(pa.field("at", pa.timestamp("ms", "UTC"))) if "history" in properties else SCHEMA
    plain, segmented = twins(schema, **properties)
    for twin in (plain, segmented):
        calls(twin)
    for read in ({}, {"includeExpired": True}, {"order": "desc"}):
        assert segmented.rows(**read) == plain.rows(**read)
    assert segmented.store.verify(allVersions=True).findings == ()
    manifest = fetch_latest_manifest(segmented.store._stores)[1]
    assert not manifest.compacted
    shown = {row["tenant"] for row in segmented.rows()}
    assert shown <= {tree.prefix[1:-1].decode() for tree in manifest.segments}


@pytest.mark.parametrize("copies", ["clone", "copyTo"])
def test_copies_are_segmented_too(copies: str, tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "from"), SCHEMA, "tenant,id", **BY_TENANT)
    store.write(table_of(*numbered("a", "b")))
    copy = getattr(store, copies)(str(tmp_path / "to"))
    copy.write(table_of(*numbered("b", "c", n=1)))
    copy.compact(full=True)
    assert {row["n"] for row in copy.scan().read_all().to_pylist()} == {0, 1}
    assert copy.detail().segments == tuple(prefix.hex() for prefix in (b"\2a\0", b"\2b\0", b"\2c\0"))
    assert copy.verify().findings == ()
    assert store.scan().read_all().num_rows == 6


def test_facts_tell_the_segment(tmp_path: Path) -> None:
    plain, segmented = twins(SCHEMA)
    for twin in (plain, segmented):
        twin.write(*numbered("a", "b"))
    assert {file.segment for file in plain.store.files()} == {layer.segment for layer in plain.store.runs()} == {None}
    assert [file.segment for file in segmented.store.files()] == [b"\2a\0", b"\2b\0"]
    assert [layer.segment for layer in segmented.store.runs()] == [b"\2a\0", b"\2b\0"]
    assert segmented.store.detail().segment_extractor == "by_tenant"
    assert "2 by by_tenant: 026100, 026200" in describe_text(segmented.store.detail())


def test_each_compaction_of_a_segment_is_a_job_of_it() -> None:
    _, segmented = twins(SCHEMA, autoCompact=False)
    segmented.write(*numbered("a", "b"))
    segmented.write(*numbered("b", "c"))
    dry = segmented.store.compact(full=True, dryRun=True)
    assert [job.sources for job in dry.jobs] == [("run 0",), ("run 2", "run 1"), ("run 3",)]
    report = segmented.store.compact(full=True)
    assert [(job.keys, job.destination) for job in report.jobs] == [(job.keys, job.destination) for job in dry.jobs]
    assert segmented.store.compact(full=True).is_compacted
    version = segmented.write(*numbered("b", n=1))
    again = segmented.store.compact(full=True)
    assert [job.destination for job in again.jobs] == [1], "the other segments are compacted"
    assert again.version > version
    explained = segmented.store.explain("compact", full=True, force=True)
    assert explained.splits == 3


@pytest.mark.parametrize("operation", ["read", "reap", "vacuum"])
def test_operations_are_explained(operation: str) -> None:
    _, segmented = twins(SCHEMA, retention="3h")
    segmented.write(*numbered("a", "b"))
    segmented.pass_time(9)
    assert segmented.store.explain(operation).estimated.high.get > 0


@pytest.mark.parametrize("call", ["erase", "restore", "trim"])
def test_a_declaration_of_a_call_is_checked(call: str) -> None:
    _, segmented = twins(SCHEMA, history=True)
    version = segmented.write(*numbered("a", "b"))
    calls: dict[str, Callable[..., object]] = {
        "erase": partial(segmented.store.erase, "a", 0, releaseVersions=True),
        "restore": partial(segmented.store.restoreToVersion, version),
        "trim": partial(segmented.store.trimHistory, START_MS),
    }
    with pytest.raises(OptionError, match="by_tenant"):
        calls[call](segmentExtractor="other", segmentPrefixLength=2)
    assert call not in {commit.operation for commit in segmented.store.history()}
    calls[call](**BY_TENANT)
