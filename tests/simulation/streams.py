"""A consumer that follows the changes of the table, and remembers offsets alone, as a query of Spark does."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Final

from slatespark import SlateStore
from slatespark.options import ReadOptions
from slatespark.table.changes.feed import run_feed
from slatespark.table.definition.versions import resolve_codec
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.arrow import project
from slatespark.table.streams.change_stream import ChangeStream
from slatespark.table.streams.position import Position, decode_position, encode_position
from tests.simulation.actors import Operation
from tests.simulation.chance import Chance
from tests.simulation.model import unchanged
from tests.simulation.operations import always, in_order
from tests.simulation.world import World

BATCHES: Final = 4


@dataclass(slots=True)
class Sink:
    """What outlives a process of the query: the offsets, each stored before its batch, and what was delivered."""

    offsets: list[str] = field(default_factory=list)
    rows: dict[bytes, bytes] = field(default_factory=dict)


def follow(rng: Chance, value: str) -> Operation:
    """Run some batches of a stream; the one that another process began comes first, again."""
    is_limited = rng.random() < 0.5
    name, delays = f"stream {rng.randrange(2)}", [rng.randrange(400) for _ in range(BATCHES)]

    def act(world: World, table: SlateStore) -> None:
        sink = world.sinks.setdefault(name, Sink())
        stream = _open(world, table, {"maxRowsPerTrigger": 3} if is_limited else {})
        if not sink.offsets:
            sink.offsets.append(_text(stream.initial()))
        if len(sink.offsets) > 1:
            _deliver(world, table, stream, sink)
        for delay in delays:
            table._clock.sleep_ms(1_000 + delay)
            end = _text(stream.next(_position(sink.offsets[-1]), is_limited=is_limited))
            if end != sink.offsets[-1]:
                sink.offsets.append(end)
                _deliver(world, table, stream, sink)

    return Operation(name, act, always(unchanged), alone=name)


def _open(world: World, table: SlateStore, limits: dict[str, int]) -> ChangeStream:
    options = ReadOptions.parse({"path": table.url, "readChangeFeed": True, **limits})
    codec = resolve_codec(table._stores, fetch_latest_manifest(table._stores).value)
    return ChangeStream(table._stores, options, project(options, codec=codec), table._clock, table._clock)


def _deliver(world: World, table: SlateStore, stream: ChangeStream, sink: Sink) -> None:
    start, end = map(_position, sink.offsets[-2:])
    plan = stream.plan(start, end)
    changes = [] if plan is None else [row for batch in run_feed(table._stores, plan) for row in batch.to_pylist()]
    for row in changes:
        if row["_change_type"] == "delete":
            sink.rows.pop(row["key"], None)
        elif row["_change_type"] != "update_preimage":
            sink.rows[row["key"]] = row["value"]
    if end.part is None and end.version:
        found, expected = in_order(sink.rows), world.model.kept[end.version]
        is_right = found == expected or found in world.model.moments  # rows that only the WAL had then
        world.require(is_right, f"the stream delivered {dict(found)}, version {end.version} is {dict(expected)}")


def _position(text: str) -> Position:
    return decode_position(json.loads(text))


def _text(position: Position) -> str:
    return json.dumps(encode_position(position))
