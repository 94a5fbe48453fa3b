"""Invalid input of typed tables: the error names the fault and the remedy, and the table is unchanged."""

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
from slatespark.table.write.load_run import load_batches
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
    """Two valid rows, except for the given columns; None omits a column."""
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
    """A table with a row, which the test must not change."""
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
        (rows(k=None), {}, SchemaError, "key"),
        (rows(k=None), {"mergeSchema": True}, SchemaError, "key"),
        (rows(k=None), {"operation": "delete"}, SchemaError, "key"),
        (rows(v=None), {}, SchemaError, "v. Add it"),
        (rows(v=None), {"mergeSchema": True}, SchemaError, "null"),
        (rows(x=[1, 2]), {}, SchemaError, "mergeSchema"),
        (rows(w=None, ww=["a", "b"]), {}, SchemaError, r"\bw\?"),
        (rows(k=pa.array([1, None], pa.int32())), {}, SchemaError, "null"),
        (
            rows(k=pa.array([1, None], pa.int32())),
            {"operation": "delete"},
            SchemaError,
            "null",
        ),
        (rows(v=pa.array([1, None], pa.int32())), {}, SchemaError, "null"),
        (
            rows(k=[1, 2**31]),
            {},
            SchemaError,
            "BIGINT",
        ),
        (rows(k=[1.0, 2.0]), {}, SchemaError, "DOUBLE"),
        (rows(w=[1, 2]), {"mergeSchema": True}, SchemaError, "BIGINT"),
        (rows(k=["1", "2"]), {"mergeSchema": True}, SchemaError, "STRING"),
        (rows(k=[1.0, 2.0]), {"mergeSchema": True}, SchemaError, "DOUBLE"),
        (rows(at=[date(2020, 1, 1)] * 2), {"mergeSchema": True}, SchemaError, "DATE"),
        (
            rows(x=pa.array([1, 2], pa.uint64())),
            {"mergeSchema": True},
            SchemaError,
            "BIGINT",
        ),
        (
            rows(x=pa.nulls(2)),
            {"mergeSchema": True},
            SchemaError,
            "null",
        ),
        (rows(), {"keyColumns": "v"}, SchemaError, "keyColumns"),
        (rows(), {"keyColumns": "k,v"}, SchemaError, "keyColumns"),
        (rows(), {"keyFormat": "utf8"}, OptionError, "keyFormat"),
        (rows(), {"valueFormat": "json"}, OptionError, "valueFormat"),
        (rows(), {"operation": "merge"}, InvalidRequestError, "valueFormat"),
        (rows(op=["put", "merge"]), {"opColumn": "op"}, InvalidRequestError, "valueFormat"),
        (rows(op=["put", None]), {"opColumn": "op"}, SchemaError, "None"),
        (rows(), {"sequenceColumn": "w"}, OptionError, "sequenceColumn"),
        (rows(w=not_utf8()), {}, SchemaError, "UTF-8"),
        (rows(p=too_many_digits()), {}, SchemaError, "digits"),
        (rows(p=[1.25, 1.5]), {}, SchemaError, "DOUBLE"),
        (
            rows(p=pa.array([Decimal("1.255")] * 2, pa.decimal128(5, 3))),
            {},
            SchemaError,
            r"DECIMAL\(5,3\)",
        ),
        (rows(o=pa.array([1000, 1001], pa.time64("ns"))), {}, SchemaError, "micro"),
        (
            rows(o=pa.array([0, 86_400 * 10**9], pa.time64("ns"))),
            {},
            SchemaError,
            "time",
        ),
        (rows(o=pa.array([0, -1000], pa.time64("ns"))), {}, SchemaError, "day"),
        (
            rows(at=pa.array([1, 1001], pa.timestamp("ns", "UTC"))),
            {},
            SchemaError,
            "TIMESTAMP",
        ),
        (
            rows(at=pa.array([1, 2**62], pa.timestamp("s", "UTC"))),
            {},
            SchemaError,
            "TIMESTAMP",
        ),
        (
            rows(at=pa.array([1, 2], pa.timestamp("us"))),
            {},
            SchemaError,
            "TIMESTAMP_NTZ",
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
    """With a small buffer each batch is encoded separately, so a missing column would become null."""
    whole, part = rows().to_batches()[0], rows(w=None).to_batches()[0]
    for buffer in ("1k", "64m"):
        for batches in ([whole, part], pa.RecordBatchReader.from_batches(whole.schema, iter([whole, part]))):
            with pytest.raises((SchemaError, pa.ArrowInvalid), match=r"[Ss]chema|columns"):
                table.write(batches, writeBuffer=buffer)


@pytest.mark.parametrize("given", [[], [1], 7, {"k": [1]}, None, [rows().to_batches()[0], "text"]])
def test_other_objects_are_not_rows(table: SlateStore, given: Any) -> None:
    with pytest.raises(SchemaError):
        table.write(given)


@pytest.mark.parametrize(("column", "kind"), [("k", "keyFormat"), ("v", "valueFormat")])
def test_invalid_utf8_in_a_text_table_is_refused(column: str, kind: str) -> None:
    """It would be an unreadable row."""
    schema = pa.schema([("k", pa.string()), ("v", pa.string())])
    store = SlateStore.create(new_url(), schema, "k", **{kind: "utf8"})
    with pytest.raises(SchemaError, match=f"{column}.*UTF-8"):
        store.write(pa.table({"k": ["a", "b"], "v": ["a", "b"], column: not_utf8()}))
    assert store.scan().read_all().num_rows == 0


def test_times_and_numbers_within_others() -> None:
    """The same checks within lists, in all value formats that support them."""
    for value_format in ("avro", "json"):
        schema = pa.schema([("k", pa.int32()), ("o", pa.list_(pa.time64("ns")))])
        store = SlateStore.create(new_url(), schema, "k", valueFormat=value_format)
        with pytest.raises(SchemaError, match="Column o"):
            store.write(pa.table({"k": [1], "o": pa.array([[86_400 * 10**9]], pa.list_(pa.time64("ns")))}))


# --- creation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "options", "error", "message"),
    [
        (pa.schema([("a", pa.int32())]), {"keyColumns": "b"}, SchemaError, "missing"),
        (pa.schema([("a", pa.int32())]), {"keyColumns": "a,A"}, OptionError, "keyColumns"),
        (pa.schema([("a", pa.int32()), ("A", pa.int32())]), {"keyColumns": "a"}, SchemaError, r"\ba\b.*\bA\b"),
        (pa.schema([("_seq", pa.int32())]), {"keyColumns": "_seq"}, SchemaError, "_seq"),
        (None, {"keyColumns": "a"}, OptionError, "keyColumns"),
        (
            pa.schema([("a", pa.list_(pa.int32()))]),
            {"keyColumns": "a"},
            SchemaError,
            "ARRAY",
        ),
        (
            pa.schema([("a", pa.map_(pa.string(), pa.int32()))]),
            {"keyColumns": "a"},
            SchemaError,
            "MAP",
        ),
        (
            pa.schema([("a", pa.duration("us"))]),
            {"keyColumns": "a"},
            SchemaError,
            "INTERVAL",
        ),
        (
            pa.schema([("a", pa.time64("ns"))]),
            {"keyColumns": "a"},
            SchemaError,
            "TIME",
        ),
        (
            pa.schema([("a", pa.int32()), ("b", pa.struct([("c", pa.uint64())]))]),
            {"keyColumns": "a"},
            SchemaError,
            "BIGINT",
        ),
        (
            pa.schema([("a", pa.int32()), ("b", pa.month_day_nano_interval())]),
            {"keyColumns": "a"},
            SchemaError,
            "month_day_nano_interval",
        ),
        (
            pa.schema([("a", pa.int32()), ("b", pa.decimal256(50, 2))]),
            {"keyColumns": "a"},
            SchemaError,
            "DECIMAL",
        ),
        (
            pa.schema([("a", pa.int32()), ("b", pa.int32())]),
            {"keyColumns": "a", "keyFormat": "utf8"},
            SchemaError,
            "keyFormat",
        ),
    ],
)
def test_invalid_tables_are_refused(
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


def test_names_in_a_list_are_not_changed() -> None:
    """Only names in one text are split at commas and trimmed."""
    for name in (" a", "a ", "a,b", "a.b", "a`b", "é", "1", "a\n"):
        schema = pa.schema([(name, pa.int32()), ("v", pa.int32())])
        store = SlateStore.create(new_url(), schema, [name])
        store.write(pa.table({name: [1], "v": [2]}))
        assert store.scan(columns=[name]).read_all().to_pylist() == [{name: 1}]
        assert store.scan(filter=f"`{name.replace('`', '``')}` = 1").read_all().num_rows == 1


# --- rows that do not decode ----------------------------------------------------------------------------------------


@pytest.fixture
def mixed() -> SlateStore:
    """Rows, some of which decode."""
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
        (3, "0706050403020100"),
        (4, "marker"),
        (5, "fingerprint"),
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
    with pytest.warns(UndecodableRowsWarning, match=r"\b4\b"):
        found = mixed.scan(ignoreUndecodable=True).read_all()
    assert found.select(["k", "v"]).to_pylist() == [{"k": 1, "v": 1}, {"k": 2, "v": 2}]
    with pytest.warns(UndecodableRowsWarning, match=r"\b1\b"):
        assert mixed.scan(ignoreUndecodable=True, columns="k").read_all().num_rows == 5


# --- filters and keys -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("k = ", "literal"),
        ("k = 1 OR k = 2", "`k = 1 >>>OR<<< k = 2`"),
        ("kk = 1", "`>>>kk<<< = 1`"),
        ("k = 1 AND vv > 1", "character 11"),
        ("lower(w) = 'a'", "functions"),
        ("w = 'a", "character 5"),
        ("w = 1", "STRING"),
        ("k = 'x'", "INT"),
        ("w LIKE '%a'", "pattern"),
        ("at > 'yesterday'", "TIMESTAMP"),
        ("k; DROP TABLE x", "';'"),
    ],
)
def test_invalid_filters_are_refused(table: SlateStore, condition: str, message: str) -> None:
    acts: list[Callable[[], Any]] = [
        lambda: table.scan(filter=condition),
        lambda: table.get(7, filter=condition),
        lambda: table.delete(condition),
    ]
    for act in acts:
        with pytest.raises(OptionError, match=f"^filter: .*{message}".replace("?", r"\?").replace("filter: .*", ".*")):
            act()


def test_a_column_that_does_not_exist(table: SlateStore) -> None:
    with pytest.raises(SchemaError, match=r"\bv\?"):
        table.scan(columns="vv")
    with pytest.raises(SchemaError, match=r"\bvv\b"):
        table.dropColumns("vv")
    with pytest.raises(SchemaError, match="key"):
        table.dropColumns("k")


@pytest.mark.parametrize("key", [(), (1, 2), ("1",), (1.0,), (2**31,), (True,), (b"1",)])
def test_invalid_keys_are_refused(table: SlateStore, key: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidRequestError):
        table.get(*key)


# --- numbers and times at the edge ----------------------------------------------------------------------------------


def test_nan_and_signed_zero_in_keys() -> None:
    """All NaN values are one key, above all numbers; 0.0 and -0.0 are one key."""
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
    """They are stored, ordered, found and deleted like any; as Python values they are numbers, which `get` accepts."""
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
    """The lowest one is NaT in numpy."""
    kind = pa.timestamp("us", "UTC")
    store = SlateStore.create(new_url(), pa.schema([("k", pa.int32()), ("v", kind)]), "k", valueFormat="json")
    with pytest.raises(SchemaError, match="range"):
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
