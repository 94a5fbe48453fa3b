"""Puts, deletes and operands with and without TTL, committed as time passes: reads at any instant equal the model."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from slatespark.units import MAX_MS
from tests.support.client import ClientOptions, Delete, Location, Merge, Put, ScanRow, Ttl, Write, Written
from tests.support.effort import examples
from tests.support.fake_clock import FakeClock
from tests.support.model import Model
from tests.support.our_reads import our_rows
from tests.support.workload import FAR_FUTURE_MS, Run, Step, client_options, workloads

START_MS = 1_700_000_000_000
_names = itertools.count(1)

operations = st.sampled_from(["put", "put", "delete", "merge", "merge"])
commits = st.tuples(
    st.lists(
        st.tuples(st.sampled_from([b"a", b"b", b"c", b"d"]), operations),
        min_size=1,
        max_size=5,
        unique_by=lambda row: row[0],
    ),
    st.sampled_from([None, 0, 10, 25]),  # TTL
    st.integers(0, 12),  # until the next commit
)


@settings(max_examples=examples(25))
@given(
    st.lists(commits, min_size=1, max_size=7),
    st.sampled_from([0, 1, 5, 10, 20, 40, MAX_MS]),
    st.lists(st.integers(-3, 80), min_size=1, max_size=4),
    st.sampled_from([1, 1 << 26]),
)
def test_reads_equal_the_model(history: list[Any], retention_ms: int, instants: list[int], read_buffer: int) -> None:
    clock, model = FakeClock(START_MS), Model()
    store = SlateStore.create(f"memory://retention-model-{next(_names)}", clock=clock)
    for rows, ttl_ms, pause_ms in history:
        write(store, model, clock, rows, ttl_ms)
        clock.advance(pause_ms)
    store.setProperties(retention=f"{retention_ms}ms")
    for now_ms in (START_MS + instant for instant in instants):
        visible = young_rows(model.visible(now_ms), now_ms, retention_ms)
        assert our_rows(store, now=now_ms, readBuffer=read_buffer) == visible
        assert our_rows(store, now=now_ms, splitSize=1) == visible
        assert our_rows(store, order="desc", now=now_ms) == visible[::-1]
        assert our_rows(store, now=now_ms, includeExpired=True) == model.visible(now_ms, include_expired=True)
        for key in (b"a", b"b", b"c", b"d"):
            row = store.get(key, now=now_ms, mergeOperator="concat")
            assert (None if row is None else row["value"]) == {row.key: row.value for row in visible}.get(key)


def write(store: SlateStore, model: Model, clock: FakeClock, rows: list[Any], ttl_ms: int | None) -> None:
    last_seq = model.last_seq
    table = pa.table(
        {
            "key": [key for key, _ in rows],
            "value": [b"%d." % number for number, _ in enumerate(rows)],
            "op": [operation for _, operation in rows],
        }
    )
    store.write(table, opColumn="op", ttl="none" if ttl_ms is None else ttl_ms)
    ttl = Ttl(after_ms=ttl_ms)
    writes: list[Write] = [
        Delete(key)
        if operation == "delete"
        else Put(key, b"%d." % number, ttl)
        if operation == "put"
        else Merge(key, b"%d." % number, ttl)
        for number, (key, operation) in enumerate(rows)
    ]
    model.apply(writes, Written(last_seq + 1, clock.now_ms()))


def young_rows(rows: list[ScanRow], now_ms: int, retention_ms: int) -> list[ScanRow]:
    return [row for row in rows if row.create_ts is None or row.create_ts + retention_ms > now_ms]


@pytest.mark.slow
@settings(max_examples=examples(8))
@given(client_options(), workloads(max_steps=25, past_ttl=True), st.sampled_from([1, 1 << 26]), st.data())
def test_rows_of_the_client_retire_as_well(
    options: ClientOptions, workload: list[Step], read_buffer: int, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        location = Location.local(Path(folder) / "db")
        with Run(location, options) as run:
            run.apply(workload)
            run.make_durable()
            now_ms = FAR_FUTURE_MS - 1
            visible = run.model.visible(now_ms)
            created = sorted({row.create_ts for row in visible if row.create_ts is not None}) or [0]
            youngest_hidden = data.draw(st.sampled_from([created[0] - 1, *created]))
            store = SlateStore.open(str(location.folder))
            store.setProperties(retention=f"{now_ms - youngest_hidden}ms")
            young = young_rows(visible, now_ms, now_ms - youngest_hidden)
            assert our_rows(store, now=now_ms, readBuffer=read_buffer) == young
            assert our_rows(store, now=now_ms, splitSize=300, order="desc") == young[::-1]
            for row in visible:
                assert (store.get(row.key, now=now_ms, mergeOperator="concat") is not None) == (row in young)
