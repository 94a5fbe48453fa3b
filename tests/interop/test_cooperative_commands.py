"""The command line beside a live client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from slatespark.cli.app import app
from tests.support.client import ClientOptions, Location, Put
from tests.support.live_client import LiveClient
from tests.support.observers import awaited

COOPERATE = ("--option", "ifClientActive=cooperate", "--option", "clientTimeout=20s")
OPTIONS = ClientOptions(
    compactor=True, settings={"compactor_options.poll_interval": "50ms", "compactor_options.worker": None}
)


@pytest.fixture
def live(database: Location) -> Iterator[LiveClient]:
    with LiveClient(database, OPTIONS) as client:
        client.write([Put(b"a", b"client"), Put(b"b", b"client")])
        client.flush_memtable()
        yield client


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def shows(live: LiveClient, expected: dict[bytes, bytes]) -> None:
    assert awaited(lambda: {row.key: row.value for row in live.scan()}, expected) == expected


def test_put_delete_and_import(live: LiveClient, tmp_path: Path) -> None:
    table = live.location.folder
    result = run("put", table, '{"key": "a", "value": "put"}', "--text", "--json", *COOPERATE)
    assert (result.exit_code, json.loads(result.stdout)["rows"]) == (0, 1), result.stderr
    shows(live, {b"a": b"put", b"b": b"client"})
    result = run("delete", table, "b", "--text", *COOPERATE)
    assert result.exit_code == 0, result.stderr
    shows(live, {b"a": b"put"})
    file = tmp_path / "rows.csv"
    file.write_text("key,value\nc,import\nd,import\n")
    result = run("import", table, file, "--text", *COOPERATE)
    assert result.exit_code == 0, result.stderr
    shows(live, {b"a": b"put", b"c": b"import", b"d": b"import"})
    result = run("delete", table, "--where", "key IN (X'63', X'64')", *COOPERATE)
    assert result.exit_code == 0, result.stderr
    shows(live, {b"a": b"put"})
    assert live.is_open()


def test_refusals(live: LiveClient, tmp_path: Path) -> None:
    table = live.location.folder
    for arguments in (["--where", "value = X'00'"], ["--where", "key = X'61'", "--range"]):
        result = run("delete", table, *arguments, *COOPERATE)
        assert (result.exit_code, result.stderr.split(":")[0]) == (1, "OptionError")
    file = tmp_path / "rows.csv"
    file.write_text("key,value\nc,import\n")
    result = run("import", tmp_path / "nothing", file, "--text", *COOPERATE)
    assert (result.exit_code, result.stderr.split(":")[0]) == (1, "TableNotFoundError")
    assert not (tmp_path / "nothing").exists()
