"""The rows of a load and of the layers that it replaces become what the model says, whatever the windows."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatespark.errors import CommitConflictError, OptionError, SnapshotExpiredError
from slatespark.format.codecs import Compression
from slatespark.format.paths import sst_path
from slatespark.format.references import SstHandle
from slatespark.format.row import Row, RowKind
from slatespark.kernels import take_rows
from slatespark.kernels.columns import Retention
from slatespark.options import WriteOptions
from slatespark.ranges import ALL_KEYS
from slatespark.table.commit.foreign_clients import Baseline
from slatespark.table.commit.job import WriteJob
from slatespark.table.commit.rebase import RowShift
from slatespark.table.commit.row_times import COMMIT_TIMES, GIVEN_TIMES
from slatespark.table.compaction.merge import MergeRules
from slatespark.table.cooperation import load_merge
from slatespark.table.cooperation.load_merge import LoadRules, Output, merged_rows, run_pieces
from slatespark.table.cooperation.load_plan import LOAD, CopiedFile, MergedKeys
from slatespark.table.read.planning.plan import Layer
from slatespark.table.records.operations import Operation
from slatespark.table.rows.sorted_rows import SortedRows
from tests.support.compaction_model import compacted
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.support.row_values import columns_to_rows
from tests.unit.table.cooperation.test_load_plan import SEQ, sources_of, tree
from tests.unit.table.layers import Shape, new_stores, put_file, shapes

NOW_MS = 100
LOAD_SEQ = 1  # before it moves


def merged(load: list[Row], sources: Shape, rules: LoadRules, window_bytes: int) -> list[Row]:
    return merged_tasks([load], sources, rules, window_bytes)


def merged_tasks(loads: list[list[Row]], sources: Shape, rules: LoadRules, window_bytes: int) -> list[Row]:
    """A later task is newer."""
    stores = new_stores()
    own = [Layer(LOAD, (put_file(stores, load, block_size=sources.block_size),)) for load in reversed(loads)]
    layers = [*own, *sources.store(stores)]
    found: list[Row] = []
    for piece in merged_rows(stores, layers, rules, window_bytes):
        found += columns_to_rows(take_rows(piece.sources, piece.rows))
    return found


def rules(seq: int, min_seq: int, *, lowest: bool = False, operator: str | None = "concat") -> LoadRules:
    return LoadRules(
        RowShift(seq - LOAD_SEQ, 2, 2), Retention(min_seq=min_seq, now_ms=NOW_MS, drops_tombstones=lowest), operator
    )


def expected(load: list[Row], sources: Shape, seq: int, min_seq: int, *, lowest: bool) -> list[Row]:
    """What a compaction leaves of the sources and of the load as the newest layer."""
    newest = {row.key: later(row, seq) for row in load}
    layers: list[list[Row]] = []
    for layer in sources.layers:
        kept = []
        for row in layer:
            if row.seq == seq and row.key in newest:
                newest[row.key] = tied(newest[row.key], row)
            else:
                kept.append(row)
        layers.append(kept)
    model = MergeRules(now_ms=NOW_MS, min_seq=min_seq, drops_tombstones=lowest, merge_operator="concat")
    return compacted([list(newest.values()), *layers], model)


def later(row: Row, seq: int) -> Row:
    """The row where the load lies, two milliseconds later."""
    created, expires = row.create_ts_ms, row.expire_ts_ms
    return replace(
        row,
        seq=seq,
        create_ts_ms=None if created is None else created + 2,
        expire_ts_ms=None if expires is None else expires + 2,
    )


def tied(row: Row, stored: Row) -> Row:
    """One row for two of one number: a put or a deletion replaces, an operand appends to what lives as long."""
    if row.kind is not RowKind.MERGE:
        return row
    if is_over(stored) or stored.kind is RowKind.DELETE:
        return row if stored.kind is RowKind.MERGE else replace(row, kind=RowKind.PUT)
    if is_over(row):
        return stored
    if row.expire_ts_ms != stored.expire_ts_ms:
        raise CommitConflictError("no row can stand for both")
    times = [time for time in (row.create_ts_ms, stored.create_ts_ms) if time is not None]
    value = stored.value + row.value
    return Row(row.key, row.seq, stored.kind, value, max(times, default=None), row.expire_ts_ms)


def is_over(row: Row) -> bool:
    return row.expire_ts_ms is not None and row.expire_ts_ms <= NOW_MS


def check(load: list[Row], sources: Shape, seq: int, min_seq: int, window_bytes: int, *, lowest: bool = False) -> None:
    """The load becomes what is expected, or is refused where that cannot be."""
    given = rules(seq, min_seq, lowest=lowest)
    try:
        wanted = expected(load, sources, seq, min_seq, lowest=lowest)
    except CommitConflictError:
        with pytest.raises(CommitConflictError, match="expire at different times"):
            merged(load, sources, given, window_bytes)
        return
    found = merged(load, sources, given, window_bytes)
    assert found == wanted
    assert len({(row.key, row.seq) for row in found}) == len(found)


@st.composite
def loads(draw: st.DrawFn, sources: Shape) -> list[Row]:
    """One row for some keys of the sources, and for some others."""
    known = sorted({row.key for layer in sources.layers for row in layer})
    keys = draw(st.sets(st.one_of(st.sampled_from(known), st.binary(min_size=1, max_size=3)), min_size=1, max_size=8))
    rows = []
    for key in sorted(keys):
        kind = draw(st.sampled_from([RowKind.PUT, RowKind.MERGE, RowKind.DELETE]))
        gone = kind is RowKind.DELETE
        expires = None if gone else draw(st.sampled_from([None, None, 50, 150]))
        rows.append(Row(key, LOAD_SEQ, kind, b"" if gone else b"load,", draw(st.sampled_from([None, 300])), expires))
    return rows


@given(st.data())
def test_the_load_is_the_newest_layer_at_the_highest_number(data: st.DataObject) -> None:
    sources = data.draw(shapes())
    load = data.draw(loads(sources))
    seq = max(row.seq for layer in sources.layers for row in layer)
    min_seq = data.draw(st.sampled_from([0, seq // 2, seq]))
    lowest, window_bytes = data.draw(st.booleans()), data.draw(st.sampled_from([1, 200, 1 << 20]))
    check(load, sources, seq, min_seq, window_bytes, lowest=lowest)


@given(st.data())
def test_of_several_tasks_the_last_one_wins(data: st.DataObject) -> None:
    sources = data.draw(shapes())
    loads_by_task = [
        [row for row in data.draw(loads(sources)) if row.kind is not RowKind.MERGE]
        for _ in range(data.draw(st.integers(2, 3)))
    ]
    newest = {row.key: row for rows in loads_by_task for row in rows}
    by_task = [rows for rows in loads_by_task if rows]
    if not by_task:
        return
    seq = max(row.seq for layer in sources.layers for row in layer)
    window_bytes = data.draw(st.sampled_from([1, 200, 1 << 20]))
    found = merged_tasks(by_task, sources, rules(seq, 0), window_bytes)
    assert found == expected([newest[key] for key in sorted(newest)], sources, seq, 0, lowest=False)


@given(st.data())
def test_without_an_operator_versions_of_operands_stay(data: st.DataObject) -> None:
    """Nothing is folded, and what is folded later is the same."""
    sources = data.draw(shapes())
    load = [row for row in data.draw(loads(sources)) if row.kind is not RowKind.MERGE]
    if not load:
        return
    seq = max(row.seq for layer in sources.layers for row in layer)
    found = merged(load, sources, rules(seq, seq, operator=None), data.draw(st.sampled_from([1, 1 << 20])))
    later = MergeRules(now_ms=NOW_MS, min_seq=seq, drops_tombstones=True, merge_operator="concat")
    assert compacted([found], later) == expected(load, sources, seq, seq, lowest=True)


@pytest.mark.parametrize("window_bytes", [1, 1 << 20])
@pytest.mark.parametrize("ends", [None, 48, 148])
@pytest.mark.parametrize("expires", [None, 50, 150])
@pytest.mark.parametrize("stored", [RowKind.PUT, RowKind.MERGE, RowKind.DELETE])
@pytest.mark.parametrize("kind", [RowKind.PUT, RowKind.MERGE, RowKind.DELETE])
def test_a_stored_row_with_the_number_of_the_load(
    kind: RowKind, stored: RowKind, expires: int | None, ends: int | None, window_bytes: int
) -> None:
    """Where the load is a deletion, it has no expiry. The expiry of others moves by two milliseconds."""
    newest = Row(b"k", 9, stored, b"" if stored is RowKind.DELETE else b"new,", 5)
    if stored is not RowKind.DELETE:
        newest = replace(newest, expire_ts_ms=expires)
    older = [Row(b"k", number, value=b"old,") for number in (4, 3)]
    sources = Shape(((newest,), tuple(older)), ((), ()), 1, Compression.NONE)
    load = [Row(b"k", 1, kind, b"", 7) if kind is RowKind.DELETE else Row(b"k", 1, kind, b"load,", 7, ends)]
    for min_seq in (0, 9):
        check(load, sources, 9, min_seq, window_bytes)


def test_without_an_operator_a_number_occurs_once() -> None:
    stored = (Row(b"k", 9, RowKind.MERGE, b"+"), Row(b"k", 8, RowKind.MERGE, b"-"))
    sources = Shape((stored,), ((),), 4096, Compression.NONE)
    found = merged([Row(b"k", 1, value=b"load")], sources, rules(9, 9, operator=None), 1 << 20)
    assert found == [Row(b"k", 9, value=b"load"), stored[1]]


def test_an_operand_that_meets_its_number_needs_an_operator() -> None:
    sources = Shape(((Row(b"k", 9, value=b"v"),),), ((),), 4096, Compression.NONE)
    with pytest.raises(OptionError, match="mergeOperator"):
        merged([Row(b"k", 1, RowKind.MERGE, b"+")], sources, rules(9, 9, operator=None), 1 << 20)


@pytest.mark.parametrize("tick_ms", [90, 130])
@pytest.mark.parametrize("runs", [0, 1])
def test_the_rules_are_those_of_the_version_with_the_sources(runs: int, tick_ms: int) -> None:
    """A tombstone stays where a run lies below; times that the user gave stay where they are."""
    below = [["a-z"]] * runs
    manifest = replace(tree(["b-c"], *below), last_l0_clock_tick=tick_ms, recent_snapshot_min_seq=40)
    sources = sources_of(manifest)
    assert sources is not None
    baseline = Baseline(7, 0, 0, last_l0_seq=SEQ - 3, wal_end=1)
    job = WriteJob("id", Operation.COOPERATIVE_WRITE, 100, baseline, SEQ - 3, create_ts_ms=100)
    later_ms = max(0, tick_ms - 100)
    for times, by_ms in ((COMMIT_TIMES, later_ms), (GIVEN_TIMES, 0)):
        found = LoadRules.of(sources, job, times, "concat")
        assert found.shift == RowShift(3, by_ms, by_ms)
        assert found.retention == Retention(min_seq=40, now_ms=tick_ms, drops_tombstones=not runs)
        assert (found.merge_operator, found.moves) == ("concat", True)
    unmoved = replace(job, baseline=replace(baseline, last_l0_seq=SEQ))
    assert LoadRules.of(sources, unmoved, COMMIT_TIMES, None).moves is (later_ms > 0)


@pytest.mark.parametrize("is_remote", [False, True])
def test_threads_that_merge_and_write_beside_a_client_on_two_cores(
    monkeypatch: pytest.MonkeyPatch, is_remote: bool
) -> None:
    """On a disk there is one: a second one, even of low priority, makes the client's puts wait."""
    stores = new_stores()
    store = FailingStore(stores.main)
    stores = replace(stores, main=store)
    load, older = ([Row(b"%04d" % key, 1, value=b"v" * 40) for key in range(first, 400, 2)] for first in (0, 1))
    layers = tuple(
        Layer(name, (put_file(stores, rows, block_size=256),)) for name, rows in ((LOAD, load), ("L0", older))
    )
    store.clear()
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(FailingStore, "is_remote", is_remote)
    threads: dict[str, set[int]] = {"merge": set(), "put": set()}

    def watched(*given: Any) -> Iterator[SortedRows]:
        for piece in merged_rows(*given):
            threads["merge"].add(threading.get_ident())
            yield piece

    monkeypatch.setattr(load_merge, "merged_rows", watched)
    for nth in (1, 2, 3):
        store.run(lambda: threads["put"].add(threading.get_ident()), "put", nth=nth)
    options = WriteOptions(path="unused", sst_bytes=3000, compression="none")
    keys, range_bytes = [MergedKeys(ALL_KEYS, layers)], 1 << 20 if is_remote else 2000
    found = run_pieces(stores, FakeClock(1000), keys, rules(1, 0), options, range_bytes=range_bytes)
    if is_remote:
        assert threads["put"].isdisjoint(threads["merge"])
    else:
        assert threads["put"] == threads["merge"]
        assert len(threads["put"]) == 1
    assert len(found) > 3
    ends = [(file.handle.info.first_entry, file.handle.info.last_entry) for file in found]
    assert (ends[0][0], ends[-1][1]) == (b"0000", b"0399")
    assert ends == sorted(ends)
    assert sum(file.properties.puts for file in found if file.properties is not None) == 400


def test_files_that_a_collector_removed() -> None:
    stores, clock = new_stores(), FakeClock()
    part = put_file(stores, [Row(b"a", LOAD_SEQ, RowKind.PUT, b"x")])
    file = part.file
    stores.main.delete(sst_path(file.id))
    with pytest.raises(SnapshotExpiredError, match=str(file.id)):
        Output(SstHandle(file.id, file.info, file.format_version), None).copied(stores, clock, clock.now_ms())
    with pytest.raises(SnapshotExpiredError, match=str(file.id)):
        run_pieces(stores, clock, [CopiedFile(part)], rules(2, 2), WriteOptions(path="?"), range_bytes=1 << 20)
