"""Rows with an expiry each, in the shell: from files that create a table, and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from tests.unit.cli.shell import answer, done, refused, rows


def test_put_takes_an_expiry_with_each_row(tmp_path: Path) -> None:
    table, file = tmp_path / "t", tmp_path / "rows.csv"
    file.write_text("id,n,Keep\n1,5,3600000\n2,6,\n")
    done("import", table, file, "--key-columns", "id", "--option", "ttlColumn=keep", "--option", "ttl=2h")
    done("put", table, json.dumps({"id": 3, "n": 7, "keep": 0}), "--option", "ttlColumn=keep")
    at = {"id": 4, "n": 8, "until": "2100-01-01T00:00:00Z"}
    done("put", table, json.dumps(at), "--option", "expireAtColumn=until")
    assert rows(table) == [{"id": 1, "n": 5}, {"id": 2, "n": 6}, {"id": 4, "n": 8}]
    assert answer("get", table, "4", "--metadata")["_expire_ts"].startswith("2100-01-01T00:00:00")
    assert "-1 in some row" in refused(
        "SchemaError", "put", table, json.dumps({"id": 3, "n": 7, "keep": -1}), "--option", "ttlColumn=keep"
    )


@pytest.mark.parametrize("kind", [pa.duration("us"), pa.int32()], ids=str)
def test_import_from_parquet_creates_the_table_without_the_column(kind: pa.DataType, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table, file = tmp_path / "t", tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": [1, 2], "keep": pa.array([0, None], kind)}), file)
    done("import", table, file, "--key-columns", "id", "--option", "ttlColumn=keep")
    assert rows(table) == [{"id": 2}]
    assert rows(table, "--option", "includeExpired=true") == [{"id": 1}, {"id": 2}]


def test_import_creates_a_raw_table_without_the_columns_that_are_not_stored(tmp_path: Path) -> None:
    table, file = tmp_path / "t", tmp_path / "rows.jsonl"
    given = [("a", 0, "put"), ("b", 1, "delete"), ("c", None, "put")]
    lines = [json.dumps({"key": key, "value": "v", "keep": keep, "op": op}) for key, keep, op in given]
    file.write_text("\n".join(lines))
    done("import", table, file, "--text", "--option", "ttlColumn=keep", "--option", "opColumn=op")
    assert [row["key"] for row in rows(table, "--text")] == ["c"]
    assert [row["key"] for row in rows(table, "--text", "--option", "includeExpired=true")] == ["a", "c"]
