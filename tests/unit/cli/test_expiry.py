from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
from typer.testing import CliRunner, Result

from slatespark import SlateStore
from slatespark.cli.app import app
from tests.support.fixture_databases import FIXTURES


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["expiry", *(str(argument) for argument in arguments)])


def test_expiry(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"))
    store.write(pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"]}), ttl="1000d")
    store.write(pa.table({"key": [b"a"], "value": [b"3"]}))
    now = "2020-01-01"
    shown = run(tmp_path / "t", "--option", f"now={now}", "--per", "day")
    assert shown.exit_code == 0, shown.stderr
    assert "now         2020-01-01T00:00:00.000Z" in shown.stdout
    assert "3 row versions" in shown.stdout
    found = json.loads(run(tmp_path / "t", "--option", f"now={now}", "--json").stdout)
    assert (found["per"], found["rows"], [part["state"] for part in found["parts"]]) == (
        "day",
        3,
        ["expired", "expires", "never"],
    )
    older = json.loads(run(tmp_path / "t", "--version-as-of", "3", "--json").stdout)
    assert (older["version"], older["rows"]) == (3, 2)


def test_a_database_of_the_client() -> None:
    found = json.loads(run(FIXTURES / "l0_basic", "--json").stdout)
    assert found["files_read"] == found["files"] > 0


def test_errors_are_one_line(tmp_path: Path) -> None:
    SlateStore.create(str(tmp_path / "t"))
    failed = run(tmp_path / "t", "--per", "week")
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert failed.stderr == "OptionError: per: 'week' is not valid. Choose one of hour, day.\n"
