"""The steps that a table goes through in a worker process, one call each; they run in the order of the benchmark."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.peers.tables import PeerTable, new_table, session_settings
from benchmarks.spark_session import build_session
from benchmarks.typed_schema import SUMS
from benchmarks.worker import Sample, Stopwatch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession


class _Process:
    """What this process works on: one format, and one table of it at a time."""

    kind: str
    spark: SparkSession
    folder: Path | None = None
    table: Any  # a PeerTable, and more
    version: int  # before the last upsert for the feed


def start(kind: str, jars: Sequence[str], settings: Mapping[str, str], warm_up: Sequence[Any]) -> None:
    """Start the session, and take steps, function and arguments each, with which the JVM warms up."""
    _Process.kind = kind
    _Process.spark = build_session({**settings, **session_settings(kind, jars)})
    for function, arguments in warm_up:
        globals()[function](**arguments)


def load(source: str) -> Sample:
    """Load a new table; the one of the round before is gone."""
    _new_table()
    return _changed(lambda table: table.load(_rows(source)))


def scan(columns: Sequence[str]) -> Sample:
    """Sum columns of all rows; planning counts."""
    return _summed(lambda table: table.frame(), columns)


def look_up(condition: str) -> Sample:
    """Read the row of one key."""
    return _summed(lambda table: table.look_up(condition), list(SUMS))


def look_up_keys(keys: str) -> Sample:
    """Read the rows of many keys."""
    return _summed(lambda table: table.look_up_keys(_rows(keys)), list(SUMS))


def upsert(sources: Sequence[str]) -> Sample:
    """Upsert rows, a commit for each source."""

    def change(table: PeerTable) -> None:
        for source in sources:
            table.upsert(_rows(source))

    return _changed(change)


def upsert_and_scan(sources: Sequence[str], columns: Sequence[str]) -> Sample:
    """Upsert rows, and sum columns of all rows; `write_s` are the seconds of the upsert."""
    change, read = upsert(sources), scan(columns)
    both = {measure: change[measure] + read[measure] for measure in ("seconds", "cpu_seconds")}
    return {**change, **read, **both, "write_s": change["seconds"]}


def upsert_for_feed(source: str) -> Sample:
    """Upsert rows, and remember the version before."""
    _Process.version = _Process.table.version()
    return upsert([source])


def changes(*, pre_images: bool) -> Sample:
    """Sum all columns of what the last upsert for the feed changed, for each kind of change."""
    with Stopwatch(children=True) as watch:
        feed = _Process.table.changes(_Process.version, pre_images=pre_images)
        found = feed.groupBy("_change_type").agg(*_aggregates(list(SUMS))).collect()
    return watch.sample(rows=sum(row[1] for row in found), answer="; ".join(sorted(map(_answer, found))))


def stream(source: str, loaded: str | None) -> Sample:
    """Stream new rows into an empty table, or upserts into one that is loaded before; `write_s` is of one batch."""
    folder = _new_table()
    if loaded is not None:
        _Process.table.load(_rows(loaded))
    files = _Process.spark.readStream.schema(_rows(source).schema).option("maxFilesPerTrigger", 1).parquet(source)
    with Stopwatch(children=True) as watch:
        query = _Process.table.stream(files, folder / "checkpoint", is_new=loaded is None)
        query.awaitTermination()
    batches = [each.durationMs["addBatch"] / 1000 for each in query.recentProgress if each.numInputRows]
    total = scan(list(SUMS))
    return watch.sample(answer=total["answer"], write_s=statistics.median(batches[2:]), batches=len(batches))


def delete_keys(keys: str) -> Sample:
    """Delete rows by key."""
    return _changed(lambda table: table.delete_keys(_rows(keys)))


def delete_range(condition: str) -> Sample:
    """Delete an interval of keys."""
    return _changed(lambda table: table.delete_range(condition))


def replace_range(condition: str, source: str) -> Sample:
    """Replace an interval of keys."""
    return _changed(lambda table: table.replace_range(condition, _rows(source)))


def compact() -> Sample:
    """Compact, and tell what the current rows take."""
    sample = _changed(lambda table: table.compact())
    return {**sample, "stored_bytes": _Process.table.stored_bytes()}


def _rows(source: str) -> DataFrame:
    return _Process.spark.read.parquet(source)


def _changed(change: Callable[[PeerTable], None]) -> Sample:
    """Time a change, and count the bytes it adds below the table's folder."""
    assert _Process.folder is not None
    before = _bytes_below(_Process.folder)
    with Stopwatch(children=True) as watch:
        change(_Process.table)
    return watch.sample(written_bytes=_bytes_below(_Process.folder) - before)


def _summed(read: Callable[[PeerTable], DataFrame], columns: Sequence[str]) -> Sample:
    """Time a query; `answer` is what it found."""
    with Stopwatch(children=True) as watch:
        [row] = read(_Process.table).agg(*_aggregates(columns)).collect()
    return watch.sample(rows=row[0], answer=_answer(row))


def _aggregates(columns: Sequence[str]) -> list[Column]:
    from pyspark.sql import functions

    return [functions.expr("count(*)"), *(functions.expr(SUMS[name]) for name in columns)]


def _answer(row: Row) -> str:
    """Return a row as text, with sums rounded so that their order does not matter."""
    return " ".join(f"{value:.2f}" if isinstance(value, float) else str(value) for value in row)


def _new_table() -> Path:
    """Return the folder of a new table; the one of the table before is gone."""
    if _Process.folder is not None:
        shutil.rmtree(_Process.folder)
    _Process.folder = Path(tempfile.mkdtemp(prefix="peer", dir=Path.cwd()))
    _Process.table = new_table(_Process.kind, _Process.folder / "rows", _Process.spark)
    return _Process.folder


def _bytes_below(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
