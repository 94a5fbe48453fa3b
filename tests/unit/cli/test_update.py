"""`slatespark update`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from tests.unit.cli.shell import answer, done, refused, rows

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int32()), ("note", pa.string()), ("price", pa.decimal128(6, 2))])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    store = SlateStore.create(tmp_path / "t", SCHEMA, keyColumns="id")
    store.write(pa.table({"id": [1, 2], "n": [10, 20], "note": ["a", "b"], "price": [None, None]}, schema=SCHEMA))
    return tmp_path / "t"


def test_values_are_those_of_the_columns(table: Path) -> None:
    given = '{"N": 5, "note": null, "price": 1.25}'
    assert done("update", table, given, "--where", "id = 2") == "Wrote 1 row; version 5.\n"
    assert rows(table) == [
        {"id": 1, "n": 10, "note": "a", "price": None},
        {"id": 2, "n": 5, "note": None, "price": "1.25"},
    ]
    assert answer("update", table, '{"n": 0}', "--all") == {"version": 7, "rows": 2}
    assert [row["n"] for row in rows(table)] == [0, 0]
    assert answer("update", table, '{"n": 1}', "--where", "id > 5")["rows"] == 0


def test_what_is_refused(table: Path) -> None:
    for arguments, error in [
        (['{"n": 1}'], "OptionError"),
        (['{"n": 1}', "--all", "--where", "id = 1"], "OptionError"),
        (['{"id": 1}', "--all"], "InvalidRequestError"),
        (["{}", "--all"], "InvalidRequestError"),
        (["n = 1", "--all"], "InvalidRequestError"),
        (['{"color": 1}', "--all"], "SchemaError"),
        (['{"n": "x"}', "--all"], "SchemaError"),
    ]:
        refused(error, "update", table, *arguments)


@pytest.mark.parametrize(
    ("method", "arguments", "told"),
    [
        ("update", ('{"n": 1}', "--where", "id = 9"), "rows"),
        ("delete", ("--where", "id = 9"), "deleted"),
    ],
)
def test_rows_of_another_writer_are_not_counted(
    table: Path, monkeypatch: pytest.MonkeyPatch, method: str, arguments: tuple[str, ...], told: str
) -> None:
    call = getattr(SlateStore, method)

    def beside_a_writer(mine: SlateStore, *given: Any, **named: Any) -> Any:
        rows = pa.table({"id": [1, 3], "n": [0, 0], "note": ["", ""], "price": [None, None]}, schema=SCHEMA)
        SlateStore.open(table).write(rows.append_column("op", [["delete", "put"]]), opColumn="op")
        return call(mine, *given, **named)

    monkeypatch.setattr(SlateStore, method, beside_a_writer)
    assert answer(method, table, *arguments)[told] == 0
