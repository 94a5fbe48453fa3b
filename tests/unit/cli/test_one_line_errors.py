"""What cannot be read, written or named is one line on stderr, never a traceback."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import typer

from slatespark import SlateStore
from slatespark.cli.output import failing_with
from tests.unit.cli.shell import done, refused, rows, run

NOT_UTF8 = "\udcff"  # the byte ff of a command line, as Python has it


@pytest.fixture
def table(tmp_path: Path) -> Path:
    schema = pa.schema([("id", pa.string()), ("s", pa.string())])
    store = SlateStore.create(str(tmp_path / "t"), schema=schema, keyColumns=["id"])
    store.write(pa.table({"id": ["a"], "s": ["x"]}, schema=schema))
    return tmp_path / "t"


def test_halves_of_surrogate_pairs(table: Path, tmp_path: Path) -> None:
    SlateStore.create(str(tmp_path / "raw"))
    refused("SchemaError", "put", tmp_path / "raw", '{"key": "\\ud800", "value": "x"}', "--text")
    refused("SchemaError", "put", table, '{"id": "1", "s": "\\ud800"}')
    for more in ([], ["--merge-schema"]):
        refused("SchemaError", "put", table, '{"id": "1", "s": "", "\\ud800": 1}', *more)
    refused("SchemaError", "put", table, '{"id": "1", "s": "", "more": {"\\ud800": 1}}', "--merge-schema")
    (tmp_path / "in.jsonl").write_text('{"id": "1", "\\ud800": 1}')
    refused("SchemaError", "import", tmp_path / "new", tmp_path / "in.jsonl", "--key-columns", "id")
    assert rows(table) == [{"id": "a", "s": "x"}]


@pytest.mark.parametrize(
    ("command", "exit_code"),
    [("get", 1), ("delete", 1), ("prove-absent", 2), ("erase", 2), ("explain erase", 1)],
)
def test_keys_that_are_not_utf8(table: Path, command: str, exit_code: int) -> None:
    result = run(*command.split(), table, NOT_UTF8)
    assert result.exit_code == exit_code
    assert result.stderr.startswith("InvalidRequestError: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("depth", [150, 480, 900, 100_000])
@pytest.mark.parametrize("brackets", ["[]", ('{"a":', "}")])
def test_values_that_are_nested_too_deep(tmp_path: Path, depth: int, brackets: str) -> None:
    (tmp_path / "in.jsonl").write_text(f'{{"id": 1, "v": {brackets[0] * depth}1{brackets[1] * depth}}}')
    result = run("import", tmp_path / "t", tmp_path / "in.jsonl", "--key-columns", "id")
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1


def test_file_names_that_are_not_utf8(table: Path, tmp_path: Path) -> None:
    file = f"{tmp_path}/{NOT_UTF8}"
    refused("InvalidRequestError", "import", table, file, "--format", "parquet")
    done("export", table, file, "--format", "parquet")
    done("import", table, file, "--format", "parquet")


def test_clones_whose_name_is_not_utf8(table: Path, tmp_path: Path) -> None:
    refused("InvalidRequestError", "clone", table, f"{tmp_path}/{NOT_UTF8}")
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_names_that_no_file_can_have(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused("InvalidRequestError", "export", table, f"{'a' * 260}.csv")
    refused("InvalidRequestError", "export", table, ".", "--format", "csv", "--overwrite")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["scan"], ["--version"], ["--help"], ["scan", "--help"]])
def test_output_that_does_not_fit(table: Path, arguments: list[str], unbuffered: str) -> None:
    command = [sys.executable, "-m", "slatespark.cli", *arguments, *([str(table)] if arguments == ["scan"] else [])]
    with Path("/dev/full").open("wb") as full:
        found = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, env={"PYTHONUNBUFFERED": unbuffered}, check=False
        )
    assert found.returncode == 1
    assert found.stderr.startswith(b"SlateError: ")
    assert found.stderr.count(b"\n") == 1
    assert b"Make room" in found.stderr


@pytest.mark.parametrize("arguments", ["scan", "--version", "verify"])
def test_output_that_is_closed(table: Path, arguments: str) -> None:
    command = shlex.join([sys.executable, "-m", "slatespark.cli", arguments, str(table)])
    found = subprocess.run(["/bin/sh", "-c", f"{command} >&-"], stderr=subprocess.PIPE, check=False)
    assert found.returncode == 2
    assert found.stderr.startswith(b"InvalidRequestError: ")
    assert found.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates")]
)
def test_the_last_resort(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    @failing_with(2)
    def command() -> None:
        raise error

    with pytest.raises(typer.Exit) as found:
        command()
    assert found.value.exit_code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_whoever_reads_may_stop(tmp_path: Path) -> None:
    table = SlateStore.create(str(tmp_path / "t"))
    table.write(pa.table({"key": [b"%05d" % number for number in range(20_000)], "value": [b"v"] * 20_000}))
    command = shlex.join([sys.executable, "-m", "slatespark", "scan", str(tmp_path / "t"), "--json"])
    ended = subprocess.run(  # the shell's own pipe
        f"set -o pipefail; {command} | head -n1", shell=True, executable="bash", capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr, ended.stdout.count("\n")) == (141, "", 1)


def test_text_of_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes("id,city\n1,Köln\n".encode("latin-1"))
    line = refused("InvalidRequestError", "import", tmp_path / "t", tmp_path / "in.csv", "--key-columns", "id")
    assert "city" in line


def test_texts_from_data_do_not_command_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("k,v\n1,2\n1,2,\x1b[31mevil\n")
    line = refused("InvalidRequestError", "import", tmp_path / "t", tmp_path / "in.csv", "--key-columns", "k")
    assert "\x1b" not in line
    SlateStore.create(str(tmp_path / "s"), "id BIGINT, s STRUCT<`\x1b[31mm`: INT>", "id")
    assert "\x1b" not in done("describe", tmp_path / "s")


def test_json_on_standard_output_does_not_command_the_terminal(tmp_path: Path) -> None:
    evil = "\x9b31m\u202eä"
    store = SlateStore.create(str(tmp_path / "t"), f"id BIGINT, `{evil}` STRING", "id")
    store.write(pa.table({"id": [1], evil: [evil]}))
    for command in (("scan",), ("get", "1"), ("describe",)):
        shown = done(command[0], tmp_path / "t", *command[1:], "--json")
        assert shown.replace("\n", "").isprintable()
        assert evil in json.dumps(json.loads(shown), ensure_ascii=False)
    done("export", tmp_path / "t", tmp_path / "t.json")
    assert evil in (tmp_path / "t.json").read_text()


@pytest.mark.parametrize("name", ["self", "cls"])
def test_names_of_python_are_no_options(table: Path, tmp_path: Path, name: str) -> None:
    refused("OptionError", "set-properties", table, f"{name}=1")
    refused("OptionError", "create", tmp_path / "new", "--option", f"{name}=1")
    refused("OptionError", "create", tmp_path / "new", "--storage", f"{name}=1")
    refused("OptionError", "put", table, '{"id": "1", "s": ""}', "--option", f"{name}=1")


def test_what_is_given_twice_or_for_several_tables(table: Path) -> None:
    refused("OptionError", "explain", "read", table, "--price", "get=1", "--price", "get=2")
    refused("OptionError", "set-properties", table, "retention=7d", "retention=8d")
    refused("OptionError", "worker", table, table, "--once", "--option", f"walPath={table}")
    refused("InvalidRequestError", "describe", "~nosuchuser/table")
