"""What goes wrong where transactions are not isolated, by name: lost updates, write skew, a key inserted twice.

Two transactions are stepped phase by phase, in every order, and call by call; threads and a SlateDB client join in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, count
from pathlib import Path
from typing import Final

import pytest

from slatespark import ConflictError, SlateStore, TransactionConflictError
from slatespark.storage.local_store import LocalStore
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.transaction.transaction import Transaction
from tests.faults.actions import open_table, rows_of
from tests.faults.jobs import table_of
from tests.support.client import Client, Location, read_rows
from tests.support.effort import THOROUGH, points
from tests.support.failing_store import FailingStore
from tests.support.stepping import Outcome, interleave, preempted

ON_CALL: Final = "key >= X'6e' AND key < X'6f'"  # those that begin with n

Work = Callable[[Transaction, bytes], None]
_names = count()


def add_mark(txn: Transaction, mark: bytes) -> None:
    """Append a mark to a value."""
    (row,) = txn.getForUpdate([b"counter"]).read_all().to_pylist()
    txn.write(table_of([(b"counter", row["value"] + mark)]))


def go_off_call(txn: Transaction, mark: bytes) -> None:
    """Of those on call one may go off, if another one stays."""
    on_call = [row for row in txn.getForUpdate(where=ON_CALL).read_all().to_pylist() if row["value"] == b"on"]
    if len(on_call) > 1:
        txn.write(table_of([(b"n" + mark, b"off")]))


def take_name(txn: Transaction, mark: bytes) -> None:
    """Take a name that nobody has."""
    if txn.getForUpdate([b"user"]).read_all().num_rows:
        raise KeyError("taken")
    txn.write(table_of([(b"user", mark)]))


WORKS: Final[dict[str, Work]] = {"lost update": add_mark, "write skew": go_off_call, "duplicate key": take_name}


def new_table() -> MemoryStore:
    store = MemoryStore(f"anomalies-{next(_names)}")
    SlateStore.create(store.url)
    open_table(store, 9).write(table_of([(b"counter", b""), (b"n1", b"on"), (b"n2", b"on")]))
    return store


def check(name: str, store: ObjectStore, done: set[bytes]) -> None:
    """What must hold after two attempts, of which those in `done` were committed."""
    rows = rows_of(store)
    assert done, "one of two gets through"
    if name == "lost update":
        assert sorted(rows[b"counter"].decode()) == sorted(b"".join(done).decode())
    elif name == "write skew":
        assert [rows[b"n1"], rows[b"n2"]].count(b"on") == 1
    else:
        assert len(done) == 1
        assert rows[b"user"] in done
    assert not open_table(store).verify().findings


def phases(store: ObjectStore, work: Work, mark: bytes, *, prepares: bool) -> Iterator[None]:
    """One transaction, that stops after its begin, its work, and its preparation."""
    txn = open_table(store, mark[0]).begin()
    yield
    work(txn, mark)
    yield
    if prepares:
        txn.prepare()
        yield
    txn.commit()


@pytest.mark.parametrize("prepares", [False, True])
@pytest.mark.parametrize("name", WORKS)
def test_phases_in_every_order(name: str, prepares: bool) -> None:
    steps = 4 if prepares else 3
    orders = [first for first in combinations(range(2 * steps), steps) if 0 in first]  # else the two are swapped
    for first in orders if THOROUGH or not prepares else orders[::4]:
        store = new_table()
        marks = [b"1", b"2"]
        running = [phases(store, WORKS[name], mark, prepares=prepares) for mark in marks]
        done, failed = set[bytes](), set[int]()
        for step in range(2 * steps):
            actor = 0 if step in first else 1
            if actor in failed:
                continue
            try:
                next(running[actor])
            except StopIteration:
                done.add(marks[actor])
            except (TransactionConflictError, KeyError):
                failed.add(actor)
        check(name, store, done)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKS)
def test_one_whole_at_a_storage_call_of_the_other(name: str) -> None:
    def act(mark: bytes) -> Callable[[ObjectStore], object]:
        def run(store: ObjectStore) -> None:
            with open_table(store, mark[0]).begin() as txn:
                WORKS[name](txn, mark)

        return run

    quiet = FailingStore(new_table())
    act(b"1")(quiet)
    for nth in points(quiet.count(), 8):
        store = new_table()
        outcomes: list[Outcome] = interleave(store, [act(b"1"), act(b"2")], preempted(nth, 1 << 20))
        assert all(outcome is None or isinstance(outcome, ConflictError | KeyError) for outcome in outcomes), outcomes
        assert not isinstance(outcomes[1], ConflictError), f"call {nth}"
        check(name, store, {mark for mark, outcome in zip([b"1", b"2"], outcomes, strict=True) if outcome is None})


@pytest.mark.slow
def test_threads_that_count_lose_nothing(tmp_path: Path) -> None:
    workers, turns = 3, 4
    folder = tmp_path / "table"
    SlateStore.create(str(folder)).write(table_of([(b"counter", b"")]))
    barrier = threading.Barrier(workers)

    def work(number: int) -> None:
        table = SlateStore.open(str(folder))
        barrier.wait()
        for turn in range(turns):
            while True:
                try:
                    with table.begin() as txn:
                        add_mark(txn, b"%d%d " % (number, turn))
                except ConflictError:
                    continue
                break

    with ThreadPoolExecutor(workers) as threads:
        for done in [threads.submit(work, number) for number in range(workers)]:
            done.result()
    (row,) = read_rows(Location.local(folder))
    assert sorted(row.value.split()) == [b"%d%d" % (number, turn) for number in range(workers) for turn in range(turns)]


@pytest.mark.parametrize("flush", ["wal", "memtable"])
@pytest.mark.parametrize("name", ["lost update", "write skew", "duplicate key"])
def test_a_client_that_comes_first(name: str, flush: str, tmp_path: Path) -> None:
    """What it wrote to what was read for update is a conflict that names the key, also where it may be fenced."""
    folder = tmp_path / "table"
    table = SlateStore.create(str(folder))
    table.write(table_of([(b"counter", b""), (b"n1", b"on"), (b"n2", b"on")]))
    key = {"lost update": b"counter", "write skew": b"n2", "duplicate key": b"user"}[name]
    txn = table.begin(ifClientActive="fence")
    WORKS[name](txn, b"1")
    with Client.open(Location.local(folder)) as client:
        client.put(key, b"off")
        (client.flush_wal if flush == "wal" else client.flush_memtable)()
        with pytest.raises(TransactionConflictError, match=key.hex()):
            txn.commit()
        client.put(b"on", b"")  # refused before anything was claimed
        client.flush_wal()
    assert rows_of(LocalStore(folder))[key] == b"off"
