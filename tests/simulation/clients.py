"""What SlateDB clients do."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any, Final

from slatespark import SlateStore
from slatespark.format.compactions import CompactionStatus
from slatespark.format.row import RowKind
from slatespark.options import WriteOptions
from slatespark.table.compaction.client_job import ClientMerge, merge_client_job
from slatespark.table.compaction.merge import merge_range
from slatespark.table.cooperation.claimed_job import JobLostError, SourcesGoneError, claimed_job
from slatespark.table.cooperation.job_list import JobList
from tests.faults.jobs import table_of
from tests.simulation.actors import Operation
from tests.simulation.chance import Chance
from tests.simulation.client import ClientWriter, FencedClientError
from tests.simulation.coordinator import Coordinator
from tests.simulation.model import Change, Rows, unchanged
from tests.simulation.operations import (
    KEYS,
    always,
    in_order,
    some_keys,
    without,
)
from tests.simulation.world import World

CLIENT_KEYS: Final = KEYS[::2]  # of its own rows, and
LOAD_KEYS: Final = KEYS[1::2]  # of those that it is handed: rows that it has not flushed win over these


def _batch(rng: Chance, value: str) -> tuple[list[tuple[bytes, RowKind, bytes]], Change]:
    """Return one write of each key, and what they make of the rows."""
    kinds = {
        key: rng.choice([RowKind.PUT, RowKind.PUT, RowKind.MERGE, RowKind.DELETE])
        for key in some_keys(rng, CLIENT_KEYS)
    }
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


def coordinate(rng: Chance, value: str) -> Operation:
    """Run the coordinator of a client for a while, and go."""
    ticks, sources = rng.choice([5, 20, 60]), rng.choice([1, 2, 3, 9])
    delays = [rng.randrange(50, 1_500) for _ in range(ticks)]

    def act(world: World, table: SlateStore) -> None:
        coordinator = Coordinator(table._stores.main, world.current.clock, sources)
        with contextlib.suppress(FencedClientError):
            coordinator.start()
            for delay in delays:
                coordinator.tick()
                world.current.clock.sleep_ms(delay)

    return Operation(f"coordinate {value}", act, always(unchanged), is_blind=False)


def work(rng: Chance, value: str) -> Operation:
    """Merge what a coordinator has scheduled."""
    looks = rng.choice([2, 5, 10])
    options = WriteOptions.parse({"path": "-", "mergeOperator": "concat"})

    def act(world: World, table: SlateStore) -> None:
        actor = world.current
        jobs = JobList(table._stores, actor.clock)
        for _ in range(looks):
            waiting = [job for job in jobs.refresh().value.jobs if job.status is CompactionStatus.SCHEDULED]
            for job in waiting[:1]:
                with (
                    contextlib.suppress(JobLostError, SourcesGoneError),
                    claimed_job(jobs, job.id, f"{actor.name} {value}") as claimed,
                ):
                    if claimed is not None:
                        run = partial(map, partial(merge_range, table._stores, actor.clock))
                        merge_client_job(table._stores, actor.clock, claimed, ClientMerge(options), run)
            actor.clock.sleep_ms(500)

    return Operation(f"work {value}", act, always(unchanged), is_blind=False)


def cooperate(rng: Chance, value: str) -> Operation:
    """Hand a load to the client; its keys are not those of the client's own rows."""
    rows = {key: value.encode() for key in LOAD_KEYS if rng.random() < 0.4} or {LOAD_KEYS[0]: value.encode()}
    is_idempotent, version = rng.random() < 0.5, rng.randrange(1 << 30)
    pair: dict[str, Any] = {"txnAppId": "load", "txnVersion": version} if is_idempotent else {}
    return Operation(
        f"cooperate {value} of {len(rows)}",
        lambda world, table: table.write(table_of([*rows.items()]), ifClientActive="cooperate", **pair),
        always(lambda before: in_order({**before, **rows})),
        is_blind=False,
        is_shared=True,
    )


def withdraw(rng: Chance, value: str) -> Operation:
    """Hand deletions to the client, and nothing else."""
    gone, version = dict.fromkeys(some_keys(rng, LOAD_KEYS), b""), rng.randrange(1 << 30)
    return Operation(
        f"withdraw {len(gone)} keys",
        lambda world, table: table.write(
            table_of([*gone.items()]),
            operation="delete",
            ifClientActive="cooperate",
            txnAppId="load",
            txnVersion=version,
        ),
        always(lambda before: without(before, gone)),
        is_blind=False,
        is_shared=True,
    )
