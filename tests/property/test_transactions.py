"""Several transactions at once, among writes and compactions of others, against a model of snapshot isolation.

The model is a list of states. A transaction sees the state of its begin under what it wrote; it commits unless a key
that it wrote or locked got a version since, and then all it wrote comes on top of the newest state.
"""

from __future__ import annotations

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
    watched: set[bytes] = field(default_factory=set)

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

    def conflicts(self, one: Open) -> bool:
        later = set().union(*self.commits[one.begun :])
        return bool(later & one.watched)


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
        for key in KEYS[what[0] : what[1]]:
            found = one.txn.get(key)
            assert (found and found["value"]) == one.seen.get(key)
    elif one.txn.state == "open":
        one.watched |= change(one, kind, what)


def change(one: Open, kind: str, what: Any) -> set[bytes]:
    """Write or lock, and return the keys that the commit depends on from now on."""
    txn = one.txn
    if kind == "txn write":
        txn.write(table_of(what), opColumn="op")
        one.changes += what
        return {key for _, key, _ in what}
    if kind == "lock keys":
        assert rows(txn.getForUpdate(what)) == {key: one.seen[key] for key in what if key in one.seen}
        return set(what)
    there = within(one.seen, *what)
    if kind == "lock range":
        assert rows(txn.getForUpdate(where=condition(*what))) == there
    else:
        assert txn.delete(condition(*what)) == len(there)
        one.changes += [("delete", key, b"") for key in there]
    return set(within(dict.fromkeys(KEYS, b""), *what))


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


@settings(max_examples=examples(50))
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
