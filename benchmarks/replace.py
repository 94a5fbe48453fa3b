"""Replacing an interval of keys that holds 1 % of a table, against delta-rs doing the same with its `replaceWhere`."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data import DataFolder, sizes_note, stored_bytes
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.process_tree import read_bytes
from benchmarks.typed_rows import TENANTS, sorted_table
from benchmarks.typed_schema import KEYS, SCHEMA
from benchmarks.worker import Sample, Stopwatch, Task
from slatespark import SlateStore

TITLE: Final = "Replacing 1 % of a table by SlateStore, against delta-rs"

SLATE: Final = "slate, replaceWhere"
ALONE: Final = "slate, the new rows into an empty table"
DELTA: Final = "delta-rs, overwrite with a predicate"

_TENANT: Final = "tenant-17"  # half of the rows of one tenant in fifty are replaced
_FILE_BYTES: Final = 64 << 20


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of `rows` rows."""
    tables = data.made(f"replace-{rows}", lambda path: _fill(path, rows))
    has_delta = (tables / "delta").exists()
    kinds = {SLATE: "slate", ALONE: "alone", **({DELTA: "delta"} if has_delta else {})}
    targets = [Target(alternative=SLATE, against=ALONE, at_most=1.1, measure="written_bytes")]
    if has_delta:
        targets.append(Target(alternative=SLATE, against=DELTA, at_least=5))
    return Benchmark(
        alternatives=[
            Alternative(name=name, task=Task.of(replace, tables=tables, kind=kind, rows=rows))
            for name, kind in kinds.items()
        ],
        base=SLATE,
        targets=targets,
        notes=[
            f"{rows:,} rows of 8 columns in key order, in files of about {_FILE_BYTES >> 20} MiB; snappy.",
            f"The new rows are half of tenant {_TENANT[-2:]} of {TENANTS}, held in memory.",
            "slate syncs what it writes to disk, delta-rs does not.",
            sizes_note({path.name: path for path in sorted(tables.iterdir())}),
            *([] if has_delta else ["delta-rs is not installed: pip install deltalake"]),
        ],
    )


def _fill(path: Path, rows: int) -> None:
    path.mkdir()
    table = sorted_table(rows)
    store = SlateStore.create(str(path / "slate"), schema=SCHEMA, keyColumns=list(KEYS))
    store.write(table, compression="snappy", sstSize=_FILE_BYTES)
    try:
        from deltalake import write_deltalake
    except ImportError:
        return
    write_deltalake(str(path / "delta"), table, target_file_size=_FILE_BYTES)


# --- tasks ----------------------------------------------------------------------------------------------------------


@cache
def _new_rows(rows: int) -> pa.Table:
    """Return the rows to write, in key order: those of half a tenant."""
    return sorted_table(rows).filter((pc.field("tenant") == _TENANT) & (pc.field("id") < _end(rows)))


def _end(rows: int) -> int:
    return rows // TENANTS * 7 // 2


@cache
def _copy(tables: str, kind: str) -> Path:
    """Return a table to be changed; each round replaces what the one before wrote."""
    target = Path(tempfile.mkdtemp(dir=Path.cwd())) / kind
    shutil.copytree(Path(tables) / kind, target)
    return target


def replace(tables: str, kind: str, rows: int) -> Sample:
    """Replace the interval, or write its rows to a place of their own."""
    fresh, where = _new_rows(rows), f"tenant = '{_TENANT}' AND id < {_end(rows)}"
    if kind == "alone":
        path = Path(tempfile.mkdtemp(dir=Path.cwd())) / kind
        store = SlateStore.create(str(path), schema=SCHEMA, keyColumns=list(KEYS))
    else:
        path = _copy(tables, kind)
    before, read_before = stored_bytes(path), read_bytes()
    with Stopwatch() as watch:
        if kind == "delta":
            from deltalake import write_deltalake

            write_deltalake(str(path), fresh, mode="overwrite", predicate=where)
        elif kind == "alone":
            store.write(fresh, compression="snappy")
        else:
            SlateStore.open(str(path)).write(fresh, mode="overwrite", replaceWhere=where, compression="snappy")
    read = read_bytes() - read_before
    return watch.sample(rows=len(fresh), written_bytes=stored_bytes(path) - before, read_bytes=read)
