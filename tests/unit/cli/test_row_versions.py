"""`versions`: every version of each row of a history table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.shell import done, refused, run


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t"
    done("create", path, "--columns", "id INT, n INT, at TIMESTAMP", "--key-columns", "id", "--option", "history=true")
    for key, year in ((1, 2020), (1, 2021), (2, 2020)):
        row = json.dumps({"id": key, "n": year, "at": f"{year}-01-01T00:00:00Z"})
        done("put", path, row, "--option", "timestampColumn=at")
    return path


def shown(*arguments: str | Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in done("versions", *arguments, "--json").splitlines()]


def test_every_version_says_when_it_was_valid(table: Path) -> None:
    found = [(row["id"], str(row["_valid_from"])[:4], row["_valid_to"], row["_is_current"]) for row in shown(table)]
    assert found == [(1, "2021", None, True), (1, "2020", "2021-01-01T00:00:00.000Z", False), (2, "2020", None, True)]


def test_what_narrows_a_scan_narrows_versions(table: Path) -> None:
    assert [row["n"] for row in shown(table, "--where", "id = 1")] == [2021, 2020]
    assert shown(table, "--limit", "1", "--columns", "n") == [{"n": 2021}]
    assert len(shown(table, "--timestamp-as-of", "2020-06-01T00:00:00Z")) == 2
    assert "_seq" in shown(table, "--metadata")[0]
    assert done("versions", table).splitlines()[0].split()[:2] == ["id", "n"]


def test_a_raw_table_has_versions_by_prefix(tmp_path: Path) -> None:
    done("create", tmp_path / "t", "--option", "history=true")
    for key in ("apple", "pear"):
        row = json.dumps({"key": key, "value": "1", "at": "2020-01-01T00:00:00Z"})
        done("put", tmp_path / "t", row, "--text", "--option", "timestampColumn=at")
    assert [row["key"] for row in shown(tmp_path / "t", "--text", "--prefix", "p")] == ["pear"]


def test_a_table_without_history_has_no_versions(tmp_path: Path) -> None:
    done("create", tmp_path / "t")
    refused("OptionError", "versions", tmp_path / "t")
    assert run("versions").exit_code == 2
