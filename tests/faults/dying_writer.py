"""A program whose children write and are killed: the first before its first call, the second after its second, ..."""

from __future__ import annotations

import os
import signal
import sys

from slatespark.storage.local_store import LocalStore
from slatespark.storage.memory_store import MemoryStore
from tests.faults.test_commit_faults import WRITES, create
from tests.support.failing_store import FailingStore, Moment


def main(name: str, folders: list[str]) -> None:
    create(MemoryStore("warm"))  # so that no child has to load the kernels
    for nth, folder in enumerate(folders, start=1):
        moment: Moment = "before" if nth % 2 else "after"
        child = os.fork()
        if child == 0:
            WRITES[name](FailingStore(LocalStore(folder)).die("*", nth=nth, moment=moment))
            os._exit(0 if moment == "after" else 1)  # there is no moment after a call that answers with an error
        _, status = os.waitpid(child, 0)
        assert status in (0, signal.SIGKILL), f"child {nth} ended with {status}"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
