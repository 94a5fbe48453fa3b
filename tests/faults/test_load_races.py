"""A load beside a client, and commits that fence the client in the meantime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from slatespark import SlateStore
from slatespark.storage.local_store import LocalStore
from tests.faults.busy_database import our_pairs
from tests.faults.jobs import Pair, store_on, table_of
from tests.simulation.coordinator import Coordinator
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock

BASE: list[Pair] = [(b"k%02d" % number, b"base") for number in range(10)]
LOADED: list[Pair] = [(b"k03", b"loaded"), (b"k07", b"loaded")]


class SteppedClock(FakeClock):
    """A clock whose sleeper lets another process take a step."""

    def __init__(self, step: Callable[[], None]) -> None:
        super().__init__(seed=7)
        self.step = step

    def sleep_ms(self, duration_ms: int) -> None:
        super().sleep_ms(duration_ms)
        self.step()


def test_rows_deleted_after_the_merge_stay_deleted(tmp_path: Path) -> None:
    """A range deletion cuts runs and keeps their ids, so a job on a run is valid, but what was merged is not."""
    SlateStore.create(str(tmp_path / "db"), autoCompact=False).write(table_of(BASE))
    store = LocalStore(tmp_path / "db")
    first, second = (Coordinator(store, FakeClock(seed=seed), sources=9) for seed in (1, 2))
    first.start()

    def delete_and_reopen() -> None:
        """Fence the client just before the job is listed, and open it again."""
        store_on(store, FakeClock(seed=3)).deleteRange(startKey=b"k05", ifClientActive="fence")
        second.start()

    load = store_on(FailingStore(store).run(delete_and_reopen, "create", "compactions/*"), SteppedClock(second.tick))
    load.write(table_of(LOADED), ifClientActive="cooperate")
    kept = [pair for pair in BASE if pair[0] < b"k05" and pair[0] != b"k03"]
    assert our_pairs(tmp_path / "db") == sorted([*kept, *LOADED])
