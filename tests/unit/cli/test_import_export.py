"""Files in and out: what was exported and is imported again is the same table."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slatespark import SlateStore
from slatespark.cli.commands.transfer import scanned
from slatespark.cli.files import csv_source, json_rows, read_files
from slatespark.cli.files.file_formats import format_of
from slatespark.cli.files.read_files import SAMPLE_ROWS
from slatespark.cli.files.target_columns import TargetColumns
from slatespark.cli.signals import TERMINATED
from slatespark.options import ReadOptions
from slatespark.table.clock import SystemClock
from slatespark.table.read.reader import fetch_read_plan
from slatespark.table.stores import open_stores
from tests.unit.cli.shell import answer, done, refused, rows, run

SCHEMA = pa.schema(
    [
        ("tenant", pa.string()),
        ("id", pa.int64()),
        ("flag", pa.bool_()),
        ("ratio", pa.float64()),
        ("small", pa.float32()),
        ("amount", pa.decimal128(20, 3)),
        ("name", pa.string()),
        ("data", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("took", pa.duration("us")),
        ("clock", pa.time64("ns")),
        ("tags", pa.list_(pa.string())),
        ("sizes", pa.map_(pa.string(), pa.int32())),
        ("place", pa.struct([("x", pa.float64()), ("names", pa.list_(pa.binary()))])),
    ]
)
FULL: dict[str, object] = {
    "tenant": 'say "hi", ok\n',
    "id": -(2**63),
    "flag": True,
    "ratio": 0.1,
    "small": 0.5,
    "amount": Decimal("12345678901234567.891"),
    "name": "",
    "data": b"\x00\xff",
    "day": dt.date(1, 1, 1),
    "at": dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
    "local": dt.datetime(2026, 1, 31, 12, 0, 0, 5),  # noqa: DTZ001  # a timestamp without time zone
    "took": dt.timedelta(days=-3, microseconds=1),
    "clock": dt.time(23, 59, 59, 999999),
    "tags": ["", None, "null"],
    "sizes": [("a", 1), ("b", None)],
    "place": {"x": None, "names": [b"", None]},
}
EMPTY: dict[str, object] = {**dict.fromkeys(SCHEMA.names), "tenant": "", "id": 0}
ODD: dict[str, object] = {
    **EMPTY,
    "id": 7,
    "ratio": float("nan"),
    "small": float("-inf"),
    "tags": [],
    "name": "NULL",
    "data": b"",
}
FORMATS = ["rows.parquet", "rows.csv", "rows.jsonl", "rows.csv.gz", "rows.jsonl.zst", "rows.ndjson"]


def typed(path: Path, *content: dict[str, object]) -> Path:
    store = SlateStore.create(str(path), schema=SCHEMA, keyColumns=["tenant", "id"])
    if content:
        store.write(pa.Table.from_pylist(list(content), SCHEMA))
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return typed(tmp_path / "t", FULL, EMPTY, ODD)


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_exported_can_be_imported(table: Path, tmp_path: Path, name: str) -> None:
    exported = answer("export", table, tmp_path / name)
    assert exported == {
        "version": 3,
        "rows": 3,
        "file": str(tmp_path / name),
        "bytes": (tmp_path / name).stat().st_size,
    }
    copy = typed(tmp_path / "copy")
    assert answer("import", copy, tmp_path / name) == {"version": 3, "rows": 3}
    assert rows(copy) == rows(table)
    assert str(SlateStore.open(str(copy)).scan().read_all()) == str(SlateStore.open(str(table)).scan().read_all())


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("text", [[], ["--text"]])
def test_raw_tables_too(tmp_path: Path, name: str, text: list[str]) -> None:
    store = SlateStore.create(str(tmp_path / "raw"))
    content = {"key": [b"a", 'ü\n"'.encode(), b"z"], "value": [b"", b"x,y", b"1"]}
    store.write(pa.table(content, schema=pa.schema([("key", pa.binary()), ("value", pa.binary())])))
    done("export", tmp_path / "raw", tmp_path / name, *text)
    done("import", tmp_path / "copy", tmp_path / name, *text)  # creates it
    assert rows(tmp_path / "copy") == rows(tmp_path / "raw")


# --- export ---------------------------------------------------------------------------------------------------------


def test_export_takes_columns_and_a_filter(table: Path, tmp_path: Path) -> None:
    done("export", table, tmp_path / "part.csv", "--columns", "id,name", "--where", "id >= 0")
    assert (tmp_path / "part.csv").read_text() == '"id","name"\n0,\n7,"NULL"\n'


def test_export_keeps_what_is_there(table: Path, tmp_path: Path) -> None:
    target = tmp_path / "rows.json"
    target.write_text("precious")
    refused("InvalidRequestError", "export", table, target)
    assert target.read_text() == "precious"
    done("export", table, target, "--overwrite", "--columns", "id")
    assert [json.loads(line)["id"] for line in target.read_text().splitlines()] == [0, 7, FULL["id"]]


def test_a_failed_export_leaves_nothing(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "raw"))
    store.write(pa.table({"key": [b"a", b"\xff"], "value": [b"1", b"2"]}))
    assert "ff" in refused("InvalidRequestError", "export", tmp_path / "raw", tmp_path / "x.csv", "--text")
    refused("InvalidRequestError", "export", tmp_path / "raw", tmp_path / "no" / "x.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


def test_the_format_is_named_or_known(table: Path, tmp_path: Path) -> None:
    refused("OptionError", "export", table, tmp_path / "rows.xls")
    done("export", table, tmp_path / "rows.xls", "--format", "csv", "--columns", "id")
    assert (tmp_path / "rows.xls").read_text().startswith('"id"\n')
    assert run("export", table, tmp_path / "rows.xls", "--format", "xls").exit_code == 2


def test_exported_parquet_has_the_columns_of_the_table(table: Path, tmp_path: Path) -> None:
    done("export", table, tmp_path / "rows.parquet")
    assert pq.read_schema(tmp_path / "rows.parquet").remove_metadata() == SCHEMA


def test_an_empty_table(tmp_path: Path) -> None:
    for name in FORMATS:
        done("export", typed(tmp_path / f"t-{name}"), tmp_path / name)
        assert answer("import", typed(tmp_path / f"copy-{name}"), tmp_path / name)["rows"] == 0


def test_older_versions(table: Path, tmp_path: Path) -> None:
    done("delete", table, "--where", "id = 7")
    done("export", table, tmp_path / "old.jsonl", "--version-as-of", "3", "--columns", "id")
    done("export", table, tmp_path / "new.jsonl", "--columns", "id")
    assert [len((tmp_path / name).read_text().splitlines()) for name in ("old.jsonl", "new.jsonl")] == [3, 2]


# --- import ---------------------------------------------------------------------------------------------------------


def test_import_creates_a_typed_table(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("tenant,id,amount,seen\na,1,1.50,2026-01-31T12:00:00Z\nb,2,NA,\n")
    done(
        *("import", tmp_path / "t", tmp_path / "in.csv", "--key-columns", "tenant,id", "--null", "NA"),
        *("--type", "amount=decimal(10,2)", "--type", "seen=timestamp", "--option", "defaultTtl=7d"),
    )
    assert rows(tmp_path / "t") == [
        {"tenant": "a", "id": 1, "amount": "1.50", "seen": "2026-01-31T12:00:00.000Z"},
        {"tenant": "b", "id": 2, "amount": None, "seen": None},
    ]
    definition = answer("describe", tmp_path / "t")["definition"]
    assert [column["type"] for column in definition["columns"]] == ["STRING", "BIGINT", "DECIMAL(10,2)", "TIMESTAMP"]
    assert "defaultTtl" in definition["properties"]


def test_import_creates_with_other_formats(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"name": "a", "n": 1}\n{"name": "b", "more": {"x": [1.5]}}\n')
    arguments = ["--key-columns", "name", "--option", "keyFormat=utf8", "--option", "valueFormat=json"]
    done("import", tmp_path / "t", tmp_path / "in.jsonl", *arguments)
    assert rows(tmp_path / "t") == [
        {"name": "a", "n": 1, "more": None},
        {"name": "b", "n": None, "more": {"x": [1.5]}},
    ]
    assert SlateStore.open(str(tmp_path / "t")).definition.key_format == "utf8"


def test_import_into_no_table_without_a_key_creates_none(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,name\n1,ada\n")
    assert "--key-columns" in refused("SchemaError", "import", tmp_path / "new", tmp_path / "in.csv")
    assert not (tmp_path / "new").exists()


def test_several_files_are_one_commit(table: Path, tmp_path: Path) -> None:
    for number in range(3):
        row = {**EMPTY, "id": number + 100}
        (tmp_path / f"{number}.jsonl").write_text(json.dumps(row))
    files = sorted(tmp_path.glob("*.jsonl"))
    assert answer("import", table, *files) == {"version": 5, "rows": 3}
    assert [row["id"] for row in rows(table, "--where", "id >= 100")] == [100, 101, 102]


def test_an_import_that_runs_again(tmp_path: Path) -> None:
    file, path = tmp_path / "rows.csv", tmp_path / "new"
    file.write_text("id,name\n1,ada\n2,grace\n")
    command: list[str | Path] = ["import", path, file, "--option", "txnAppId=nightly", "--option", "txnVersion=1"]
    assert done(*command, "--key-columns", "id") == "Wrote 2 rows; version 3.\n"
    done("delete", path, "1")
    assert done(*command) == "Wrote 0 rows; version 5.\n"
    assert [row["id"] for row in rows(path)] == [2]


def test_import_overwrites_when_told_to(table: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps({**EMPTY, "id": 5}))
    done("import", table, tmp_path / "in.jsonl", "--overwrite")
    assert [row["id"] for row in rows(table)] == [5]


def test_import_from_standard_input(table: Path) -> None:
    line = json.dumps({**EMPTY, "id": 5})
    assert answer("import", table, "-", "--format", "json", stdin=line)["rows"] == 1
    refused("OptionError", "import", table, "-", stdin=line)
    refused("InvalidRequestError", "import", table, "-", "--format", "parquet", stdin=line)


def test_columns_that_the_table_lacks(table: Path, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("tenant,id,extra\na,1,5\n")
    refused("SchemaError", "import", table, tmp_path / "in.csv")
    done("import", table, tmp_path / "in.csv", "--merge-schema")
    assert rows(table, "--where", "extra = 5", "--columns", "tenant,name") == [{"tenant": "a", "name": None}]


@pytest.mark.parametrize(
    ("name", "content", "error", "says"),
    [
        ("in.csv", b"tenant,id,name\na,x,y\n", "SchemaError", "Row 1, column id"),
        ("in.csv", b"tenant,id\na,1,2,3\n", "InvalidRequestError", "in.csv"),
        ("in.csv", b"", "InvalidRequestError", "in.csv"),
        ("in.csv", b"tenant,id\n\xff,1\n", "InvalidRequestError", "in.csv"),
        ("in.csv.gz", b"no gzip", "InvalidRequestError", "in.csv.gz"),
        ("in.jsonl", b'{"tenant": "a"}\n', "SchemaError", "line 1 has no member"),
        ("in.jsonl", b"\n{]\n", "InvalidRequestError", "line 2 is not JSON"),
        ("in.jsonl", b'"text"', "InvalidRequestError", "line 1 is not a JSON object"),
        ("in.jsonl", b"\xff\xfe", "InvalidRequestError", "line 1 is not JSON"),
        ("in.jsonl", b'{"id": 4e44444444444444444444}', "InvalidRequestError", "line 1"),
        ("in.parquet", b"no parquet at all", "InvalidRequestError", "in.parquet"),
        ("in.parquet", b"", "InvalidRequestError", "in.parquet"),
    ],
)
def test_bad_files(table: Path, tmp_path: Path, name: str, content: bytes, error: str, says: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert says in refused(error, "import", table, tmp_path / name)
    assert len(answer("history", table)) == 3


def test_bad_files_create_nothing(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("tenant,id\na,x\n")
    refused("SchemaError", "import", tmp_path / "t", tmp_path / "in.csv", "--key-columns", "id", "--type", "id=bigint")
    refused("SchemaError", "import", tmp_path / "t", tmp_path / "in.csv", "--key-columns", "nothing")
    refused("SchemaError", "import", tmp_path / "t", tmp_path / "in.csv")
    refused("InvalidRequestError", "import", tmp_path / "t", tmp_path / "nothing.csv")
    refused("OptionError", "import", tmp_path / "t", tmp_path / "in.csv", "--type", "id=number")
    assert not (tmp_path / "t").exists()


def test_different_files_are_not_mixed(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id,n\n1,1\n")
    (tmp_path / "2.csv").write_text("id,m\n1,1\n")
    refused("SchemaError", "import", tmp_path / "t", tmp_path / "1.csv", tmp_path / "2.csv", "--key-columns", "id")


def test_long_files_are_read_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_source, "BLOCK_BYTES", 1 << 14)
    count = 30_000
    with gzip.open(tmp_path / "in.jsonl.gz", "wt") as file:
        file.writelines(f'{{"id": {number}, "n": {number % 7}.5}}\n' for number in range(count))
    done("import", tmp_path / "t", tmp_path / "in.jsonl.gz", "--key-columns", "id")
    done("export", tmp_path / "t", tmp_path / "out.csv")
    done("import", tmp_path / "copy", tmp_path / "out.csv", "--key-columns", "id")
    last = answer("get", tmp_path / "copy", str(count - 1))
    assert last == {"id": count - 1, "n": (count - 1) % 7 + 0.5}
    assert SlateStore.open(str(tmp_path / "copy")).scan(columns=["id"]).read_all().num_rows == count


def test_rows_larger_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_source, "BLOCK_BYTES", 1 << 12)
    sizes = [*[1] * 2000, 3000, 20_000, *[1] * 2000, 9000, 100_000]
    with (tmp_path / "in.csv").open("w") as file:
        file.write("id,text\n")
        file.writelines(f'{number},"{"x," * size}"\n' for number, size in enumerate(sizes))
    done("import", tmp_path / "t", tmp_path / "in.csv", "--key-columns", "id")
    found = SlateStore.open(str(tmp_path / "t")).scan().read_all()
    assert found["id"].to_pylist() == list(range(len(sizes)))
    assert [len(text) // 2 for text in found["text"].to_pylist()] == sizes


def test_rows_too_large_for_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_source, "BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(csv_source, "MAX_BLOCK_BYTES", 1 << 14)
    content = f"id,text\n1,{'x' * 50_000}\n"
    (tmp_path / "in.csv").write_text(content)
    command = ("import", tmp_path / "t", "--key-columns", "id")
    assert "Parquet" in refused("InvalidRequestError", *command, tmp_path / "in.csv")
    assert "Parquet" in refused("InvalidRequestError", *command, "-", "--format", "csv", stdin=content)
    assert not (tmp_path / "t").exists()


def test_lines_too_large_for_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_rows, "MAX_LINE_BYTES", 1 << 14)
    (tmp_path / "in.jsonl").write_text(json.dumps({"id": 1, "text": "x" * 16_000}) + "\n")
    done("import", tmp_path / "t", tmp_path / "in.jsonl", "--key-columns", "id")
    with (tmp_path / "in.jsonl").open("a") as file:
        file.write(json.dumps({"id": 2, "text": "x" * 50_000}) + "\n")
    assert "Parquet" in refused("InvalidRequestError", "import", tmp_path / "t", tmp_path / "in.jsonl")
    assert SlateStore.open(str(tmp_path / "t")).scan().read_all()["id"].to_pylist() == [1]


@pytest.mark.parametrize("name", ["in.csv", "in.jsonl"])
def test_types_of_columns_that_the_file_lacks(tmp_path: Path, name: str) -> None:
    (tmp_path / "in.csv").write_text("id,Zip\n1,00123\n")
    (tmp_path / "in.jsonl").write_text('{"id": 1, "Zip": "00123"}\n')
    command = ("import", tmp_path / "t", tmp_path / name, "--key-columns", "id")
    assert "Zip" in refused("OptionError", *command, "--type", "zap=STRING")
    refused("OptionError", *command, "--type", "\udcff=STRING")
    for again in ("Zip", "zIP"):
        refused("OptionError", *command, "--type", "Zip=INT", "--type", f"{again}=STRING")
    assert not (tmp_path / "t").exists()
    done(*command, "--type", "zIP=STRING")
    assert rows(tmp_path / "t") == [{"id": 1, "Zip": "00123"}]


def test_the_case_of_types_on_standard_input(tmp_path: Path) -> None:
    command = ("import", tmp_path / "t", "-", "--format", "csv", "--key-columns", "id")
    done(*command, "--type", "zip=STRING", stdin="id,Zip\n1,00123\n")
    assert rows(tmp_path / "t") == [{"id": 1, "Zip": "00123"}]


@pytest.mark.parametrize(
    "cells",
    [
        ["18446744073709551615", "18446744073709551614"],
        ["9007199254740993", "9007199254740992", "1.5"],
        ["-9223372036854775809"],
        ["1e400"],
    ],
)
@pytest.mark.parametrize("source", ["in.csv", "-"])
def test_numbers_that_a_guessed_type_would_change(tmp_path: Path, cells: list[str], source: str) -> None:
    content = "\n".join(["n,i", *(f"{cell},{number}" for number, cell in enumerate(cells)), ""])
    (tmp_path / "in.csv").write_text(content)
    file = tmp_path / source if source != "-" else source
    command = ("import", tmp_path / "t", file, "--format", "csv", "--key-columns")
    for key in ("n", "i"):
        assert "--type" in refused("SchemaError", *command, key, stdin=content)
    assert not (tmp_path / "t").exists()
    done(*command, "n", "--type", "n=STRING", stdin=content)
    assert [row["n"] for row in rows(tmp_path / "t")] == sorted(cells)


def test_a_number_that_a_guessed_type_would_change_in_a_later_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_source, "BLOCK_BYTES", 1 << 12)
    (tmp_path / "in.csv").write_text("id,n\n" + "".join(f"{i}, {i}.5\n" for i in range(2000)) + "2000,1e400\n")
    command = ("import", tmp_path / "t", tmp_path / "in.csv", "--key-columns", "id")
    assert "Row 2001, column n" in refused("SchemaError", *command)


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("id,v", '2,"tail cut of\n3,c\n4,d'),
        ("id,v", '2,"tail cut of\n3,c\n4,d\n'),
        ("id,v", '2,"'),
        ("id,v", '2,"a""'),
        ("id,v", '2,5" pipe\n3,"two marks'),  # the number of marks is even
        ("id", '2\n"3\n'),
        ('id,"v', "2,a\n"),
    ],
)
@pytest.mark.parametrize("size", [0, 5000])
def test_a_file_that_ends_within_quotation_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header: str, row: str, size: int
) -> None:
    monkeypatch.setattr(csv_source, "BLOCK_BYTES", 1 << 12)
    columns = header.count(",") + 1
    before = "".join(f"{'1,a' if columns == 2 else 1}\n" for _ in range(size))
    (tmp_path / "in.csv").write_text(f"{header}\n{before}{row}")
    command = ("import", tmp_path / "t", "--key-columns", "id", "--type", "id=STRING")
    refused("InvalidRequestError", *command, tmp_path / "in.csv")
    assert not (tmp_path / "t").exists() or rows(tmp_path / "t") == []


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\r", "\n\n"])
@pytest.mark.parametrize("cell", ["x", '5" pipe', '"say ""hi"""', '"closed"', '"a\nb"', '"a"b'])
def test_a_file_that_ends_anyhow_else(tmp_path: Path, cell: str, end: str) -> None:
    for content in (f"v\n{cell}{end}", f"w,v\n1,{cell}{end}"):
        (tmp_path / "in.csv").write_text(content, newline="")
        with read_files.read_files(
            [str(tmp_path / "in.csv")], format_of("in.csv", None), TargetColumns(), None
        ) as found:
            assert found.read_all().num_rows == 1


