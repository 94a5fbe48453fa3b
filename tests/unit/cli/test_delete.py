"""`delete KEY` says whether there was a row, and commits nothing if there was none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore
from tests.support.fixture_databases import FIXTURES
from tests.support.typed_tables import write_raw
from tests.unit.cli.shell import answer, done, refused, rows

NO_ROW = "Deleted 0 rows; version "


def version(table: Path) -> int:
    return SlateStore.open(str(table)).resolve().version


@pytest.fixture
def words(tmp_path: Path) -> Path:
    store = SlateStore.create(str(tmp_path / "words"))
    store.write(pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"]}))
    return tmp_path / "words"


def test_a_row_is_deleted_once(words: Path) -> None:
    assert done("delete", words, "a", "--text") == "Deleted 1 row; version 5.\n"
    assert done("delete", words, "a", "--text").startswith(NO_ROW)
    assert answer("delete", words, "a", "--text") == {"version": 5, "deleted": 0}
    assert answer("delete", words, "b", "--text") == {"version": 7, "deleted": 1}
    assert (rows(words), version(words)) == ([], 7)


def test_typed_keys(tmp_path: Path) -> None:
    schema = pa.schema([("tenant", pa.string()), ("id", pa.int64()), ("n", pa.int64())])
    store = SlateStore.create(str(tmp_path / "t"), schema=schema, keyColumns=["tenant", "id"])
    store.write(pa.table({"tenant": ["a"], "id": [-3], "n": [1]}, schema))
    assert done("delete", tmp_path / "t", "a", "3").startswith(NO_ROW)
    assert done("delete", tmp_path / "t", "a", "-3") == "Deleted 1 row; version 5.\n"


def test_an_expired_row_is_deleted_too(tmp_path: Path) -> None:
    """A SlateDB client shows it."""
    store = SlateStore.create(str(tmp_path / "t"))
    store.write(pa.table({"key": [b"a"], "value": [b"1"]}), ttl="1ms", timestamp="2026-01-01")
    assert done("delete", tmp_path / "t", "a", "--text").startswith("Deleted 1 row; ")
    assert version(tmp_path / "t") == 5
    assert done("delete", tmp_path / "t", "a", "--text").startswith(NO_ROW)
    assert version(tmp_path / "t") == 5


def test_rows_in_the_wal_count(tmp_path: Path) -> None:
    table = Path(shutil.copytree(FIXTURES / "wal_only", tmp_path / "t"))
    assert done("delete", table, "a", "--text").startswith(NO_ROW)
    assert done("delete", table, "b", "--text").startswith("Deleted 1 row; ")
    assert "b" not in [row["key"] for row in rows(table, "--text")]


def test_operands_need_no_operator_to_be_deleted(tmp_path: Path) -> None:
    table = Path(shutil.copytree(FIXTURES / "merge", tmp_path / "t"))
    refused("OptionError", "scan", table)
    for key in ("k", "n"):
        assert answer("delete", table, key, "--text")["deleted"] == 1
        assert answer("delete", table, key, "--text")["deleted"] == 0


def test_a_row_that_does_not_decode_is_deleted(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("n", pa.int64())])
    SlateStore.create(str(tmp_path / "t"), schema=schema, keyColumns=["id"], keyFormat="utf8")
    write_raw(str(tmp_path / "t"), pa.table({"key": [b"a"], "value": [b"no Avro"]}))
    assert answer("delete", tmp_path / "t", "a")["deleted"] == 1
    assert answer("delete", tmp_path / "t", "a")["deleted"] == 0


def test_a_write_that_is_repeated(words: Path) -> None:
    pair = ("--option", "txnAppId=job", "--option", "txnVersion=1")
    assert answer("delete", words, "61", *pair) == {"version": 5, "deleted": 1}
    done("put", words, '{"key": "61", "value": "31"}')
    assert answer("delete", words, "61", *pair) == {"version": 7, "deleted": 0}
    assert done("delete", words, "61", *pair) == "Deleted 0 rows; version 7.\n"
    assert len(rows(words)) == 2


def test_history_tables_look_at_the_time_of_the_deletion(tmp_path: Path) -> None:
    table = tmp_path / "t"
    store = SlateStore.create(str(table), history=True)
    store.write(pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"], "ts": [2000, 1000]}), timestampColumn="ts")
    assert done("delete", table, "a", "--text", "--option", "timestamp=1500").startswith(NO_ROW)
    assert done("delete", table, "a", "--text", "--option", "timestamp=500").startswith(NO_ROW)
    assert done("delete", table, "a", "--text", "--option", "timestamp=3000").startswith("Deleted 1 row; ")
    assert done("delete", table, "b", "--text").startswith("Deleted 1 row; ")
    assert store.get(b"a", timestampAsOf=2500) == {"key": b"a", "value": b"1"}


def test_tables_with_a_clock_of_their_own(tmp_path: Path) -> None:
    table = tmp_path / "t"
    store = SlateStore.create(str(table), clock="custom")
    store.write(pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"]}), timestamp=1000, ttl=500)
    assert done("delete", table, "b", "--text", "--option", "timestamp=1499").startswith("Deleted 1 row; ")
    assert done("delete", table, "a", "--text", "--option", "timestamp=1500").startswith("Deleted 1 row; ")
    assert [row["key"] for row in store.scan(now=1000).read_all().to_pylist()] == [], "expired or not"


def test_the_number_is_known_beside_an_automatic_compaction(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"), pa.schema([("id", pa.int64())]), keyColumns="id")
    store.write(pa.table({"id": range(100)}))
    for number in range(14):
        store.delete(f"id = {number}")
    assert answer("delete", tmp_path / "t", "--where", "id > 90")["deleted"] == 9
    assert [facts.operation for facts in store.history(1)] == ["compact"]


@pytest.mark.parametrize("option", ["ifExists=ignore", "ttl=1d", "operation=upsert", "keyFormat=raw"])
@pytest.mark.parametrize("which", [("a", "--text"), ("--where", "key = X'61'"), ("--where", "key = X'61'", "--range")])
def test_options_that_do_not_apply(words: Path, option: str, which: tuple[str, ...]) -> None:
    name = option.partition("=")[0]
    assert f"{name} does not apply" in refused("OptionError", "delete", words, *which, "--option", option)
    assert len(rows(words)) == 2
