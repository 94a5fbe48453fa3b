"""The options of a table and of a call on their way to the data source; no session is needed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from slatespark import OptionError, SlateStore
from slatespark.options import Call, ReadOptions, WriteOptions
from slatespark.spark.frame_columns import split_names
from slatespark.spark.frames.table_frames import TableFrames
from slatespark.spark.transaction import SlateTransaction

PATH = "memory://frames"
FRAMES = TableFrames(None, PATH, {"walPath": "memory://wal", "clock": "module:now"})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["startKey", "endKey", "keyPrefix"])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_keys_of_every_type_of_bytes(name: str, kind: Any) -> None:
    given = {"path": PATH, **FRAMES._texts({name: kind(b"a\xff")})}
    assert given[name] == "61ff"
    assert ReadOptions.parse(given).given_keys == {name: b"a\xff"}
    del given["clock"]
    WriteOptions.parse(given)


@pytest.mark.parametrize("value", [[97], [None], {"a"}, object()])
def test_values_that_are_no_text(value: object) -> None:
    with pytest.raises(OptionError, match="startKey"):
        FRAMES._texts({"startKey": value})


@pytest.mark.parametrize("name", ["clock", "path", "walPath", "wal_path", "storage.key", "Storage.Key"])
def test_a_call_names_no_clock_and_no_place(name: str) -> None:
    for parse in (FRAMES._texts, FRAMES._parsed):
        with pytest.raises(OptionError, match=f"{name}: an open table has one"):
            parse({name: "module:now"})
        parse({name: None} if name != "path" else {})
    assert FRAMES._parsed({"walPath": None}).wal_path == "memory://wal"


@pytest.mark.parametrize(
    "name", ["opColumn", "op_column", "operation", "Operation", "ifExists", "if_exists", "keyFormat"]
)
def test_a_change_decides_itself_what_happens_to_a_row(name: str) -> None:
    for change in (
        lambda given: FRAMES.delete("id = 1", given),
        lambda given: FRAMES.update("id = 1", {"n": "n + 1"}, given),
        lambda given: FRAMES.is_committed(given, Call.MERGE, "merge"),
    ):
        with pytest.raises(OptionError, match=f"{name} does not apply"):
            change({name: "delete"})
        with pytest.raises(OptionError, match="Unknown option 'readSet'"):
            change({"readSet": "{}"})


def test_a_delete_of_a_transaction_decides_itself_what_happens_to_a_row() -> None:
    store = SlateStore.create("memory://frames-transaction", "id BIGINT, n BIGINT", "id")
    store.write(pa.table({"id": [1], "n": [1]}))
    core = store.begin()
    transaction = SlateTransaction(None, core, None, None)  # type: ignore[arg-type]
    for given in ({"operation": "upsert"}, {"Operation": "upsert"}, {"ttl": "1d"}, {"opColumn": "n"}):
        for rows in ({"condition": "id = 1"}, {"keys": [1]}):
            with pytest.raises(OptionError, match=f"{next(iter(given))} does not apply"):
                transaction.delete(**rows, **given)
    assert core.get(1) == {"id": 1, "n": 1}


def test_names_may_hold_commas() -> None:
    assert FRAMES._parsed({"columns": ["a,b", "c"]}).columns == ("a,b", "c")
    assert FRAMES._parsed({"columns": "a, b"}).columns == ("a", "b")


@pytest.mark.parametrize("names", [5, None, ["id", None], [1], b"id", "", [], ["id", "id"]])
def test_what_is_no_list_of_names(names: object) -> None:
    with pytest.raises(OptionError, match="keyColumns"):
        split_names(names, "keyColumns")


def test_lists_of_names() -> None:
    for names in ("a, b", ["a", "b"], ("a", "b"), {"a": 1, "b": 2}, iter("ab")):
        assert split_names(names) == ["a", "b"]
