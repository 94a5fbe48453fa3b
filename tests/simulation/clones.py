"""Clones of the table, and their ends."""

from __future__ import annotations

from slatespark import SlateStore
from tests.faults.jobs import table_of
from tests.simulation.actors import Operation
from tests.simulation.chance import Chance
from tests.simulation.model import unchanged
from tests.simulation.operations import KEYS, always, in_order, rows_of
from tests.simulation.world import World


def clone(rng: Chance, value: str) -> Operation:
    """Clone the newest state or an older version, and write to the clone."""
    back, key = rng.choice([None, None, 0, 2]), rng.choice(KEYS)

    def act(world: World, table: SlateStore) -> None:
        model, first = world.model, world.model.moment
        version = None if back is None else max(world.first_version, model.newest - back)
        url = f"memory://{world.server.bucket}/db/clone-{value}-{world.current.name[6:]}-{world.scheduler.steps}"
        made = table.clone(url, version=version)
        rows = in_order(rows_of(made.scan(parallelism=1).read_all()))
        if version is None:
            world.judge(lambda: model.check_read("a clone", rows, first))
        else:
            world.require(rows == model.kept[version], f"the clone of version {version} shows {dict(rows)}")
        written = {**rows, key: b"clone" + value.encode()}
        made.write(table_of([(key, written[key])]))
        world.clones[url] = in_order(written)

    return Operation(f"clone {value}", act, always(unchanged), is_blind=False, pins_for_minutes=True)


def drop_clone(rng: Chance, value: str) -> Operation:
    """Drop a clone: its parent may collect what it alone kept."""

    def act(world: World, table: SlateStore) -> None:
        if urls := sorted(world.clones):
            url = urls[rng.randrange(len(urls))]
            del world.clones[url]
            SlateStore.drop(url, force=True, clock=world.current.clock)

    return Operation("drop-clone", act, always(unchanged), is_blind=False)


def read_clone(rng: Chance, value: str) -> Operation:
    """Read a clone, whatever becomes of its parent."""

    def act(world: World, table: SlateStore) -> None:
        if urls := sorted(world.clones):
            url = urls[rng.randrange(len(urls))]
            expected = world.clones[url]
            try:
                found = in_order(
                    rows_of(SlateStore.open(url, clock=world.current.clock).scan(parallelism=1).read_all())
                )
            except Exception:
                if world.clones.get(url) == expected:
                    raise
            else:
                world.require(found == expected, f"clone {url} shows {dict(found)}, not {dict(expected)}")

    return Operation("read-clone", act, always(unchanged))
