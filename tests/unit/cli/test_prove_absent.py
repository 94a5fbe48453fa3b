"""`prove-absent` and `erase`: whether rows are gone, in the shell."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore
from tests.unit.cli.shell import answer, done, run


@pytest.fixture
def table(tmp_path: Path) -> Path:
    schema = pa.schema([("tenant", pa.string()), ("id", pa.int64()), ("n", pa.int64())])
    store = SlateStore.create(tmp_path / "t", schema, "tenant,id", versionRetention="0ms")
    store.write(pa.table({"tenant": ["a", "b"], "id": [-1, 2], "n": [1, 1]}, schema))
    return tmp_path / "t"


def test_a_stored_row_is_found(table: Path) -> None:
    SlateStore.open(table).createCheckpoint("keep")
    result = run("prove-absent", table, "a", "-1")
    assert result.exit_code == 1
    assert "still stored in 1 of" in result.stdout
    assert result.stdout.splitlines()[-1].endswith("the newest version, keep")
    assert "tenant=a, id=-1" in result.stdout
    assert run("prove-absent", table, "--where", "tenant = 'b'").exit_code == 1
    assert run("prove-absent", table, "c", "1").exit_code == 0


def test_a_row_is_gone_after_a_vacuum(table: Path) -> None:
    done("delete", table, "a", "-1")
    assert run("prove-absent", table, "a", "-1").exit_code == 1
    done("compact", table, "--full")
    found = run("prove-absent", table, "a", "-1")
    assert found.exit_code == 1
    assert "slatespark/version/" in found.stdout  # kept for reads that began before
    for point in answer("checkpoint", "list", table, "--all"):
        done("checkpoint", "delete", table, point["id"])
    assert "older versions" in run("prove-absent", table, "a", "-1").stdout
    done("vacuum", table, "--min-age", "0s", "--force")
    assert "rows              gone: none in " in done("prove-absent", table, "a", "-1")
    report = answer("prove-absent", table, "--where", "tenant = 'a'")
    assert (report["gone"], report["found"], report["unread"]) == (True, [], [])


def test_bytes_that_cannot_be_searched_prove_nothing(table: Path) -> None:
    (table / "compacted" / "strange.bin").write_bytes(b"?")
    result = run("prove-absent", table, "c", "1")
    assert result.exit_code == 2
    assert "strange.bin" in result.stdout
    damaged = next(path for path in (table / "compacted").iterdir() if path.suffix == ".sst")
    damaged.write_bytes(b"?" * 100)
    result = run("prove-absent", table, "a", "-1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("UnsupportedFormatError: ")


def test_keys_of_a_raw_table(tmp_path: Path) -> None:
    SlateStore.create(tmp_path / "t").write(pa.table({"key": [b"apple"], "value": [b"1"]}))
    found = run("prove-absent", tmp_path / "t", "apple", "--text")
    assert found.exit_code == 1
    assert "  apple  " in found.stdout
    found = run("prove-absent", tmp_path / "t", b"apple".hex())
    assert found.exit_code == 1
    assert f"  {b'apple'.hex()}  " in found.stdout
    assert run("prove-absent", tmp_path / "t", "--option", f"keyPrefix={b'ap'.hex()}").exit_code == 1
    assert run("prove-absent", tmp_path / "t", b"pear".hex()).exit_code == 0


@pytest.mark.parametrize("arguments", [[], ["a", "1", "--where", "tenant = 'a'"], ["a"]])
def test_neither_a_key_nor_a_range(table: Path, arguments: list[str]) -> None:
    result = run("prove-absent", table, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")


def test_erase(table: Path) -> None:
    SlateStore.open(table).createCheckpoint("keep", lifetime="1h")
    result = run("erase", table, "a", "-1")
    assert result.exit_code == 1
    assert "erased            1 row version by version " in result.stdout
    assert "keep, until " in result.stdout
    assert "erase again then" in result.stdout
    done("checkpoint", "delete", table, "keep")
    assert "erased            nothing: the newest version held no row" in done("erase", table, "a", "-1")
    report = answer("erase", table, "--where", "tenant = 'b'", "--release-versions")
    assert (report["gone"], report["erasure"]["removed"]["rows"]) == (True, 1)


def test_keys_in_a_file(table: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.csv"
    keys.write_text("id,tenant\n2,b\n-1,a\n")
    assert run("prove-absent", table, "--file", keys).exit_code == 1
    assert answer("erase", table, "--file", keys, "--option", "compression=zstd")["gone"]
    done("prove-absent", table, "--file", keys)
    lines = tmp_path / "keys.jsonl"
    lines.write_text('{"tenant": "a", "id": 3}\n{"tenant": "a"}\n')
    result = run("erase", table, "--file", lines)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "key columns: tenant, id" in result.stderr


def test_names_are_told_apart_from_rows(table: Path) -> None:
    done("delete", table, "--range", "--where", "tenant = 'a' AND id = -1")
    done("compact", table, "--full", "--option", "compression=zstd")
    for point in answer("checkpoint", "list", table, "--all"):
        done("checkpoint", "delete", table, point["id"])
    done("vacuum", table, "--min-age", "0s", "--force")
    result = run("prove-absent", table, "a", "-1")
    assert result.exit_code == 1
    assert "rows              gone" in result.stdout
    assert "1 object without rows still names a key" in result.stdout
    assert "none: a commit record names it" in result.stdout
    assert "records cleared   1" in done("erase", table, "a", "-1")
