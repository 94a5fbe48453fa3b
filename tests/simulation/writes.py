"""What processes write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from slatespark import CommitConflictError, SlateStore, SnapshotExpiredError, SstWriter
from slatespark.table.transaction.transaction import Transaction
from tests.faults.jobs import table_of
from tests.simulation.actors import Operation
from tests.simulation.chance import Chance
from tests.simulation.model import Change, Rows
from tests.simulation.operations import (
    KEYS,
    always,
    draw_files,
    draw_range,
    in_order,
    inside,
    some_keys,
    without,
)
from tests.simulation.world import World

APP: Final = "app"


def upsert(rng: Chance, value: str) -> Operation:
    rows = dict.fromkeys(some_keys(rng), value.encode())
    options = draw_files(rng)
    return Operation(
        f"upsert {value} of {len(rows)}",
        lambda world, table: table.write(table_of([*rows.items()]), **options),
        always(lambda before: in_order({**before, **rows})),
    )


def write_once(rng: Chance, value: str) -> Operation:
    """Append operands under a pair that makes the write idempotent: twice would show."""
    rows = dict.fromkeys(some_keys(rng), b"+" + value.encode())
    version = rng.randrange(1 << 30)
    return Operation(
        f"once {value} of {len(rows)}",
        lambda world, table: table.write(
            table_of([*rows.items()]), operation="merge", txnAppId=APP, txnVersion=version
        ),
        always(lambda before: in_order({**before, **{key: before.get(key, b"") + rows[key] for key in rows}})),
        key=f"{APP} {version}",
    )


def append(rng: Chance, value: str) -> Operation:
    rows = dict.fromkeys(some_keys(rng), b"+" + value.encode())
    return Operation(
        f"append {value} of {len(rows)}",
        lambda world, table: table.write(table_of([*rows.items()]), operation="merge"),
        always(lambda before: in_order({**before, **{key: before.get(key, b"") + rows[key] for key in rows}})),
    )


def delete_keys(rng: Chance, value: str) -> Operation:
    gone = dict.fromkeys(some_keys(rng), b"")
    return Operation(
        f"delete {len(gone)} keys",
        lambda world, table: table.write(table_of([*gone.items()]), operation="delete"),
        always(lambda before: without(before, gone)),
    )


def delete_range(rng: Chance, value: str) -> Operation:
    start, end = draw_range(rng)
    return Operation(
        f"delete-range {start.decode()} to {end.decode()}",
        lambda world, table: table.deleteRange(startKey=start, endKey=end),
        always(lambda before: without(before, inside(before, start, end))),
    )


def delete_where(rng: Chance, value: str) -> Operation:
    """Delete by a condition that no range follows from: what other operations wrote."""
    values = [b"%d" % rng.randrange(max(1, int(value))) for _ in range(4)]
    condition = "value IN ({})".format(", ".join(f"X'{each.hex()}'" for each in values))
    return Operation(
        f"delete-where {condition}",
        lambda world, table: table.delete(condition),
        always(lambda before: {key: found for key, found in before.items() if found not in values}),
        is_blind=False,
    )


def replace_range(rng: Chance, value: str) -> Operation:
    start, end = draw_range(rng)
    rows = {key: value.encode() for key in KEYS if start <= key < end and rng.random() < 0.5}
    options = draw_files(rng)
    return Operation(
        f"replace {start.decode()} to {end.decode()} by {value}",
        lambda world, table: table.write(
            table_of([*rows.items()]), mode="overwrite", startKey=start, endKey=end, **options
        ),
        always(lambda before: in_order({**without(before, inside(before, start, end)), **rows})),
    )


def overwrite(rng: Chance, value: str) -> Operation:
    rows = dict.fromkeys(sorted(rng.sample(KEYS, 4)), value.encode())
    return Operation(
        f"overwrite by {value}",
        lambda world, table: table.write(table_of([*rows.items()]), mode="overwrite"),
        always(lambda before: rows),
    )


def ingest(rng: Chance, value: str) -> Operation:
    rows = dict.fromkeys(some_keys(rng), value.encode())

    def act(world: World, table: SlateStore) -> object:
        path = f"memory://{world.server.bucket}-outside/{value}.sst"
        SstWriter(path).write(table_of([*rows.items()]))
        return table.ingest(path)

    return Operation(f"ingest {value}", act, always(lambda before: in_order({**before, **rows})))


def restore(rng: Chance, value: str) -> Operation:
    back = rng.choice([1, 2, 3, 5, 8])
    chosen: list[int] = []

    def change(world: World) -> Change:
        version = max(world.first_version, world.model.newest - back)
        chosen[:] = [version]
        rows = world.model.kept[version]
        return lambda before: rows

    def act(world: World, table: SlateStore) -> object:
        try:
            return table.restoreToVersion(chosen[0])
        except SnapshotExpiredError as exc:
            world.require(not world.has_version(chosen[0]), f"version {chosen[0]} is there")
            raise CommitConflictError("A collector was faster.") from exc

    return Operation(f"restore {back} back", act, change, is_blind=False)


def _transaction(name: str, work: Callable[[Transaction], object], change: Change) -> Operation:
    def act(world: World, table: SlateStore) -> None:
        with table.begin() as txn:
            work(txn)

    return Operation(name, act, always(change), is_blind=False)


def count_up(rng: Chance, value: str) -> Operation:
    key, mark = rng.choice(KEYS), value.encode()

    def work(txn: Transaction) -> None:
        (row,) = txn.getForUpdate([key]).read_all().to_pylist() or [{"value": b""}]
        txn.write(table_of([(key, row["value"] + mark)]))

    return _transaction(
        f"count {key.decode()} {value}", work, lambda before: in_order({**before, key: before.get(key, b"") + mark})
    )


def gather(rng: Chance, value: str) -> Operation:
    start, end = draw_range(rng)
    target = rng.choice(KEYS)
    condition = f"key >= X'{start.hex()}' AND key < X'{end.hex()}'"

    def work(txn: Transaction) -> None:
        values = txn.getForUpdate(where=condition).read_all()["value"].to_pylist()
        txn.write(table_of([(target, b"%d " % len(values) + value.encode())]))

    def change(before: Rows) -> Rows:
        return in_order({**before, target: b"%d " % len(inside(before, start, end)) + value.encode()})

    return _transaction(f"gather {start.decode()} to {end.decode()}", work, change)
