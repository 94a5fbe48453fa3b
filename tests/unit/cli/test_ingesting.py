"""`ingest`: files of `SstWriter` in the shell."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from slatespark import SstWriter
from tests.unit.cli.shell import answer, done, refused, rows, run


def make(path: Path, keys: list[int]) -> Path:
    schema = pa.schema([("id", pa.int32()), ("n", pa.int32())])
    SstWriter(path, schema, "id").write(pa.table({"id": keys, "n": keys}, schema))
    return path


def test_files_are_published_in_one_commit(tmp_path: Path) -> None:
    table = tmp_path / "t"
    done("create", table, "--columns", "id INT, n INT", "--key-columns", "id")
    done("put", table, json.dumps({"id": 3, "n": 0}))
    first, second = make(tmp_path / "a.sst", [1, 3]), make(tmp_path / "b.sst", [2])
    assert done("ingest", table, first, second) == "Ingested 2 files; version 5.\n"
    assert [(row["id"], row["n"]) for row in rows(table)] == [(1, 1), (2, 2), (3, 3)]


def test_a_repeated_ingest_does_nothing(tmp_path: Path) -> None:
    table, file = tmp_path / "t", make(tmp_path / "a.sst", [1])
    done("create", table, "--columns", "id INT, n INT", "--key-columns", "id")
    once = ("--option", "txnAppId=load", "--option", "txnVersion=1")
    assert answer("ingest", table, file, *once) == {"version": 3, "files": 1}
    assert "Nothing was ingested" in done("ingest", table, file, *once)
    assert answer("ingest", table, file, *once) == {"version": 3, "files": 0}


def test_what_cannot_be_ingested(tmp_path: Path) -> None:
    table, file = tmp_path / "t", make(tmp_path / "a.sst", [1])
    done("create", table)
    refused("SchemaError", "ingest", table, file)
    refused("InvalidRequestError", "ingest", table, tmp_path / "none.sst")
    (rows := tmp_path / "rows.csv").write_text("key,value\n")
    refused("InvalidRequestError", "ingest", table, rows)
    refused("OptionError", "ingest", table, file, "--option", "ttl=7d")
    assert run("ingest", table).exit_code == 2
