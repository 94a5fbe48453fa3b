"""A program whose children load into a database that a live client has open, are killed, and load again."""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

import pyarrow as pa

from slatespark import SlateStore
from slatespark.storage.local_store import LocalStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.cooperation import abandoned_jobs
from tests.faults.jobs import store_on, table_of
from tests.support.failing_store import FailingStore

KEYS: Final = (b"a", b"m", b"z")


def load(store: ObjectStore, number: int, mode: str = "cooperate") -> None:
    """Append `+number` to all keys, as load number `number` of one application."""
    operands = pa.table({"key": pa.array(KEYS, pa.binary()), "value": pa.array([b"+%d" % number] * 3, pa.binary())})
    store_on(store).write(
        operands,
        operation="merge",
        mergeOperator="concat",
        ifClientActive=mode,
        txnAppId="loads",
        txnVersion=number,
    )


def main(folder: str, mode: str, cues: list[str]) -> None:
    """For each cue `operation:path:nth:moment` load, be killed there, and load again in `mode`."""
    abandoned_jobs.IDLE_MS, abandoned_jobs.SILENT_MS = 300, 300  # type: ignore[misc]  # a test cannot wait for minutes
    warm = SlateStore.create("memory://warm")  # so that no child has to load the kernels
    for value in (b"1", b"2"):
        warm.write(table_of([(b"a", value)]))
    warm.compact(full=True)
    for number, cue in enumerate(cues):
        operation, path, nth, moment = cue.split(":")
        status = run(FailingStore(LocalStore(folder)).die(operation, path, nth=int(nth), moment=moment), number)  # type: ignore[arg-type]
        assert status == signal.SIGKILL, f"{cue} was not reached: {status}"
        status = run(LocalStore(folder), number, mode)
        assert status == 0, f"after {cue} the load was not repeated: {status}"


def run(store: ObjectStore, number: int, mode: str = "cooperate") -> int:
    child = os.fork()
    if child == 0:
        load(store, number, mode)
        os._exit(0)
    return os.waitpid(child, 0)[1]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
