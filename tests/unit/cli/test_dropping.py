from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from slatespark import SlateStore
from tests.faults.jobs import table_of
from tests.unit.cli.shell import answer, done, refused


@pytest.fixture
def place(tmp_path: Path) -> Path:
    SlateStore.create(str(tmp_path / "db")).write(table_of([(b"a", b"1")]))
    return tmp_path / "db"


def answered(place: Path, text: str) -> tuple[int, str]:
    """Exit code and output of `drop` at a terminal where somebody types."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "slatespark", "drop", str(place)]
    with subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        os.write(ours, f"{text}\n".encode())
        output, _ = process.communicate(timeout=120)
    os.close(ours)
    os.close(theirs)
    return process.returncode, output


def test_it_asks_first(place: Path) -> None:
    code, output = answered(place, "n")
    assert (code, place.exists()) == (1, True)
    assert "would delete" in output
    code, output = answered(place, "y")
    assert (code, place.exists()) == (0, False)
    assert "deleted" in output


def test_where_nobody_can_answer(place: Path) -> None:
    assert "--yes" in refused("OptionError", "drop", place)
    assert "would delete  3 manifests, 4 metadata objects, 1 SST, 1 WAL file" in done("drop", place, "--dry-run")
    assert place.exists()
    assert "deleted" in done("drop", place, "--yes")
    assert not place.exists()
    assert "not a SlateDB database" in refused("TableNotFoundError", "drop", place, "--yes")


def test_who_may_need_it(place: Path) -> None:
    done("checkpoint", "create", place, "--name", "monday")
    assert "monday" in refused("InvalidRequestError", "drop", place), "before anybody is asked"
    assert "may be needed  checkpoint monday keeps version" in done("drop", place, "--dry-run")
    report = answer("drop", place, "--yes", "--force")
    assert [blocker["name"] for blocker in report["blockers"]] == ["monday"]
    assert report["objects"]["sst"] == 1
    assert not place.exists()
