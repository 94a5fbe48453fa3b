"""What processes do to keep the table in shape; no reader sees a difference."""

from __future__ import annotations

from collections.abc import Callable

from slatespark import CommitConflictError, ConflictError, SlateStore, TransactionConflictError, Upkeep
from tests.simulation.actors import Operation
from tests.simulation.chance import Chance
from tests.simulation.model import unchanged
from tests.simulation.operations import (
    always,
    draw_files,
    draw_range,
    maintenance,
    some_keys,
    unless_collected,
    without,
)
from tests.simulation.world import World


def compact(rng: Chance, value: str) -> Operation:
    start, end = draw_range(rng)
    kinds: list[Callable[[SlateStore], object]] = [
        lambda table: table.compact(full=True, **draw_files(Chance(value))),
        lambda table: table.compact(full=True, force=True, sstSize=60),
        lambda table: table.compact(minCompactionSources=2),
        lambda table: table.compact(startKey=start, endKey=end),
        lambda table: table.compact(l0Only=True),
    ]
    number = rng.randrange(len(kinds))
    return maintenance(f"compact {number}", kinds[number])


def vacuum(rng: Chance, value: str) -> Operation:
    fences, age = rng.random() < 0.5, rng.choice(["0s", "0s", "1s", "10m"])

    def act(world: World, table: SlateStore) -> None:
        # Without its fence a client that slept writes rows that nobody sees: the option says so.
        table.vacuum(minAge=age, fences=fences and not world.has_clients, force=True)

    return Operation(f"vacuum {age}", act, always(unchanged), is_blind=False)


def reap(rng: Chance, value: str) -> Operation:
    return maintenance("reap", lambda table: table.reap(maxBatchRows=1))


def set_properties(rng: Chance, value: str) -> Operation:
    kept = rng.choice(["1d", "1h", "none"])
    return maintenance(f"properties {kept}", lambda table: table.setProperties(versionRetention=kept))


def checkpoint(rng: Chance, value: str) -> Operation:
    back = rng.choice([None, None, 0, 1, 3])

    def act(world: World, table: SlateStore) -> None:
        version = None if back is None else max(world.first_version, world.model.newest - back)
        with unless_collected(world, world.model.newest if version is None else version):
            facts = table.createCheckpoint(value, version=version)
            world.model.pinned[value] = world.model.kept[facts.version]

    return Operation(f"checkpoint {value}", act, always(unchanged), is_blind=False)


def release(rng: Chance, value: str) -> Operation:
    def act(world: World, table: SlateStore) -> None:
        if names := sorted(world.model.pinned):
            name = names[rng.randrange(len(names))]
            del world.model.pinned[name]
            table.deleteCheckpoint(name)

    return Operation("release", act, always(unchanged), is_blind=False)


def verify(rng: Chance, value: str) -> Operation:
    def act(world: World, table: SlateStore) -> None:
        report = table.verify()
        world.require(not report.has_damage, f"verify found {report.findings}")

    return Operation("verify", act, always(unchanged), is_blind=False)


def erase(rng: Chance, value: str) -> Operation:
    """Erase keys at every version: what older ones show of them goes too, except where a checkpoint keeps it."""
    gone = dict.fromkeys(some_keys(rng), b"")

    def act(world: World, table: SlateStore) -> None:
        try:
            table.erase(keys=[*gone])
        except (CommitConflictError, TransactionConflictError):
            raise
        except ConflictError as exc:  # the rows are gone, but others wrote during every search for copies
            world.note(world.current, "erased", str(exc))

    return Operation(
        f"erase {len(gone)} keys",
        act,
        always(lambda before: without(before, gone)),
        is_blind=False,
    )


def keep_up(rng: Chance, value: str) -> Operation:
    """Do all duties once, as the process does that cares for many tables."""

    def act(world: World, table: SlateStore) -> None:
        for outcome in Upkeep([table.url], clock=table._clock, minAge="1h").runOnce():
            if outcome.error is not None:
                raise outcome.error

    return Operation("upkeep", act, always(unchanged), is_blind=False)
