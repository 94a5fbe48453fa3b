"""Scans of history tables as of an instant, against the latest scan of the same files: what the past costs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

import pyarrow as pa

from benchmarks.data import DataFolder, make_batches, sizes_note
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.tasks import scan
from benchmarks.worker import Task
from slatespark import SlateStore

TITLE: Final = "Scan of a history table as of an instant to Arrow, against its latest scan"
VERSIONS: Final = 3
START_MS: Final = 1_700_000_000_000
STEP_MS: Final = 3_600_000  # from one version of a row to the next

_MIDDLE_MS: Final = START_MS + STEP_MS
_LAST_MS: Final = START_MS + (VERSIONS - 1) * STEP_MS
# Layout -> whether all versions come in one write, so that those of a key lie side by side.
LAYOUTS: Final = {"side by side": True, "a file each": False}
INSTANTS: Final = {
    "latest": None,
    "as of the last": _LAST_MS,
    "as of the middle": _MIDDLE_MS,
    "as of the first": START_MS,
}


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of `rows` keys with three versions each."""
    tables = {layout: _table(data, rows, together=together) for layout, together in LAYOUTS.items()}
    return Benchmark(
        alternatives=[
            Alternative(name=_name(when, layout), task=Task.of(scan, path=path, timestampAsOf=ms))
            for layout, path in tables.items()
            for when, ms in INSTANTS.items()
        ],
        base=_name("latest", "side by side"),
        targets=[
            Target(alternative=_name(when, layout), against=_name("latest", layout), at_most=1.3)
            for layout in LAYOUTS
            for when in INSTANTS
            if when != "latest"
        ],
        notes=[
            f"{rows:,} keys of 16 bytes with {VERSIONS} versions of 100 bytes each, uncompressed; one thread.",
            "side by side: one write with timestampColumn; a file each: a write for each version, so three runs.",
            "Every scan shows one row of each key. A file of which all is later than the instant is not read.",
            sizes_note(tables),
        ],
    )


def _name(when: str, layout: str) -> str:
    return f"{when}, {layout}"


def _table(data: DataFolder, rows: int, *, together: bool) -> Path:
    def fill(path: Path) -> None:
        store = SlateStore.create(str(path), history=True)
        parts = [_version(rows, number) for number in range(VERSIONS)]
        for batches in [chain(*parts)] if together else parts:
            store.write(batches, timestampColumn="ts", compression="none", sstSize="16g")

    return data.made(f"as-of-{rows}-{'together' if together else 'apart'}", fill)


def _version(rows: int, number: int) -> Iterator[pa.RecordBatch]:
    for batch in make_batches(rows):
        times = pa.array([START_MS + number * STEP_MS] * len(batch), pa.int64())
        yield batch.append_column("ts", times)
