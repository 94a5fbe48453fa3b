"""Several transactions at once, among writes and compactions of others, against a model of snapshot isolation.

The model is a list of states. A transaction sees the state of its begin under what it wrote; it commits unless a key
that it locked, or read and wrote, got a version since, and then all it wrote comes on top of the newest state. A call
that makes this certain is refused itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore, TransactionConflictError
from slatespark.table.transaction.transaction import Transaction
from tests.support.effort import examples
from tests.support.fake_clock import FakeClock

State: TypeAlias = dict[bytes, bytes]
Edit: TypeAlias = tuple[str, bytes, bytes]  # operation, key, letters

KEYS = [b"%d" % number for number in range(6)]
FIRST: list[Edit] = [("put", key, b"-") for key in KEYS[::2]]
NOW_MS = 1_700_000_000_000

_numbers = count()

edits = st.lists(
    st.tuples(st.sampled_from(["put", "delete", "merge"]), st.sampled_from(KEYS), st.sampled_from([b"x", b"yy", b""])),
    min_size=1,
    max_size=4,
    unique_by=lambda edit: edit[1],
)
bounds = st.tuples(st.integers(0, 6), st.integers(0, 6)).map(sorted)
steps = st.one_of(
    st.tuples(st.just("write"), edits),
    st.tuples(st.just("begin"), st.none()),
    st.tuples(st.just("txn write"), edits),
    st.tuples(st.just("txn write"), edits),
    st.tuples(st.just("txn delete range"), bounds),
    st.tuples(st.just("lock keys"), st.lists(st.sampled_from(KEYS), max_size=2)),
    st.tuples(st.just("lock range"), bounds),
    st.tuples(st.just("txn read"), bounds),
    st.tuples(st.just("txn read a range"), bounds),
    st.tuples(st.just("txn get"), st.sampled_from(KEYS)),
    st.tuples(st.just("prepare"), st.none()),
    st.tuples(st.just("commit"), st.none()),
    st.tuples(st.just("rollback"), st.none()),
    st.tuples(st.just("compact"), st.none()),
    st.tuples(st.just("wait"), st.sampled_from([1, 70_000, 200_000])),
)


def apply(state: State, changes: list[Edit]) -> State:
    result = dict(state)
    for operation, key, letters in changes:
        if operation == "delete":
            result.pop(key, None)
        else:
            result[key] = (result.get(key, b"") if operation == "merge" else b"") + letters
    return result


def table_of(changes: list[Edit]) -> pa.Table:
    operations, keys, values = zip(*changes, strict=True)
    return pa.table({"op": operations, "key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})


def hexadecimal(number: int) -> str:
    return (b"%d" % number).hex()


def condition(low: int, high: int) -> str:
    return f"key >= X'{hexadecimal(low)}' AND key < X'{hexadecimal(high)}'"


@dataclass
class Open:
    """A transaction, and what the model knows of it."""

    txn: Transaction
    begun: int  # number of commits before it
    base: State
    changes: list[Edit] = field(default_factory=list)
    locked: set[bytes] = field(default_factory=set)
    read: set[bytes] = field(default_factory=set)

    @property
    def watched(self) -> set[bytes]:
        """The keys that must be unchanged: locked ones, and written ones that it has read."""
        return self.locked | (self.read & {key for _, key, _ in self.changes})

    @property
    def seen(self) -> State:
        return apply(self.base, self.changes)


@dataclass
class Run:
    """A table, and its model."""

    store: SlateStore
    clock: FakeClock
    state: State = field(default_factory=dict)
    commits: list[set[bytes]] = field(default_factory=list)  # the keys that each has versions of
    opened: list[Open] = field(default_factory=list)

    def took(self, changes: list[Edit]) -> None:
        self.state = apply(self.state, changes)
        self.commits.append({key for _, key, _ in changes})

    def changed(self, one: Open) -> set[bytes]:
        """The keys that others committed since it began."""
        return set().union(*self.commits[one.begun :])

    def conflicts(self, one: Open) -> bool:
        return bool(self.changed(one) & one.watched)


def rows(reader: pa.RecordBatchReader) -> State:
    return {row["key"]: row["value"] for row in reader.read_all().to_pylist()}


def within(state: State, low: int, high: int) -> State:
    return {key: value for key, value in state.items() if b"%d" % low <= key < b"%d" % high}


def step(run: Run, kind: str, what: Any, choice: int) -> None:
    if kind == "write":
        run.store.write(table_of(what), opColumn="op")
        run.took(what)
    elif kind == "compact":
        run.store.compact(full=True)
    elif kind == "wait":
        run.clock.advance(what)
    elif kind == "begin":
        run.opened.append(Open(run.store.begin(), len(run.commits), run.state))
    elif run.opened:
        one = run.opened[choice % len(run.opened)]
        in_transaction(run, one, kind, what)
        if one.txn.state not in ("open", "prepared"):
            run.opened.remove(one)


def in_transaction(run: Run, one: Open, kind: str, what: Any) -> None:
    if kind in ("prepare", "commit", "rollback"):
        end(run, one, kind)
    elif kind == "txn read":
        assert rows(one.txn.read()) == one.seen
        assert rows(one.txn.read(filter=condition(*what))) == within(one.seen, *what)
        one.read |= set(KEYS)
    elif kind == "txn read a range":
        assert rows(one.txn.read(filter=condition(*what))) == within(one.seen, *what)
        one.read |= keys_within(*what)
    elif kind == "txn get":
        found = one.txn.get(what)
        assert (found and found["value"]) == one.seen.get(what)
        one.read.add(what)
    elif one.txn.state == "open":
        change(run, one, kind, what)


def change(run: Run, one: Open, kind: str, what: Any) -> None:
    """Write or lock; keys that have changed are refused at once."""
    txn, there = one.txn, {} if kind in ("txn write", "lock keys") else within(one.seen, *what)
    if kind == "txn write":
        needs = {key for _, key, _ in what} & one.read
    else:
        needs = set(what) if kind == "lock keys" else keys_within(*what)
    calls: dict[str, Callable[[], Any]] = {
        "txn write": lambda: txn.write(table_of(what), opColumn="op"),
        "lock keys": lambda: rows(txn.getForUpdate(what)),
        "lock range": lambda: rows(txn.getForUpdate(where=condition(*what))),
        "txn delete range": lambda: txn.delete(condition(*what)),
    }
    if needs & run.changed(one):
        with pytest.raises(TransactionConflictError):
            calls[kind]()
        assert txn.state == "failed"
        txn.rollback()
        return
    result = calls[kind]()
    if kind == "txn write":
        one.changes += what
        return
    one.locked |= needs
    one.read |= set() if kind == "lock keys" else needs
    if kind == "txn delete range":
        assert result == len(there)
        one.changes += [("delete", key, b"") for key in there]
    else:
        assert result == (there if kind == "lock range" else {key: one.seen[key] for key in what if key in one.seen})


def keys_within(low: int, high: int) -> set[bytes]:
    return set(within(dict.fromkeys(KEYS, b""), low, high))


def end(run: Run, one: Open, kind: str) -> None:
    txn = one.txn
    if kind == "rollback":
        txn.rollback()
    elif kind == "prepare" and txn.state == "prepared":
        pass
    elif run.conflicts(one):
        with pytest.raises(TransactionConflictError):
            txn.prepare() if kind == "prepare" else txn.commit()
        txn.rollback()
    elif kind == "prepare":
        txn.prepare()
    else:
        txn.commit()
        if one.changes:
            run.took(one.changes)


@settings(max_examples=examples(25))
@given(st.lists(st.tuples(steps, st.integers(0, 3)), min_size=8, max_size=40))
def test_transactions_are_as_the_model(script: list[tuple[tuple[str, Any], int]]) -> None:
    clock = FakeClock(NOW_MS)
    url = f"memory://transaction-model-{next(_numbers)}"
    run = Run(SlateStore.create(url, clock=clock, mergeOperator="concat"), clock)
    opening: list[tuple[tuple[str, Any], int]] = [(("write", FIRST), 0), (("begin", None), 0), (("begin", None), 0)]
    for (kind, what), choice in opening + script:
        step(run, kind, what, choice)
        assert rows(run.store.scan()) == run.state
    for one in run.opened:
        assert rows(one.txn.read()) == one.seen
        one.txn.rollback()
    assert not run.store.verify().has_damage
