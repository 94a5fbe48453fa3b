"""Files that are hard to read: long or damaged ones, and types that are guessed from the first rows."""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from slatespark import SlateStore
from slatespark.cli.files import csv_source, json_rows, read_files
from slatespark.cli.files.file_formats import format_of
from slatespark.cli.files.target_columns import TargetColumns
from tests.unit.cli.shell import answer, done, refused, rows, run

# --- import ---------------------------------------------------------------------------------------------------------


def test_bad_files_create_nothing(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("tenant,id\na,x\n")
    refused("SchemaError", "import", tmp_path / "t", tmp_path / "in.csv", "--key-columns", "id", "--type", "id=bigint")
    refused("SchemaError", "import", tmp_path / "t", tmp_path / "in.csv", "--key-columns", "nothing")
    refused("SchemaError", "import", tmp_path / "t", tmp_path / "in.csv")
    refused("InvalidRequestError", "import", tmp_path / "t", tmp_path / "nothing.csv")
    refused("OptionError", "import", tmp_path / "t", tmp_path / "in.csv", "--type", "id=number")
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    "option",
    [
        "timestampColumn=at",
        "sequenceColumn=zz",
        "operation=merge",
        "clock=custom",
        "replaceWhere=id = 1",
        "ttlColumn=zz",
        "keyFormat=utf8",
    ],
)
def test_options_that_the_write_refuses_create_nothing(option: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,at\n1,2020-01-01T00:00:00Z\n")
    command = ("import", tmp_path / "new", tmp_path / "in.csv", "--key-columns", "id")
    assert run(*command, "--option", option).exit_code == 1
    assert not (tmp_path / "new").exists()


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


@pytest.mark.parametrize("more", [[], ["--merge-schema"], ["--option", "opColumn=OP"]])
@pytest.mark.parametrize("name", ["in.csv", "in.jsonl", "in.parquet"])
def test_the_case_of_columns(tmp_path: Path, name: str, more: list[str]) -> None:
    store = SlateStore.create(tmp_path / "t", "Id BIGINT, amount DECIMAL(5,2)", "Id")
    given = {"ID": [1, 2], "Amount": ["1.50", None], **({"op": ["put", "put"]} if "opColumn=OP" in more else {})}
    table = pa.table(given)
    if name == "in.csv":
        csv.write_csv(table, tmp_path / name)
    elif name == "in.jsonl":
        (tmp_path / name).write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))
    else:
        amounts = table["Amount"].cast(pa.decimal128(5, 2))
        pq.write_table(table.set_column(1, "Amount", amounts), tmp_path / name)
    done("import", store.url, tmp_path / name, *more)
    assert rows(store.url) == [{"Id": 1, "amount": "1.50"}, {"Id": 2, "amount": None}]


@pytest.mark.parametrize("delimiter", [";", "\t", "\\t", "|", " "])
@pytest.mark.parametrize("columns", [1, 2])
def test_other_delimiters(tmp_path: Path, delimiter: str, columns: int) -> None:
    given = [{"id": 1, "na,me": 'a;"|\t b\n'}, {"id": 2, "na,me": None}]
    table = pa.Table.from_pylist(given).select(["id", "na,me"][:columns])
    with (tmp_path / "in.csv").open("wb") as file:
        csv.write_csv(table, file, csv.WriteOptions(delimiter=delimiter.replace("\\t", "\t")))
    done("import", tmp_path / "t", tmp_path / "in.csv", "--key-columns", "id", "--delimiter", delimiter)
    assert rows(tmp_path / "t") == table.to_pylist()


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "a", "7", "ä", "\n"])
def test_characters_that_separate_nothing(tmp_path: Path, delimiter: str) -> None:
    (tmp_path / "in.csv").write_text("id\n1\n")
    refused(
        "OptionError", "import", tmp_path / "t", tmp_path / "in.csv", "--key-columns", "id", "--delimiter", delimiter
    )


