"""A program whose children vacuum a folder each and are killed."""

from __future__ import annotations

import sys

from slatespark import SlateStore
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectStore
from tests.faults.dying_children import run_and_kill
from tests.faults.jobs import store_on, table_of
from tests.support.fake_clock import FakeClock


def main(now_ms: int, cues: list[str]) -> None:
    """Run for each cue of `run_and_kill`."""
    warm = SlateStore.create(MemoryStore("warm").url)
    warm.write(table_of([(b"a", b"x")]))
    warm.vacuum("0s", force=True)  # so that no child has to load what is needed

    def vacuum(store: ObjectStore, seed: int) -> None:
        store_on(store, FakeClock(now_ms, seed=seed)).vacuum("0s", force=True)

    run_and_kill(vacuum, cues)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
