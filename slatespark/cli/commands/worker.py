"""The command `worker`."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import AsJson, MergedFileOption, Storage
from slatespark.cli.outcomes import Outcomes, refuse_shared_wal
from slatespark.cli.output import EXIT_FAILED, failing_with, one_line
from slatespark.cli.signals import stopped_by_signals
from slatespark.cli.table_arguments import call_with, command_arguments
from slatespark.display.worker_text import job_line, status_line
from slatespark.options.defaults import HEARTBEAT_INTERVAL, POLL_INTERVAL
from slatespark.options.values import both_given
from slatespark.spark.jobs.compaction_worker import CompactionWorker, worker_session
from slatespark.table.compaction.worker_report import WorkerOutcome, WorkerStatus
from slatespark.table.tasks import running
from slatespark.units import parse_duration_ms


@app.command()
@failing_with(EXIT_FAILED)
def worker(
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE", help="Locations of the databases: local paths, or fsspec URLs.", show_default=False
        ),
    ],
    once: Annotated[bool, typer.Option("--once", help="Merge the jobs that wait now, and exit.")] = False,
    parallelism: Annotated[
        int | None,
        typer.Option(metavar="N", help="Key ranges merged at a time; by default one per processor.", min=1),
    ] = None,
    spark: Annotated[
        str | None,
        typer.Option(metavar="MASTER", help="Merge with Spark: local[4], spark://host:7077, ...", show_default=False),
    ] = None,
    merge_operator: Annotated[
        str | None,
        typer.Option(metavar="OPERATOR", help="How merge operands are folded, as in the client.", show_default=False),
    ] = None,
    poll_interval: Annotated[
        str, typer.Option(metavar="DURATION", help="Time between two checks of a database for jobs.")
    ] = POLL_INTERVAL,
    heartbeat_interval: Annotated[
        str, typer.Option(metavar="DURATION", help="At most a third of the client's worker_heartbeat_timeout.")
    ] = HEARTBEAT_INTERVAL,
    backlog_interval: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="Time between two log lines about waiting jobs, which are counted every 10s."
        ),
    ] = "1m",
    option: MergedFileOption = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Run the compactions that live SlateDB clients schedule, until it is stopped.

    SIGTERM and SIGINT release the jobs being merged. Exit code 0: stopped, or with --once all jobs were merged; 1: with
    --once a job or a database failed.
    """
    arguments = command_arguments(tables[0], option=option, storage=storage)
    refuse_shared_wal(tables, arguments.location)
    if spark is not None and parallelism is not None:
        raise both_given("--spark", "--parallelism")
    every_s = parse_duration_ms(backlog_interval, name="--backlog-interval") / 1000
    with contextlib.nullcontext() if spark is None else worker_session(spark) as session:
        served = call_with(
            [arguments.location],
            CompactionWorker,
            tables,
            spark=session,
            parallelism=parallelism,
            pollInterval=poll_interval,
            heartbeatInterval=heartbeat_interval,
            mergeOperator=merge_operator,
            options=arguments.options,
            clock=arguments.clock,
        )
        outcomes = Outcomes(_text, _fields, as_json, gap="")
        with stopped_by_signals(served.stop):
            if once:
                outcomes.show_all(served.runOnce())
                return
            with _backlog_lines(served, every_s, as_json=as_json):
                served.run(listener=outcomes.show)


@contextlib.contextmanager
def _backlog_lines(served: CompactionWorker, every_s: float, *, as_json: bool) -> Iterator[None]:
    """Print what waits in each database from time to time."""
    ended = threading.Event()

    def show() -> None:
        while not ended.wait(every_s):
            for status in served.status():
                typer.echo(json.dumps({"status": _plain_status(status)}) if as_json else status_line(status))

    with running([threading.Thread(target=show, name="slatespark-backlog", daemon=True)], ended.set):
        yield


def _text(outcome: WorkerOutcome) -> str | None:
    """Return what came of a job as a line."""
    return None if outcome.report is None else job_line(outcome.report)


def _fields(outcome: WorkerOutcome) -> dict[str, Any]:
    if outcome.report is None:
        return {"url": outcome.url}
    return {**asdict(outcome.report), "mb_per_s": outcome.report.mb_per_s}


def _plain_status(status: WorkerStatus) -> dict[str, Any]:
    error = status.last_error
    return {
        "url": status.url,
        "backlog": None if status.backlog is None else asdict(status.backlog),
        "merging": status.merging,
        "handed_over": status.handed_over,
        "failed": status.failed,
        "bytes_in": status.bytes_in,
        "last_error": None if error is None else one_line(error),
    }
