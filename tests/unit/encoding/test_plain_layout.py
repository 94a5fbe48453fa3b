"""Columns of any layout become columns that Arrow can filter, with the same values."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.encoding.plain_layout import plain_array, plain_type

VIEW = pa.string_view()

_numbers = count()


def runs(values: Any = None) -> pa.Array:
    """Three values in runs of 2, 1 and 3."""
    return pa.RunEndEncodedArray.from_arrays([2, 3, 6], pa.array(["a", None, "b"]) if values is None else values)


class Tagged(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """A type of an extension around any other."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "tests.tagged")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Tagged:
        return cls(storage)


def tagged(storage: pa.Array) -> pa.Array:
    return pa.ExtensionArray.from_storage(Tagged(storage.type), storage)


def dictionary(values: pa.Array) -> pa.Array:
    """Three values, of which two are the same."""
    return pa.DictionaryArray.from_arrays(pa.array([0, 0, 1], pa.int8()), values)


VIEWS = pa.array([["a"], None, ["b", None]], pa.list_(VIEW))
LISTS = pa.array([0, 2, 2, 6], pa.int32())
COLUMNS = {
    "runs": runs(),
    "runs, cut": runs().slice(1, 4),
    "runs of views": runs(pa.array(["a", None, "b"], VIEW)),
    "runs of a dictionary": runs(pa.array(["a", None, "b"]).dictionary_encode()),
    "runs of lists": runs(pa.array([["a"], None, ["b", None]])),
    "runs of structs": runs(pa.array([{"x": 1}, None, {"x": None}])),
    "lists of runs": pa.ListArray.from_arrays(LISTS, runs()),
    "lists of runs, cut": pa.ListArray.from_arrays(LISTS, runs()).slice(1, 2),
    "lists of runs, null": pa.ListArray.from_arrays(LISTS, runs(), mask=pa.array([False, True, False])),
    "large lists of runs": pa.LargeListArray.from_arrays(LISTS.cast(pa.int64()), runs()),
    "lists of two runs": pa.FixedSizeListArray.from_arrays(runs(), 2),
    "structs of runs": pa.StructArray.from_arrays([runs()], ["x"], mask=pa.array([False, True] * 3)),
    "structs of runs, cut": pa.StructArray.from_arrays([runs()], ["x"]).slice(2, 3),
    "maps of runs": pa.MapArray.from_arrays(LISTS, pa.array(list("abcdef")), runs()),
    "maps of runs, cut": pa.MapArray.from_arrays(LISTS, pa.array(list("abcdef")), runs()).slice(1),
    "maps of runs, null": pa.MapArray.from_arrays(
        LISTS, pa.array(list("abcdef")), runs(), mask=pa.array([True, False, False])
    ),
    "no maps of runs": pa.MapArray.from_arrays(LISTS, pa.array(list("abcdef")), runs()).slice(3),
    "maps of views": pa.array([[("a", "b")], None, []], pa.map_(VIEW, VIEW)),
    "lists of two views": pa.array([["a", "b"], None, ["c", None]], pa.list_(VIEW, 2)),
    "maps to lists of views": pa.array([[(1, ["a"])], []], pa.map_(pa.int8(), pa.list_(VIEW, 1))),
    "JSON in views": pa.ExtensionArray.from_storage(pa.json_(VIEW), pa.array(["1", None, "2"], VIEW)),
    "extension of lists of views": tagged(VIEWS),
    "extension of runs": tagged(runs()),
    "lists of an extension of runs, cut": pa.ListArray.from_arrays(LISTS, tagged(runs())).slice(1, 2),
    "structs of an extension of views": pa.StructArray.from_arrays([tagged(VIEWS)], ["x"]),
    "runs of an extension of views": runs(tagged(pa.array(["a", None, "b"], VIEW))),
    "dictionary of lists of views": dictionary(VIEWS),
    "dictionary of an extension of views": dictionary(tagged(VIEWS)),
    "structs of a dictionary of lists of views": pa.StructArray.from_arrays([dictionary(VIEWS)], ["x"]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_the_values_stay_and_can_be_filtered(name: str) -> None:
    column = COLUMNS[name]
    kind = plain_type(column.type)
    plain = plain_array(column, kind)
    plain.validate(full=True)
    assert plain.type == kind
    assert plain.to_pylist() == column.to_pylist()
    mask = [at % 2 == 1 for at in range(len(column))]
    kept = pa.table({"x": plain}).filter(pa.array(mask, pa.bool_())).column("x").to_pylist()
    assert kept == [value for value, keep in zip(column.to_pylist(), mask, strict=True) if keep]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.list_(pa.string(), 2),
        pa.map_(pa.string(), pa.int64()),
        pa.dictionary(pa.int8(), pa.string()),
        pa.list_view(VIEW),
        pa.uuid(),
    ],
    ids=str,
)
def test_plain_types_stay(kind: pa.DataType) -> None:
    assert plain_type(kind).equals(kind)


@pytest.mark.parametrize("name", COLUMNS)
def test_writes_with_deletes_among_the_rows(name: str) -> None:
    column = COLUMNS[name]
    url = f"memory://plain-layouts-{next(_numbers)}"
    rows = pa.table({"id": pa.array(range(len(column)), pa.int64()), "v": column})
    store = SlateStore.create(url, rows.schema, "id")
    store.write(rows.append_column("op", pa.array((["put", "delete"] * 3)[: len(column)], pa.string())), opColumn="op")
    found = store.scan().read_all().column("v").to_pylist()
    assert found == column.to_pylist()[::2]
