"""CompactionWorker: the compaction worker for live clients, with threads of this process or with Spark."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from slatespark.errors import OptionError
from slatespark.table.compaction.worker import Worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class CompactionWorker(Worker):
    """Merges the compactions that live SlateDB clients schedule, and hands the results back to them.

    The client's coordinator commits them: no client is fenced, and the worker writes no manifest. What it keeps is what
    the client's own compactor keeps. It serves many databases, each in its turn, and several workers may serve one
    database: each job is done by one of them. A worker that dies leaves its jobs to others, after the client's
    `worker_heartbeat_timeout` (30 s by default).

    Parameters
    ----------
    tables : paths or URLs of databases, or one of them
    spark : merges the ranges of each job as tasks of a Spark job, instead of threads of this process

    Other Parameters
    ----------------
    parallelism : how many ranges are merged at a time without Spark; by default one per processor
    pollInterval : between two looks at a database, `1s` by default
    heartbeatInterval : duration of at most a third of the client's `worker_heartbeat_timeout`; `3s` by default
    mergeOperator : how operands are folded: the client's operator; by default that of the table
    filters : decide about the versions that would be kept, as in `SlateStore.compact`; built-in ones take no instant
        and no floor
    clock : clock for waiting and heartbeats, or `module:function`; the system clock by default
    options : options of new files: `compression` (by default that of the sources), `blockSize`, `sstSize`,
        `bloomBitsPerKey`, `writeBuffer`
    storage : options for all of `tables`, as for `SlateStore.open`

    Raises
    ------
    OptionError
        When an argument or an option is wrong.

    Examples
    --------
    >>> from slatespark import CompactionWorker, SlateStore
    >>> store = SlateStore.create("memory://served")
    >>> CompactionWorker(["memory://served"]).runOnce()
    ()
    """

    def __init__(
        self,
        tables: Iterable[str | os.PathLike[str]] = (),
        *,
        spark: SparkSession | None = None,
        **arguments: Any,
    ) -> None:
        if spark is not None:
            if arguments.get("runner") is not None or arguments.get("parallelism") is not None:
                raise OptionError(
                    "spark is given beside runner or parallelism.", todo="Leave them out: Spark knows its own cores."
                )
            from slatespark.spark.jobs.range_merges import SparkRunner  # here: it imports pyspark

            arguments["runner"] = SparkRunner(spark, call="compact for the clients of")
        super().__init__(tables, **arguments)


@contextmanager
def worker_session(master: str) -> Iterator[SparkSession]:
    """Open a Spark session for a worker that is a process of its own.

    Parameters
    ----------
    master : address as Spark takes it, such as `local[4]`, or the `sc://` URL of a server of Spark Connect; the other
        settings come from Spark's configuration files
    """
    from slatespark.spark.java import ensure_java

    ensure_java()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("slatespark worker")
    session = (builder.remote(master) if master.startswith("sc://") else builder.master(master)).getOrCreate()
    try:
        yield session
    finally:
        session.stop()
