"""Compactions of every kind among writes, replacements and other compactions: reads never change by one.

Another action may come in the middle of a compaction. Then it lands, unless what it merged was cut or merged meanwhile.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import CommitConflictError, SlateStore
from slatespark.options import WriteOptions
from slatespark.ranges import KeyRange
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.compaction.merge import MergedRange, RangeTask
from slatespark.table.compaction.plan import SizeTiers
from slatespark.table.compaction.ranges import run_here
from slatespark.table.compaction.request import CompactionRequest
from slatespark.table.compaction.run import compact_table
from slatespark.table.records.commits import newest_commit_records
from slatespark.table.stores import TableStores
from tests.property.test_range_replace import key_ranges
from tests.support.client import Delete, Merge, Put, Ttl, Write, Written
from tests.support.effort import examples
from tests.support.fake_clock import FakeClock
from tests.support.model import Model
from tests.support.our_reads import our_rows
from tests.support.workload import keys

START_MS = 1_700_000_000_000
STEP_MS = 120_000  # what compactions hold back for clocks that are behind is over by then
_names = itertools.count(1)


@dataclass(frozen=True)
class Load:
    """A commit of rows: operation, key, value; one row for each key."""

    rows: tuple[tuple[str, bytes, bytes], ...]
    ttl_ms: int | None


@dataclass(frozen=True)
class Cut:
    """An interval loses its rows."""

    keys: KeyRange


@dataclass(frozen=True)
class Compact:
    """A compaction, and what comes in the middle of it."""

    kind: str  # full, tiered, or interval
    keys: KeyRange
    options: dict[str, Any]
    meanwhile: Turn | None = None


Turn: TypeAlias = Load | Cut | Compact


def loads() -> st.SearchStrategy[Load]:
    rows = st.tuples(st.sampled_from(["put", "put", "delete", "merge"]), keys(), st.binary(max_size=8))
    distinct = st.lists(rows, min_size=1, max_size=8, unique_by=lambda row: row[1]).map(tuple)
    return st.builds(Load, distinct, st.sampled_from([None, None, 1, STEP_MS, 100 * STEP_MS]))


def compactions(meanwhile: st.SearchStrategy[Turn | None]) -> st.SearchStrategy[Compact]:
    options = st.fixed_dictionaries({"sstSize": st.sampled_from([100, 1 << 20]), "blockSize": st.just(1024)})
    return st.builds(Compact, st.sampled_from(["full", "tiered", "interval"]), key_ranges(), options, meanwhile)


def turns() -> st.SearchStrategy[list[Turn]]:
    change = st.one_of(loads(), loads(), st.builds(Cut, key_ranges()))
    inner = st.one_of(st.none(), change, compactions(st.none()))
    return st.lists(st.one_of(change, change, compactions(inner)), min_size=3, max_size=9).map(lambda made: [*made])


class Table:
    """A table and its model."""

    def __init__(self) -> None:
        self.clock = FakeClock(START_MS)
        store = MemoryStore(f"compactions/{next(_names)}")
        self.stores = TableStores(main=store, wal=store)
        self.store = SlateStore.create(store.url, clock=self.clock, mergeOperator="concat", autoCompact=False)
        self.model = Model()

    def take(self, turn: Turn) -> None:
        self.clock.advance(STEP_MS)
        match turn:
            case Load():
                self.load(turn)
            case Cut():
                self.store.deleteRange(startKey=turn.keys.start, endKey=turn.keys.end)
                for key in [key for key in self.model.versions if turn.keys.contains(key)]:
                    del self.model.versions[key]
            case Compact():
                self.compact(turn)

    def load(self, turn: Load) -> None:
        columns = {
            "key": pa.array([key for _, key, _ in turn.rows], pa.binary()),
            "value": pa.array([value for _, _, value in turn.rows], pa.binary()),
            "op": pa.array([kind for kind, _, _ in turn.rows]),
        }
        ttl = "none" if turn.ttl_ms is None else turn.ttl_ms
        self.store.write(pa.table(columns), opColumn="op", ttl=ttl)
        record = next(newest_commit_records(self.stores.main, 1))
        assert record.last_seq is not None
        self.model.apply(
            [_write(row, turn.ttl_ms) for row in turn.rows], Written(record.last_seq, record.write_time_ms)
        )

    def compact(self, turn: Compact) -> None:
        bounds = {"startKey": turn.keys.start, "endKey": turn.keys.end} if turn.kind == "interval" else {}
        before = self.store.resolve().version
        try:
            report = compact_table(
                self.stores,
                self.clock,
                CompactionRequest(
                    full=turn.kind == "full",
                    tiers=SizeTiers(2, 3, 4.0) if turn.kind not in ("full", "interval") else None,
                ),
                WriteOptions.parse({"path": self.store.url, **bounds, **turn.options}),
                runner=self.interrupted(turn.meanwhile),
                range_bytes=200,
            )
        except CommitConflictError:
            assert isinstance(turn.meanwhile, Cut | Compact), "only what changes the sources is in the way"
            return
        assert report.version > before or not report.jobs

    def interrupted(self, meanwhile: Turn | None) -> Any:
        def run(tasks: Sequence[RangeTask]) -> Iterable[MergedRange]:
            nonlocal meanwhile
            yield from run_here(self.stores, self.clock, tasks)
            if meanwhile is not None:
                turn, meanwhile = meanwhile, None
                self.take(turn)

        return run

    def check(self) -> None:
        now_ms = self.clock.now_ms()
        assert our_rows(self.store, now=now_ms) == self.model.visible(now_ms)
        for key in sorted(self.model.versions)[::2]:
            row = self.store.get(key, now=now_ms)
            expected = {row.key: row.value for row in self.model.visible(now_ms)}
            assert (None if row is None else row["value"]) == expected.get(key)


def _write(row: tuple[str, bytes, bytes], ttl_ms: int | None) -> Write:
    kind, key, value = row
    ttl = Ttl(after_ms=ttl_ms)
    return Delete(key) if kind == "delete" else Merge(key, value, ttl) if kind == "merge" else Put(key, value, ttl)


@settings(max_examples=examples(6))  # each takes a quarter of a second
@given(turns())
def test_reads_never_change_by_a_compaction(drawn: list[Turn]) -> None:
    table = Table()
    for turn in drawn:
        table.take(turn)
        table.check()
    assert not table.store.verify().has_damage
    table.take(Compact("full", KeyRange(), {}))
    table.check()
    assert len(table.store.runs()) <= 1
    listed = table.stores.main.list("slatespark/leases/")
    assert not listed, "every job has ended"
