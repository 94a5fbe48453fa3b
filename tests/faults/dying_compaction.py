"""A program whose children compact a folder each and are killed."""

from __future__ import annotations

import sys

from slatespark import SlateStore
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectStore
from tests.faults.dying_children import run_and_kill
from tests.faults.jobs import store_on, table_of
from tests.support.fake_clock import FakeClock


def compact(store: ObjectStore, now_ms: int, seed: int) -> None:
    """Merge everything, in many small files."""
    store_on(store, FakeClock(now_ms, seed=seed)).compact(full=True, sstSize=60, mergeOperator="concat")


def main(now_ms: int, cues: list[str]) -> None:
    """Run for each cue of `run_and_kill`."""
    warm = MemoryStore("warm")
    table = SlateStore.create(warm.url)
    for value in (b"x", b"y"):
        table.write(table_of([(b"a", value)]))
    compact(warm, now_ms, 1)  # so that no child has to load what is needed
    run_and_kill(lambda store, seed: compact(store, now_ms, seed), cues)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