def test_every_length_of_a_file_and_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = TargetColumns(pa.schema([("a", pa.string()), ("b", pa.string())]))
    content = "a,b\n" + "".join(f'{number},"x\n""{number}"\n' for number in range(10))
    (tmp_path / "in.csv").write_text(content)
    for size in range(60, len(content) + 50):
        monkeypatch.setattr(csv_source, "BLOCK_BYTES", size)
        with read_files.read_files([str(tmp_path / "in.csv")], format_of("in.csv", None), target, None) as found:
            assert found.read_all()["b"].to_pylist() == [f'x\n"{number}' for number in range(10)]


def test_options_that_the_format_would_ignore(table: Path, tmp_path: Path) -> None:
    for name in ("rows.parquet", "rows.jsonl"):
        done("export", table, tmp_path / name)
        refused("OptionError", "import", table, tmp_path / name, "--null", "NA")
    refused("OptionError", "import", table, tmp_path / "rows.parquet", "--type", "name=DATE")


def test_numbers_too_large_for_a_file_of_json(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("ratio", pa.float64())])
    SlateStore.create(str(tmp_path / "t"), schema=schema, keyColumns=["id"])
    (tmp_path / "in.jsonl").write_text('{"id": 1, "ratio": 1e400}\n')
    refused("SchemaError", "import", tmp_path / "t", tmp_path / "in.jsonl")
    (tmp_path / "in.jsonl").write_text('{"id": 1, "ratio": Infinity}\n')
    done("import", tmp_path / "t", tmp_path / "in.jsonl")
    assert rows(tmp_path / "t") == [{"id": 1, "ratio": "Infinity"}]


