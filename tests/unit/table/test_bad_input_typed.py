"""Input that a typed table cannot take: an error that says what is wrong and what to do, and a table as it was."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.errors import CorruptDataError, InvalidRequestError, OptionError, SchemaError, SlateError
from slatespark.options import WriteOptions
from slatespark.storage import open_store
from slatespark.table.clock import SystemClock
from slatespark.table.read.materialise import UndecodableRowsWarning
from slatespark.table.write.load import load_batches
from tests.support.typed_tables import define, encoded, make_typed, stores_of, write_raw

_numbers = itertools.count()

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int32(), nullable=False),
        pa.field("v", pa.int32(), nullable=False),
        pa.field("w", pa.string()),
        pa.field("p", pa.decimal128(5, 2)),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("o", pa.time64("ns")),
    ]
)


def new_url() -> str:
    return f"memory://bad-input-typed-{next(_numbers)}"


def rows(**columns: Any) -> pa.Table:
    """Two rows that fit, but for the columns given; None leaves one out."""
    fine = {
        "k": pa.array([1, 2], pa.int32()),
        "v": pa.array([1, 2], pa.int32()),
        "w": pa.array(["a", "b"]),
        "p": pa.array([None, Decimal("1.25")], pa.decimal128(5, 2)),
        "at": pa.array([1, 2], pa.timestamp("us", "UTC")),
        "o": pa.array([1000, 2000], pa.time64("ns")),
    }
    return pa.table({name: column for name, column in {**fine, **columns}.items() if column is not None})


def not_utf8() -> pa.Array:
    offsets = pa.py_buffer(np.array([0, 1, 2], np.int32))
    return pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"\xff\xfe")])


def too_many_digits() -> pa.Array:
    return pa.array([Decimal("99999.99"), None], pa.decimal128(7, 2)).view(pa.decimal128(5, 2))


@pytest.fixture
def table() -> Iterator[SlateStore]:
    """A table with a row; after the test it is as before."""
    url = new_url()
    store = SlateStore.create(url, SCHEMA, "k")
    store.write(rows(k=[7, 8], v=[7, 8]))
    objects = [meta.path for meta in open_store(url, {}).list("")]
    yield store
    kept = [meta.path for meta in open_store(url, {}).list("") if not meta.path.startswith("compacted/")]
    assert kept == [path for path in objects if not path.startswith("compacted/")]
    assert store.scan(columns="k,v").read_all().to_pylist() == [{"k": 7, "v": 7}, {"k": 8, "v": 8}]


# --- rows that do not fit -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "options", "error", "message"),
    [
        (rows(k=None), {}, SchemaError, "The rows lack the table's key column k. Add it."),
        (rows(k=None), {"mergeSchema": True}, SchemaError, "The rows lack the table's key column k"),
        (rows(k=None), {"operation": "delete"}, SchemaError, "The rows lack the table's key column k"),
        (rows(v=None), {}, SchemaError, "The rows lack the table's column v.*mergeSchema=true"),
        (rows(v=None), {"mergeSchema": True}, SchemaError, "Column v is null in some row"),
        (rows(x=[1, 2]), {}, SchemaError, r"The table has no column x.*mergeSchema=true"),
        (rows(w=None, ww=["a", "b"]), {}, SchemaError, r"The table has no column ww \(did you mean w\?\)"),
        (rows(k=pa.array([1, None], pa.int32())), {}, SchemaError, "Key column k is null in some row"),
        (
            rows(k=pa.array([1, None], pa.int32())),
            {"operation": "delete"},
            SchemaError,
            "Key column k is null in some row",
        ),
        (rows(v=pa.array([1, None], pa.int32())), {}, SchemaError, "Column v is null in some row"),
        (
            rows(k=[1, 2**31]),
            {},
            SchemaError,
            "Column k is BIGINT in the rows and holds a value that does not fit INT",
        ),
        (rows(k=[1.0, 2.0]), {}, SchemaError, "Column k is INT in the table and DOUBLE in the rows"),
        (rows(w=[1, 2]), {"mergeSchema": True}, SchemaError, "Column w is STRING in the table and BIGINT in the rows"),
        (rows(k=["1", "2"]), {"mergeSchema": True}, SchemaError, "Column k is INT in the table and STRING in the rows"),
        (rows(k=[1.0, 2.0]), {"mergeSchema": True}, SchemaError, "Column k is INT in the table and DOUBLE in the rows"),
        (rows(at=[date(2020, 1, 1)] * 2), {"mergeSchema": True}, SchemaError, "at is TIMESTAMP in the table and DATE"),
        (
            rows(x=pa.array([1, 2], pa.uint64())),
            {"mergeSchema": True},
            SchemaError,
            r"Column x is uint64, which a table cannot hold. Cast it to BIGINT or DECIMAL\(20,0\)",
        ),
        (
            rows(x=pa.nulls(2)),
            {"mergeSchema": True},
            SchemaError,
            "Column x is null, which a table cannot hold. Cast it to the intended type",
        ),
        (rows(), {"keyColumns": "v"}, SchemaError, "keyColumns is v, but the table has the key columns k"),
        (rows(), {"keyColumns": "k,v"}, SchemaError, "keyColumns is k,v, but the table has the key columns k"),
        (rows(), {"keyFormat": "utf8"}, OptionError, "keyFormat is utf8, but the table has tuple"),
        (rows(), {"valueFormat": "json"}, OptionError, "valueFormat is json, but the table has avro"),
        (rows(), {"operation": "merge"}, InvalidRequestError, "Merge operands need valueFormat=raw"),
        (rows(op=["put", "merge"]), {"opColumn": "op"}, InvalidRequestError, "Merge operands need valueFormat=raw"),
        (rows(op=["put", None]), {"opColumn": "op"}, SchemaError, "op is None in some row"),
        (rows(), {"sequenceColumn": "w"}, OptionError, "sequenceColumn: w is string"),
        (rows(w=not_utf8()), {}, SchemaError, "Column w holds text .* UTF-8"),
        (rows(p=too_many_digits()), {}, SchemaError, "Column p holds a number with more digits than its type"),
        (rows(p=[1.25, 1.5]), {}, SchemaError, r"Column p is DECIMAL\(5,2\) in the table and DOUBLE in the rows"),
        (
            rows(p=pa.array([Decimal("1.255")] * 2, pa.decimal128(5, 3))),
            {},
            SchemaError,
            r"Column p is DECIMAL\(5,3\) in the rows and holds a value that does not fit DECIMAL\(5,2\)",
        ),
        (rows(o=pa.array([1000, 1001], pa.time64("ns"))), {}, SchemaError, "o holds a time .* whole micro"),
        (
            rows(o=pa.array([0, 86_400 * 10**9], pa.time64("ns"))),
            {},
            SchemaError,
            "Column o holds a time .* within a day",
        ),
        (rows(o=pa.array([0, -1000], pa.time64("ns"))), {}, SchemaError, "Column o holds a time .* within a day"),
        (
            rows(at=pa.array([1, 1001], pa.timestamp("ns", "UTC"))),
            {},
            SchemaError,
            "Column at is TIMESTAMP.*would lose",
        ),
        (
            rows(at=pa.array([1, 2**62], pa.timestamp("s", "UTC"))),
            {},
            SchemaError,
            "Column at is TIMESTAMP.*out of bounds timestamp",
        ),
        (
            rows(at=pa.array([1, 2], pa.timestamp("us"))),
            {},
            SchemaError,
            "at is TIMESTAMP in the table and TIMESTAMP_NTZ",
        ),
    ],
)
def test_rows_that_do_not_fit(
    table: SlateStore, given: pa.Table, options: dict[str, Any], error: type[SlateError], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        table.write(given, **options)
    assert caught.value.todo


def test_batches_with_other_columns_than_the_first(table: SlateStore) -> None:
    """With a small buffer each batch is encoded on its own: a missing column would become null."""
    whole, part = rows().to_batches()[0], rows(w=None).to_batches()[0]
    for buffer in ("1k", "64m"):
        for batches in ([whole, part], pa.RecordBatchReader.from_batches(whole.schema, iter([whole, part]))):
            with pytest.raises((SchemaError, pa.ArrowInvalid), match=r"A batch has the columns|[Ss]chema"):
                table.write(batches, writeBuffer=buffer)


@pytest.mark.parametrize("given", [[], [1], 7, {"k": [1]}, None, [rows().to_batches()[0], "text"]])
def test_what_is_no_rows(table: SlateStore, given: Any) -> None:
    with pytest.raises(SchemaError):
        table.write(given)


@pytest.mark.parametrize(("column", "kind"), [("k", "keyFormat"), ("v", "valueFormat")])
def test_text_that_is_no_utf8_in_a_table_of_text(column: str, kind: str) -> None:
    """It would be a row that nobody can read."""
    schema = pa.schema([("k", pa.string()), ("v", pa.string())])
    store = SlateStore.create(new_url(), schema, "k", **{kind: "utf8"})
    with pytest.raises(SchemaError, match=f"Column {column} holds text .* UTF-8"):
        store.write(pa.table({"k": ["a", "b"], "v": ["a", "b"], column: not_utf8()}))
    assert store.scan().read_all().num_rows == 0


def test_times_and_numbers_within_others() -> None:
    """The same checks within lists, of all value formats that have them."""
    for value_format in ("avro", "json"):
        schema = pa.schema([("k", pa.int32()), ("o", pa.list_(pa.time64("ns")))])
        store = SlateStore.create(new_url(), schema, "k", valueFormat=value_format)
        with pytest.raises(SchemaError, match="Column o"):
            store.write(pa.table({"k": [1], "o": pa.array([[86_400 * 10**9]], pa.list_(pa.time64("ns")))}))


# --- creation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "options", "error", "message"),
    [
        (pa.schema([("a", pa.int32())]), {"keyColumns": "b"}, SchemaError, "Key column b is missing among a"),
        (pa.schema([("a", pa.int32())]), {"keyColumns": "a,A"}, OptionError, "keyColumns: a,A names a column twice"),
        (pa.schema([("a", pa.int32()), ("A", pa.int32())]), {"keyColumns": "a"}, SchemaError, "columns a and A"),
        (pa.schema([("_seq", pa.int32())]), {"keyColumns": "_seq"}, SchemaError, "_seq has the name of a metadata"),
        (None, {"keyColumns": "a"}, OptionError, "keyColumns is given, but no schema"),
        (
            pa.schema([("a", pa.list_(pa.int32()))]),
            {"keyColumns": "a"},
            SchemaError,
            "Key column a is ARRAY<INT>, which a key cannot hold. Use a STRUCT with a field for each element",
        ),
        (
            pa.schema([("a", pa.map_(pa.string(), pa.int32()))]),
            {"keyColumns": "a"},
            SchemaError,
            "Key column a is MAP<STRING,INT>, which a key cannot hold. Use a STRUCT",
        ),
        (
            pa.schema([("a", pa.duration("us"))]),
            {"keyColumns": "a"},
            SchemaError,
            "Key column a is INTERVAL DAY TO SECOND, which a key cannot hold. Use a BIGINT of microseconds",
        ),
        (
            pa.schema([("a", pa.time64("ns"))]),
            {"keyColumns": "a"},
            SchemaError,
            "Key column a is TIME, which a key cannot hold. Use a BIGINT of microseconds, or a STRING",
        ),
        (
            pa.schema([("a", pa.int32()), ("b", pa.struct([("c", pa.uint64())]))]),
            {"keyColumns": "a"},
            SchemaError,
            "Column b.c is uint64, which a table cannot hold. Cast it to BIGINT",
        ),
        (
            pa.schema([("a", pa.int32()), ("b", pa.month_day_nano_interval())]),
            {"keyColumns": "a"},
            SchemaError,
            "Column b is month_day_nano_interval, which a table cannot hold. Use INTERVAL DAY TO SECOND",
        ),
        (
            pa.schema([("a", pa.int32()), ("b", pa.decimal256(50, 2))]),
            {"keyColumns": "a"},
            SchemaError,
            r"Column b is decimal256\(50, 2\). Cast it to DECIMAL\(p,s\) with p up to 38",
        ),
        (
            pa.schema([("a", pa.int32()), ("b", pa.int32())]),
            {"keyColumns": "a", "keyFormat": "utf8"},
            SchemaError,
            "keyFormat=utf8 takes one key column of type STRING, got a INT",
        ),
    ],
)
def test_tables_that_cannot_be(
    schema: pa.Schema | None, options: dict[str, Any], error: type[SlateError], message: str
) -> None:
    url = new_url()
    with pytest.raises(error, match=message) as caught:
        SlateStore.create(url, schema, **options)
    assert caught.value.todo
    assert open_store(url, {}).list("") == []
    if schema is None:
        return
    parsed = WriteOptions.parse({"path": url, **options})
    with pytest.raises(error):  # as a Spark job does
        load_batches(stores_of(url), SystemClock(), schema, [], parsed)
    assert open_store(url, {}).list("") == []


def test_names_are_taken_as_they_are() -> None:
    """In a list; only text that holds several of them is cut at commas and trimmed."""
    for name in (" a", "a ", "a,b", "a.b", "a`b", "é", "1", "a\n"):
        schema = pa.schema([(name, pa.int32()), ("v", pa.int32())])
        store = SlateStore.create(new_url(), schema, [name])
        store.write(pa.table({name: [1], "v": [2]}))
        assert store.scan(columns=[name]).read_all().to_pylist() == [{name: 1}]
        assert store.scan(filter=f"`{name.replace('`', '``')}` = 1").read_all().num_rows == 1


# --- rows that do not decode ----------------------------------------------------------------------------------------


@pytest.fixture
def mixed() -> SlateStore:
    """Rows of which some decode."""
    url = new_url()
    definition = define(SCHEMA, ["k"])
    make_typed(url, definition)
    good = encoded(definition.codec(), rows()).to_pylist()
    stranger = b"\xc3\x01" + bytes(range(8)) + b"??"
    bad = [
        {"key": b"\x15\x03", "value": stranger},
        {"key": b"\x15\x04", "value": b"no Avro"},
        {"key": b"\x15\x05", "value": good[0]["value"] + b"!"},
        {"key": b"\x15\x06\x00", "value": good[0]["value"]},
    ]
    write_raw(url, pa.Table.from_pylist([*good, *bad], pa.schema([("key", pa.binary()), ("value", pa.binary())])))
    return SlateStore.open(url)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (3, "the row with key 1503 cannot be decoded. Its fingerprint 0706050403020100 is unknown"),
        (4, "the row with key 1504 cannot be decoded. Its value does not start with the Avro marker"),
        (5, "the row with key 1505 cannot be decoded. Its value does not fit the schema with fingerprint"),
    ],
)
def test_a_row_that_does_not_decode_is_named(mixed: SlateStore, key: int, message: str) -> None:
    read: list[Callable[[], Any]] = [
        lambda: mixed.get(key),
        lambda: mixed.scan(filter=f"k = {key}").read_all(),
        lambda: mixed.delete(f"k = {key} AND o IS NULL"),  # the last column: behind it nothing is read
    ]
    for act in read:
        with pytest.raises(CorruptDataError, match=message) as caught:
            act()
        assert "ignoreUndecodable=true" in caught.value.todo
    assert mixed.scan(filter=f"k = {key}", columns="k").read_all().to_pylist() == [{"k": key}]


def test_rows_that_do_not_decode_are_counted(mixed: SlateStore) -> None:
    with pytest.raises(CorruptDataError):
        mixed.scan().read_all()
    with pytest.warns(UndecodableRowsWarning, match="4 rows do not decode"):
        found = mixed.scan(ignoreUndecodable=True).read_all()
    assert found.select(["k", "v"]).to_pylist() == [{"k": 1, "v": 1}, {"k": 2, "v": 2}]
    with pytest.warns(UndecodableRowsWarning, match="1 row does not decode"):
        assert mixed.scan(ignoreUndecodable=True, columns="k").read_all().num_rows == 5


# --- filters and keys -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("k = ", "expected a literal at the end of the text, after `k =`"),
        ("k = 1 OR k = 2", "expected AND at character 7: `k = 1 >>>OR<<< k = 2`"),
        ("kk = 1", "there is no column 'kk' at character 1: `>>>kk<<< = 1`. Did you mean k?"),
        ("k = 1 AND vv > 1", "there is no column 'vv' at character 11: .* Did you mean v?"),
        ("lower(w) = 'a'", r"functions are not supported at character 6"),
        ("w = 'a", "a string is not closed at character 5"),
        ("w = 1", "column w is STRING and cannot be compared with a number at character 5"),
        ("k = 'x'", "INT for column k at character 5"),
        ("w LIKE '%a'", "expected a pattern with one % at its end at character 8"),
        ("at > 'yesterday'", "TIMESTAMP for column at at character 6"),
        ("k; DROP TABLE x", "unexpected ';' at character 2"),
    ],
)
def test_filters_that_cannot_be(table: SlateStore, condition: str, message: str) -> None:
    acts: list[Callable[[], Any]] = [
        lambda: table.scan(filter=condition),
        lambda: table.get(7, filter=condition),
        lambda: table.delete(condition),
    ]
    for act in acts:
        with pytest.raises(OptionError, match=f"^filter: .*{message}".replace("?", r"\?").replace("filter: .*", ".*")):
            act()


def test_a_column_that_does_not_exist(table: SlateStore) -> None:
    with pytest.raises(SchemaError, match=r"There is no column 'vv'. Did you mean v\?"):
        table.scan(columns="vv")
    with pytest.raises(SchemaError, match="There is no column vv among k, v"):
        table.dropColumns("vv")
    with pytest.raises(SchemaError, match="Column k is part of the key"):
        table.dropColumns("k")


@pytest.mark.parametrize("key", [(), (1, 2), ("1",), (1.0,), (2**31,), (True,), (b"1",)])
def test_keys_that_are_none(table: SlateStore, key: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidRequestError):
        table.get(*key)


# --- numbers and times at the edge ----------------------------------------------------------------------------------


def test_nan_and_signed_zero_in_keys() -> None:
    """All NaN are one key, above all numbers; 0.0 and -0.0 are one key."""
    quiet, negative = math.nan, struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0001))[0]
    store = SlateStore.create(
        new_url(), pa.schema([("x", pa.float64()), ("y", pa.float32()), ("v", pa.int32())]), "x,y"
    )
    x = [quiet, 0.0, math.inf, negative, -0.0, -math.inf, None]
    store.write(pa.table({"x": x, "y": pa.array(x, pa.float32()), "v": pa.array(range(7), pa.int32())}))
    found = store.scan().read_all().to_pylist()
    assert [row["v"] for row in found] == [6, 5, 4, 2, 3]
    assert [math.copysign(1, found[2][name]) for name in "xy"] == [1, 1]
    assert all(math.isnan(found[4][name]) for name in "xy")
    assert store.get(-0.0, 0.0) == found[2]
    for condition, versions in [
        ("x = 'NaN'", [3]),
        ("x > 1e308", [2, 3]),
        ("x = -0.0D AND y = 0", [4]),
        ("x < 0", [5]),
        ("x IS NULL", [6]),
    ]:
        assert [row["v"] for row in store.scan(filter=condition).read_all().to_pylist()] == versions
    assert [row["v"] for row in [store.get(negative, quiet), store.get(None, None)] if row] == [3, 6]
    store.delete("x = 'NaN' AND y = 'NaN'")
    store.delete("x = 0 AND y = -0.0")
    assert [row["v"] for row in store.scan().read_all().to_pylist()] == [6, 5, 2]


FAR_US = [-(2**63), -62_135_596_800_000_001, 253_402_300_800_000_000, 2**63 - 1]


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("us")])
def test_instants_beyond_the_years_of_python(kind: pa.DataType) -> None:
    """They are stored, ordered, found and deleted as any; as Python values they are numbers, as `get` takes them."""
    schema = pa.schema([("at", kind), ("v", kind), ("l", pa.list_(kind))])
    store = SlateStore.create(new_url(), schema, "at")
    column = pa.array([*FAR_US, 0], kind)
    store.write(pa.table({"at": column, "v": column, "l": pa.array([[us] for us in [*FAR_US, 0]], pa.list_(kind))}))
    found = store.scan().read_all()
    assert found["at"].cast(pa.int64()).to_pylist() == sorted([*FAR_US, 0])
    assert found["v"] == found["at"]
    for us in FAR_US:
        assert store.get(us) == {"at": us, "v": us, "l": [us]}
    epoch = datetime(1970, 1, 1, tzinfo=UTC if kind.tz else None)
    assert store.get(epoch) == {"at": epoch, "v": epoch, "l": [epoch]}
    store.delete("at > '9999-12-31 23:59:59.999999'")
    store.delete("v < '0001-01-01'")
    assert store.scan().read_all()["at"].cast(pa.int64()).to_pylist() == [0]


def test_instants_beyond_the_years_of_python_as_json() -> None:
    """The lowest is what numpy takes for no time at all."""
    kind = pa.timestamp("us", "UTC")
    store = SlateStore.create(new_url(), pa.schema([("k", pa.int32()), ("v", kind)]), "k", valueFormat="json")
    with pytest.raises(SchemaError, match=r"Column v holds a value that cannot be stored: a time .* range"):
        store.write(pa.table({"k": [1], "v": pa.array([FAR_US[0]], kind)}))
    assert store.get(1) is None
    store.write(pa.table({"k": [1, 2, 3], "v": pa.array(FAR_US[1:], kind)}))
    assert store.scan().read_all()["v"].cast(pa.int64()).to_pylist() == FAR_US[1:]


def test_dates_beyond_the_years_of_python() -> None:
    days = [-(2**31), -719_163, 0, 2_932_897, 2**31 - 1]
    store = SlateStore.create(new_url(), pa.schema([("d", pa.date32()), ("v", pa.date32())]), "d")
    column = pa.array(days, pa.int32()).cast(pa.date32())
    store.write(pa.table({"d": column, "v": column}))
    assert store.scan().read_all()["d"].cast(pa.int32()).to_pylist() == days
    assert [store.get(day) for day in (days[0], days[-1])] == [{"d": day, "v": day} for day in (days[0], days[-1])]
    assert store.get(date(1970, 1, 1)) == {"d": date(1970, 1, 1), "v": date(1970, 1, 1)}
    assert "table" in str(store)
