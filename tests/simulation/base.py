"""The tables that seeds begin with: some kinds, each made once by a process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from slatespark import SlateStore
from slatespark.format.row import RowKind
from slatespark.storage.memory_store import MemoryStore
from tests.faults.jobs import store_on, table_of
from tests.simulation.chance import Chance
from tests.simulation.client import ClientWriter
from tests.simulation.clocks import START_MS
from tests.simulation.model import Rows
from tests.support.fake_clock import FakeClock
from tests.support.segments import FixedPrefix

BASES: Final = 120
WITHOUT_SEGMENTS: Final = 60  # none of these has any
SEGMENTS: Final = FixedPrefix(2)
HOUR_MS: Final = 3_600_000
RETIRED: Final = b"retired"
RETIRED_MS: Final = 100 * 24 * HOUR_MS  # the age of rows past retention, which is 60 days


@dataclass(frozen=True, slots=True)
class Base:
    """A table: its objects by path, and the rows that it shows."""

    objects: Mapping[str, bytes]
    rows: Rows


def is_segmented(number: int) -> bool:
    """Tell whether a base has segments: of the keys k0 and k1."""
    return number >= WITHOUT_SEGMENTS and number % 3 == 0


@lru_cache(maxsize=BASES)
def make_base(number: int) -> Base:
    """Make a table: with some writes, with rows past retention, with rows that only the WAL has, or without."""
    rng, clock = Chance(number), FakeClock(START_MS - HOUR_MS, seed=number)
    store = MemoryStore(f"simulation-base-{number}")
    properties: dict[str, Any] = {"autoCompact": rng.random() < 0.3, "versionRetention": rng.choice(["none", "1h"])}
    if is_segmented(number):
        properties |= SEGMENTS.options
    is_retired, writes = rng.random() < 0.4, rng.choice([0, 1, 2, 5])
    if is_retired:
        properties["retention"] = "60d"
        clock.advance(-RETIRED_MS)
    if rng.random() < 0.2:
        properties["columnar"] = True
    SlateStore.create(store.url, clock=clock, mergeOperator="concat", **properties)
    table = store_on(store, clock)
    if is_retired:  # a reaper may take them away, and nobody must see them: no operand makes these young
        table.write(table_of([(b"r%02d" % each, RETIRED) for each in range(8)]))
        clock.advance(RETIRED_MS)
        writes = max(1, writes)
    rows: dict[bytes, bytes] = {}
    for turn in range(writes):
        clock.advance(60_000)
        some = {b"k%02d" % each: b"base%d" % turn for each in sorted(rng.sample(range(12), 6))}
        table.write(table_of([*some.items()]), sstSize=rng.choice([60, 1 << 20]))
        rows |= some
    if rng.random() < 0.5:
        rows |= _leave_wal(ClientWriter(store, clock), rng)
    objects = {path: data for path, (data, _) in store._bucket.objects.items()}
    return Base(objects, dict(sorted(rows.items())))


def _leave_wal(client: ClientWriter, rng: Chance) -> dict[bytes, bytes]:
    """Open the table, write rows that only the WAL has, and go; returns them."""
    client.open()
    rows = {}
    for turn in range(rng.choice([1, 2, 3])):
        key, value = b"k%02d" % rng.randrange(12), b"wal%d" % turn
        client.write([(key, RowKind.PUT, value)])
        rows[key] = value
    return rows
