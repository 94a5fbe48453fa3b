from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from slatespark import SlateStore, __version__
from slatespark.cli.app import app, built_command
from slatespark.cli.command_table import COMMANDS
from tests.support.fixture_databases import FIXTURES, FixtureDatabase, fixture_databases

CLIENT_VIEW = ("--option", "includeExpired=true", "--option", "mergeOperator=concat")
DATABASES = fixture_databases()


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def rows(*arguments: str | Path) -> list[dict[str, object]]:
    result = run("scan", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def assert_failed(result: Result, error: str, *, code: int = 1) -> None:
    """One line on stderr that begins with the class, nothing on stdout."""
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.startswith(f"{error}: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr


# --- scan -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("database", DATABASES, ids=[database.name for database in DATABASES])
def test_scan_prints_what_the_client_showed(database: FixtureDatabase) -> None:
    found = rows(database.path, *CLIENT_VIEW, "--storage", f"root={FIXTURES}")
    assert [(row["key"], row["value"]) for row in found] == [
        (row[0].hex(), row[1].hex()) for row in database.visible_rows()
    ]


def test_scan_ranges_limit_and_order() -> None:
    table = FIXTURES / "l0_basic"
    everything = [row["key"] for row in rows(table, "--text")]
    assert [row["key"] for row in rows(table, "--text", "--desc")] == everything[::-1]
    assert [row["key"] for row in rows(table, "--text", "--limit", "3")] == everything[:3]
    assert [row["key"] for row in rows(table, "--text", "--limit", "3", "--desc")] == everything[:-4:-1]
    assert rows(table, "--limit", "0") == []
    assert [row["key"] for row in rows(table, "--text", "--limit", str(1 << 64))] == everything
    users = [key for key in everything if str(key).startswith("user/0001")]
    assert users
    assert [row["key"] for row in rows(table, "--text", "--prefix", "user/0001")] == users
    assert [row["key"] for row in rows(table, "--prefix", b"user/0001".hex(), "--text")] == []
    ranged = rows(table, "--option", f"startKey={b'user/00010'.hex()}", "--option", f"endKey={b'user/00020'.hex()}")
    assert [bytes.fromhex(str(row["key"])).decode() for row in ranged] == [
        key for key in everything if "user/00010" <= str(key) < "user/00020"
    ]


def test_scan_shows_every_version_with_its_metadata() -> None:
    found = rows(FIXTURES / "wal_only", "--versions", "all", "--text")
    assert [(row["key"], row["seq"], row["op"], row["value"]) for row in found] == [
        ("a", 3, "delete", None),
        ("a", 1, "put", "1"),
        ("b", 1, "put", "2"),
        ("c", 1, "delete", None),
        ("d", 2, "put", ""),
    ]
    assert str(found[0]["created"]).endswith("Z")


def test_scan_deleted_rows_and_expiry() -> None:
    deleted = rows(FIXTURES / "wal_only", "--option", "includeDeleted=true", "--metadata", "--text")
    assert [row["key"] for row in deleted if row["op"] == "delete"] == ["a", "c"]
    table = FIXTURES / "l0_basic"
    late = {str(row["key"]) for row in rows(table, "--text", "--option", "now=2100-01-01T00:00:00Z")}
    assert not any(key.startswith("ttl/") for key in late)
    assert any(str(row["key"]).startswith("ttl/") for row in rows(table, "--text", "--option", "now=0"))


def test_scan_older_versions() -> None:
    table = FIXTURES / "checkpoints"
    assert rows(table, "--option", "checkpoint=named") == rows(table, "--version-as-of", "4") != rows(table)


def test_scan_as_text_is_aligned(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"))
    store.write(pa.table({"key": [b"a", b"long", b"\xff"], "value": [b"1", b"two\nlines", b"\xfe"]}))
    result = run("scan", tmp_path / "t", "--text")
    assert result.stdout.splitlines() == ["key   value", "a     1", "long  two\\nlines", "0xff  0xfe"]
    assert rows(tmp_path / "t", "--text")[2] == {"key": {"hex": "ff"}, "value": {"hex": "fe"}}
    assert run("scan", tmp_path / "t", "--prefix", "00").stdout == ""


# --- get, describe, files -------------------------------------------------------------------------------------------


def test_get() -> None:
    result = run("get", FIXTURES / "wal_only", "b", "--text", "--json", "--metadata")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["value"] == "2"
    assert run("get", FIXTURES / "wal_only", "62").stdout.splitlines()[1].split() == ["62", "32"]


def test_get_of_a_key_that_is_not_there() -> None:
    result = run("get", FIXTURES / "wal_only", "a", "--text")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "There is no row with the key a.\n"
    assert run("get", FIXTURES / "wal_only", "a", "--text", "--json").stdout == "null\n"


def test_describe() -> None:
    facts = json.loads(run("describe", FIXTURES / "l0_basic", "--rows", "--json").stdout)
    assert (facts["version"], facts["l0_views"], facts["rows"]["deletes"]) == (5, 2, 18)
    assert "2 L0 views" in run("describe", FIXTURES / "l0_basic").stdout


def test_files() -> None:
    found = json.loads(run("files", FIXTURES / "many_runs", "--rows", "--text", "--json").stdout)
    assert (found[0]["layer"], found[0]["start"], found[0]["rows"]) == ("L0", "k003", 1)
    lines = run("files", FIXTURES / "many_runs").stdout.splitlines()
    assert len(lines) == len(found) + 1
    assert lines[0].split()[0] == "layer"


# --- verify ---------------------------------------------------------------------------------------------------------


def test_verify_of_a_sound_table() -> None:
    result = run("verify", FIXTURES / "compacted", "--all-versions")
    assert result.exit_code == 0
    assert result.stdout.endswith("No faults found.\n")


def test_verify_of_a_damaged_table(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "codec_none", tmp_path / "t")
    path = max((tmp_path / "t" / "compacted").iterdir())
    data = bytearray(path.read_bytes())
    data[10] ^= 1
    path.write_bytes(data)
    result = run("verify", tmp_path / "t", "--json")
    assert result.exit_code == 1
    [finding] = json.loads(result.stdout)["findings"]
    assert finding["object"].endswith(path.name)
    assert (finding["section"], finding["offset"], finding["is_damage"]) == ("block 0", 0, True)


def test_verify_that_cannot_be_done(tmp_path: Path) -> None:
    assert_failed(run("verify", tmp_path), "TableNotFoundError", code=2)
    shutil.copytree(FIXTURES / "l0_basic", tmp_path / "t")
    shutil.rmtree(tmp_path / "t" / "wal")
    assert run("verify", tmp_path / "t").exit_code == 2


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["scan", "nowhere"], "TableNotFoundError"),
        (["describe", "nowhere"], "TableNotFoundError"),
        (["files", "nowhere"], "TableNotFoundError"),
        (["get", "nowhere", "00"], "TableNotFoundError"),
        (["get", str(FIXTURES / "wal_only"), "xy"], "OptionError"),
        (["get", str(FIXTURES / "wal_only"), "61", "62"], "InvalidRequestError"),
        (["get", str(FIXTURES / "wal_only"), "61", "--option", "startKey=61"], "OptionError"),
        (["scan", "nowhere", "--prefix", "xy"], "OptionError"),
        (["scan", "nowhere", "--option", "now=soon"], "OptionError"),
        (["scan", "nowhere", "--prefix", "00", "--option", "endKey=01"], "OptionError"),
        (["scan", "nowhere", "--version-as-of", "1", "--option", "checkpoint=x"], "OptionError"),
        (["scan", "nowhere", "--storage", "sesame"], "OptionError"),
    ],
)
def test_errors_are_one_line(arguments: list[str], error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert_failed(run(*arguments), error)


def test_operands_without_an_operator() -> None:
    assert_failed(run("scan", FIXTURES / "merge"), "OptionError")


def test_no_secret_is_shown() -> None:
    result = run("scan", "nowhere", "--storage", "=hunter2")
    assert result.exit_code == 1
    assert "hunter2" not in result.output


@pytest.mark.parametrize(
    "arguments", [["scan"], ["scan", "t", "--unknown"], ["unknown"], ["scan", "t", "--limit", "-1"]]
)
def test_usage_errors(arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


def test_version_and_help() -> None:
    assert run("--version").stdout == f"slatespark {__version__}\n"
    shown = run("--help").stdout
    places = [shown.index(f"│ {name} ") for name, line in COMMANDS.items() if not line.hidden]
    assert places == sorted(places)


def test_help_says_of_each_command_what_the_command_says() -> None:
    for name, line in COMMANDS.items():
        command = built_command(name)
        assert (command.help.partition("\n\n")[0].replace("\n", " "), command.hidden) == (line.help, line.hidden)


def test_help_describes_every_argument_and_option() -> None:
    for name in COMMANDS:
        silent = [found.name for found in built_command(name).params if not getattr(found, "help", None)]
        assert (name, silent) == (name, [])


def test_help_imports_no_command() -> None:
    asked = "import sys; from slatespark.cli.main import main\ntry: main()\nfinally: print([*sys.modules])"
    done = subprocess.run([sys.executable, "-c", asked, "--help"], capture_output=True, text=True, check=True)
    shown, _, modules = done.stdout.rpartition("[")
    assert "│ prove-absent " in shown
    assert not {"pyarrow", "numpy", "slatespark.slate_store"} & set(modules.replace("'", "").rstrip("]\n").split(", "))


@pytest.mark.parametrize("module", ["slatespark", "slatespark.cli"])
def test_python_m(module: str) -> None:
    asked = [sys.executable, "-m", module, "scan", str(FIXTURES / "wal_only"), "--limit", "1", "--text"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["key", "value", "b", "2"]
    assert done.stderr == ""


def test_looking_needs_no_spark() -> None:
    asked = "import sys, slatespark.cli.main; print({'pyspark', 'numba', 's3fs', 'slatedb'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
