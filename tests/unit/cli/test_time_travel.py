"""The past in the shell: as-of options, and look-ups in the sequence tracker under both of their names."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.units import ms_to_text
from tests.support.fake_clock import FakeClock
from tests.unit.cli.test_commands import assert_failed, rows, run

START = 1_780_000_000_000
MINUTE = 60_000


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two commits, a minute apart, and the sequence numbers 1 and 2."""
    clock = FakeClock(START)
    store = SlateStore.create(str(tmp_path / "table"), clock=clock)
    for key in (b"a", b"b"):
        store.write(pa.table({"key": [key], "value": [b"v"]}))
        clock.advance(MINUTE)
    return tmp_path / "table"


@pytest.mark.parametrize(
    "option",
    [
        ("--option", "seqAsOf=1"),
        ("--timestamp-as-of", str(START + MINUTE - 1)),
        ("--timestamp-as-of", ms_to_text(START)),
        ("--version-as-of", "3"),
    ],
)
def test_reads_of_the_past(table: Path, option: tuple[str, str]) -> None:
    assert [row["key"] for row in rows(table, "--text", *option)] == ["a"]
    assert run("get", table, "a", "--text", *option).exit_code == 0
    assert run("get", table, "b", "--text", *option).exit_code == 1
    assert "1 file" in run("describe", table, *option).stdout
    assert len(json.loads(run("files", table, "--json", *option).stdout)) == 1
    assert run("export", table, table.parent / "rows.jsonl", "--text", *option).exit_code == 0
    assert len((table.parent / "rows.jsonl").read_text().splitlines()) == 1


def test_what_is_refused(table: Path) -> None:
    assert_failed(run("scan", table, "--timestamp-as-of", str(START - 1)), "HistoryTrimmedError")
    assert_failed(run("scan", table, "--timestamp-as-of", "2100-01-01"), "OptionError")
    assert_failed(run("scan", table, "--timestamp-as-of", str(START), "--version-as-of", "1"), "OptionError")
    assert_failed(run("scan", table, "--timestamp-as-of", "noon"), "OptionError")
    assert_failed(run("scan", table, "--option", "seqAsOf=3"), "OptionError")
    assert_failed(run("scan", table, "--option", "seqAsOf=1", "--version-as-of", "1"), "OptionError")
    assert_failed(run("scan", table, "--option", "seqAsOf=x"), "OptionError")


@pytest.mark.parametrize("command", ["get-timestamp-for-seq", "seq-to-ts"])
def test_times_of_sequence_numbers(table: Path, command: str) -> None:
    assert run(command, table, "2").stdout == f"seq 2  {ms_to_text(START + MINUTE)}  exact\n"
    assert run(command, table, "9").stdout == f"seq 2  {ms_to_text(START + MINUTE)}  rounded down\n"
    assert run(command, table, "0", "--round", "up").stdout == f"seq 1  {ms_to_text(START)}  rounded up\n"
    found = json.loads(run(command, table, "9", "--json").stdout)
    assert found == {"seq": 2, "time_ms": START + MINUTE, "rounded": True}
    missing = run(command, table, "9", "--round", "up")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert missing.stderr == "The sequence tracker has no point at or above sequence number 9.\n"
    assert run(command, table, "9", "--round", "up", "--json").stdout == "null\n"
    assert_failed(run(command, table, "x"), "OptionError")
    assert run(command, table, "1", "--round", "sideways").exit_code == 2


@pytest.mark.parametrize("command", ["get-seq-for-timestamp", "ts-to-seq"])
def test_sequence_numbers_of_times(table: Path, command: str) -> None:
    assert run(command, table, str(START)).stdout == f"seq 1  {ms_to_text(START)}  exact\n"
    assert run(command, table, ms_to_text(START + 1)).stdout == f"seq 1  {ms_to_text(START)}  rounded down\n"
    later = run(command, table, str(START + 1), "--round", "up")
    assert later.stdout == f"seq 2  {ms_to_text(START + MINUTE)}  rounded up\n"
    assert run(command, table, "2020-01-01").stderr == "The sequence tracker has no point at or below 2020-01-01.\n"
    assert_failed(run(command, table, "noon"), "OptionError")
    assert_failed(run(command, table.parent / "nowhere", "1"), "TableNotFoundError")
