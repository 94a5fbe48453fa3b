"""Files in and out: what was exported and is imported again is the same table."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slatespark import SlateStore
from slatespark.cli.commands.transfer import scanned
from slatespark.cli.files import read_files
from slatespark.cli.files.file_formats import FileFormat, format_of
from slatespark.cli.files.target_columns import TargetColumns
from slatespark.cli.files.write_files import write_file
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


def test_the_clock_of_a_table_that_an_import_creates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clock_of_2023.py").write_text("def now():\n    return 1_700_000_000_000\n")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "rows.csv").write_text("id,name\n1,a\n")
    options = ["--option", "clock=clock_of_2023:now"]
    done("import", tmp_path / "new", tmp_path / "rows.csv", "--key-columns", "id", *options)
    [row] = rows(tmp_path / "new", "--metadata")
    assert row["_create_ts"] == "2023-11-14T22:13:20.000Z"


@pytest.mark.parametrize("word", ["error", "ignore"])
def test_import_to_a_place_without_a_table_whatever_it_does_with_one(tmp_path: Path, word: str) -> None:
    (tmp_path / "in.csv").write_text("id,name\n1,ada\n")
    command: list[str | Path] = ["import", tmp_path / "new", tmp_path / "in.csv", "--option", f"ifExists={word}"]
    assert done(*command, "--key-columns", "id") == "Wrote 1 row; version 3.\n"
    if word == "error":
        refused("TableExistsError", *command)
    else:
        assert done(*command) == "Wrote 0 rows; version 3.\n"
    assert rows(tmp_path / "new") == [{"id": 1, "name": "ada"}]


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


def test_options_that_the_format_would_ignore(table: Path, tmp_path: Path) -> None:
    for name in ("rows.parquet", "rows.jsonl"):
        done("export", table, tmp_path / name)
        refused("OptionError", "import", table, tmp_path / name, "--null", "NA")
        refused("OptionError", "import", table, tmp_path / name, "--delimiter", ";")
    refused("OptionError", "import", table, tmp_path / "rows.parquet", "--type", "name=DATE")


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


def test_two_exports_to_one_file_do_not_mix(table: Path, tmp_path: Path) -> None:
    file, schema = str(tmp_path / "out.csv"), pa.schema([("id", pa.int64())])

    def rows(number: int, then: Callable[[], object]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"id": [number] * 3}, schema)
        then()
        yield pa.RecordBatch.from_pydict({"id": [number] * 3}, schema)

    def other() -> None:
        write_file(file, FileFormat.CSV, rows(2, lambda: None), schema)
        assert Path(file).read_text() == '"id"\n' + "2\n" * 6

    write_file(file, FileFormat.CSV, rows(1, other), schema, overwrite=True)
    assert Path(file).read_text() == '"id"\n' + "1\n" * 6
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")] == []


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
