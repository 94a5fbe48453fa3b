"""Options that have no flag: `--option NAME=VALUE`, by the names and checks of the library."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.cli.app import built_command
from slatespark.cli.command_table import COMMANDS
from slatespark.options import ReadOptions, WriteOptions, option_keys
from tests.unit.cli.shell import answer, done, refused, rows, run

MAX_PARAMETERS = 14


@pytest.fixture
def table(tmp_path: Path) -> Path:
    store = SlateStore.create(str(tmp_path / "t"))
    for number in range(5):
        store.write(pa.table({"key": [b"a", b"b%d" % number], "value": [b"%d" % number] * 2}))
    return tmp_path / "t"


def commands() -> Iterator[tuple[str, Any]]:
    """The name of every command, and the function that has its parameters in the shell."""
    for name in COMMANDS:
        command = built_command(name)
        for inner in getattr(command, "commands", {"": command}).values():
            yield name if inner is command else f"{name} {inner.name}", inner.callback


@pytest.mark.parametrize(("name", "function"), [pytest.param(*found, id=found[0]) for found in commands()])
def test_commands_have_few_parameters_and_take_options_by_name(name: str, function: Any) -> None:
    parameters = inspect.signature(function).parameters
    assert len(parameters) <= MAX_PARAMETERS
    assert ("option" in parameters) == (name != "demo")


@pytest.mark.parametrize(("name", "function"), [pytest.param(*found, id=found[0]) for found in commands()])
def test_the_options_that_help_names_exist(name: str, function: Any) -> None:
    parameters = inspect.signature(function, eval_str=True).parameters
    if "option" not in parameters:
        return
    known = {*option_keys(ReadOptions), *option_keys(WriteOptions)}
    known |= {"minCompactionSources", "maxCompactionSources", "includeSizeThreshold"}
    text = parameters["option"].annotation.__metadata__[0].help
    listed = set(re.findall(r"\b[a-z]+[A-Z]\w*", text))
    assert listed
    assert listed <= known


def test_read_options(table: Path) -> None:
    assert [row["key"] for row in rows(table, "--text", "--option", "startKey=6230", "--option", "endKey=6232")] == [
        "b0",
        "b1",
    ]
    assert rows(table, "--option", "VERSION_AS_OF=1") == []
    assert answer("get", table, "61", "--option", "seqAsOf=2")["value"] == "31"
    assert answer("describe", table, "--option", "versionAsOf=1")["files"] == 0


def test_options_of_compactions(table: Path) -> None:
    assert answer("compact", table, "--option", "minCompactionSources=6", "--dry-run")["jobs"] == []
    few = answer("compact", table, "--option", "maxcompactionsources=4", "--option", "includeSizeThreshold=2.5")
    assert len(few["jobs"][0]["sources"]) == 4


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["scan", "TABLE", "--option", "incudeExpired=true"], "includeExpired"),
        (["describe", "TABLE", "--option", "chekpoint=x"], "checkpoint"),
        (["put", "TABLE", "{}", "--option", "compresion=zstd"], "compression"),
        (["delete", "TABLE", "61", "--option", "ifLastSec=1"], "ifLastSeq"),
        (["compact", "TABLE", "--option", "minSources=2"], "minCompactionSources"),
        (["compact", "TABLE", "--option", "full=true"], "--full"),
        (["compact", "TABLE", "--option", "ttl=1d"], "ttl"),
        (["compact", "TABLE", "--option", "includeSizeThreshold=x"], "includeSizeThreshold"),
        (["history", "TABLE", "--option", "walPaht=x"], "walPath"),
        (["checkpoint", "list", "TABLE", "--option", "ttl=1d"], "ttl"),
        (["scan", "TABLE", "--version-as-of", "1", "--option", "versionasof=1"], "versionAsOf"),
        (["scan", "TABLE", "--option", "now=0", "--option", "NOW=1"], "now"),
        (["scan", "TABLE", "--option", "path=other"], "path"),
        (["scan", "TABLE", "--storage", "root=a", "--option", "storage.root=b"], "storage.root"),
        (["delete", "TABLE", "61", "--option", "operation=merge"], "operation"),
        (["scan", "TABLE", "--option", "includeExpired"], "NAME=VALUE"),
        (["vacuum", "TABLE", "--option", "walPath="], "walPath"),
    ],
)
def test_bad_options_are_refused(arguments: list[str], says: str, table: Path) -> None:
    assert says in refused("OptionError", *(str(table) if word == "TABLE" else word for word in arguments))
    assert SlateStore.open(str(table)).resolve().version == 11


def test_a_wal_apart_from_the_table(tmp_path: Path) -> None:
    table, wal = tmp_path / "t", ("--option", f"walPath={tmp_path / 'logs'}")
    SlateStore.create(str(table), walPath=str(tmp_path / "logs"))
    done("put", table, '{"key": "61", "value": "31"}', *wal)
    assert rows(table, *wal) == [{"key": "61", "value": "31"}]
    for command in ("history", "verify", "files"):
        done(command, table, *wal)
    assert (tmp_path / "logs" / "wal").exists()


def test_options_of_the_storage_have_two_spellings(table: Path) -> None:
    for given in (("--storage", "root=/"), ("--option", "storage.root=/"), ("--storage", "storage.root=/")):
        assert len(rows(table, *given)) == 6
        done("history", table, *given)


def test_no_secret_of_an_option_is_shown(table: Path) -> None:
    result = run("scan", table, "--option", "storage.=hunter2")
    assert result.exit_code == 1
    assert "hunter2" not in result.output


@pytest.mark.parametrize(
    "command",
    [
        ("restore", "t", "--timestamp", "2030-01-01", "--option", "timestamp=1"),
        ("create", "new", "--columns", "id INT", "--key-columns", "id", "--option", "schema=1"),
        ("create", "new", "--columns", "id INT", "--key-columns", "id", "--option", "keyColumns=1"),
        ("create", "new", "--option", "keyColumns=1"),
        ("create", "new", "--storage", "path=1"),
        ("create", "new", "--option", "anything=1", "--storage", "anything=1"),
        ("history", "t", "--storage", "path=1"),
        ("history", "t", "--storage", "clock=1"),
        ("import", "t", "in.jsonl", "--storage", "path=1"),
        ("import", "new", "in.jsonl", "--key-columns", "key", "--storage", "schema=1"),
        ("reap", "t", "--storage", "options=1"),
        ("upkeep", "t", "--once", "--storage", "duties=1"),
        ("worker", "t", "--once", "--storage", "options=1"),
    ],
)
def test_options_named_like_an_argument_of_the_call(
    table: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(table.parent)
    Path("in.jsonl").write_text('{"key": "61", "value": "62"}\n')
    before = len(SlateStore.open("t").history())
    refused("OptionError", *command)
    assert len(SlateStore.open("t").history()) == before
    assert not Path("new").exists()
