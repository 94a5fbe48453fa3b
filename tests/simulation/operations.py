"""What processes do to the table, with what that makes of the rows, and what readers may find."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import pyarrow as pa

from slatespark import SlateStore, SstWriter
from slatespark.format.row import RowKind
from slatespark.table.transaction.transaction import Transaction
from tests.faults.jobs import table_of
from tests.simulation.actors import Operation
from tests.simulation.chance import Chance
from tests.simulation.client import ClientWriter, FencedClientError
from tests.simulation.model import Change, Rows, unchanged
from tests.simulation.world import World

KEYS: Final = [b"k%02d" % number for number in range(12)]
APP: Final = "app"

Make = Callable[[Chance, str], Operation]  # from the value that is written: no two operations write the same


def _same(change: Change) -> Callable[[World], Change]:
    return lambda world: change


def _some_keys(rng: Chance) -> list[bytes]:
    return sorted(rng.sample(KEYS, rng.choice([1, 2, 3, 6])))


def _range(rng: Chance) -> tuple[bytes, bytes]:
    start, end = sorted(rng.sample([*KEYS, b"k99"], 2))
    return start, end


def _files(rng: Chance) -> dict[str, Any]:
    """Options of files, so that some have many blocks, and some writes many files."""
    options: dict[str, Any] = {}
    if rng.random() < 0.3:
        options["sstSize"] = 60
    if rng.random() < 0.2:
        options["compression"] = rng.choice(["lz4", "zstd", "none"])
    if rng.random() < 0.2:
        options["blockSize"] = 1024
    return options


def _inside(rows: Rows, start: bytes, end: bytes) -> dict[bytes, bytes]:
    return {key: value for key, value in rows.items() if start <= key < end}


def _without(rows: Rows, gone: Mapping[bytes, object]) -> Rows:
    return {key: value for key, value in rows.items() if key not in gone}


def _sorted(rows: Mapping[bytes, bytes]) -> Rows:
    return dict(sorted(rows.items()))


# --- writes ---------------------------------------------------------------------------------------------------------


def upsert(rng: Chance, value: str) -> Operation:
    rows = dict.fromkeys(_some_keys(rng), value.encode())
    options = _files(rng)
    return Operation(
        f"upsert {value} of {len(rows)}",
        lambda world, table: table.write(table_of([*rows.items()]), **options),
        _same(lambda before: _sorted({**before, **rows})),
    )


def write_once(rng: Chance, value: str) -> Operation:
    """Append operands under a pair that makes the write idempotent: twice would show."""
    rows = dict.fromkeys(_some_keys(rng), b"+" + value.encode())
    version = rng.randrange(1 << 30)
    return Operation(
        f"once {value} of {len(rows)}",
        lambda world, table: table.write(
            table_of([*rows.items()]), operation="merge", txnAppId=APP, txnVersion=version
        ),
        _same(lambda before: _sorted({**before, **{key: before.get(key, b"") + rows[key] for key in rows}})),
        key=f"{APP} {version}",
    )


def append(rng: Chance, value: str) -> Operation:
    rows = dict.fromkeys(_some_keys(rng), b"+" + value.encode())
    return Operation(
        f"append {value} of {len(rows)}",
        lambda world, table: table.write(table_of([*rows.items()]), operation="merge"),
        _same(lambda before: _sorted({**before, **{key: before.get(key, b"") + rows[key] for key in rows}})),
    )


def delete_keys(rng: Chance, value: str) -> Operation:
    gone = dict.fromkeys(_some_keys(rng), b"")
    return Operation(
        f"delete {len(gone)} keys",
        lambda world, table: table.write(table_of([*gone.items()]), operation="delete"),
        _same(lambda before: _without(before, gone)),
    )


def delete_range(rng: Chance, value: str) -> Operation:
    start, end = _range(rng)
    return Operation(
        f"delete-range {start.decode()} to {end.decode()}",
        lambda world, table: table.deleteRange(startKey=start, endKey=end),
        _same(lambda before: _without(before, _inside(before, start, end))),
    )


def delete_where(rng: Chance, value: str) -> Operation:
    """Delete by a condition that no range follows from: what other operations wrote."""
    values = [b"%d" % rng.randrange(max(1, int(value))) for _ in range(4)]
    condition = "value IN ({})".format(", ".join(f"X'{each.hex()}'" for each in values))
    return Operation(
        f"delete-where {condition}",
        lambda world, table: table.delete(condition),
        _same(lambda before: {key: found for key, found in before.items() if found not in values}),
        is_blind=False,
    )


def replace_range(rng: Chance, value: str) -> Operation:
    start, end = _range(rng)
    rows = {key: value.encode() for key in KEYS if start <= key < end and rng.random() < 0.5}
    options = _files(rng)
    return Operation(
        f"replace {start.decode()} to {end.decode()} by {value}",
        lambda world, table: table.write(
            table_of([*rows.items()]), mode="overwrite", startKey=start, endKey=end, **options
        ),
        _same(lambda before: _sorted({**_without(before, _inside(before, start, end)), **rows})),
    )


def overwrite(rng: Chance, value: str) -> Operation:
    rows = dict.fromkeys(sorted(rng.sample(KEYS, 4)), value.encode())
    return Operation(
        f"overwrite by {value}",
        lambda world, table: table.write(table_of([*rows.items()]), mode="overwrite"),
        _same(lambda before: rows),
    )


def ingest(rng: Chance, value: str) -> Operation:
    rows = dict.fromkeys(_some_keys(rng), value.encode())

    def act(world: World, table: SlateStore) -> object:
        path = f"memory://{world.server.bucket}-outside/{value}.sst"
        SstWriter(path).write(table_of([*rows.items()]))
        return table.ingest(path)

    return Operation(f"ingest {value}", act, _same(lambda before: _sorted({**before, **rows})))


def restore(rng: Chance, value: str) -> Operation:
    back = rng.choice([1, 2, 3, 5, 8])
    chosen: list[int] = []

    def change(world: World) -> Change:
        version = max(world.first_version, world.model.newest - back)
        chosen[:] = [version]
        rows = world.model.kept[version]
        return lambda before: rows

    return Operation(
        f"restore {back} back", lambda world, table: table.restoreToVersion(chosen[0]), change, is_blind=False
    )


# --- transactions ---------------------------------------------------------------------------------------------------


def _transaction(name: str, work: Callable[[Transaction], object], change: Change) -> Operation:
    def act(world: World, table: SlateStore) -> None:
        with table.begin() as txn:
            work(txn)

    return Operation(name, act, _same(change), is_blind=False)


def count_up(rng: Chance, value: str) -> Operation:
    key, mark = rng.choice(KEYS), value.encode()

    def work(txn: Transaction) -> None:
        (row,) = txn.getForUpdate([key]).read_all().to_pylist() or [{"value": b""}]
        txn.write(table_of([(key, row["value"] + mark)]))

    return _transaction(
        f"count {key.decode()} {value}", work, lambda before: _sorted({**before, key: before.get(key, b"") + mark})
    )


def gather(rng: Chance, value: str) -> Operation:
    start, end = _range(rng)
    target = rng.choice(KEYS)
    condition = f"key >= X'{start.hex()}' AND key < X'{end.hex()}'"

    def work(txn: Transaction) -> None:
        values = txn.getForUpdate(where=condition).read_all()["value"].to_pylist()
        txn.write(table_of([(target, b"%d " % len(values) + value.encode())]))

    def change(before: Rows) -> Rows:
        return _sorted({**before, target: b"%d " % len(_inside(before, start, end)) + value.encode()})

    return _transaction(f"gather {start.decode()} to {end.decode()}", work, change)


# --- maintenance ----------------------------------------------------------------------------------------------------


def _maintenance(name: str, act: Callable[[SlateStore], object], *, is_blind: bool = False) -> Operation:
    return Operation(name, lambda world, table: act(table), _same(unchanged), is_blind=is_blind)


def compact(rng: Chance, value: str) -> Operation:
    start, end = _range(rng)
    kinds: list[Callable[[SlateStore], object]] = [
        lambda table: table.compact(full=True, **_files(Chance(value))),
        lambda table: table.compact(full=True, force=True, sstSize=60),
        lambda table: table.compact(minCompactionSources=2),
        lambda table: table.compact(startKey=start, endKey=end),
        lambda table: table.compact(l0Only=True),
    ]
    number = rng.randrange(len(kinds))
    return _maintenance(f"compact {number}", kinds[number])


def vacuum(rng: Chance, value: str) -> Operation:
    fences, age = rng.random() < 0.5, rng.choice(["0s", "0s", "1s", "10m"])
    return _maintenance(f"vacuum {age}", lambda table: table.vacuum(minAge=age, fences=fences, force=True))


def reap(rng: Chance, value: str) -> Operation:
    return _maintenance("reap", lambda table: table.reap(maxBatchRows=1))


def set_properties(rng: Chance, value: str) -> Operation:
    kept = rng.choice(["1d", "1h", "none"])
    return _maintenance(f"properties {kept}", lambda table: table.setProperties(versionRetention=kept))


def checkpoint(rng: Chance, value: str) -> Operation:
    back = rng.choice([None, None, 0, 1, 3])

    def act(world: World, table: SlateStore) -> None:
        version = None if back is None else max(world.first_version, world.model.newest - back)
        facts = table.createCheckpoint(value, version=version)
        world.model.pinned[value] = world.model.kept[facts.version]

    return Operation(f"checkpoint {value}", act, _same(unchanged), is_blind=False)


def release(rng: Chance, value: str) -> Operation:
    def act(world: World, table: SlateStore) -> None:
        if names := sorted(world.model.pinned):
            name = names[rng.randrange(len(names))]
            del world.model.pinned[name]
            table.deleteCheckpoint(name)

    return Operation("release", act, _same(unchanged), is_blind=False)


def verify(rng: Chance, value: str) -> Operation:
    def act(world: World, table: SlateStore) -> None:
        report = table.verify()
        world.require(not report.has_damage, f"verify found {report.findings}")

    return Operation("verify", act, _same(unchanged), is_blind=False)


# --- readers --------------------------------------------------------------------------------------------------------


def _rows(table: pa.Table) -> Rows:
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def _reader(name: str, act: Callable[[World, SlateStore], object]) -> Operation:
    return Operation(name, act, _same(unchanged))


_SCANS: Final[list[dict[str, Any]]] = [{}, {"pin": "1h"}, {"splitSize": 1}]


def scan(rng: Chance, value: str) -> Operation:
    order, options = rng.choice(["asc", "desc"]), rng.choice(_SCANS)

    def act(world: World, table: SlateStore) -> None:
        first = world.model.moment
        found = table.scan(order, 1, **options).read_all()
        keys = found["key"].to_pylist()
        world.require(keys == sorted(keys, reverse=order == "desc"), f"keys out of order: {keys}")
        world.judge(lambda: world.model.check_read("scan", _sorted(_rows(found)), first))

    return _reader(f"scan {order} {options}", act)


def look_up(rng: Chance, value: str) -> Operation:
    keys = _some_keys(rng)

    def act(world: World, table: SlateStore) -> None:
        first = world.model.moment
        found = _rows(table.lookup(pa.table({"key": pa.array(keys, pa.binary())})).read_all())
        shown = [{key: rows[key] for key in keys if key in rows} for rows in world.model.since(first)]
        world.require(found in shown, f"lookup found {dict(found)}, versions showed {shown}")

    return _reader(f"lookup {len(keys)}", act)


def get(rng: Chance, value: str) -> Operation:
    key = rng.choice(KEYS)

    def act(world: World, table: SlateStore) -> None:
        first = world.model.moment
        row = table.get(key)
        found = None if row is None else row["value"]
        shown = [rows.get(key) for rows in world.model.since(first)]
        world.require(found in shown, f"get {key!r} found {found!r}, versions showed {shown}")

    return _reader("get", act)


def read_version(rng: Chance, value: str) -> Operation:
    back = rng.choice([0, 1, 2, 4])

    def act(world: World, table: SlateStore) -> None:
        version = max(world.first_version, world.model.newest - back)
        found = _sorted(_rows(table.scan(parallelism=1, versionAsOf=version).read_all()))
        expected = world.model.kept[version]
        world.require(found == expected, f"version {version} shows {dict(found)}, not {dict(expected)}")

    return _reader(f"version {back} back", act)


def read_checkpoint(rng: Chance, value: str) -> Operation:
    def act(world: World, table: SlateStore) -> None:
        if names := sorted(world.model.pinned):
            name = names[rng.randrange(len(names))]
            expected = world.model.pinned[name]
            try:
                found = _sorted(_rows(table.scan(parallelism=1, checkpoint=name).read_all()))
            except Exception:
                if name in world.model.pinned:
                    raise
            else:
                world.require(found == expected, f"checkpoint {name} shows {dict(found)}, not {dict(expected)}")

    return _reader("read-checkpoint", act)


def read_changes(rng: Chance, value: str) -> Operation:
    back = rng.choice([1, 2, 4])

    def act(world: World, table: SlateStore) -> None:
        end = world.model.newest
        start = max(world.first_version, end - back)
        before, after = world.model.kept[start], world.model.kept[end]
        feed = table.changes(
            startingVersion=start, startingBoundInclusive=False, endingVersion=end, preImages=False
        ).read_all()
        changed = dict(before)
        for row in feed.to_pylist():
            if row["_change_type"] == "delete":
                changed.pop(row["key"], None)
            else:
                changed[row["key"]] = row["value"]
        world.require(_sorted(changed) == after, f"changes from {start} to {end} are {feed.to_pylist()}")

    return _reader(f"changes {back} back", act)


# --- a SlateDB client -----------------------------------------------------------------------------------------------


def _batch(rng: Chance, value: str) -> tuple[list[tuple[bytes, RowKind, bytes]], Change]:
    """Return one write of each key, and what they make of the rows."""
    kinds = {key: rng.choice([RowKind.PUT, RowKind.PUT, RowKind.MERGE, RowKind.DELETE]) for key in _some_keys(rng)}
    batch = [(key, kind, b"" if kind is RowKind.DELETE else value.encode()) for key, kind in kinds.items()]

    def change(before: Rows) -> Rows:
        after = dict(before)
        for key, kind, written in batch:
            if kind is RowKind.DELETE:
                after.pop(key, None)
            else:
                after[key] = (after.get(key, b"") if kind is RowKind.MERGE else b"") + written
        return _sorted(after)

    return batch, change


def client(rng: Chance, value: str) -> Operation:
    """Open the table as a SlateDB client, write durably, flush now and then, and go."""
    batches = [_batch(rng, f"{value}.{number}") for number in range(rng.choice([1, 3, 6]))]
    flushes = [rng.random() < 0.4 for _ in batches]

    def act(world: World, table: SlateStore) -> None:
        actor = world.current
        writer = ClientWriter(table._stores.main, actor.clock)
        with contextlib.suppress(FencedClientError):
            writer.open()
            for number, ((batch, change), flushes_then) in enumerate(zip(batches, flushes, strict=True)):
                actor.do(f"client {value}.{number}", change, partial(writer.write, batch), refused=FencedClientError)
                if flushes_then:
                    writer.flush()

    return Operation(f"client {value}", act, _same(unchanged), is_blind=False)


WRITERS: Final[list[Make]] = [
    upsert,
    upsert,
    write_once,
    append,
    delete_keys,
    delete_range,
    delete_where,
    replace_range,
    overwrite,
    ingest,
    restore,
    count_up,
    gather,
]
KEEPERS: Final[list[Make]] = [compact, compact, reap, set_properties, checkpoint, release, verify]
READERS: Final[list[Make]] = [scan, scan, look_up, get, read_version, read_checkpoint, read_changes]
COLLECTORS: Final[list[Make]] = [vacuum]
CLIENTS: Final[list[Make]] = [client]
KINDS: Final = (WRITERS, KEEPERS, COLLECTORS, READERS, CLIENTS)
