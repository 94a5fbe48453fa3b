"""Rows with a time each, in the shell."""

from __future__ import annotations

import json
from pathlib import Path

from tests.unit.cli.shell import answer, done, refused, rows


def test_import_creates_a_history_table_and_put_goes_on(tmp_path: Path) -> None:
    table, file = tmp_path / "t", tmp_path / "rows.csv"
    file.write_text("id,price,since\n1,5,2020-01-01T00:00:00Z\n1,6,2021-01-01T00:00:00Z\n2,7,2020-01-01T00:00:00Z\n")
    timed = ("--option", "timestampColumn=since")
    done("import", table, file, "--key-columns", "id", "--option", "history=true", *timed)
    done("put", table, json.dumps({"id": 1, "price": 8, "since": "2022-01-01T00:00:00Z"}), *timed)
    assert [(row["id"], row["price"]) for row in rows(table)] == [(1, 8), (2, 7)]
    assert answer("get", table, "1", "--timestamp-as-of", "2021-06-01T00:00:00Z")["price"] == 6
    known_first = ("--timestamp-as-of", "2021-06-01T00:00:00Z", "--version-as-of", "1")
    assert rows(table, *known_first) == []
    late = json.dumps({"id": 1, "price": 9, "since": "2021-06-01T00:00:00Z"})
    assert "id=1 at 2021-06-01T00:00:00.000Z" in refused("CommitConflictError", "put", table, late, *timed)
    done("delete", table, "2", "--option", "timestamp=2023-01-01T00:00:00Z")
    assert [(row["id"], row["price"]) for row in rows(table)] == [(1, 8)]


def test_a_table_of_bytes_takes_the_time_beside_them(tmp_path: Path) -> None:
    from slatespark import SlateStore

    table = tmp_path / "t"
    SlateStore.create(str(table), history=True)
    row = json.dumps({"key": "k", "value": "v", "at": "2020-01-01T00:00:00Z"})
    done("put", table, row, "--text", "--option", "timestampColumn=at")
    [shown] = rows(table, "--text", "--metadata")
    assert (shown["value"], shown["created"][:10]) == ("v", "2020-01-01")


def test_an_import_creates_a_table_of_bytes_without_the_time(tmp_path: Path) -> None:
    file, history = tmp_path / "rows.jsonl", ("--option", "history=true", "--option", "timestampColumn=at")
    file.write_text(json.dumps({"key": "k", "value": "v", "at": "2020-01-01T00:00:00Z"}))
    done("import", tmp_path / "raw", file, "--text", *history)
    texts = ("--key-columns", "key", "--option", "valueFormat=utf8", "--type", "at=TIMESTAMP")
    done("import", tmp_path / "texts", file, *texts, *history)
    for name in ("raw", "texts"):
        [shown] = rows(tmp_path / name, "--text", "--timestamp-as-of", "2020-06-01T00:00:00Z")
        assert (shown["key"], shown["value"]) == ("k", "v")