def test_the_case_of_members(tmp_path: Path) -> None:
    table = SlateStore.create(tmp_path / "t", "Id BIGINT, name STRING", "Id").url
    done("put", table, '{"id": 1, "Name": "a"}', '{"NAME": "b", "ID": 2}', '{"Id": 3, "name": "c"}')
    assert [row["name"] for row in rows(table)] == ["a", "b", "c"]
    for more in ([], ["--merge-schema"]):
        refused("SchemaError", "put", table, '{"id": 1, "ID": 2, "name": "x"}', *more)


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


@pytest.mark.parametrize("name", ["csv", "csv.gz", "jsonl", "jsonl.gz", "parquet"])
def test_one_file_is_open_at_a_time(tmp_path: Path, name: str) -> None:
    table = SlateStore.create(tmp_path / "t", "id BIGINT", "id")
    table.write(pa.table({"id": [1]}))
    done("export", tmp_path / "t", tmp_path / f"in.{name}")
    target, opened = TargetColumns(pa.schema([("id", pa.int64())])), set[int]()
    files = [str(tmp_path / f"in.{name}")] * 5
    with read_files.read_files(files, format_of(files[0], None), target, None) as found:
        for _ in found:
            opened.add(sum(str(tmp_path) in link for link in open_files()))
    assert opened == {1}
    assert not any(str(tmp_path) in link for link in open_files())


def open_files() -> list[str]:
    """Return what the process has open."""
    found = []
    for number in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(number.readlink()))
    return found


def test_few_large_objects_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_rows, "CHUNK_BYTES", 1 << 10)
    objects = "".join(f'{{"id": {number}, "text": "{"x" * 2000}"}}\n' for number in range(100))
    (tmp_path / "in.jsonl").write_text(objects)
    told: list[int] = []
    files = [str(tmp_path / "in.jsonl")]
    with read_files.read_files(
        files, format_of(files[0], None), TargetColumns(), lambda _step, place, _total: told.append(place)
    ) as found:
        next(found)
        assert told[0] < len(objects) // 4, "most of the file has not been read yet"
        assert 1 + sum(batch.num_rows for batch in found) == 100


@pytest.mark.parametrize("name", ["in.csv.gz", "in.jsonl.gz", "in.jsonl.zst", "in.jsonl.bz2"])
def test_a_compressed_file_that_was_cut_off(tmp_path: Path, name: str) -> None:
    store = SlateStore.create(tmp_path / "t", "id BIGINT", "id")
    store.write(pa.table({"id": [1, 2]}))
    done("export", tmp_path / "t", tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    for size in (0, 5, len(whole) // 2, len(whole) - 1):
        (tmp_path / name).write_bytes(whole[:size])
        refused("InvalidRequestError", "import", tmp_path / "t", tmp_path / name, "--overwrite")
    assert store.scan().read_all()["id"].to_pylist() == [1, 2]


def test_numbers_too_large_for_a_file_of_json(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("ratio", pa.float64())])
    SlateStore.create(str(tmp_path / "t"), schema=schema, keyColumns=["id"])
    (tmp_path / "in.jsonl").write_text('{"id": 1, "ratio": 1e400}\n')
    refused("SchemaError", "import", tmp_path / "t", tmp_path / "in.jsonl")
    (tmp_path / "in.jsonl").write_text('{"id": 1, "ratio": Infinity}\n')
    done("import", tmp_path / "t", tmp_path / "in.jsonl")
    assert rows(tmp_path / "t") == [{"id": 1, "ratio": "Infinity"}]


# --- progress -------------------------------------------------------------------------------------------------------


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


def test_parquet_with_a_name_that_is_not_unicode(tmp_path: Path) -> None:
    file = tmp_path / "in.parquet"
    pq.write_table(pa.table({"named": [1]}), file, store_schema=False)
    file.write_bytes(file.read_bytes().replace(b"named", b"n\xe9med"))
    command = ("import", tmp_path / "new", file, "--key-columns", "id")
    assert "in.parquet cannot be read" in refused("InvalidRequestError", *command)


def test_parquet_that_arrow_does_not_support(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def batches(*_: object) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"id": [1]})
        raise pa.ArrowNotImplementedError("LZO codec not implemented")

    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "in.parquet")
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", batches)
    command = ("import", tmp_path / "new", tmp_path / "in.parquet", "--key-columns", "id")
    assert "LZO codec" in refused("InvalidRequestError", *command)
