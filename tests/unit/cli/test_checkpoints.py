"""Commands that keep versions and bring them back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from tests.unit.cli.shell import answer, done, refused, rows, run


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A typed table of three versions with rows, under versionRetention."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    store = SlateStore.create(str(tmp_path / "t"), schema, "id")
    for name in ("first", "second", "third"):
        store.write(pa.table({"id": pa.array([1], pa.int64()), "name": [name]}))
    return tmp_path / "t"


def test_create_list_refresh_delete(table: Path) -> None:
    made = answer("checkpoint", "create", table, "--name", "monday", "--lifetime", "7d", "--version", "3")
    assert (made["name"], made["version"]) == ("monday", 3)
    assert made["expires_ms"] - made["created_ms"] in (604_800_000, 604_801_000)
    assert answer("checkpoint", "list", table) == [made]
    assert len(answer("checkpoint", "list", table, "--all")) == 5
    listed = done("checkpoint", "list", table)
    assert "monday" in listed
    assert "4 versions kept for versionRetention; --all lists them." in listed
    assert rows(table, "--option", "checkpoint=monday") == [{"id": 1, "name": "first"}]
    assert done("checkpoint", "refresh", table, "monday") == (
        f"Refreshed checkpoint {made['id']} of version 3; it does not expire.\n"
    )
    assert answer("checkpoint", "refresh", table, "monday")["expires_ms"] is None
    assert done("checkpoint", "delete", table, "monday") == "Deleted checkpoint monday.\n"
    assert "no checkpoint" in done("checkpoint", "list", table)
    assert "there is no checkpoint 'monday'" in refused("InvalidRequestError", "checkpoint", "delete", table, "monday")
    assert done("checkpoint", "create", table).startswith("Created checkpoint ")


def test_bad_input(table: Path, tmp_path: Path) -> None:
    refused("OptionError", "checkpoint", "create", table, "--lifetime", "0")
    refused("OptionError", "checkpoint", "create", table, "--lifetime", "soon")
    refused("OptionError", "checkpoint", "create", table, "--version", "0")
    refused("InvalidRequestError", "checkpoint", "create", table, "--version", "99")
    refused("TableNotFoundError", "checkpoint", "list", tmp_path / "nowhere")
    refused("OptionError", "restore", table)
    refused("OptionError", "restore", table, "--version", "3", "--timestamp", "2026-01-01")
    refused("InvalidRequestError", "restore", table, "--version", "99")
    refused("OptionError", "restore", table, "--timestamp", "2999-01-01")
    refused("HistoryTrimmedError", "restore", table, "--timestamp", "1999-01-01")
    refused("OptionError", "clone", table, tmp_path / "c", "--version", "3", "--checkpoint", "x")
    refused("TableExistsError", "clone", table, table)
    refused("InvalidRequestError", "clone", table, "memory://elsewhere")


def test_restore_and_undo(table: Path) -> None:
    assert done("restore", table, "--version", "5") == "Restored; version 10. To undo it, restore version 9.\n"
    assert rows(table) == [{"id": 1, "name": "second"}]
    assert answer("restore", table, "--version", "9") == {"version": 12, "undo": 11}
    assert rows(table) == [{"id": 1, "name": "third"}]
    first = next(facts for facts in answer("history", table) if facts["version"] == 3)
    answer("restore", table, "--timestamp", str(first["committed_ms"]))
    assert rows(table) == [{"id": 1, "name": "first"}]
    assert answer("history", table)[0]["operation"] == "restore"


def test_clone(table: Path, tmp_path: Path) -> None:
    assert done("clone", table, tmp_path / "newest") == f"Cloned to file://{tmp_path}/newest.\n"
    assert answer("clone", table, tmp_path / "first", "--version", "3") == {"url": f"file://{tmp_path}/first"}
    done("clone", table, tmp_path / "known", "--history")
    assert answer("describe", tmp_path / "known")["history_floors"]["stored_ms"] > 0
    assert rows(tmp_path / "newest") == [{"id": 1, "name": "third"}]
    assert rows(tmp_path / "first") == [{"id": 1, "name": "first"}]


def test_describe_sums_kept_versions_up(table: Path) -> None:
    text = done("describe", table)
    (line,) = (line for line in text.splitlines() if line.startswith("checkpoint"))
    assert "4 versions kept for versionRetention, 1, 3, 5, 7: the last one until 20" in line
    assert run("checkpoint").exit_code != 0


def test_trim_and_undo(tmp_path: Path) -> None:
    table = tmp_path / "history"
    store = SlateStore.create(str(table), history=True)
    rows_of_then = {"key": [b"a", b"a"], "value": [b"old", b"new"], "ts": [1000, 2000]}
    store.write(pa.table(rows_of_then), timestampColumn="ts")
    assert (
        done("trim", table, "--after", "1970-01-01T00:00:01") == "Trimmed; version 5. To undo it, restore version 4.\n"
    )
    assert store.get(b"a") == {"key": b"a", "value": b"old"}
    [valid] = rows(table, "--versions", "intervals")
    assert (valid["_valid_to"], valid["_is_current"]) == (None, True)
    assert done("trim", table, "--after", "2000") == "No row version is later; nothing was removed. Version 5.\n"
    assert answer("trim", table, "--after", "2000") == {"version": 5, "undo": None}
    done("restore", table, "--version", "4")
    assert store.get(b"a") == {"key": b"a", "value": b"new"}
    refused("OptionError", "trim", table, "--after", "soon")


def test_a_commit_of_another_writer_is_no_trim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SlateStore.create(str(tmp_path / "t"), history=True)
    trim = SlateStore.trimHistory

    def beside_a_writer(mine: SlateStore, after: str, **named: Any) -> int:
        store.write(pa.table({"key": [b"a"], "value": [b"v"]}), timestamp=500)
        return trim(mine, after, **named)

    monkeypatch.setattr(SlateStore, "trimHistory", beside_a_writer)
    assert answer("trim", tmp_path / "t", "--after", "2000") == {"version": store.detail().version, "undo": None}
    assert done("trim", tmp_path / "t", "--after", "2000").startswith("No row version")
