"""The steps of `steps`, for tables that one process changes and reads without Spark: rows are Arrow tables."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.peers.tables import new_table
from benchmarks.typed_schema import KEYS, SUMS
from benchmarks.worker import Sample, Stopwatch


class _Process:
    """What this process works on: one format, and one table of it at a time."""

    kind: str
    folder: Path | None = None
    table: Any  # an ArrowTable


def start(kind: str, warm_up: Sequence[Any]) -> None:
    """Take steps, function and arguments each, with which libraries warm up."""
    _Process.kind = kind
    for function, arguments in warm_up:
        globals()[function](**arguments)


def load(source: str) -> Sample:
    """Load a new table; the one of the round before is gone."""
    if _Process.folder is not None:
        shutil.rmtree(_Process.folder)
    _Process.folder = Path(tempfile.mkdtemp(prefix="peer", dir=Path.cwd()))
    _Process.table = new_table(_Process.kind, _Process.folder / "rows")
    rows = _rows(source).sort_by([(key, "ascending") for key in KEYS])
    return _changed(lambda: _Process.table.load(rows))


def scan(columns: Sequence[str]) -> Sample:
    """Read columns of all rows into memory."""
    return _read(lambda: _Process.table.scan(list(columns)))


def look_up(condition: str) -> Sample:
    """Read the row of one key."""
    return _read(lambda: _Process.table.look_up(condition))


def look_up_keys(keys: str) -> Sample:
    """Read the rows of many keys."""
    wanted = _rows(keys)
    return _read(lambda: _Process.table.look_up_keys(wanted))


def upsert(sources: Sequence[str]) -> Sample:
    """Upsert rows, a commit for each source."""
    tables = [_rows(source) for source in sources]

    def change() -> None:
        for rows in tables:
            _Process.table.upsert(rows)

    return _changed(change)


def delete_keys(keys: str) -> Sample:
    """Delete rows by key."""
    wanted = _rows(keys)
    return _changed(lambda: _Process.table.delete_keys(wanted))


def delete_range(condition: str) -> Sample:
    """Delete an interval of keys."""
    return _changed(lambda: _Process.table.delete_range(condition))


def replace_range(condition: str, source: str) -> Sample:
    """Replace an interval of keys."""
    rows = _rows(source)
    return _changed(lambda: _Process.table.replace_range(condition, rows))


def compact() -> Sample:
    """Compact, and tell what the current rows take."""
    sample = _changed(_Process.table.compact)
    return {**sample, "stored_bytes": _Process.table.stored_bytes()}


def _rows(source: str) -> pa.Table:
    return pq.read_table(source)


def _changed(change: Callable[[], None]) -> Sample:
    """Time a change, and count the bytes it adds below the table's folder."""
    before = _bytes_below()
    with Stopwatch() as watch:
        change()
    return watch.sample(written_bytes=_bytes_below() - before)


def _read(read: Callable[[], pa.Table]) -> Sample:
    """Time a read; `answer` is what it found, the sums of the columns."""
    with Stopwatch() as watch:
        found = read()
    sums = [f"{_sum(found[name]):.2f}" for name in SUMS if name in found.column_names]
    return watch.sample(rows=len(found), answer=" ".join([str(len(found)), *sums]))


def _sum(values: pa.ChunkedArray) -> float:
    """Return the sum of numbers, or of the lengths of texts, or of the microseconds of times."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type) or values.type == pa.string_view():
        values = pc.utf8_length(values.cast(pa.string()))
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    return float(pc.sum(values).as_py() or 0)


def _bytes_below() -> int:
    assert _Process.folder is not None
    return sum(file.stat().st_size for file in _Process.folder.rglob("*") if file.is_file())
