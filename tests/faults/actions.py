"""What writers and maintenance do to one raw table, each with what it does to a model: a dictionary of rows.

The table has layers of every kind: runs of several files, L0 views and rows that only the WAL has, as a SlateDB client
leaves them, rows that are past retention, and an operand.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from slatespark import SlateStore, SstWriter
from slatespark.storage.local_store import LocalStore
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.transaction.transaction import Transaction
from tests.faults.jobs import store_on, table_of
from tests.support.client import Client, Delete, Location, Merge, Put, read_rows
from tests.support.fake_clock import FakeClock

HOUR_MS: Final = 3_600_000
MINUTE_MS: Final = 60_000
RETIRED: Final = (b"old1", b"old2")  # past retention: reads hide them, the reaper takes them away

Rows: TypeAlias = Mapping[bytes, bytes]
Objects: TypeAlias = Mapping[str, bytes]  # by path

_numbers = itertools.count()


@dataclass(frozen=True)
class Action:
    """One way to change the table.

    Attributes
    ----------
    act : does it, with write options
    model : what it makes of the visible rows
    is_blind : depends on nothing that it read, so nobody's commit may make it fail
    """

    name: str
    act: Callable[..., object]
    model: Callable[[Rows], Rows] = dict
    is_blind: bool = True

    def on(self, seed: int) -> Callable[[ObjectStore], object]:
        """Return the action on a store, by a clock with random numbers of its own."""
        return lambda store: self.act(open_table(store, seed))


def open_table(store: ObjectStore, seed: int = 0) -> SlateStore:
    """The table of a store, by a clock that stands."""
    return store_on(store, FakeClock(seed=seed))


# What the table shows at its version EARLY, and at the newest one.
EARLY: Final = 7
EARLY_ROWS: Final[Rows] = {b"k%02d" % number: b"b" if number in (3, 6) else b"a" for number in range(10)}
ROWS: Final[Rows] = {
    **{key: value for key, value in EARLY_ROWS.items() if key not in (b"k02", b"k08")},
    b"k01": b"a+",
    b"k05": b"b",
    b"k07": b"b",
    b"k09": b"a+",
    b"n1": b"a",
}


def make_table(folder: Path, beyond: Rows | None = None) -> Objects:
    """Make the table by slatespark and the real client, and return its objects by path.

    Parameters
    ----------
    beyond : more rows, after all the others, in files of their own
    """
    clock = FakeClock()
    clock.advance(-20 * HOUR_MS)
    table = SlateStore.create(
        str(folder), clock=clock, retention="10h", versionRetention="none", mergeOperator="concat", autoCompact=False
    )
    table.write(table_of([(key, b"old") for key in (*RETIRED, b"k04")]))
    clock.advance(15 * HOUR_MS)
    table.write(table_of([(b"k%02d" % number, b"a") for number in range(10)]), sstSize=60)
    assert table.write(table_of([(b"k03", b"b"), (b"k06", b"b")])) == EARLY
    table.createCheckpoint("early", version=EARLY)
    table.write(table_of([(b"k01", b"+")]), operation="merge")
    for key, value in (beyond or {}).items():
        table.write(table_of([(key, value)]))
    with Client.open(Location.local(folder)) as client:
        client.write([Put(b"k05", b"b"), Delete(b"k02")])
        client.flush_memtable()
        client.write([Put(b"k07", b"b"), Put(b"n1", b"a"), Delete(b"k08"), Merge(b"k09", b"+")])
        client.flush_wal()
    assert rows_of(LocalStore(folder)) == {**ROWS, **(beyond or {})}
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@contextmanager
def copied(objects: Objects) -> Iterator[MemoryStore]:
    """Lend a store with these objects."""
    store = MemoryStore(f"actions-{next(_numbers)}")
    for path, data in objects.items():
        store.put(path, [data])
    try:
        yield store
    finally:
        store._bucket.objects.clear()


def rows_of(store: ObjectStore) -> dict[bytes, bytes]:
    """What we show."""
    return {row["key"]: row["value"] for row in open_table(store).scan().read_all().to_pylist()}


def client_rows(store: MemoryStore, folder: Path) -> dict[bytes, bytes]:
    """What the real client shows, by a scan and by look-ups, of the rows that are not past retention."""
    return client_rows_at(to_folder(store, folder))


def client_rows_at(location: Location) -> dict[bytes, bytes]:
    """As `client_rows`, of a table in a folder."""
    rows = {row.key: row.value for row in read_rows(location)}
    with Client.open(location) as client:
        assert {key: client.get(key) for key in rows} == rows
    return {key: value for key, value in rows.items() if (key, value) not in {(each, b"old") for each in RETIRED}}


def to_folder(store: MemoryStore, folder: Path) -> Location:
    """The table of a store as files."""
    for path, (data, _) in store._bucket.objects.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return Location.local(folder)


# --- what is done ---------------------------------------------------------------------------------------------------


def upsert(name: str, **rows: str) -> Action:
    changes = {key.encode(): value.encode() for key, value in rows.items()}
    return Action(
        name,
        lambda table, **options: table.write(table_of(sorted(changes.items())), **options),
        lambda rows: {**rows, **changes},
    )


def _between(start: bytes, end: bytes, rows: Rows) -> Rows:
    return {key: value for key, value in rows.items() if start <= key < end}


def _without(rows: Rows, gone: Rows) -> Rows:
    return {key: value for key, value in rows.items() if key not in gone}


def replace_range(name: str, start: bytes, end: bytes, **rows: str) -> Action:
    inside = {key.encode(): value.encode() for key, value in rows.items()}
    return Action(
        name,
        lambda table, **options: table.write(
            table_of(sorted(inside.items())), mode="overwrite", startKey=start, endKey=end, **options
        ),
        lambda rows: {**_without(rows, _between(start, end, rows)), **inside},
    )


def delete_range(name: str, start: bytes, end: bytes) -> Action:
    return Action(
        name,
        lambda table, **options: table.deleteRange(startKey=start, endKey=end, **options),
        lambda rows: _without(rows, _between(start, end, rows)),
    )


def delete_value(name: str, value: bytes) -> Action:
    """Delete by a condition that no key range follows from, so every row is looked at."""
    return Action(
        name,
        lambda table, **options: table.delete(f"value = X'{value.hex()}'", **options),
        lambda rows: {key: found for key, found in rows.items() if found != value},
        is_blind=False,
    )


def append_operand(name: str, *keys: bytes, operand: bytes) -> Action:
    return Action(
        name,
        lambda table, **options: table.write(table_of([(key, operand) for key in keys]), operation="merge", **options),
        lambda rows: {**rows, **{key: rows.get(key, b"") + operand for key in keys}},
    )


def overwrite(name: str, **rows: str) -> Action:
    whole = {key.encode(): value.encode() for key, value in rows.items()}
    return Action(
        name,
        lambda table, **options: table.write(table_of(sorted(whole.items())), mode="overwrite", **options),
        lambda _: whole,
    )


def ingest(name: str, **rows: str) -> Action:
    changes = {key.encode(): value.encode() for key, value in rows.items()}

    def act(table: SlateStore, **options: Any) -> int:
        path = f"memory://external-{next(_numbers)}/rows.sst"
        SstWriter(path).write(table_of(sorted(changes.items())))
        return table.ingest(path, **options)

    return Action(name, act, lambda rows: {**rows, **changes})


def vacuum(table: SlateStore) -> None:
    """Collect as if a minute had passed, so that only leases and jobs spare what is under way."""
    clock = FakeClock(table._clock.now_ms() + MINUTE_MS, seed=99)
    store_on(table._stores.main, clock).vacuum(minAge="0s", force=True)


# --- transactions -----------------------------------------------------------------------------------------------------


def transaction(name: str, work: Callable[[Transaction], object], model: Callable[[Rows], Rows]) -> Action:
    def act(table: SlateStore, **options: Any) -> None:
        with table.begin(**options) as txn:
            work(txn)

    return Action(name, act, model, is_blind=False)


def count_up(name: str, key: bytes, mark: bytes) -> Action:
    """Read a row and write it with a mark appended: a lost update loses a mark."""

    def work(txn: Transaction) -> None:
        (row,) = txn.getForUpdate([key]).read_all().to_pylist() or [{"value": b""}]
        txn.write(table_of([(key, row["value"] + mark)]))
        assert txn.get(key) == {"key": key, "value": row["value"] + mark}

    return transaction(name, work, lambda rows: {**rows, key: rows.get(key, b"") + mark})


def insert_new(name: str, key: bytes, value: bytes) -> Action:
    """Write a row if there is none of its key."""

    def work(txn: Transaction) -> None:
        if not txn.getForUpdate([key]).read_all().num_rows:
            txn.write(table_of([(key, value)]))

    return transaction(name, work, lambda rows: rows if key in rows else {**rows, key: value})


def gather(name: str, start: bytes, end: bytes, target: bytes) -> Action:
    """Write all values of a range, one after the other, into a row outside of it: two of them make a write skew."""
    condition = f"key >= X'{start.hex()}' AND key < X'{end.hex()}'"

    def work(txn: Transaction) -> None:
        values = txn.getForUpdate(where=condition).read_all()["value"].to_pylist()
        txn.write(table_of([(target, b"".join(values))]))

    def model(rows: Rows) -> Rows:
        found = _between(start, end, rows)
        return {**rows, target: b"".join(found[key] for key in sorted(found))}

    return transaction(name, work, model)


def delete_some(name: str, start: bytes, end: bytes, value: bytes) -> Action:
    """Delete by a condition on a range of keys and on the value, after a write of the same transaction."""
    condition = f"key >= X'{start.hex()}' AND key < X'{end.hex()}' AND value = X'{value.hex()}'"

    def work(txn: Transaction) -> None:
        txn.write(table_of([(start, value)]))
        txn.delete(condition)

    def model(rows: Rows) -> Rows:
        gone = {key: found for key, found in _between(start, end, rows).items() if found == value}
        return _without(_without(rows, gone), {start: value})

    return transaction(name, work, model)


ACTIONS: Final = {
    action.name: action
    for action in (
        upsert("upsert", k02="x", k03="x", k05="x", old1="x"),
        upsert("upsert what is to be deleted", k04="b", k06="b", n2="b"),
        Action(
            "delete keys",
            lambda table, **options: table.write(
                table_of([(b"k05", b""), (b"k07", b""), (b"no", b"")]), operation="delete", **options
            ),
            lambda rows: _without(rows, {b"k05": b"", b"k07": b""}),
        ),
        append_operand("operands", b"k05", b"k07", b"n2", operand=b"*"),
        replace_range("replace", b"k03", b"k06", k03="r", k05="b"),
        replace_range("replace more", b"k05", b"k08", k05="s", k07="s"),
        delete_range("delete a range", b"k04", b"k07"),
        delete_value("delete by condition", b"b"),
        delete_value("delete others by condition", b"a"),
        overwrite("overwrite", k05="o", k06="b"),
        ingest("ingest", k05="i", k06="b", n2="i"),
        Action(
            "restore",
            lambda table, **options: table.restoreToVersion(EARLY, **options),
            lambda _: EARLY_ROWS,
            is_blind=False,
        ),
        count_up("transaction that counts", b"k05", b"t"),
        count_up("transaction that counts, too", b"k05", b"u"),
        insert_new("transaction that inserts", b"n2", b"t"),
        insert_new("transaction that inserts, too", b"n2", b"u"),
        gather("transaction over a range", b"k03", b"k06", b"k07"),
        gather("transaction over the other range", b"k06", b"k09", b"k04"),
        delete_some("transaction that deletes", b"k04", b"k08", b"b"),
        Action("reap", lambda table, **options: table.reap(maxBatchRows=1, **options)),
        Action("compact", lambda table, **options: table.compact(full=True, sstSize=60, **options), is_blind=False),
        Action(
            "compact a range",
            lambda table, **options: table.compact(startKey=b"k03", endKey=b"k07", **options),
            is_blind=False,
        ),
        Action("vacuum", lambda table: vacuum(table)),
        Action("checkpoint", lambda table: table.createCheckpoint(lifetime="1d")),
        Action("set properties", lambda table: table.setProperties(versionRetention="1d")),
    )
}
