"""What SlateDB clients do."""

from __future__ import annotations

import contextlib
from functools import partial

from slatespark import SlateStore
from slatespark.format.row import RowKind
from tests.simulation.actors import Operation
from tests.simulation.chance import Chance
from tests.simulation.client import ClientWriter, FencedClientError
from tests.simulation.model import Change, Rows, unchanged
from tests.simulation.operations import (
    always,
    in_order,
    some_keys,
)
from tests.simulation.world import World


def _batch(rng: Chance, value: str) -> tuple[list[tuple[bytes, RowKind, bytes]], Change]:
    """Return one write of each key, and what they make of the rows."""
    kinds = {key: rng.choice([RowKind.PUT, RowKind.PUT, RowKind.MERGE, RowKind.DELETE]) for key in some_keys(rng)}
    batch = [(key, kind, b"" if kind is RowKind.DELETE else value.encode()) for key, kind in kinds.items()]

    def change(before: Rows) -> Rows:
        after = dict(before)
        for key, kind, written in batch:
            if kind is RowKind.DELETE:
                after.pop(key, None)
            else:
                after[key] = (after.get(key, b"") if kind is RowKind.MERGE else b"") + written
        return in_order(after)

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

    return Operation(f"client {value}", act, always(unchanged), is_blind=False)