# --- progress -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["in.csv", "in.jsonl", "in.parquet", "in.csv.gz"])
def test_progress_of_an_import(table: Path, tmp_path: Path, name: str) -> None:
    done("export", table, tmp_path / name)
    files, size = [str(tmp_path / name)] * 2, (tmp_path / name).stat().st_size
    told: list[tuple[str, int, int]] = []
    target = TargetColumns(SCHEMA)
    with read_files.read_files(files, format_of(name, None), target, lambda *args: told.append(args)) as reader:
        assert reader.read_all().num_rows == 6
    assert {(step, total) for step, _, total in told} == {("Importing", 2 * size)}
    places = [place for _, place, _ in told]
    assert places == sorted(places)
    assert places[-1] == 2 * size


def test_progress_of_an_export(table: Path) -> None:
    stores = open_stores(str(table), storage={})
    plan = fetch_read_plan(stores, ReadOptions(path=str(table)), SystemClock())
    told: list[tuple[str, int, int]] = []
    assert sum(batch.num_rows for batch in scanned(stores, plan, lambda *args: told.append(args))) == 3
    assert [step for step, _, _ in told] == ["Exporting"]
    assert told[0][2] > 0


def test_standard_input_that_is_closed(table: Path) -> None:
    for command in (["import", table, "-", "--format", "csv"], ["put", table, "--file", "-"], ["drop", table]):
        call = [sys.executable, "-c", "import os, sys; os.close(0); os.execv(sys.executable, sys.argv[1:])"]
        ended = subprocess.run(
            [*call, sys.executable, "-m", "slatespark", *map(str, command)], capture_output=True, text=True, check=False
        )
        assert ended.returncode == 1
        assert ended.stderr.startswith(("InvalidRequestError: ", "OptionError: ")), ended.stderr


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
def test_an_export_replaces_regular_files_alone(tmp_path: Path, overwrite: list[str]) -> None:
    table = typed(tmp_path / "t", ODD)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        refused("InvalidRequestError", "export", table, tmp_path / name, "--format", "csv", *overwrite)
    refused("InvalidRequestError", "export", table, "-", "--format", "csv", *overwrite)
    assert (tmp_path / "pipe").is_fifo()
    for name, other in (("here.csv", "there.csv"), ("there.csv", "here.csv")):
        (tmp_path / name).symlink_to(tmp_path / other)
    refused("InvalidRequestError", "export", table, tmp_path / "here.csv", *overwrite)
    assert (tmp_path / "here.csv").is_symlink()
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    done("export", table, tmp_path / "link.csv", "--overwrite")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith('"tenant","id"')


