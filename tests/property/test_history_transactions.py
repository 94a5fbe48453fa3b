"""Transactions on history tables: with read and commit timestamps, reads as of any instant stay as the model says."""

from __future__ import annotations

from itertools import count
from random import Random  # noqa: TID251  # hypothesis seeds it
from typing import TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore, TransactionConflictError
from tests.support.effort import examples
from tests.support.fake_clock import FakeClock

Versions: TypeAlias = dict[int, list[tuple[int, int, int | None]]]  # of an id: time, order of writing, value

NOW_MS = 1_700_000_000_000
FIRST_MS = NOW_MS - 1000
IDS = range(6)
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])

_numbers = count()


def table_of(rows: dict[int, int]) -> pa.Table:
    return pa.table([list(rows), list(rows.values())], schema=SCHEMA)


def rows_of(reader: pa.RecordBatchReader) -> dict[int, int]:
    return {row["id"]: row["v"] for row in reader.read_all().to_pylist()}


class Run:
    """A table, and every version that it should have."""

    def __init__(self, random: Random) -> None:
        self.random = random
        url = f"memory://history-transactions-{next(_numbers)}"
        self.store = SlateStore.create(url, SCHEMA, "id", clock=FakeClock(NOW_MS), history=True)
        self.versions: Versions = {}
        self.order, self.tick_ms = 0, FIRST_MS
        self.write(dict.fromkeys(IDS[:4], 0), FIRST_MS)

    def as_of(self, time_ms: int) -> dict[int, int]:
        known = ((key, [item for item in found if item[0] <= time_ms]) for key, found in self.versions.items())
        newest = {key: max(found, key=lambda item: item[:2])[2] for key, found in known if found}
        return {key: value for key, value in newest.items() if value is not None}

    def took(self, rows: dict[int, int | None], time_ms: int) -> None:
        self.order += 1
        for key, value in rows.items():
            self.versions.setdefault(key, []).append((time_ms, self.order, value))
        if rows:
            self.tick_ms = max(self.tick_ms, time_ms)

    def write(self, rows: dict[int, int], time_ms: int) -> None:
        self.store.write(table_of(rows), timestamp=time_ms)
        self.took({**rows}, time_ms)

    def transact(self) -> None:
        random = self.random
        past_ms = max(FIRST_MS, self.tick_ms - random.randint(0, 30))
        read_ms = None if random.random() < 0.4 else past_ms
        read_at_ms = self.tick_ms if read_ms is None else read_ms
        txn, base = self.store.begin(readTimestamp=read_ms), self.as_of(read_at_ms)
        assert rows_of(txn.read()) == base
        locked: set[int] = set()
        mine: dict[int, int | None] = {}
        for value in range(1000, 1000 + random.randint(1, 3)):
            key, choice = random.choice(IDS), random.choice(["lock", "delete", "write", "write"])
            if choice == "lock":
                txn.getForUpdate([key])
                locked.add(key)
            elif choice == "delete":
                txn.delete(keys=[key])
                mine[key] = None
            else:
                txn.write(table_of({key: value}))
                mine[key] = value
        seen = {**base, **mine}
        assert rows_of(txn.read()) == {key: value for key, value in seen.items() if value is not None}
        meanwhile = {random.choice(IDS): 7} if random.random() < 0.4 else {}
        if meanwhile:
            self.write(meanwhile, self.tick_ms)
        not_before = {key for key in IDS if any(at >= read_at_ms for at, *_ in self.versions.get(key, []))}
        changed = set(meanwhile) if read_ms is None else set(meanwhile) | not_before
        commit_ms = read_at_ms + random.randint(1, 15)
        if changed & (locked | mine.keys()):
            with pytest.raises(TransactionConflictError):
                txn.commit(timestamp=commit_ms)
            txn.rollback()
        else:
            txn.commit(timestamp=commit_ms)
            self.took(mine, commit_ms)


@settings(max_examples=examples(6))
@given(st.randoms(use_true_random=False), st.integers(3, 7))
def test_reads_as_of_any_instant_are_as_the_model(random: Random, steps: int) -> None:
    run = Run(random)
    for _ in range(steps):
        if random.random() < 0.4:
            run.write(dict.fromkeys(random.sample(IDS, 2), run.order), run.tick_ms + random.randint(0, 20))
        else:
            run.transact()
        for time_ms in (*range(FIRST_MS, run.tick_ms, 7), run.tick_ms):
            assert rows_of(run.store.scan(timestampAsOf=time_ms)) == run.as_of(time_ms), time_ms
    assert not run.store.verify().has_damage
