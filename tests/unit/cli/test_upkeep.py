from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore
from tests.unit.cli.shell import answer, done, refused, run


@pytest.fixture
def table(tmp_path: Path) -> Path:
    store = SlateStore.create(tmp_path / "t", autoCompact="false")
    for number in range(8):
        store.write(pa.table({"key": [b"%d" % number], "value": [b"v"]}))
    return tmp_path / "t"


def test_once(table: Path) -> None:
    outcomes = answer("upkeep", table, "--once")
    assert [(item["duty"], item["is_done"]) for item in outcomes] == [
        ("historyFloor", False),
        ("reap", False),
        ("compact", True),
        ("compact", False),
        ("vacuum", False),
    ]
    assert outcomes[2]["report"]["jobs"][0]["rows_out"] == 8
    assert done("upkeep", table, "--once") == ""


def test_as_text(table: Path, tmp_path: Path) -> None:
    shown = run("upkeep", table, tmp_path / "none", "--once", "--duty", "compact")
    assert shown.exit_code == 1
    assert shown.stdout.startswith(f"{table}: compact\n")
    assert "none" in shown.stderr


@pytest.mark.parametrize(
    "given",
    [
        ("--duty", "sweep"),
        ("--every", "0"),
        ("--every", "5"),
        ("--min-age", "1m"),
        ("--option", "ttl=3d", "--once"),
        ("--option", "clock=no_such_module:now", "--once"),
        ("--option", "walPath=elsewhere", "another"),
    ],
)
def test_wrong_options(given: tuple[str, ...], table: Path) -> None:
    refused("OptionError", "upkeep", table, *given)


def test_sigterm_ends_it(table: Path) -> None:
    arguments = [sys.executable, "-m", "slatespark", "upkeep", str(table), "--json"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["duty"] == "compact"
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
