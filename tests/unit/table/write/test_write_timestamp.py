"""The option `timestamp`: one time for all rows of a write, between the table's last tick and the clock."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from slatespark import ClockRegressionError, OptionError, SlateStore
from slatespark.table.log.manifests import MAX_AHEAD_MS
from slatespark.units import ms_to_text
from tests.support.fake_clock import FakeClock
from tests.support.our_reads import our_rows

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000

_numbers = count()


def new_store() -> SlateStore:
    return SlateStore.create(f"memory://write-timestamp-{next(_numbers)}", clock=FakeClock(NOW_MS))


def rows(*keys: bytes, **more: Any) -> pa.Table:
    column = pa.array(keys, pa.binary())
    return pa.table({"key": column, "value": column, **more})


def times(store: SlateStore) -> dict[bytes, tuple[int | None, int | None]]:
    return {row.key: (row.create_ts, row.expire_ts) for row in our_rows(store, includeExpired=True)}


@pytest.mark.parametrize(
    "given",
    [
        NOW_MS - DAY_MS,
        str(NOW_MS - DAY_MS),
        ms_to_text(NOW_MS - DAY_MS),
        datetime(2023, 11, 13, 22, 13, 20, tzinfo=UTC),
    ],
    ids=["ms", "text", "ISO", "datetime"],
)
def test_all_rows_get_it_and_ttls_count_from_it(given: Any) -> None:
    store = new_store()
    store.write(rows(b"a", b"b", ttl=pa.array([5, None])), timestamp=given, ttlColumn="ttl", ttl="2d", writeBuffer=100)
    at_ms = NOW_MS - DAY_MS
    assert times(store) == {b"a": (at_ms, at_ms + 5), b"b": (at_ms, at_ms + 2 * DAY_MS)}
    assert store.scan().read_all()["key"].to_pylist() == [b"b"]


@pytest.mark.parametrize("at_ms", [-(10**12), -1, 0, 1, NOW_MS, NOW_MS + MAX_AHEAD_MS])
def test_a_table_may_begin_at_any_past_time(at_ms: int) -> None:
    store = new_store()
    store.write(rows(b"a"), timestamp=at_ms)
    store.write(rows(b"b"), timestamp=at_ms)  # the tick itself is not below the tick
    assert times(store) == {b"a": (at_ms, None), b"b": (at_ms, None)}
    store.write(rows(b"c"))
    assert times(store)[b"c"] == (max(NOW_MS, at_ms), None)
    assert not store.verify().has_damage


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_time_below_the_last_tick_is_refused(mode: str) -> None:
    store = new_store()
    version = store.write(rows(b"a"), timestamp=NOW_MS - 5)
    with pytest.raises(ClockRegressionError) as caught:
        store.write(rows(b"b"), timestamp=NOW_MS - 6, mode=mode)
    for part in (store.url, f"{ms_to_text(NOW_MS - 6)} ({NOW_MS - 6})", f"{ms_to_text(NOW_MS - 5)} ({NOW_MS - 5})"):
        assert part in str(caught.value)
    assert times(store) == {b"a": (NOW_MS - 5, None)}
    assert store.history(1)[0].version == version


def test_a_time_of_the_future_is_refused() -> None:
    store, ahead_ms = new_store(), NOW_MS + MAX_AHEAD_MS + 1
    with pytest.raises(ClockRegressionError, match=rf"\({ahead_ms}\).*\({NOW_MS}\)"):
        store.write(rows(b"b"), timestamp=ahead_ms)
    assert times(store) == {}
    store.write(rows(b"b"), timestamp=ahead_ms - 1)


@pytest.mark.parametrize("given", ["yesterday", "", 2**63, 1.5, True])
def test_invalid_times_are_refused(given: Any) -> None:
    with pytest.raises(OptionError, match="timestamp"):
        new_store().write(rows(b"b"), timestamp=given)


def test_deletes_and_fixed_expiries_use_it() -> None:
    store, at_ms = new_store(), NOW_MS - 100
    store.write(rows(b"a", b"b"), timestamp=at_ms)
    until = pa.array([NOW_MS + 7], pa.timestamp("ms"))
    store.write(rows(b"a", until=until), timestamp=at_ms + 1, expireAtColumn="until")
    store.delete("key = X'62'", timestamp=at_ms + 2)
    versions = {(row["_key"], row["_op"]): row for row in store.scan(readVersions="all").read_all().to_pylist()}
    assert round(versions[b"b", "delete"]["_create_ts"].timestamp() * 1000) == at_ms + 2
    assert times(store) == {b"a": (at_ms + 1, NOW_MS + 7)}
