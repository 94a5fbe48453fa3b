"""Reaping tables of any shape: what is past retention is gone, everything else is as it was, at every instant."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from slatespark.format.row import Row, RowKind
from slatespark.ranges import KeyRange
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import publish_definition
from slatespark.table.log.versioned_object import Version as DefinitionVersion
from slatespark.table.read.planning.plan import FileSlice, Layer
from slatespark.table.retention.reap_arguments import ReapLimits
from slatespark.table.retention.reap_report import ReapReport
from slatespark.table.retention.reap_run import reap_table
from slatespark.table.stores import TableStores
from tests.support.client import ClientOptions, Location, ScanRow, read_rows
from tests.support.effort import examples
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.support.model import Kind, Model, Version
from tests.support.our_reads import our_rows
from tests.support.workload import Run, Step, client_options, workloads
from tests.unit.table.layers import new_stores, put_file
from tests.unit.table.retention.expiry_model import cut, publish_layers, strip_properties

PRESENT_MS = 100_000
INSTANTS = (0, 150, 290, 400)
PUTS = [RowKind.PUT]
KEYS = [b"a", b"b", b"bb", b"c", b"d", b"\xff"]
KINDS = {RowKind.PUT: Kind.PUT, RowKind.DELETE: Kind.DELETE, RowKind.MERGE: Kind.MERGE}


@st.composite
def tables(draw: st.DrawFn) -> tuple[TableStores, Model]:
    """Layers of files, ours and others', some of them cut, and a WAL above them; younger the newer they are."""
    stores, model = new_stores(), Model()
    keys = sorted(draw(st.sets(st.sampled_from(KEYS), min_size=2, max_size=6)))
    seqs = itertools.count(900, -1)
    layers: list[Layer] = []
    found: list[Row] = []
    for number in range(draw(st.integers(1, 4))):
        oldest = draw(st.sampled_from([0, 100, 300])) if draw(st.booleans()) else 250 - 80 * number
        rows = draw(layer_rows(keys, seqs, oldest))
        edges = sorted({0, len(rows), *(at % len(rows) for at in draw(st.lists(st.integers(0, 40), max_size=2)))})
        parts = []
        for start, end in itertools.pairwise(edges):
            for part in draw(views(stores, rows[start:end])):
                parts.append(part)
                found += [row for row in rows[start:end] if part.keys.contains(row.key)]
        if parts:
            layers.append(Layer(f"run {number}", tuple(parts)))
    wal = []
    for number in range(draw(st.integers(0, 2))):
        key = draw(st.sampled_from([*keys, b"w"]))
        wal.append(draw(layer_rows([key], itertools.count(1001 + number), 250, most=1)))
    publish_layers(stores, layers, wal)
    for row in sorted([*found, *itertools.chain(*wal)], key=lambda row: row.seq):
        model.versions[row.key].append(Version(row.seq, KINDS[row.kind], row.value, row.create_ts_ms, row.expire_ts_ms))
    return stores, model


@st.composite
def layer_rows(draw: st.DrawFn, keys: list[bytes], seqs: Iterator[int], oldest_ms: int, most: int = 3) -> list[Row]:
    """Rows of some of the keys, newest version first; a layer tends to hold one kind, of one time."""
    kinds = st.sampled_from(draw(st.sampled_from([PUTS, PUTS, PUTS, [*PUTS, RowKind.DELETE], list(KINDS)])))
    spread = draw(st.sampled_from([0, 0, 30, 300]))
    lacking = draw(st.sampled_from([0, 0, 0, 4]))
    chosen = keys if draw(st.booleans()) else draw(st.lists(st.sampled_from(keys), min_size=1, unique=True))
    most = draw(st.sampled_from([1, 1, most]))
    rows = []
    for key in sorted(chosen):
        created = draw(st.lists(st.integers(oldest_ms, oldest_ms + spread), min_size=1, max_size=most))
        for create_ts in sorted(created, reverse=True):
            kind, seq = draw(kinds), next(seqs)
            gone = kind is RowKind.DELETE
            at = None if draw(st.integers(1, 10)) <= lacking else create_ts
            expire_ts = None if gone else draw(st.sampled_from([None, None, None, create_ts + 40]))
            rows.append(Row(key, seq, kind, b"" if gone else b"%d," % seq, at, expire_ts))
    return rows


@st.composite
def views(draw: st.DrawFn, stores: TableStores, rows: list[Row]) -> list[FileSlice]:
    """A file, shown wholly, or in two parts with a gap between them."""
    part = put_file(stores, rows, block_size=draw(st.sampled_from([1, 60, 4096])))
    if draw(st.integers(0, 3)) == 0:
        strip_properties(stores, part)
    if draw(st.integers(0, 5)):
        return [part]
    low, high = sorted(draw(st.lists(st.sampled_from(KEYS), min_size=2, max_size=2)))
    parts = [cut(part, KeyRange(b"", low)), cut(part, KeyRange(high, None))]
    return [half for half in parts if not half.keys.is_empty()]


def is_retired(versions: list[Version], now_ms: int, retired_ms: int) -> bool:
    """Whether all that makes up what a key shows was created at or before `retired_ms`; newest version last."""
    group: list[Version] = []
    for each in reversed(versions):
        if each.kind is not Kind.DELETE:
            group.append(each)
        if each.kind is not Kind.MERGE:
            break
    alive = [each for each in group if not each.is_expired(now_ms)]
    created = [each.create_ts for each in alive or group if each.create_ts is not None]
    return bool(created) and max(created) <= retired_ms


