"""The command `worker`, as far as it needs no client."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from slatespark import SlateStore
from slatespark.cli.app import app
from slatespark.display.worker_text import job_line, status_line
from slatespark.table.compaction.worker_report import Backlog, WorkerReport, WorkerStatus


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["worker", *map(str, arguments)])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    SlateStore.create(str(tmp_path / "table"))
    return tmp_path / "table"


def test_nothing_to_do(table: Path) -> None:
    result = run(table, "--once", "--json")
    assert (result.exit_code, json.loads(result.stdout), result.stderr) == (0, [], "")


def test_a_missing_database_is_a_failure(table: Path, tmp_path: Path) -> None:
    result = run(table, tmp_path / "nothing", "--once")
    assert result.exit_code == 1
    assert result.stderr.startswith("TableNotFoundError: ")
    [outcome] = json.loads(run(tmp_path / "nothing", "--once", "--json").stdout)
    assert outcome["error"].startswith("TableNotFoundError: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--parallelism", "0"),
        ("--poll-interval", "soon"),
        ("--heartbeat-interval", "0s"),
        ("--spark", "local[1]", "--parallelism", "2"),
        ("--option", "ifClientActive=fence"),
        ("--option", "compresion=zstd"),
        ("--merge-operator", "nonsense"),
    ],
)
def test_wrong_options_are_refused(table: Path, arguments: tuple[str, ...]) -> None:
    assert run(table, "--once", *arguments).exit_code in (1, 2)


def test_lines() -> None:
    report = WorkerReport("file:///db", "01J", "", ("L0", "L0"), 3, 4000, 1000, 5_000_000, 2_000_000, 1, 500, 1500)
    assert job_line(report) == (
        "file:///db: 2 layers into run 3, 4,000 rows, 1,000 kept, 4.8 MiB in, 1.9 MiB out, 10.0 MB/s, "
        "1.5 s after it was scheduled"
    )
    status = WorkerStatus("file:///db", Backlog(8, 1, 1, 0), 0, 0, 0, 0, None)
    assert status_line(status) == "file:///db: 8 L0 views, 1 run, 1 job waiting, 0 running"
    assert status_line(WorkerStatus("file:///db", None, 0, 0, 0, 0, None)) == "file:///db: not read yet"
