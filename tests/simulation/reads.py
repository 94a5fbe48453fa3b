"""What readers do, and what they may find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from slatespark import SlateStore
from tests.simulation.actors import Operation
from tests.simulation.chance import Chance
from tests.simulation.model import unchanged
from tests.simulation.operations import (
    KEYS,
    always,
    in_order,
    rows_of,
    some_keys,
    unless_collected,
)
from tests.simulation.world import World


def reader(name: str, act: Callable[[World, SlateStore], object]) -> Operation:
    return Operation(name, act, always(unchanged))


_SCANS: Final[list[dict[str, Any]]] = [{}, {"pin": "1h"}, {"splitSize": 1}]


def scan(rng: Chance, value: str) -> Operation:
    order, options = rng.choice(["asc", "desc"]), rng.choice(_SCANS)

    def act(world: World, table: SlateStore) -> None:
        first = world.model.moment
        found = table.scan(order, 1, **options).read_all()
        keys = found["key"].to_pylist()
        world.require(keys == sorted(keys, reverse=order == "desc"), f"keys out of order: {keys}")
        world.judge(lambda: world.model.check_read("scan", in_order(rows_of(found)), first))

    return reader(f"scan {order} {options}", act)


def look_up(rng: Chance, value: str) -> Operation:
    keys = some_keys(rng)

    def act(world: World, table: SlateStore) -> None:
        first = world.model.moment
        found = rows_of(table.lookup(pa.table({"key": pa.array(keys, pa.binary())})).read_all())
        shown = [{key: rows[key] for key in keys if key in rows} for rows in world.model.since(first)]
        world.require(found in shown, f"lookup found {dict(found)}, versions showed {shown}")

    return reader(f"lookup {len(keys)}", act)


def get(rng: Chance, value: str) -> Operation:
    key = rng.choice(KEYS)

    def act(world: World, table: SlateStore) -> None:
        first = world.model.moment
        row = table.get(key)
        found = None if row is None else row["value"]
        shown = [rows.get(key) for rows in world.model.since(first)]
        world.require(found in shown, f"get {key!r} found {found!r}, versions showed {shown}")

    return reader("get", act)


def read_version(rng: Chance, value: str) -> Operation:
    back = rng.choice([0, 1, 2, 4])

    def act(world: World, table: SlateStore) -> None:
        version = max(world.first_version, world.model.newest - back)
        with unless_collected(world, version):
            found = in_order(rows_of(table.scan(parallelism=1, versionAsOf=version).read_all()))
            expected = world.model.kept[version]
            world.require(found == expected, f"version {version} shows {dict(found)}, not {dict(expected)}")

    return reader(f"version {back} back", act)


def read_checkpoint(rng: Chance, value: str) -> Operation:
    def act(world: World, table: SlateStore) -> None:
        if names := sorted(world.model.pinned):
            name = names[rng.randrange(len(names))]
            expected = world.model.pinned[name]
            try:
                found = in_order(rows_of(table.scan(parallelism=1, checkpoint=name).read_all()))
            except Exception:
                if name in world.model.pinned:
                    raise
            else:
                world.require(found == expected, f"checkpoint {name} shows {dict(found)}, not {dict(expected)}")

    return reader("read-checkpoint", act)


def read_changes(rng: Chance, value: str) -> Operation:
    back = rng.choice([1, 2, 4])

    def act(world: World, table: SlateStore) -> None:
        end = world.model.newest
        start = max(world.first_version, end - back)
        before, after = world.model.kept[start], world.model.kept[end]
        with unless_collected(world, start):
            feed = table.changes(
                startingVersion=start, startingBoundInclusive=False, endingVersion=end, preImages=False
            ).read_all()
            changed = dict(before)
            for row in feed.to_pylist():
                if row["_change_type"] == "delete":
                    changed.pop(row["key"], None)
                else:
                    changed[row["key"]] = row["value"]
            world.require(in_order(changed) == after, f"changes from {start} to {end} are {feed.to_pylist()}")

    return reader(f"changes {back} back", act)
