"""Tables of which rows depend on time: histories, expiry, streams."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa

from tests.support.change_streams import Consumer
from tests.upgrades.kept import DAY_MS, HOUR_MS, START_MS, Kept, Row
from tests.upgrades.kinds import NUMBERED, numbered
from tests.upgrades.plain_rows import plain

TIMED: Final = pa.schema([*NUMBERED, ("at", pa.int64())])


def timed(number: int, n: int, at_ms: int) -> Row:
    return {"id": number, "n": n, "at": at_ms}


def history(root: Path) -> Kept:
    """Versions at times of their own, two to a key and more, deletions with a time, a floor."""
    kept = Kept.create(root, "id", TIMED, history=True)
    written = [timed(number, hour, START_MS - hour * HOUR_MS) for number in range(5) for hour in (30, 20, 10)]
    kept.put(*(row for row in written if row["n"] != 10), timestampColumn="at")
    kept.put(*(row for row in written if row["n"] == 10 and row["id"] != 4), timestampColumn="at")
    gone = pa.table({"id": [3], "at": [START_MS - 5 * HOUR_MS]})
    kept.store.write(gone, timestampColumn="at", operation="delete")
    del kept.rows[(3,)]
    for hour in (30, 29, 20, 15, 10, 6):
        shown = {30: 30, 29: 30, 20: 20, 15: 20, 10: 10, 6: 10}[hour]
        rows = [row for row in written if row["n"] == (20 if (row["id"], shown) == (4, 10) else shown)]
        kept.past.append(({"timestampAsOf": START_MS - hour * HOUR_MS}, rows))
    kept.tick(2 * HOUR_MS)
    return kept.go_on(timed(1, 99, START_MS + HOUR_MS), timed(6, 99, START_MS + HOUR_MS), timestampColumn="at")


def bitemporal(root: Path) -> Kept:
    """What each version knew of an instant: corrections of the past."""
    kept = Kept.create(root, "id", TIMED, history=True)
    first = kept.put(timed(1, 1, START_MS - 9 * HOUR_MS), timed(2, 1, START_MS - 9 * HOUR_MS), timestampColumn="at")
    second = kept.put(timed(1, 2, START_MS - 6 * HOUR_MS), timestampColumn="at")
    third = kept.put(timed(1, 3, START_MS - 6 * HOUR_MS), timestampColumn="at")
    other = timed(2, 1, START_MS - 9 * HOUR_MS)
    for version, known in ((first, timed(1, 1, START_MS - 9 * HOUR_MS)), (second, timed(1, 2, START_MS - 6 * HOUR_MS))):
        options = {"timestampAsOf": START_MS - 5 * HOUR_MS, "versionAsOf": version}
        kept.past.append((options, [known, other]))
    kept.past.append(
        ({"timestampAsOf": START_MS - 7 * HOUR_MS, "versionAsOf": third}, [timed(1, 1, START_MS - 9 * HOUR_MS), other])
    )
    kept.tick(2 * HOUR_MS)
    return kept.go_on(timed(1, 4, START_MS + HOUR_MS), timestampColumn="at")


def expiring(root: Path) -> Kept:
    """Rows with a lifetime of their own, with that of the table, and with none; some are gone already."""
    kept = Kept.create(root, "id", NUMBERED, defaultTtl="30d")
    kept.put(*numbered(range(4), 1))
    kept.put(*numbered(range(4, 8), 2), ttl="2h")
    kept.put(*numbered(range(8, 10), 3), ttl="none")
    all_rows = kept.visible()
    kept.tick(3 * HOUR_MS)
    kept.rows = {key: row for key, row in kept.rows.items() if row["n"] != 2}
    kept.reads.append(({"now": START_MS + HOUR_MS}, all_rows))
    kept.reads.append(({"now": START_MS + HOUR_MS, "filter": "n = 2"}, [row for row in all_rows if row["n"] == 2]))
    return kept.go_on(*numbered(range(5, 6), 4), ttl="none")


def retained(root: Path) -> Kept:
    """Rows past the retention of their table, some of them reaped."""
    kept = Kept.create(root, "id", NUMBERED, retention="2d", versionRetention="none")
    kept.put(*numbered(range(10), 1))
    kept.tick(DAY_MS)
    kept.put(*numbered(range(5, 15), 2))
    kept.tick(DAY_MS + HOUR_MS)
    kept.store.reap()
    kept.rows = {key: row for key, row in kept.rows.items() if row["n"] == 2}
    return kept.go_on(*numbered(range(6), 3))


def own_clock(root: Path) -> Kept:
    """Times are numbers of the user's own."""
    kept = Kept.create(root, "id", NUMBERED, clock="custom", versionRetention="none")
    kept.put(*numbered(range(5), 1), timestamp=100)
    kept.put(*numbered(range(2, 3), 2), timestamp=500, ttl=50)
    return kept.go_on(*numbered(range(3, 4), 3), timestamp=520)


def streamed(root: Path) -> Kept:
    """A stream that stands in the middle of a version's changes, with what it holds for them."""
    kept = Kept.create(root, "id", NUMBERED, versionRetention="none")
    kept.put(*numbered(range(10), 1))
    consumer = Consumer(kept.store, kept.clock, ["id"], streamId="copy", maxRowsPerTrigger=4)
    consumer.step()
    kept.put(*numbered(range(8, 14), 2))
    kept.store.delete("id = 1")
    del kept.rows[(1,)]
    consumer.step()
    kept.stream = {
        "options": {"streamId": "copy", "maxRowsPerTrigger": 4},
        "offset": consumer.offsets[-1],
        "state": plain([row for _, row in sorted(consumer.state.items())]),
    }
    return kept.go_on(*numbered(range(0, 20, 3), 3))


KINDS_OF_TIME: Final[dict[str, Callable[[Path], Kept]]] = {
    kind.__name__: kind for kind in (history, bitemporal, expiring, retained, own_clock, streamed)
}
