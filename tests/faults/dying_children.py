"""Children of a program that work on a folder each and are killed: at a call to the store, or after a while."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence

from slatespark.storage.local_store import LocalStore
from slatespark.storage.object_store import ObjectStore
from tests.support.failing_store import FailingStore


def run_and_kill(work: Callable[[ObjectStore, int], None], cues: Sequence[str]) -> None:
    """Run `work`, of store and seed, in a child for each cue `folder:call` or `folder:+us`."""
    for seed, cue in enumerate(cues):
        folder, _, moment = cue.rpartition(":")
        store = FailingStore(LocalStore(folder))
        if not moment.startswith("+"):
            store.die("*", nth=int(moment), moment="before" if seed % 2 else "after")
        child = os.fork()
        if child == 0:
            work(store, seed)
            os._exit(0)
        if moment.startswith("+"):
            time.sleep(int(moment) / 1_000_000)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert status in (0, signal.SIGKILL), f"the child on {folder} ended with {status}"
