"""Typed tables in the shell: columns, filters, keys as arguments, rows as JSON."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore
from tests.support.typed_tables import write_raw
from tests.unit.cli.shell import answer, done, refused, rows, run

SCHEMA = pa.schema(
    [
        ("tenant", pa.string()),
        ("id", pa.int64()),
        ("amount", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("data", pa.binary()),
        ("tags", pa.list_(pa.string())),
    ]
)
NOON = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
ROWS = [
    {"tenant": "a", "id": -3, "amount": Decimal("1.10"), "at": NOON, "data": b"\xff", "tags": ["x"]},
    {"tenant": "a", "id": 1, "amount": None, "at": None, "data": None, "tags": None},
    {"tenant": "b", "id": 2, "amount": Decimal("-7"), "at": NOON, "data": b"hi", "tags": []},
]
FIRST = {"tenant": "a", "id": -3, "amount": "1.10", "at": "2026-01-31T12:00:00.000Z", "data": "ff", "tags": ["x"]}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    store = SlateStore.create(str(tmp_path / "t"), schema=SCHEMA, keyColumns=["tenant", "id"])
    store.write(pa.Table.from_pylist(ROWS, SCHEMA))
    return tmp_path / "t"


def ids(*arguments: str | Path) -> list[object]:
    return [row["id"] for row in rows(*arguments)]


# --- looking --------------------------------------------------------------------------------------------------------


def test_scan_prints_columns(table: Path) -> None:
    assert rows(table)[0] == FIRST
    assert done("scan", table, "--columns", "id,amount,data", "--text").splitlines() == [
        "id  amount  data",
        "-3  1.10    0xff",
        "1   -       -",
        "2   -7.00   hi",
    ]
    assert rows(table, "--columns", "tags", "--limit", "1") == [{"tags": ["x"]}]


def test_names_of_columns_may_hold_commas(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text('"a,b",c d\n1,x\n')
    done("import", tmp_path / "t", tmp_path / "in.csv", "--key-columns", "`a,b`,c d")
    assert rows(tmp_path / "t", "--columns", "`c d`, `a,b`") == [{"c d": "x", "a,b": 1}]
    refused("SchemaError", "scan", tmp_path / "t", "--columns", "a,b")


def test_scan_filters(table: Path) -> None:
    assert ids(table, "--where", "tenant = 'a' AND id > 0") == [1]
    assert ids(table, "--where", "amount < 0", "--desc") == [2]
    assert "nant" in refused("OptionError", "scan", table, "--where", "tenannt = 'a'")
    refused("OptionError", "scan", table, "--where", "tenant =")
    refused("SchemaError", "scan", table, "--columns", "nothing")
    refused("OptionError", "scan", table, "--prefix", "00")


def test_metadata_keeps_its_names(table: Path) -> None:
    [row] = rows(table, "--columns", "id", "--metadata", "--limit", "1")
    assert list(row) == ["id", "_seq", "_op", "_create_ts", "_expire_ts"]
    assert (row["_seq"], row["_op"], row["_expire_ts"]) == (1, "put", None)


def test_get_takes_a_value_for_each_key_column(table: Path) -> None:
    assert answer("get", table, "a", "-3") == FIRST
    assert answer("get", table, "a", "1", "--columns", "id") == {"id": 1}
    result = run("get", table, "a", "2", "--json")
    assert (result.exit_code, result.stdout) == (1, "null\n")
    assert "tenant STRING, id BIGINT" in refused("InvalidRequestError", "get", table, "a")
    assert "'x' is not a BIGINT" in refused("InvalidRequestError", "get", table, "a", "x")


def test_describe_tells_the_definition(table: Path) -> None:
    definition = answer("describe", table)["definition"]
    assert definition["key_columns"] == ["tenant", "id"]
    assert definition["columns"][2] == {"name": "amount", "type": "DECIMAL(10,2)", "nullable": True, "key": None}
    assert "key columns       tenant, id (tuple)" in done("describe", table)


def test_files_shows_decoded_keys(table: Path) -> None:
    [line] = done("files", table).splitlines()[1:]
    assert "tenant=a, id=-3  tenant=b, id=2" in line
    assert answer("files", table)[0]["start"] == "02610013fc"


def test_history(table: Path) -> None:
    found = answer("history", table)
    assert [version["operation"] for version in found] == ["write", "claim", "create"]
    assert found[0]["rows"]["put"] == 3
    assert len(done("history", table, "--limit", "1").splitlines()) == 2
    assert run("history", table, "--limit", "0").exit_code == 2


# --- put ------------------------------------------------------------------------------------------------------------


def test_put_takes_what_scan_prints(table: Path) -> None:
    before = rows(table)
    changed = [{**row, "tenant": "z"} for row in before]
    assert answer("put", table, *map(json.dumps, changed))["rows"] == 3
    assert rows(table) == before + changed


def test_put_replaces(table: Path) -> None:
    row = {**FIRST, "amount": 2.5, "at": "2026-01-31T13:00:00+01:00", "data": None, "tags": []}
    assert done("put", table, json.dumps(row)) == "Wrote 1 row; version 5.\n"
    assert answer("get", table, "a", "-3") == {**row, "amount": "2.50", "at": "2026-01-31T12:00:00.000Z"}


def test_put_from_a_file_and_from_standard_input(table: Path, tmp_path: Path) -> None:
    lines = "".join(f"{json.dumps({**FIRST, 'id': number})}\n\n" for number in range(10, 15))
    (tmp_path / "rows.jsonl").write_text(lines)
    assert answer("put", table, "--file", tmp_path / "rows.jsonl") == {"version": 5, "rows": 5}
    assert answer("put", table, "--file", "-", stdin=lines.replace('"a"', '"c"')) == {"version": 7, "rows": 5}
    assert ids(table, "--where", "tenant = 'c'") == [10, 11, 12, 13, 14]


def test_put_does_not_lose_what_is_not_said(table: Path) -> None:
    short = json.dumps({"tenant": "a", "id": 1, "amount": "5"})
    assert "has no member 'at'" in refused("SchemaError", "put", table, short)
    done("put", table, short, "--merge-schema")
    assert answer("get", table, "a", "1")["at"] is None


def test_no_row_lacks_a_part_of_its_key(table: Path, tmp_path: Path) -> None:
    row = json.dumps({"tenant": "a", "amount": "5"})
    assert "has no member 'id'" in refused("SchemaError", "put", table, row, "--merge-schema")
    (tmp_path / "in.jsonl").write_text('{"Id": 1, "n": 1}\n{"n": 2}\n{"n": 3}\n')
    new = ("import", tmp_path / "new", tmp_path / "in.jsonl", "--key-columns", "id")
    assert "line 2 has no member 'Id'" in refused("SchemaError", *new)
    assert not (tmp_path / "new").exists()


def test_a_deletion_needs_the_key_alone(table: Path, tmp_path: Path) -> None:
    before = ids(table)
    (tmp_path / "gone.jsonl").write_text('{"tenant": "z", "id": 8}\n{"tenant": "z", "id": 9}\n')
    done("put", table, *(json.dumps({**FIRST, "tenant": "z", "id": number}) for number in (7, 8, 9)))
    done("put", table, '{"tenant": "z", "id": 7}', "--option", "operation=DELETE")
    done("import", table, tmp_path / "gone.jsonl", "--option", "operation=delete")
    assert ids(table) == before
    assert "no member 'id'" in refused("SchemaError", "put", table, '{"tenant": "z"}', "--option", "operation=delete")


def test_put_adds_columns_when_told_to(table: Path) -> None:
    row = json.dumps({**FIRST, "note": "new"})
    assert "no column 'note'" in refused("SchemaError", "put", table, row)
    done("put", table, row, "--merge-schema")
    assert [row["note"] for row in rows(table)] == ["new", None, None]


def test_put_with_options(table: Path) -> None:
    done("put", table, json.dumps(FIRST), "--option", "ttl=1h")
    assert answer("get", table, "a", "-3", "--metadata")["_expire_ts"] is not None
    row = {**FIRST, "op": "delete"}
    done("put", table, json.dumps(row), "--option", "opColumn=op")
    assert ids(table) == [1, 2]
    assert "ttl" in refused("OptionError", "put", table, json.dumps(FIRST), "--option", "tttl=1h")


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ("{", "InvalidRequestError"),
        ("[]", "InvalidRequestError"),
        ("7" * 5000, "InvalidRequestError"),
        ("[" * 100_000, "InvalidRequestError"),
        (json.dumps({**FIRST, "id": "1"}), "SchemaError"),
        (json.dumps({**FIRST, "id": 2**63}), "SchemaError"),
        (json.dumps({**FIRST, "amount": "1.234"}), "SchemaError"),
        (json.dumps({**FIRST, "at": "noon"}), "SchemaError"),
        (json.dumps({**FIRST, "data": "xy"}), "SchemaError"),
        (json.dumps({**FIRST, "tags": "x"}), "SchemaError"),
        (json.dumps({**FIRST, "tags": [1]}), "SchemaError"),
    ],
)
def test_put_refuses(table: Path, row: str, error: str) -> None:
    refused(error, "put", table, row)
    assert len(answer("history", table)) == 3


def test_put_takes_rows_in_one_way(table: Path) -> None:
    refused("OptionError", "put", table)
    refused("OptionError", "put", table, "{}", "--file", "x")
    refused("InvalidRequestError", "put", table, "--file", "nothing.jsonl")


# --- delete ---------------------------------------------------------------------------------------------------------


def test_delete_by_key(table: Path) -> None:
    assert done("delete", table, "a", "-3") == "Deleted 1 row; version 5.\n"
    assert ids(table) == [1, 2]
    assert [row["id"] for row in rows(table, "--option", "includeDeleted=true")] == [-3, 1, 2]


def test_delete_by_filter(table: Path) -> None:
    assert answer("delete", table, "--where", "tenant = 'a'") == {"version": 5, "deleted": 2}
    assert ids(table) == [2]
    assert answer("delete", table, "--where", "tenant = 'a'") == {"version": 5, "deleted": 0}


def test_delete_takes_one_of_both(table: Path) -> None:
    refused("OptionError", "delete", table)
    refused("OptionError", "delete", table, "a", "1", "--where", "id = 1")
    refused("InvalidRequestError", "delete", table, "a")
    refused("OptionError", "delete", table, "--where", "nonsense")
    assert len(rows(table)) == 3


# --- raw tables -----------------------------------------------------------------------------------------------------


def test_raw_rows(tmp_path: Path) -> None:
    table = tmp_path / "raw"
    SlateStore.create(str(table))
    done("put", table, '{"key": "ff00", "value": ""}')
    done("put", table, '{"key": "a", "value": "é"}', '{"key": {"hex": "ff01"}, "value": "x"}', "--text")
    assert rows(table) == [
        {"key": "61", "value": "c3a9"},
        {"key": "ff00", "value": ""},
        {"key": "ff01", "value": "78"},
    ]
    done("delete", table, "a", "--text")
    done("delete", table, "--where", "key >= X'ff01'")
    assert rows(table) == [{"key": "ff00", "value": ""}]


def test_no_table(tmp_path: Path) -> None:
    refused("TableNotFoundError", "put", tmp_path, "{}")
    refused("TableNotFoundError", "delete", tmp_path, "00")
    refused("TableNotFoundError", "history", tmp_path)
    assert list(tmp_path.iterdir()) == []


# --- what does not decode -------------------------------------------------------------------------------------------


def test_rows_that_do_not_decode(table: Path, tmp_path: Path) -> None:
    write_raw(str(table), pa.table({"key": [b"\x02a\x00\x15\x05"], "value": [b"no Avro"]}))
    assert "0261001505" in run("scan", table).stderr
    result = run("scan", table, "--option", "ignoreUndecodable=true", "--json")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 3)
    assert result.stderr.startswith("Warning: ")
    assert result.stderr.count("\n") == 1
    refused("CorruptDataError", "export", table, tmp_path / "x.csv")
    assert not (tmp_path / "x.csv").exists()
    assert run("export", table, tmp_path / "x.csv", "--option", "ignoreUndecodable=true").exit_code == 0


# --- keys of every type ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (pa.date32(), ["0001-01-01", "2026-01-31"]),
        (pa.timestamp("us", "UTC"), ["1969-12-31T23:59:59.999999Z", "2026-01-31T12:00:00.000Z"]),
        (pa.timestamp("us"), ["2026-01-31T12:00:00.000"]),
        (pa.decimal128(30, 5), ["-123456789012345.00001", "1.00000"]),
        (pa.bool_(), ["false", "true"]),
        (pa.binary(), ["", "00ff"]),
        (pa.float64(), ["-Infinity", "-0.5", "1e+300", "NaN"]),
        (pa.float32(), ["0.1"]),
        (pa.int8(), ["-128", "7"]),
        (pa.struct([("a", pa.int8()), ("b", pa.date32())]), ['{"a": null, "b": null}', '{"a": 1, "b": "2026-01-31"}']),
    ],
    ids=str,
)
def test_keys_of_every_type(tmp_path: Path, kind: pa.DataType, keys: list[str]) -> None:
    table = tmp_path / "t"
    SlateStore.create(str(table), schema=pa.schema([("k", kind), ("v", pa.int64())]), keyColumns=["k"])
    as_json = not (pa.types.is_temporal(kind) or pa.types.is_decimal(kind) or pa.types.is_binary(kind))
    values = [json.loads(key) if as_json and key not in ("NaN", "-Infinity") else key for key in keys]
    done("put", table, *(json.dumps({"k": value, "v": at}) for at, value in enumerate(values)))
    for at, (key, value) in enumerate(zip(keys, values, strict=True)):
        assert answer("get", table, key) == {"k": value, "v": at}
    assert [row["v"] for row in rows(table)] == list(range(len(keys)))
    done("delete", table, keys[0])
    assert [row["v"] for row in rows(table)] == list(range(1, len(keys)))
