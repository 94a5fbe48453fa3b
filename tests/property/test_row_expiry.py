"""Writes with an expiry per row, in any size of buffer and of files, against the model; at every instant."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from tests.support.client import Delete, Merge, Put, ScanRow, Ttl, Write, Written
from tests.support.effort import examples
from tests.support.fake_clock import FakeClock
from tests.support.model import Model
from tests.support.our_reads import our_rows
from tests.support.row_expiry import expiring_table

NOW_MS = 1_000
KEYS = [b"a", b"b", b"b\0", b"c", b"long" * 20]

_numbers = count()


def ttls(instants: bool) -> st.SearchStrategy[Ttl | None]:
    if instants:
        return st.none() | st.integers(NOW_MS - 20, NOW_MS + 60).map(lambda ms: Ttl(at_ms=ms))
    return st.none() | st.integers(0, 40).map(lambda ms: Ttl(after_ms=ms))


@st.composite
def batches(draw: st.DrawFn) -> tuple[bool, int | None, list[Write]]:
    """Whether rows say instants, the TTL of the write, and its rows; operands only of keys that are there once."""
    instants, rows = draw(st.booleans()), draw(st.integers(0, 25))
    writes: list[Write] = []
    for _ in range(rows):
        key, ttl = draw(st.sampled_from(KEYS)), draw(ttls(instants))
        value = draw(st.binary(max_size=6))
        kinds: list[Write] = [Put(key, value, ttl), Delete(key), Merge(key, value, ttl)]
        writes.append(draw(st.sampled_from(kinds)))
    repeated = {write.key for write in writes if sum(other.key == write.key for other in writes) > 1}
    puts: list[Write] = [
        Put(write.key, write.operand, write.ttl) if isinstance(write, Merge) and write.key in repeated else write
        for write in writes
    ]
    return instants, draw(st.none() | st.integers(0, 30)), puts


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.tuples(batches(), st.integers(0, 20)), min_size=1, max_size=4), st.sampled_from([150, 600, 1 << 26]))
def test_rows_with_an_expiry_each(steps: list[tuple[tuple[bool, int | None, list[Write]], int]], buffer: int) -> None:
    clock, model = FakeClock(NOW_MS), Model()
    store = SlateStore.create(f"memory://row-expiry-property-{next(_numbers)}", clock=clock)
    for seq, ((instants, ttl_ms, writes), pause_ms) in enumerate(steps, 1):
        options: dict[str, Any] = {"opColumn": "op", "expireAtColumn" if instants else "ttlColumn": "when"}
        options |= {"writeBuffer": buffer, "sstSize": 300, "ttl": "none" if ttl_ms is None else ttl_ms}
        store.write(expiring_table(writes, instants=instants), **options)
        model.default_ttl_ms = ttl_ms
        model.apply(writes, Written(seq, clock.now_ms()))
        clock.advance(pause_ms)
        for now_ms in (NOW_MS - 30, clock.now_ms() - 5, clock.now_ms(), clock.now_ms() + 1, clock.now_ms() + 25):
            assert shown(our_rows(store, now=now_ms)) == shown(model.visible(now_ms))
        assert shown(our_rows(store, includeExpired=True)) == shown(model.visible(None, include_expired=True))
    if any(writes for (_, _, writes), _ in steps):
        assert not store.verify().has_damage


def shown(rows: list[ScanRow]) -> list[ScanRow]:
    """Rows without sequence numbers, which count only commits with rows in our writes."""
    return [replace(row, seq=0) for row in rows]
