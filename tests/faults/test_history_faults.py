"""History tables when calls fail, processes die, or a client compacts between two steps of a commit."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import HistoryTrimmedError, SlateError, SlateStore
from slatespark.storage.local_store import LocalStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.clock import SystemClock
from tests.faults.jobs import store_on
from tests.support.client import Client, ClientOptions, Location, read_rows
from tests.support.client_admin import compact_full
from tests.support.effort import points
from tests.support.failing_store import FailingStore

STEP_MS = 1000


class KilledError(BaseException):
    """The process ends here; nothing handles it, and nothing is cleaned up."""


@pytest.fixture
def base() -> int:
    return SystemClock().now_ms() - 3_600_000


@pytest.fixture
def folder(tmp_path: Path, base: int) -> Path:
    """Three versions of two keys, a commit each, and a row that only the WAL has."""
    path = tmp_path / "db"
    store = SlateStore.create(str(path), history=True)
    for number in range(3):
        write(store, base + number * STEP_MS)
    with Client.open(Location.local(path)) as client:
        client.put(b"w", b"in the WAL")
        client.flush_wal()
        client.close(flush=False)
    return path


def write(store: SlateStore, ts: int, **options: Any) -> None:
    rows = pa.table({"key": [b"a", b"b"], "value": [b"%d" % ts] * 2, "ts": [ts] * 2})
    store.write(rows, timestampColumn="ts", **options)


def state(place: ObjectStore, *instants: int) -> list[list[tuple[bytes, bytes]]]:
    """The rows now, and as of some instants."""
    store = store_on(place)
    scans = [store.scan(), *(store.scan(timestampAsOf=instant) for instant in instants)]
    return [[(row["key"], row["value"]) for row in scan.read_all().to_pylist()] for scan in scans]


@pytest.mark.parametrize("operation", ["create", "put"])
@pytest.mark.parametrize("error", [None, KilledError()])
def test_a_trim_that_fails_anywhere(
    folder: Path, base: int, tmp_path: Path, operation: str, error: BaseException | None
) -> None:
    instants = [base, base + 2 * STEP_MS, SystemClock().now_ms() - 1]
    after = base + STEP_MS
    before, counted = state(LocalStore(folder), *instants), FailingStore(LocalStore(copied(folder, tmp_path / "whole")))
    store_on(counted).trimHistory(after)
    trimmed = state(counted, *instants)
    calls = counted.count(operation)  # type: ignore[arg-type]
    assert trimmed[0] == [(b"a", b"%d" % after), (b"b", b"%d" % after)], "the row of the WAL goes too"
    for nth in points(calls, 2):
        place = copied(folder, tmp_path / f"{nth}")
        failing = FailingStore(LocalStore(place))
        failing.fail(operation, nth=nth, error=error)  # type: ignore[arg-type]
        try:
            store_on(failing).trimHistory(after)
        except (SlateError, KilledError):
            assert state(LocalStore(place), *instants) in (before, trimmed)
        store_on(LocalStore(place)).trimHistory(after)
        assert state(LocalStore(place), *instants) == trimmed
        assert [(row.key, row.value) for row in read_rows(Location.local(place))] == trimmed[0]
        shutil.rmtree(place)


def copied(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to / "db"))


@pytest.mark.parametrize("path", ["manifest/*", "slatespark/claims/*"])
def test_a_compaction_before_the_claim_is_seen(folder: Path, base: int, path: str) -> None:
    """The claim loses the race for its number; the next attempt finds what was lost."""
    location = Location.local(folder)
    ticks: list[int] = []

    def compact() -> None:
        with Client.open(location, ClientOptions(compactor=True)) as client:
            compact_full(client)
        tick = store_on(LocalStore(folder)).detail().clock_tick_ms
        assert tick is not None
        ticks.append(tick)

    failing = FailingStore(LocalStore(folder))
    failing.run(compact, "put" if "claims" in path else "create", path)
    store = store_on(failing)
    now = SystemClock().now_ms()
    write(store, now, ifClientActive="fence")
    assert store.definition.lost_through_ms == ticks[0]
    with pytest.raises(HistoryTrimmedError):
        store.scan(timestampAsOf=base + STEP_MS)
    assert dict(state(LocalStore(folder), ticks[0])[1])[b"a"] == b"%d" % (base + 2 * STEP_MS)
