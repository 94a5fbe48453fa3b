"""`create`, `set-properties`, `drop-columns`, `set-history-floor`: the definition of a table in the shell."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.encoding.column_types import TIMESTAMP, list_of
from tests.unit.cli.shell import answer, done, refused, rows, run

COLUMNS = "tenant STRING NOT NULL, id BIGINT, price DECIMAL(10,2), tags ARRAY<STRING>, `since when` TIMESTAMP"

COLUMNS_AND_TIME = "id INT, n INT, at TIMESTAMP"


def create(table: Path, *more: str) -> str:
    return done("create", table, "--columns", COLUMNS, "--key-columns", "tenant,id", *more)


def test_a_typed_table_is_created(tmp_path: Path) -> None:
    table = tmp_path / "t"
    assert create(table, "--option", "defaultTtl=30d") == f"Created file://{table}; version 1.\n"
    definition = SlateStore.open(table).definition
    assert definition.key_columns == ("tenant", "id")
    assert definition.properties == {"defaultTtl": "30d"}
    assert definition.schema == pa.schema(
        [
            pa.field("tenant", pa.string(), nullable=False),
            ("id", pa.int64()),
            ("price", pa.decimal128(10, 2)),
            ("tags", list_of(pa.string())),
            ("since when", TIMESTAMP),
        ]
    )
    row = {"tenant": "a", "id": 1, "price": "1.50", "tags": ["x"], "since when": "2024-01-01T00:00:00.000Z"}
    done("put", table, json.dumps(row))
    [shown] = rows(table)
    assert (shown["price"], shown["tags"]) == ("1.50", ["x"])


def test_a_raw_table_is_created(tmp_path: Path) -> None:
    made = answer("create", tmp_path / "t")
    assert made == {"url": f"file://{tmp_path / 't'}", "version": 1}
    assert SlateStore.open(tmp_path / "t").definition.key_columns == ()


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        ("OptionError", ["--columns", "id BIGINT"]),
        ("OptionError", ["--key-columns", "id"]),
        ("SchemaError", ["--columns", "id NUMBER", "--key-columns", "id"]),
        ("SchemaError", ["--columns", "id BIGINT", "--key-columns", "no"]),
        ("OptionError", ["--option", "defaultTtl=soon"]),
        ("OptionError", ["--option", "ttl=7d"]),
        ("OptionError", ["--option", "clock=no_such_module:now"]),
        ("OptionError", ["--option", "keyFormat=utf8"]),
    ],
)
def test_what_makes_no_table_creates_none(error: str, arguments: list[str], tmp_path: Path) -> None:
    refused(error, "create", tmp_path / "t", *arguments)
    assert not (tmp_path / "t").exists()


def test_a_table_is_created_once(tmp_path: Path) -> None:
    create(tmp_path / "t")
    refused("TableExistsError", "create", tmp_path / "t")


def test_properties_are_set_and_others_stay(tmp_path: Path) -> None:
    create(tmp_path / "t", "--option", "defaultTtl=30d")
    assert done("set-properties", tmp_path / "t", "retention=365d", "autoCompact=false").split() == [
        *("autoCompact", "false"),
        *("defaultTtl", "30d"),
        *("retention", "365d"),
    ]
    wanted = {"autoCompact": "false", "defaultTtl": "none", "retention": "365d"}
    assert answer("set-properties", tmp_path / "t", "defaultTtl=none") == {"properties": wanted}
    assert SlateStore.open(tmp_path / "t").definition.properties == wanted


@pytest.mark.parametrize(
    "given",
    [
        ["history=true"],
        ["defaultTtl"],
        ["sesame=1"],
        ["defaultTtl=1d", "defaultTtl=2d"],
        ["defaultTtl=1d", "default_ttl=2d"],
    ],
)
def test_properties_that_cannot_be_set(given: list[str], tmp_path: Path) -> None:
    create(tmp_path / "t", "--option", "defaultTtl=30d")
    refused("OptionError", "set-properties", tmp_path / "t", *given)
    assert SlateStore.open(tmp_path / "t").definition.properties == {"defaultTtl": "30d"}


def test_columns_are_dropped(tmp_path: Path) -> None:
    create(tmp_path / "t")
    create(tmp_path / "twice")
    assert done("drop-columns", tmp_path / "t", "price", "since when") == (
        "Dropped price, since when; the columns are tenant, id, tags.\n"
    )
    assert done("drop-columns", tmp_path / "twice", "tags", "tags") == (
        "Dropped tags; the columns are tenant, id, price, since when.\n"
    )
    assert answer("drop-columns", tmp_path / "t", "tags") == {"columns": ["tenant", "id"]}
    refused("SchemaError", "drop-columns", tmp_path / "t", "id")
    assert run("drop-columns", tmp_path / "t").exit_code == 2


def test_the_history_floor_rises(tmp_path: Path) -> None:
    table, timed = tmp_path / "t", ("--option", "timestampColumn=at")
    done("create", table, "--columns", COLUMNS_AND_TIME, "--key-columns", "id", "--option", "history=true")
    for year in (2020, 2021, 2022):
        done("put", table, json.dumps({"id": 1, "n": year, "at": f"{year}-01-01T00:00:00Z"}), *timed)
    assert done("set-history-floor", table, "2021-06-01T00:00:00Z") == (
        "The history floor is 2021-06-01T00:00:00.000Z.\n"
    )
    refused("HistoryTrimmedError", "scan", table, "--timestamp-as-of", "2021-05-01T00:00:00Z")
    assert answer("get", table, "1", "--timestamp-as-of", "2021-07-01T00:00:00Z")["n"] == 2021
    refused("InvalidRequestError", "set-history-floor", table, "2020-01-01T00:00:00Z")
    assert answer("set-history-floor", table, "1640995200000") == {"floor_ms": 1640995200000}
    refused("OptionError", "set-history-floor", table, "soon")


def test_only_history_tables_have_a_floor(tmp_path: Path) -> None:
    create(tmp_path / "t")
    refused("InvalidRequestError", "set-history-floor", tmp_path / "t", "2020-01-01")