def test_columns_of_a_csv_without_values_are_text(tmp_path: Path) -> None:
    for name, text in {"a": "k,v\n1,\n2,\n", "b": "k,v\n"}.items():
        (tmp_path / f"{name}.csv").write_text(text)
        done("import", tmp_path / name, tmp_path / f"{name}.csv", "--key-columns", "k")
        schema = SlateStore.open(str(tmp_path / name)).definition.codec().schema
        assert schema.field("v").type == pa.string()


def test_a_guessed_type_that_does_not_last(tmp_path: Path) -> None:
    csv, table = tmp_path / "in.csv", tmp_path / "t"
    for late, first in {"abc": "1", "maybe": "true", "2024-01-01 00:00:00.5x": "2024-01-01 00:00:00"}.items():
        csv.write_text("k,v\n" + "".join(f"{number},{first}\n" for number in range(500_000)) + f"500000,{late}\n")
        error = "SchemaError" if first == "1" else "InvalidRequestError"
        line = refused(error, "import", table, csv, "--key-columns", "k")
        assert "--type" in line
        done("drop", table, "--yes")


@pytest.mark.parametrize(("value", "other"), [("true", "maybe"), ("2026-01-31", "later"), ("2026-01-31", "Row #5: x")])
def test_a_late_value_of_another_type_is_named_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, other: str
) -> None:
    monkeypatch.setattr(csv_source, "BLOCK_BYTES", 4096)
    count = 2000  # beyond the first block
    (tmp_path / "t.csv").write_text("k,v\n" + f"1,{value}\n" * count + f"1,{other}\n")
    shown = refused("InvalidRequestError", "import", tmp_path / "t", tmp_path / "t.csv", "--key-columns", "k")
    assert f"row {count + 1}, column v: " in shown
    assert repr(other) in shown
    assert "drop the table, which is empty, and give another one with --type" in shown
    assert SlateStore.open(str(tmp_path / "t")).scan().read_all().num_rows == 0


