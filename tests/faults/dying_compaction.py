"""A program whose children compact a folder each and are killed: at a call to the store, or after some microseconds."""

from __future__ import annotations

import os
import signal
import sys
import time

from slatespark import SlateStore
from slatespark.storage.local_store import LocalStore
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectStore
from tests.faults.jobs import store_on, table_of
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock


def compact(store: ObjectStore, now_ms: int, seed: int) -> None:
    """Merge everything, in many small files."""
    store_on(store, FakeClock(now_ms, seed=seed)).compact(full=True, sstSize=60, mergeOperator="concat")


def main(now_ms: int, cues: list[str]) -> None:
    """Run for each cue `folder:call` or `folder:+us`."""
    warm = MemoryStore("warm")
    table = SlateStore.create(warm.url)
    for value in (b"x", b"y"):
        table.write(table_of([(b"a", value)]))
    compact(warm, now_ms, 1)  # so that no child has to load what is needed
    for seed, cue in enumerate(cues):
        folder, _, moment = cue.rpartition(":")
        store = FailingStore(LocalStore(folder))
        if not moment.startswith("+"):
            store.die("*", nth=int(moment), moment="before" if seed % 2 else "after")
        child = os.fork()
        if child == 0:
            compact(store, now_ms, seed)
            os._exit(0)
        if moment.startswith("+"):
            time.sleep(int(moment) / 1_000_000)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert status in (0, signal.SIGKILL), f"the child on {folder} ended with {status}"


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
