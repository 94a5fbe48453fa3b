from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore
from tests.support.fixture_databases import FIXTURES, NEWER_FIXTURES
from tests.unit.cli.shell import answer, done, refused

SCHEMA = pa.schema([("tenant", pa.string()), ("id", pa.int64()), ("n", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "orders"
    store = SlateStore.create(str(path), schema=SCHEMA, keyColumns=["tenant", "id"])
    rows = pa.table({"tenant": ["a"] * 2000 + ["b"], "id": [*range(2000), 7], "n": [1] * 2001}, SCHEMA)
    store.write(rows, blockSize="1k")
    return path


def file_of(table: Path) -> str:
    [file] = SlateStore.open(str(table)).files()
    return file.id


def test_the_newest_manifest_by_default(table: Path) -> None:
    found = answer("dump", table)
    assert (found["kind"], found["number"]) == ("manifest", SlateStore.open(str(table)).detail().version)
    [sst] = found["ssts"]
    assert sst["id"] == file_of(table)
    assert found["keys"][sst["last_entry"]] == {"tenant": "b", "id": 7}
    text = done("dump", table)
    assert "tenant=b, id=7" in text
    assert answer("dump", table, "manifest/1")["ssts"] == []


def test_keys_of_a_typed_table_have_their_columns(table: Path) -> None:
    text = done("dump", table, file_of(table), "--rows", "2")
    assert [line.split("  ")[1] for line in text.splitlines()[-2:]] == ["tenant=a, id=0", "tenant=a, id=1"]
    found = answer("dump", table, file_of(table), "--rows", "9000")
    assert [found["keys"][row["key"]]["id"] for row in found["rows"]] == [*range(2000), 7]


def test_long_lists_are_cut_unless_asked(table: Path) -> None:
    blocks = len(answer("dump", table, file_of(table))["blocks"])
    assert blocks > 20
    text = done("dump", table, file_of(table))
    assert f"... and {blocks - 20} more; --all shows them." in text
    whole = done("dump", table, file_of(table), "--all")
    assert "--all shows" not in whole
    assert len(whole.splitlines()) == len(text.splitlines()) + blocks - 21


def test_files_of_clients(tmp_path: Path) -> None:
    text = done("dump", FIXTURES / "wal_only", "wal/2", "--rows", "3", "--text")
    assert [line.split()[:3] for line in text.splitlines()[-3:]] == [
        ["a", "1", "put"],
        ["b", "1", "put"],
        ["c", "1", "delete"],
    ]
    jobs = answer("dump", NEWER_FIXTURES / "running", "compactions")["jobs"]
    assert {job["status"] for job in jobs} >= {"running", "completed"}
    running = next(job for job in jobs if job["status"] == "running")
    assert [part["status"] for part in running["subcompactions"]] == [1, 0]
    assert "subcompactions:" in done("dump", NEWER_FIXTURES / "running", "compactions")


def test_text_of_all_fixtures() -> None:
    for folder in sorted(path.parent for path in FIXTURES.glob("*/manifest")):
        assert done("dump", folder).startswith("file://")
        for path in [*folder.glob("compacted/*.sst"), *folder.glob("wal/*.sst")]:
            assert done("dump", folder, f"{path.parent.name}/{path.name}", "--rows", "2").startswith("file://")


def test_what_cannot_be_shown(table: Path) -> None:
    assert "names no object" in refused("InvalidRequestError", "dump", table, "nothing")
    assert "does not exist" in refused("InvalidRequestError", "dump", table, "wal/99")
    for name in ("manifest", "compactions"):
        refused("TableNotFoundError", "dump", table / "nothing", name)
    [path] = (table / "compacted").iterdir()
    path.write_bytes(path.read_bytes()[:-20])
    assert path.name in refused("CorruptDataError", "dump", table, path.name)
    assert "ttl" in refused("OptionError", "dump", table, "--option", "ttl=5m")
