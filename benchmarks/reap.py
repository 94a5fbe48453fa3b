"""Reaping rows past retention, against writing those that stay anew."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import busy_table
from benchmarks.busy_table import BEGAN_MS, DAY_MS, NOW_MS
from benchmarks.data import DataFolder, make_batches, make_table, stored_bytes
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.process_tree import read_bytes
from benchmarks.tasks import new_folder
from benchmarks.worker import Sample, Stopwatch, Task
from slatespark import SlateStore

TITLE: Final = "Reaping a table, against writing what stays anew"

DROPPED: Final = "150 of 200 files past retention: reap"
ONE_PERCENT: Final = "1 % of one file past retention: reap"
ANEW: Final = ": write the rest anew"
BUSY: Final = "2,000 rows in batches of 100"
BUSY_ALONE: Final = f"{BUSY}: reap alone"
BUSY_WRITER: Final = f"{BUSY}: writer alone"
BUSY_BOTH: Final = f"{BUSY}: reap beside the writer"

LAYERS: Final = 4  # each of 50 files, and overlapping all others; three of them are old
FILES: Final = 200
RETENTION: Final = "30d"
ROW_BYTES: Final = 130


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of tables of `rows` rows."""
    tables = {
        DROPPED: data.made(f"reap-files-{rows}", lambda path: _fill_files(path, rows)),
        ONE_PERCENT: data.made(f"reap-percent-{rows}", lambda path: _fill_one(path, rows)),
    }
    busy = data.made("reap-busy", busy_table.fill)
    return Benchmark(
        alternatives=[
            Alternative(name=BUSY_ALONE, task=Task.of(busy_table.reap_alone, table=busy)),
            Alternative(name=BUSY_WRITER, task=Task.of(busy_table.write_alone, table=busy)),
            Alternative(name=BUSY_BOTH, task=Task.of(busy_table.reap_beside, table=busy)),
        ]
        + [
            Alternative(
                name=name if kind == "reap" else name.replace(": reap", ANEW),
                task=Task.of(delete, table=path, kind=kind),
                process=name,
            )
            for name, path in tables.items()
            for kind in ("reap", "anew")
        ],
        base=DROPPED,
        targets=[
            Target(alternative=DROPPED, within_s=5),
            Target(alternative=DROPPED, against=DROPPED.replace(": reap", ANEW), at_least=10),
            Target(alternative=ONE_PERCENT, against=ONE_PERCENT.replace(": reap", ANEW), at_least=10),
            Target(alternative=BUSY_BOTH, against=BUSY_ALONE, at_most=2),
            Target(alternative=BUSY_BOTH, against=BUSY_WRITER, at_most=2, measure="commit_s"),
        ],
        notes=[
            f"{rows:,} rows of 116 bytes; 200 files of {LAYERS} commits that overlap, and one file of a history table.",
            "The writer is another process that commits a row without pause; commit_s is its time per commit.",
            "Anew: a scan of the rows that stay, written to an empty table. Both sync to disk what they write.",
        ],
        same=(),
    )


def _fill_files(path: Path, rows: int) -> None:
    store = SlateStore.create(str(path), retention=RETENTION)
    for layer in range(LAYERS):
        begun_ms = BEGAN_MS + layer * DAY_MS if layer < LAYERS - 1 else BEGAN_MS + 20 * DAY_MS
        size = rows * ROW_BYTES // FILES
        store.write(make_table(rows // LAYERS, layer), timestamp=begun_ms, compression="none", sstSize=size)


def _fill_one(path: Path, rows: int) -> None:
    store = SlateStore.create(str(path), history=True, retention=RETENTION)
    table = pa.Table.from_batches(list(make_batches(rows))).sort_by("key")
    old = pa.array(range(rows)).cast(pa.int64())
    stamps = pc.if_else(pc.less(old, rows // 100), pa.scalar(BEGAN_MS), pa.scalar(BEGAN_MS + 20 * DAY_MS))
    rest = table.append_column("at", stamps)
    store.write(rest, timestampColumn="at", compression="none", sstSize="4g")
    store.setHistoryFloor(NOW_MS)


# --- tasks ----------------------------------------------------------------------------------------------------------


def delete(table: str, kind: str) -> Sample:
    """Delete the old rows of a copy of a table, or write the others to a place of their own."""
    with new_folder() as folder:
        source = Path(table)
        if kind == "reap":
            source = shutil.copytree(source, folder / "copy")
        before, read_before = stored_bytes(folder), read_bytes()
        store = SlateStore.open(str(source))
        with Stopwatch() as watch:
            if kind == "reap":
                gone = store.reap(now=NOW_MS).rows
            else:
                gone = 0
                SlateStore.create(str(folder / "anew")).write(store.scan(now=NOW_MS), compression="none")
        written, read = stored_bytes(folder) - before, read_bytes() - read_before
        left = store.scan(now=NOW_MS, includeExpired=kind == "reap").read_all().num_rows
    return watch.sample(rows=left, gone=gone, written_bytes=written, read_bytes=read)
