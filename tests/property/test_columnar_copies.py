"""Random tables: the copies of a compacted table show what a scan shows, also with nested columns and odd values."""

from __future__ import annotations

import itertools
from typing import Any, Final

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from slatespark.format.ulid import Ulid
from slatespark.table.columns.read import fetch_copy
from tests.support.effort import examples

_names = itertools.count()
few = settings(max_examples=examples(13))

SCHEMA: Final = pa.schema(
    [
        ("part", pa.string()),
        ("id", pa.int16()),
        ("flag", pa.bool_()),
        ("real", pa.float32()),
        ("when", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("raw", pa.binary()),
        ("sum", pa.decimal128(20, 4)),
        ("inner", pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])),
        ("more", pa.map_(pa.int32(), pa.float64())),
    ]
)
_MICROS = st.integers(-(2**61), 2**61)


def _or_null(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


INNER = st.fixed_dictionaries(
    {"a": _or_null(st.integers(-9, 9)), "b": _or_null(st.lists(st.text(max_size=2), max_size=2))}
)
PAIRS = st.lists(st.tuples(st.integers(0, 9), _or_null(st.floats())), max_size=2, unique_by=lambda pair: pair[0])
ROWS = st.fixed_dictionaries(
    {
        "part": st.sampled_from(["", "a", "b\0", "é"]),
        "id": st.integers(-3, 3),
        "flag": _or_null(st.booleans()),
        "real": _or_null(st.floats(width=32)),
        "when": _or_null(_MICROS),
        "day": _or_null(st.integers(-(2**31), 2**31 - 1)),
        "raw": _or_null(st.binary(max_size=3)),
        "sum": _or_null(st.decimals(-(10**9), 10**9, places=4)),
        "inner": _or_null(INNER),
        "more": _or_null(PAIRS),
    }
)
TTLS = st.sampled_from([None, "1d"])
WRITES = st.lists(st.tuples(st.lists(ROWS, min_size=1, max_size=8), TTLS), min_size=1, max_size=4)


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    columns = {}
    for item in SCHEMA:
        plain = {"when": pa.int64(), "day": pa.int32()}.get(item.name, item.type)
        columns[item.name] = pa.array([row[item.name] for row in rows], plain).cast(item.type)
    return pa.table(columns, SCHEMA)


def _text(column: pa.ChunkedArray) -> str:
    """Values as text, in which NaN equals NaN; Python's times hold not all values, Arrow's text shows hidden ones."""
    if pa.types.is_nested(column.type):
        return repr(column.to_pylist())
    return str(column.to_string(window=1000))


@few
@given(writes=WRITES, value_format=st.sampled_from(["avro", "json"]), columnar=st.sampled_from(["true", "seq"]))
def test_copies_show_what_a_scan_shows(writes: list[Any], value_format: str, columnar: str) -> None:
    store = SlateStore.create(
        f"memory://copies-{next(_names)}/t",
        SCHEMA,
        "part, id",
        columnar=columnar,
        valueFormat=value_format,
        autoCompact=False,
    )
    for rows, ttl in writes:
        store.write(_table(rows), **({} if ttl is None else {"ttl": ttl}))
    report = store.compact(full=True)
    assert [copy.refused for copy in report.copies] == [None] * len(store.files())
    shown = store.scan(metadataColumns="create_ts, expire_ts, seq").read_all().combine_chunks()
    copies = [fetch_copy(store._stores.main, Ulid.parse(file.id)) for file in store.files()]
    read = [copy.file.read() for copy in copies]
    found = pa.concat_tables(read, promote_options="default").combine_chunks()
    assert set(SCHEMA.names) <= set(found.schema.names)
    assert ("_seq" in found.schema.names) == (columnar == "seq")
    for name in found.schema.names:
        assert _text(found[name]) == _text(shown[name])
    assert store.verify().findings == ()
