"""A process that has little of something, and writes to a table: `exhausted_child PLACE RESOURCE LIMIT`.

With `memory` and `command` it has LIMIT bytes of addresses left, and writes a value of 256 MiB: by a call of Python, or
by the command line from the file of Parquet in the folder of the table.
"""

from __future__ import annotations

import resource
import signal
import sys
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from slatespark import SlateError, SlateStore
from slatespark.cli.app import app

VALUE_BYTES: Final = 256 << 20


def main(place: str, kind: str, limit: int) -> None:
    """Print what came of writing 4 MB: `done`, or the name of the error and its text."""
    if kind in ("memory", "command"):
        write_much(place, kind, limit)
        return
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


def write_much(place: str, kind: str, limit: int) -> None:
    """Print the name of the error, or what the command line says and its exit code."""
    store, file = SlateStore.open(place), f"{place}.parquet"
    value = pa.array([bytes(VALUE_BYTES)], pa.large_binary())
    pq.write_table(pa.table({"key": [b"large"], "value": value}), file, compression="zstd")
    store.write(pa.table({"key": [b"warm"], "value": [b"v"]}))  # loads what a write needs
    store.delete("key = X'7761726d'")
    rows = pa.table({"key": [b"large"], "value": value})
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + limit, used + limit))
    try:
        if kind == "memory":
            store.write(rows)
        else:
            app(["import", place, file])
    except MemoryError:
        print("MemoryError")
    except SystemExit as exit_:
        print(f"exit code {exit_.code}")
    else:
        print("done")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
