"""`changes`: how one version of a table differs from another."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.shell import done, refused, run


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t"
    done("create", path, "--columns", "id INT, n INT", "--key-columns", "id")  # version 1
    for rows in ('{"id": 1, "n": 1}', '{"id": 2, "n": 2}', '{"id": 1, "n": 3}'):  # versions 3, 5, 7
        done("put", path, rows)
    done("delete", path, "2")  # version 9
    return path


def shown(*arguments: str | Path) -> list[tuple[object, ...]]:
    lines = done("changes", *arguments, "--json").splitlines()
    return [(row["_change_type"], row["id"], row["n"]) for row in map(json.loads, lines)]


def test_it_shows_what_changed_from_a_version_or_a_time_on(table: Path) -> None:
    updated = [("update_preimage", 1, 1), ("update_postimage", 1, 3)]
    assert shown(table, "--from", "7", "--to", "7") == updated
    assert shown(table, "--from", "7") == [*updated, ("delete", 2, 2)]
    assert shown(table, "--from", "2000-01-01", "--to", "5") == [("insert", 1, 1), ("insert", 2, 2)]
    assert shown(table, "--from", "7", "--no-pre-images") == [("upsert", 1, 3), ("delete", 2, None)]
    assert shown(table, "--from", "7", "--where", "id = 2", "--limit", "1") == [("delete", 2, 2)]
    assert shown(table, "--from", "10") == []
    assert done("changes", table, "--from", "9").splitlines()[0].split()[:3] == ["id", "n", "_change_type"]


def test_the_log_shows_every_write(table: Path) -> None:
    found = shown(table, "--from", "1", "--kind", "log")
    assert found == [("upsert", 1, 1), ("upsert", 2, 2), ("upsert", 1, 3), ("delete", 2, None)]
    assert shown(table, "--from", "5", "--to", "7", "--option", "changes=log") == found[1:3]
    refused("OptionError", "changes", table, "--from", "1", "--kind", "log", "--no-pre-images")


def test_it_follows_what_comes_until_it_is_interrupted(table: Path) -> None:
    command = [sys.executable, "-m", "slatespark", "changes", str(table), "--from", "9", "--follow", "--json"]
    with subprocess.Popen([*command, "--kind", "log"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["_change_type"] == "delete"
        done("put", table, '{"id": 5, "n": 5}')
        row = json.loads(process.stdout.readline())
        assert (row["_change_type"], row["id"], row["n"]) == ("upsert", 5, 5)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert run("changes", table, "--from", "3", "--follow", "--limit", "1", "--json").stdout.count("\n") == 1


def test_bounds_that_are_not_there_are_refused(table: Path) -> None:
    refused("OptionError", "changes", table, "--from", "7", "--to", "5")
    refused("InvalidRequestError", "changes", table, "--from", "12")
    refused("OptionError", "scan", table, "--option", "startingVersion=3")
    refused("OptionError", "scan", table, "--option", "startingVersion=3", "--option", "readChangeFeed=true")
    assert run("changes", table).exit_code == 2
    assert run("changes", table, "--from", "3", "--to", "5", "--follow").exit_code == 2
