"""Streams as queries of Spark run them: one follows the changes of the table, and others write batches into it.

What a query remembers outlives its processes: the offset of each batch, stored before the batch begins.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from slatespark import ConflictError, SlateStore
from slatespark.options import ReadOptions, WriteOptions
from slatespark.table.changes.feed import run_feed
from slatespark.table.commit.job import abandon_write
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.arrow import project
from slatespark.table.streams.change_stream import ChangeStream
from slatespark.table.streams.position import Position, decode_position, encode_position
from slatespark.table.write.load_plan import begin_load
from slatespark.table.write.load_task import run_task
from slatespark.table.write.stream_batch import StreamBatch, commit_batch
from tests.faults.jobs import table_of
from tests.simulation.actors import Operation
from tests.simulation.chance import Chance
from tests.simulation.model import Rows, unchanged
from tests.simulation.operations import always, in_order, some_keys
from tests.simulation.world import World

BATCHES: Final = 4


@dataclass(slots=True)
class Sink:
    """What outlives a process of the query: the offsets, each stored before its batch, and what was delivered."""

    offsets: list[str] = field(default_factory=list)
    rows: dict[bytes, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Query:
    """What outlives a process of a query that writes: how many batches were, and the rows of the one that began."""

    done: int = 0
    begun: Mapping[bytes, bytes] | None = None


def follow(rng: Chance, value: str) -> Operation:
    """Run some batches of a stream; the one that another process began comes first, again."""
    is_limited = rng.random() < 0.5
    name, delays = f"stream {rng.randrange(2)}", [rng.randrange(400) for _ in range(BATCHES)]

    def act(world: World, table: SlateStore) -> None:
        sink = world.sinks.setdefault(name, Sink())
        stream = open_stream(world, table, {"maxRowsPerTrigger": 3} if is_limited else {})
        if len(sink.offsets) <= 2:  # Spark stores no start of the first batch
            sink.offsets[:1] = [encode_offset(stream.initial())]
        if len(sink.offsets) > 1:
            _deliver(world, table, stream, sink)
        for delay in delays:
            table._clock.sleep_ms(1_000 + delay)
            end = encode_offset(stream.next(decode_offset(sink.offsets[-1]), is_limited=is_limited))
            if end != sink.offsets[-1]:
                sink.offsets.append(end)
                _deliver(world, table, stream, sink)

    return Operation(name, act, always(unchanged), alone=name)


def deliver(rng: Chance, value: str) -> Operation:
    """Write some batches of a stream; the one that another process began comes first, again."""
    name, tasks = f"query {rng.randrange(2)}", rng.choice([1, 2])
    batches = [dict.fromkeys(some_keys(rng), f"+{value}.{number}".encode()) for number in range(rng.choice([1, 2, 4]))]

    def act(world: World, table: SlateStore) -> None:
        query = world.queries.setdefault(name, Query())
        for batch in [query.begun, *batches] if query.begun else batches:
            query.begun = batch
            world.current.do(
                f"{name} batch {query.done}",
                partial(_appended, batch),
                partial(_write_batch, table, batch, StreamBatch(name, query.done), tasks),
                refused=ConflictError,
                key=f"{name} {query.done}",
            )
            query.done, query.begun = query.done + 1, None

    return Operation(f"deliver {name}", act, always(unchanged), alone=name)


def _appended(batch: Mapping[bytes, bytes], before: Rows) -> Rows:
    return in_order({**before, **{key: before.get(key, b"") + mark for key, mark in batch.items()}})


def _write_batch(table: SlateStore, rows: Mapping[bytes, bytes], batch: StreamBatch, tasks: int) -> None:
    """Write operands, which show if they are written twice, as the sink of a stream does."""
    stores, clock, written = table._stores, table._clock, table_of([*rows.items()])
    load = begin_load(stores, clock, written.schema, WriteOptions.parse({"path": table.url, "operation": "merge"}))
    assert load is not None
    size = -(-len(rows) // tasks)
    parts = [written.slice(start, size).to_batches() for start in range(0, len(rows), size)]
    try:
        files = [run_task(stores, clock, load, number, part) for number, part in enumerate(parts)]
        commit_batch(stores, clock, load, files, batch)
    except Exception:
        with contextlib.suppress(Exception):
            abandon_write(stores, load.job)
        raise


def open_stream(world: World, table: SlateStore, options: dict[str, Any]) -> ChangeStream:
    given = ReadOptions.parse({"path": table.url, "readChangeFeed": True, **options})
    codec = resolve_definition(table._stores, fetch_latest_manifest(table._stores).value).codec()
    return ChangeStream(table._stores, given, project(given, codec=codec), table._clock, table._clock)


def _deliver(world: World, table: SlateStore, stream: ChangeStream, sink: Sink) -> None:
    start, end = map(decode_offset, sink.offsets[-2:])
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


def decode_offset(text: str) -> Position:
    return decode_position(json.loads(text))


def encode_offset(position: Position) -> str:
    return json.dumps(encode_position(position))
