"""A process that has little of something, and writes to a table: `exhausted_child PLACE RESOURCE LIMIT`."""

from __future__ import annotations

import resource
import signal
import sys

import pyarrow as pa

from slatespark import SlateError, SlateStore


def main(place: str, kind: str, limit: int) -> None:
    """Print what came of writing 4 MB: `done`, or the name of the error and its text."""
    store = SlateStore.open(place)
    rows = pa.table({"key": [b"%06d" % number for number in range(4000)], "value": [b"new" * 333] * 4000})
    if kind != "none":
        if kind == "fsize":
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        chosen = {"fsize": resource.RLIMIT_FSIZE, "nofile": resource.RLIMIT_NOFILE}[kind]
        resource.setrlimit(chosen, (limit, limit))
    try:
        store.write(rows, compression="none")
    except SlateError as error:
        print(type(error).__name__, error)
    else:
        print("done")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
