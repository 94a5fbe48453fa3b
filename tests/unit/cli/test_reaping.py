from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from slatespark import SlateStore
from slatespark.cli.app import app
from slatespark.display.reap_text import reap_text
from slatespark.table.checkpoints.store import CheckpointFacts
from slatespark.table.retention.reap_report import ReapReport


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["reap", *map(str, arguments)])


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """A table with a row of last year, and one of now."""
    store = SlateStore.create(str(tmp_path / "visits"), retention="7d")
    store.write(pa.table({"key": [b"old"], "value": [b"v"]}), timestamp="2025-01-01")
    store.write(pa.table({"key": [b"new"], "value": [b"v"]}))
    return tmp_path / "visits"


def keys(table: Path) -> list[bytes]:
    found: list[bytes] = SlateStore.open(str(table)).scan(includeExpired=True).read_all()["key"].to_pylist()
    return found


def test_it_says_what_it_did(visits: Path, tmp_path: Path) -> None:
    SlateStore.create(str(tmp_path / "other"))
    result = run(visits, tmp_path / "other", "--once")
    assert (result.exit_code, result.stderr) == (0, "")
    first, second = result.stdout.split("\n\n")
    assert "rows            1 in 1 commit" in first
    assert "files           1 dropped, 0 rewritten" in first
    assert second.splitlines()[-1] == "retention  none: rows are never past it"
    assert keys(visits) == [b"new"]


def test_as_json(visits: Path) -> None:
    (report,) = json.loads(run(visits, "--json").stdout)
    assert (report["rows"], report["files_dropped"], report["tombstones"], report["error"]) == (1, 1, 0, None)
    (report,) = json.loads(run(visits, "--json", "--max-batch-rows", "5", "--max-batch-bytes", "1m").stdout)
    assert (report["rows"], report["passes"]) == (0, 0)


def test_a_table_that_fails_does_not_stop_the_others(visits: Path, tmp_path: Path) -> None:
    result = run(tmp_path / "nothing", visits, "--json")
    assert result.exit_code == 1
    assert result.stderr.startswith("TableNotFoundError: ")
    missing, report = json.loads(result.stdout)
    assert missing["error"].startswith("TableNotFoundError: ")
    assert report["rows"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--once", "--every", "10m"], "--once and --every"),
        (["--every", "soon"], "--every"),
        (["--every", "0s"], "--every"),
        (["--every", "none"], "--every"),
        (["--every", "5"], "5 ms"),
        (["--max-batch-rows", "0"], "maxBatchRows"),
        (["--max-batch-bytes", "lots"], "maxBatchBytes"),
        (["--option", "ttll=7d"], "ttl"),
        (["--option", "walPath=wal"], "walPath"),
        (["--option", "clock=no_such_module:now"], "no_such_module"),
    ],
)
def test_bad_arguments(arguments: list[str], message: str, visits: Path, tmp_path: Path) -> None:
    result = run(visits, tmp_path / "other", *arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("OptionError: ")
    assert message in result.stderr
    assert keys(visits) == [b"new", b"old"]


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_every_stays_until_it_is_stopped(visits: Path, kind: signal.Signals) -> None:
    command = [sys.executable, "-m", "slatespark", "reap", str(visits), "--every", "1s", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        report = json.loads(process.stdout.readline())
        assert (report["rows"], report["error"]) == (1, None)
        time.sleep(0.2)
        assert process.poll() is None
        process.send_signal(kind)
        assert process.wait(20) == 0
        assert process.stderr.read() == ""
    assert keys(visits) == [b"new"]


# --- text -----------------------------------------------------------------------------------------------------------

DAY_MS = 86_400_000
REPORT = ReapReport(
    url="file:///lake/visits",
    version=12,
    now_ms=8 * DAY_MS,
    retention_ms=7 * DAY_MS,
    rows=12_345,
    bytes=3 << 20,
    files_dropped=3,
    files_rewritten=1,
    tombstones=45,
    passes=3,
    delete_rate_mb_per_s=1234.56,
    reaped_through_ms=DAY_MS,
    next_deadline_ms=9 * DAY_MS,
)


def test_a_report_as_text() -> None:
    assert reap_text(REPORT).splitlines() == [
        "table           file:///lake/visits",
        "version         12",
        "reaped through  1970-01-02T00:00:00.000Z",
        "rows            12,345 in 3 commits, 3.0 MiB",
        "files           3 dropped, 1 rewritten",
        "tombstones      45",
        "delete rate     1,234.6 MB/s",
        "next deadline   1970-01-10T00:00:00.000Z",
    ]


def test_what_is_not_there_is_not_shown() -> None:
    idle = ReapReport("u", 1, 5, 10, reaped_through_ms=-5, next_deadline_ms=20, has_own_time=True)
    assert reap_text(idle).splitlines()[2:] == [
        "reaped through  -5",
        "rows            0 in 0 commits, 0 B",
        "next deadline   20",
    ]
    assert "nothing: " in reap_text(ReapReport("u", 1, 5, 10))


def test_checkpoints_are_named_a_few_of_them() -> None:
    points = tuple(
        CheckpointFacts(f"id{number}", "audit" if number == 0 else None, number, 0, None if number else DAY_MS)
        for number in range(7)
    )
    kept = ReapReport("u", 1, 5, 10, reaped_through_ms=1, kept_by_checkpoints=points)
    assert reap_text(kept).splitlines()[-6:] == [
        "still readable by  checkpoint audit of version 0, until 1970-01-02T00:00:00.000Z",
        *(f"                   checkpoint id{number} of version {number}, forever" for number in range(1, 5)),
        "                   and 2 more checkpoints",
    ]
