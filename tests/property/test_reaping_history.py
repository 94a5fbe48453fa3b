"""Reaping a history table: as-of reads from the floor on show what they showed before."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from slatespark.table.retention.deletion_time import SKEW_MS
from tests.support.effort import examples
from tests.support.fake_clock import FakeClock

START_MS = 1_700_000_000_000
KEYS = [b"a", b"b", b"c", b"d"]
_names = itertools.count(1)

# Times of one commit lie above those of the commits before it, as the order of versions wants.
commits = st.lists(
    st.lists(
        st.tuples(st.sampled_from(KEYS), st.integers(0, 9), st.sampled_from(["put", "put", "put", "delete"])),
        min_size=1,
        max_size=8,
        unique_by=lambda row: row[:2],
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=examples(6))
@given(commits, st.integers(1, 60), st.integers(0, 30), st.sampled_from([None, 2]))
def test_as_of_reads_stay_exact(
    history: list[list[tuple[bytes, int, str]]], floor: int, retention_ms: int, batch_rows: int | None
) -> None:
    clock = FakeClock(START_MS + 1000)
    store = SlateStore.create(
        f"memory://reap-history-{next(_names)}", clock=clock, history=True, versionRetention="none"
    )
    for number, rows in enumerate(history):
        store.write(
            pa.table(
                {
                    "key": [key for key, _, _ in rows],
                    "value": [b"%d.%d" % (number, at) for _, at, _ in rows],
                    "at": [START_MS + 10 * number + at for _, at, _ in rows],
                    "op": [operation for _, _, operation in rows],
                }
            ),
            timestampColumn="at",
            opColumn="op",
        )
    store.setProperties(retention=f"{retention_ms}ms")
    store.setHistoryFloor(START_MS + floor)
    clock.advance(SKEW_MS)
    instants = [START_MS + at for at in range(floor, 60, 3)]
    before = [as_of(store, instant) for instant in instants]
    with_retired = [as_of(store, instant, includeExpired=True) for instant in instants]
    report = store.reap(maxBatchRows=batch_rows)
    assert report.reaped_through_ms == START_MS + floor - retention_ms
    assert [as_of(store, instant) for instant in instants] == before
    for instant, shown in zip(instants, with_retired, strict=True):
        left = as_of(store, instant, includeExpired=True)
        assert [row for row in left if row not in shown] == [], "a retired row is there or gone, and none is uncovered"
    kept = store.scan(includeExpired=True, metadataColumns="create_ts").read_all()["_create_ts"].to_pylist()
    assert all(moment.timestamp() * 1000 > report.reaped_through_ms for moment in kept)
    assert store.reap().passes == 0
    assert store.verify().has_damage is False


def as_of(store: SlateStore, instant: int, **options: Any) -> list[dict[str, Any]]:
    found = store.scan(timestampAsOf=instant, metadataColumns="create_ts", **options).read_all()
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows
