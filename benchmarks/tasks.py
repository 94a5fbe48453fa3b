"""Tasks of several benchmarks, and the folders that tasks write to."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.spark_session import spark_session
from benchmarks.worker import Sample, Stopwatch
from slatespark import SlateStore


def scan(path: str, **options: Any) -> Sample:
    """Drain a scan to Arrow batches; finding the snapshot and planning count."""
    store = SlateStore.open(path)
    with Stopwatch() as watch:
        rows = sum(len(batch) for batch in store.scan(**options))
    return watch.sample(rows=rows)


def spark_sums(
    path: str, sums: Sequence[str], options: Mapping[str, str], kind: str = "slate", setting: str = ""
) -> Sample:
    """Compute sums over all rows through Spark; planning counts.

    Parameters
    ----------
    sums : as Spark SQL
    kind : format of the table
    setting : of the session, as `spark_session` takes it
    """
    spark = spark_session(setting)
    with Stopwatch(children=True) as watch:
        frame = spark.read.format(kind).options(**options).load(path)
        [row] = frame.selectExpr("count(*) as n", *sums).collect()
    return watch.sample(rows=row.n, answer=str(tuple(row)), partitions=frame.rdd.getNumPartitions())


@contextmanager
def new_folder() -> Iterator[Path]:
    """Give an empty folder below the working directory; it is removed at the end."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def linked_copy(source: str) -> Iterator[Path]:
    """Give a copy of a database, whose files are links: nobody changes a file that is there."""
    with new_folder() as folder:
        yield Path(shutil.copytree(source, folder / "copy", copy_function=os.link))