def expected(model: Model, gone: set[bytes], **how: Any) -> list[ScanRow]:
    return [row for row in model.visible(**how) if row.key not in gone]


def reap(stores: TableStores, **given: Any) -> ReapReport:
    return reap_table(stores, FakeClock(PRESENT_MS), **given)


@settings(max_examples=examples(30))
@given(
    tables(),
    st.sampled_from([150, 250, 400]),
    st.sampled_from([-5, 60, 100, 130, 180, 230, 270, 400]),
    st.sampled_from([(None, None), (1, 1), (3, 200)]),
)
def test_what_is_past_retention_goes_and_nothing_else(
    table: tuple[TableStores, Model], now_ms: int, retired_ms: int, limits: tuple[int | None, int | None]
) -> None:
    (stores, model), (batch_rows, batch_bytes) = table, limits
    retired_ms = min(now_ms, retired_ms)
    publish_definition(
        stores, DefinitionVersion(1, TableDefinition(properties={"retention": str(now_ms - retired_ms)}))
    )
    gone = {key for key, versions in model.versions.items() if is_retired(versions, now_ms, retired_ms)}
    report = reap(stores, now_ms=now_ms, limits=ReapLimits(batch_rows, batch_bytes))
    store = SlateStore(stores, FakeClock(PRESENT_MS), {"path": stores.url})
    store.setProperties(retention="none")
    for instant in INSTANTS:
        assert our_rows(store, now=instant) == expected(model, gone, now_ms=instant)
    assert our_rows(store, includeExpired=True) == expected(model, gone, now_ms=None, include_expired=True)
    assert report.reaped_through_ms == retired_ms
    assert store.verify(allVersions=True).has_damage is False
    store.setProperties(retention=f"{now_ms - retired_ms}ms")
    again = reap(stores, now_ms=now_ms)
    assert (again.passes, again.rows, again.next_deadline_ms) == (0, 0, report.next_deadline_ms)


@settings(max_examples=examples(20))
@given(
    tables(),
    st.sampled_from([60, 130, 180, 230, 270, 400]),
    st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(["upsert", "delete", "merge"])), min_size=1, max_size=3),
    st.sampled_from([(None, None), (1, 1), (3, 200)]),
)
def test_a_write_that_comes_before_the_commit(
    table: tuple[TableStores, Model],
    retired_ms: int,
    writes: list[tuple[bytes, str]],
    limits: tuple[int | None, int | None],
) -> None:
    """The rows are as if it had come before the reaping: an operand keeps a due row, and no new row is deleted."""
    (stores, model), (batch_rows, batch_bytes) = table, limits
    properties = {"retention": str(400 - retired_ms), "autoCompact": "false"}
    publish_definition(stores, DefinitionVersion(1, TableDefinition(properties=properties)))
    clock = FakeClock(PRESENT_MS, seed=7)
    other = SlateStore(stores, clock, {"path": stores.url})

    def write() -> None:
        for key, operation in writes:
            rows = pa.table({"key": [key], "value": [b"new"]})
            kind = {"upsert": Kind.PUT, "delete": Kind.DELETE, "merge": Kind.MERGE}[operation]
            other.write(rows, operation=operation)
            model.versions[key].append(Version(model.last_seq + 1, kind, b"new", PRESENT_MS, None))

    watched = FailingStore(stores.main).run(write, "create", "slatespark/leases/*")
    reap(TableStores(main=watched, wal=watched), now_ms=400, limits=ReapLimits(batch_rows, batch_bytes))
    gone = {key for key, versions in model.versions.items() if is_retired(versions, 400, retired_ms)}
    other.setProperties(retention="none")
    for include_expired in (False, True):
        shown = our_rows(other, now=400, includeExpired=include_expired)
        wanted = expected(model, gone, now_ms=None if include_expired else 400, include_expired=include_expired)
        assert [(row.key, row.value) for row in shown] == [(row.key, row.value) for row in wanted]
    assert other.verify(allVersions=True).has_damage is False


@pytest.mark.slow
@settings(max_examples=examples(6))
@given(client_options(), st.lists(workloads(max_steps=15), min_size=2, max_size=2), st.data())
def test_between_the_writes_of_the_client(
    options: ClientOptions, workloads: list[list[Step]], data: st.DataObject
) -> None:
    """It goes on after each reaping, as if the keys that went had been deleted."""
    model = Model(options.default_ttl_ms)
    with tempfile.TemporaryDirectory() as folder:
        location = Location.local(Path(folder) / "db")
        for workload in workloads:
            with Run(location, options) as run:
                run.model = model
                run.apply(workload)
                run.make_durable()
            store = SlateStore.open(str(location.folder))
            created = sorted({each.create_ts or 0 for versions in model.versions.values() for each in versions} or {1})
            times = [created[0] - 1, *created]
            retired_ms = times[data.draw(st.integers(0, 19)) % len(times)]  # how many there are is up to the clock
            store.setProperties(retention=f"{created[-1] - retired_ms}ms")
            for key, versions in list(model.versions.items()):
                if is_retired(versions, created[-1], retired_ms):
                    del model.versions[key]
            store.reap(now=created[-1], maxBatchRows=data.draw(st.sampled_from([2, 1000])))
            store.setProperties(retention="none")
            visible = model.visible(created[-1])
            assert our_rows(store, now=created[-1]) == our_rows(store, includeExpired=True) == visible
            assert read_rows(location) == visible
