from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore
from tests.unit.cli.shell import answer, done, refused

SCHEMA = pa.schema([("tenant", pa.string()), ("id", pa.int64()), ("n", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "orders"
    store = SlateStore.create(str(path), schema=SCHEMA, keyColumns=["tenant", "id"])
    store.write(pa.table({"tenant": ["a", "a", "b", "b"], "id": [1, 2, 1, 2], "n": [1, 1, 1, 1]}, SCHEMA))
    return path


def test_a_range_is_deleted(table: Path) -> None:
    assert done("delete", table, "--range", "--where", "tenant = 'b' AND id > 1") == "Version 5.\n"
    assert SlateStore.open(str(table)).scan(columns="tenant,id").read_all().to_pylist() == [
        {"tenant": "a", "id": 1},
        {"tenant": "a", "id": 2},
        {"tenant": "b", "id": 1},
    ]
    assert SlateStore.open(str(table)).history(1)[0].operation == "deleteRange"
    assert "key column" in refused("OptionError", "delete", table, "--range", "--where", "n = 1")
    assert "takes no key" in refused("OptionError", "delete", table, "--range", "a", "1")
    assert "no range is given" in refused("OptionError", "delete", table, "--range")


def test_the_timeline_as_text_and_json(table: Path) -> None:
    done("delete", table, "--range", "--where", "tenant = 'a'")
    lines = done("timeline", table).splitlines()
    keys = [[cell for cell in line.split("  ") if cell][:2] for line in (lines[3], lines[4], lines[6])]
    assert keys == [
        ["tenant=a", "below tenant=a, id=1"],
        ["tenant=a, id=1", "tenant=a"],
        ["above tenant=a", "tenant=b, id=2"],
    ]
    assert "no data since version 5" in lines[4]
    assert "overshadowed since version 5" in lines[5]
    found = answer("timeline", table)
    assert sorted(found) == ["intervals", "replacements", "url", "version", "wal_files"]
    assert [(part["start"], len(part["files"]), part["replaced"]) for part in found["intervals"]] == [
        ("026100", 0, 5),
        ("0261001501", 1, 5),
        ("026100ff00", 1, None),
    ]
    assert answer("timeline", table, "--version-as-of", "3")["replacements"] == []


def test_keys_of_a_raw_table_are_hexadecimal_unless_text_is_asked_for(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "raw"))
    store.write(pa.table({"key": [b"apple", b"pear"], "value": [b"", b""]}))
    done("delete", tmp_path / "raw", "--range", "--option", "keyPrefix=61")
    assert b"pear".hex() in done("timeline", tmp_path / "raw")
    assert "pear" not in done("timeline", tmp_path / "raw")
    assert "pear" in done("timeline", tmp_path / "raw", "--text")
