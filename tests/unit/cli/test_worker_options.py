"""What the command `worker` gives to the worker, and what it prints while that runs; without a client."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from typer.testing import CliRunner, Result

import slatespark.cli.commands.worker  # noqa: F401  # loaded before it is patched
from slatespark.cli.app import app
from slatespark.table.compaction.worker_report import Backlog, WorkerStatus

COMMAND: Final = "slatespark.cli.commands.worker"
PATIENCE_S: Final = 60.0
LINES: Final = 3


class FakeWorker:
    """Takes what the command gives it, and runs until its state was asked for some times."""

    made: list[FakeWorker]

    def __init__(self, tables: list[str], **given: Any) -> None:
        self.tables, self.given = tables, given
        self.asked = 0
        self.ended = threading.Event()
        self.made.append(self)

    def runOnce(self) -> list[object]:  # noqa: N802  # as the worker's
        return []

    def run(self, *, listener: object) -> None:
        assert callable(listener)
        self.is_stopped = self.ended.wait(PATIENCE_S)

    def stop(self) -> None:
        self.ended.set()

    def status(self) -> list[WorkerStatus]:
        self.asked += 1
        if self.asked > LINES:
            self.ended.set()
        return [WorkerStatus("file:///db", Backlog(self.asked, 2, 1, 0), 1, 7, 0, 5000, None)]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[FakeWorker]:
    monkeypatch.setattr(FakeWorker, "made", [], raising=False)
    monkeypatch.setattr(f"{COMMAND}.CompactionWorker", FakeWorker)
    return FakeWorker.made


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(app, ["worker", "one", "two", *arguments])
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.parametrize(
    ("flag", "value", "name", "expected"),
    [
        ("--merge-operator", "concat", "mergeOperator", "concat"),
        ("--parallelism", "3", "parallelism", 3),
        ("--poll-interval", "20ms", "pollInterval", "20ms"),
        ("--heartbeat-interval", "50ms", "heartbeatInterval", "50ms"),
        ("--option", "compression=zstd", "options", {"compression": "zstd"}),
    ],
)
def test_each_flag_reaches_the_worker(
    made: list[FakeWorker], flag: str, value: str, name: str, expected: object
) -> None:
    run("--once")
    run("--once", flag, value)
    before, after = made
    assert before.tables == after.tables == ["one", "two"]
    assert before.given[name] != after.given[name] == expected
    changed = [key for key, value in after.given.items() if value != before.given[key] and key != "clock"]
    assert changed == [name]


def test_spark_is_the_session_of_its_master(made: list[FakeWorker], monkeypatch: pytest.MonkeyPatch) -> None:
    masters: list[str] = []

    @contextmanager
    def session(master: str) -> Iterator[str]:
        masters.append(master)
        yield f"session of {master}"
        masters.append("closed")

    monkeypatch.setattr(f"{COMMAND}.worker_session", session)
    run("--once")
    run("--once", "--spark", "local[2]")
    assert [worker.given["spark"] for worker in made] == [None, "session of local[2]"]
    assert masters == ["local[2]", "closed"]


def test_lines_about_what_waits(made: list[FakeWorker]) -> None:
    lines = run("--backlog-interval", "10ms").stdout.splitlines()
    assert lines[:LINES] == [
        f"file:///db: {number} L0 view{'s' if number > 1 else ''}, 2 runs, 1 job waiting, 0 running"
        for number in range(1, LINES + 1)
    ]
    statuses = [json.loads(line)["status"] for line in run("--backlog-interval", "10ms", "--json").stdout.splitlines()]
    assert statuses[0] == {
        "url": "file:///db",
        "backlog": {"l0_views": 1, "runs": 2, "waiting": 1, "running": 0},
        "merging": 1,
        "handed_over": 7,
        "failed": 0,
        "bytes_in": 5000,
        "last_error": None,
    }
    assert all(worker.is_stopped for worker in made)
