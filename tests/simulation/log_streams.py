"""A stream of `changes=log` as a query of Spark runs it: every write, in order, each once.

What it delivers is applied to the rows that it began with, or to none by a query that asks for all writes from the
first version on. Then they are what the table showed at some moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, TypeAlias

from slatespark import HistoryTrimmedError, SlateStore
from slatespark.table.changes.feed import run_feed
from slatespark.table.records.commits import fetch_records_between
from slatespark.table.streams.change_stream import ChangeStream
from tests.simulation.actors import Operation
from tests.simulation.base import RETIRED
from tests.simulation.chance import Chance
from tests.simulation.model import unchanged
from tests.simulation.operations import always, in_order
from tests.simulation.streams import decode_offset, encode_offset, open_stream
from tests.simulation.world import World

BATCHES: Final = 5

# Operations that change rows without writing them, or hand rows over that are older than what was written since: the
# log refuses what they did, and a query starts again.
UNTOLD: Final = ("delete-range", "delete-where", "replace", "overwrite", "restore", "erase", "cooperate", "withdraw")

Write: TypeAlias = tuple[str, bytes, bytes | None, int]  # kind, key, value, sequence number


@dataclass(slots=True)
class Log:
    """What outlives a process of the query.

    Attributes
    ----------
    offsets : each stored before its batch
    batches : that were delivered
    rows : what they make of no rows
    """

    offsets: list[str] = field(default_factory=list)
    batches: list[list[Write]] = field(default_factory=list)
    rows: dict[bytes, bytes] = field(default_factory=dict)


def follow_log(rng: Chance, value: str) -> Operation:
    """Run some batches of a stream of writes; the last one of another process comes first, delivered or not."""
    limit = rng.choice([None, 1, 3])
    limited = [limit is not None and rng.random() < 0.7 for _ in range(BATCHES)]
    name, delays = f"log {rng.randrange(2)}", [rng.randrange(400) for _ in range(BATCHES)]
    options: dict[str, Any] = {"changes": "log", "maxRowsPerTrigger": limit}
    if name == "log 1":
        options["startingVersion"] = 1

    def act(world: World, table: SlateStore) -> None:
        log = world.logs.setdefault(name, Log())
        stream = open_stream(world, table, options)
        try:
            if len(log.offsets) <= 2:  # Spark stores no start of the first batch
                log.offsets[:1] = [encode_offset(stream.initial())]
            if len(log.offsets) > 1:
                _deliver(world, table, stream, log, is_whole=False)
            for delay, is_limited in zip(delays, limited, strict=True):
                table._clock.sleep_ms(1_000 + delay)
                end = encode_offset(stream.next(decode_offset(log.offsets[-1]), is_limited=is_limited))
                if end != log.offsets[-1]:
                    log.offsets.append(end)
                    _deliver(world, table, stream, log, is_whole=not is_limited)
        except HistoryTrimmedError as exc:
            may_be_lost = world.collects or world.has_untold or _has_unrecorded(world)
            world.require(may_be_lost, f"the log is not told: {exc}")
            del world.logs[name]

    return Operation(name, act, always(unchanged), alone=name)


def _has_unrecorded(world: World) -> bool:
    """Tell whether a process has died, or was cut off, between a commit of rows and its record."""
    recorded = fetch_records_between(world.raw, 1, max(world.manifests))
    steps = pairwise(sorted(world.manifests.items()))
    return any(
        after.nonce and number not in recorded and after.last_l0_seq > before.last_l0_seq
        for (_, before), (number, after) in steps
    )


def _deliver(world: World, table: SlateStore, stream: ChangeStream, log: Log, *, is_whole: bool) -> None:
    start, end = map(decode_offset, log.offsets[-2:])
    plan = stream.plan(start, end)
    found = [] if plan is None else [row for batch in run_feed(table._stores, plan) for row in batch.to_pylist()]
    writes = [_write(row) for row in found]
    if len(log.batches) == len(log.offsets) - 1:
        world.require(writes == log.batches[-1], f"the batch was {log.batches[-1]}, and is {writes}")
        return
    seqs = [seq for *_, seq in writes]
    is_log = start.version > 0 and start.part is None
    world.require(not is_log or seqs == sorted(seqs), f"the log has the order {seqs}")
    _apply(log.rows, writes)
    log.batches.append(writes)
    if is_whole and end.part is None:
        made = in_order({key: value for key, value in log.rows.items() if value != RETIRED})  # no read shows them
        is_right = made in world.model.moments or made in world.model.kept.values()  # without rows of the WAL
        world.require(is_right, f"the log makes {dict(made)}, which the table has never shown")


def _write(row: dict[str, Any]) -> Write:
    return row["_change_type"], row["key"], row["value"], row["_seq"]


def _apply(rows: dict[bytes, bytes], writes: Sequence[Write]) -> None:
    for kind, key, value, _ in writes:
        if kind == "delete":
            rows.pop(key, None)
        else:
            rows[key] = (rows.get(key, b"") if kind == "merge" else b"") + (value or b"")