def test_text_that_is_no_unicode_is_no_matter_of_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_source, "BLOCK_BYTES", 4096)
    (tmp_path / "t.csv").write_bytes(b"k,v\n" + b"1,a\n" * 2000 + b"2,\xff\n")
    shown = refused("InvalidRequestError", "import", tmp_path / "t", tmp_path / "t.csv", "--key-columns", "k")
    assert "row 2001, column v: " in shown
    assert "--type" not in shown


def test_a_row_with_too_many_cells_has_its_number(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("k,v\n1,a\n2,b,c\n")
    shown = refused("InvalidRequestError", "import", tmp_path / "t", tmp_path / "t.csv", "--key-columns", "k")
    assert "row 2: Expected 2 columns" in shown


def ended_by_sigterm(
    command: list[str], has_begun: Callable[[], bool], stdin: bytes = b"", *, code: int = TERMINATED
) -> None:
    """Run a command with input that does not end, and terminate it once it has begun."""
    with subprocess.Popen([sys.executable, "-m", "slatespark", *command], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(stdin)
        process.stdin.flush()
        limit = time.monotonic() + 60
        while not has_begun():
            assert process.poll() is None, process.returncode
            assert time.monotonic() < limit
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == code


def test_an_export_that_is_terminated_leaves_nothing(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"))
    keys = [f"{number:08}".encode() for number in range(300_000)]
    store.write(pa.table({"key": keys, "value": keys}))
    (tmp_path / "out").mkdir()
    command = ["export", str(tmp_path / "t"), str(tmp_path / "out" / "rows.json"), "--parallelism", "1"]
    ended_by_sigterm(command, (tmp_path / "out" / ".rows.json.part").exists)
    assert [*(tmp_path / "out").iterdir()] == []


def test_a_copy_that_is_terminated_keeps_nothing_from_vacuums(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"))
    for start in range(0, 600_000, 100_000):
        keys = [f"{number:08}".encode() for number in range(start, start + 100_000)]
        store.write(pa.table({"key": keys, "value": keys}), sstSize="200k")
    target = tmp_path / "copy"
    ended_by_sigterm(["copy-to", str(tmp_path / "t"), str(target)], (target / "compacted").is_dir)
    assert store.checkpoints() == ()
    assert [*(target / "slatespark" / "leases").iterdir()] == []  # its files serve the next attempt


def test_an_import_that_is_terminated_abandons_its_lease(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"))
    leases = tmp_path / "t" / "slatespark" / "leases"
    ended_by_sigterm(
        ["import", str(tmp_path / "t"), "-", "--format", "json"],
        lambda: leases.is_dir() and any(leases.iterdir()),
        b'{"key": "61", "value": "31"}\n' * 2 * SAMPLE_ROWS,
    )
    assert [*leases.iterdir()] == []
    assert store.scan().read_all().num_rows == 0


def test_an_import_that_waits_for_more_of_a_csv_can_be_terminated(tmp_path: Path) -> None:
    """Arrow waits, in which no handler of Python's runs."""
    store = SlateStore.create(str(tmp_path / "t"), pa.schema([("k", pa.string()), ("v", pa.string())]), keyColumns="k")
    leases = tmp_path / "t" / "slatespark" / "leases"
    ended_by_sigterm(
        ["import", str(tmp_path / "t"), "-", "--format", "csv"],
        lambda: leases.is_dir() and any(leases.iterdir()),
        b"k,v\n" + b"1,%b\n" % (b"a" * 1000) * 10_000,
        code=-signal.SIGTERM,
    )
    assert store.scan().read_all().num_rows == 0
