from __future__ import annotations

import datetime as dt
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa

from slatespark import SlateStore
from slatespark.spark.frames.timeline import timeline_table
from slatespark.table.inspection.timeline import KeyTimeline
from slatespark.table.inspection.timeline_intervals import FileVersion, TimelineInterval

SCHEMA = pa.schema([("tenant", pa.string()), ("day", pa.date32()), ("n", pa.int64())])


def day(number: int) -> dt.date:
    return dt.date(2026, 1, number)


def test_bounds_are_key_columns_as_far_as_they_have_them() -> None:
    store = SlateStore.create("memory://timeline-frame", schema=SCHEMA, keyColumns=["tenant", "day"])
    rows = [{"tenant": tenant, "day": day(number), "n": 1} for tenant in "ab" for number in range(1, 11)]
    store.write(pa.Table.from_pylist(rows, SCHEMA))
    store.deleteRange("tenant = 'a' AND day >= '2026-01-05'")
    store.deleteRange("tenant = 'b' AND day BETWEEN '2026-01-03' AND '2026-01-04'")
    found = timeline_table(store.timeline()).to_pylist()
    told = [(row["first"], row["firstIncluded"], row["last"], row["lastIncluded"], row["state"]) for row in found]
    assert told == [
        ({"tenant": "a", "day": day(1)}, True, {"tenant": "a", "day": day(5)}, False, "visible"),
        ({"tenant": "a", "day": day(5)}, True, {"tenant": "a", "day": None}, True, "overshadowed"),
        ({"tenant": "a", "day": None}, False, {"tenant": "b", "day": day(3)}, False, "visible"),
        ({"tenant": "b", "day": day(3)}, True, {"tenant": "b", "day": day(5)}, False, "overshadowed"),
        ({"tenant": "b", "day": day(5)}, True, {"tenant": "b", "day": day(10)}, True, "visible"),
    ]
    assert [(row["added"], row["since"], row["replaced"]) for row in found] == [
        (3, None, None),
        (3, 5, 5),
        (3, None, None),
        (3, 7, 7),
        (3, None, None),
    ]


def test_raw_keys_and_a_table_without_files() -> None:
    store = SlateStore.create("memory://timeline-frame-raw")
    assert timeline_table(store.timeline()).num_rows == 0
    store.write(pa.table({"key": [b"a", b"n", b"z"], "value": [b"1", b"1", b"2"]}))
    store.deleteRange(startKey=b"m", endKey=b"p")
    found = timeline_table(store.timeline()).to_pylist()
    assert [(row["first"], row["last"], row["lastIncluded"], row["state"]) for row in found] == [
        ({"key": b"a"}, {"key": b"m"}, False, "visible"),
        ({"key": b"m"}, {"key": b"p"}, False, "overshadowed"),
        ({"key": b"p"}, {"key": b"z"}, True, "visible"),
    ]


def timeline_of(store: SlateStore, *bounds: bytes | None) -> KeyTimeline:
    """A timeline of neighbouring intervals with these bounds, without files."""
    intervals = tuple(TimelineInterval(start or b"", end, (), None) for start, end in pairwise(bounds))
    return replace(store.timeline(), intervals=intervals)


def test_each_fact_is_in_the_column_of_its_name() -> None:
    store = SlateStore.create("memory://timeline-frame-cells")
    visible = FileVersion("01A", "s3://other", "run 7", True, None, 4, True, 11, 1000)
    hidden = FileVersion("01B", None, None, False, 6, None, False, 22, 10**15)
    whole = TimelineInterval(b"", b"m", (visible, hidden), 6)
    table = timeline_table(replace(store.timeline(), intervals=(whole, TimelineInterval(b"m", None, (), 7))))
    assert table.schema.field("created").type == pa.timestamp("us", "UTC"), "as Spark has them"
    below = {
        "first": None,
        "firstIncluded": True,
        "last": {"key": b"m"},
        "lastIncluded": False,
        "replaced": 6,
        "startKey": b"",
        "endKey": b"m",
    }
    end_of_time = dt.datetime(9999, 12, 31, 9, 59, 59, 999_000, dt.UTC)
    assert table.to_pylist() == [
        {
            **below,
            "state": "visible",
            "file": "01A",
            "root": "s3://other",
            "layer": "run 7",
            "added": 4,
            "since": None,
            "storedBytes": 11,
            "created": dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC),
        },
        {
            **below,
            "state": "overshadowed",
            "file": "01B",
            "root": None,
            "layer": None,
            "added": None,
            "since": 6,
            "storedBytes": 22,
            "created": end_of_time,
        },
        {
            **dict.fromkeys(table.schema.names),
            "first": {"key": b"m"},
            "firstIncluded": True,
            "lastIncluded": False,
            "state": "empty",
            "replaced": 7,
            "startKey": b"m",
        },
    ]


def told_ends(store: SlateStore, *bounds: bytes | None) -> list[tuple[dict[str, object] | None, bool]]:
    rows = timeline_table(timeline_of(store, None, *bounds)).to_pylist()
    assert [(row["last"], not row["lastIncluded"]) for row in rows[:-1]] == [
        (row["first"], row["firstIncluded"]) for row in rows[1:]
    ]
    return [(row["last"], row["lastIncluded"]) for row in rows]


def test_a_raw_bound_lies_behind_a_key_only_with_a_zero_byte_at_its_end() -> None:
    store = SlateStore.create("memory://timeline-frame-raw-bounds")
    assert told_ends(store, b"a\xff", b"x\0", b"x\0\xff\0", b"y", None) == [
        ({"key": b"a\xff"}, False),
        ({"key": b"x"}, True),
        ({"key": b"x\0\xff"}, True),
        ({"key": b"y"}, False),
        (None, False),
    ]


def test_a_null_at_the_end_of_a_key_is_no_bound_behind_the_columns_before_it() -> None:
    schema = pa.schema([("tenant", pa.string()), ("n", pa.int64()), ("v", pa.int64())])
    store = SlateStore.create("memory://timeline-frame-nulls", schema, "tenant, n", keyFormat="tuple")
    codec = store.timeline().codec
    null, zero = codec.encode_key(["a", None]), codec.encode_key(["a", 0])
    assert null.endswith(b"\0"), "as a bound behind a key does"
    last, behind = codec.encode_key(["a", 255]), null[:-1] + b"\xff"
    assert last.endswith(b"\xff"), "as a bound behind all keys of a tenant does"
    assert told_ends(store, null, null + b"\0", zero, zero + b"\0", last, behind) == [
        ({"tenant": "a", "n": None}, False),
        ({"tenant": "a", "n": None}, True),
        ({"tenant": "a", "n": 0}, False),
        ({"tenant": "a", "n": 0}, True),
        ({"tenant": "a", "n": 255}, False),
        ({"tenant": "a", "n": None}, True),
    ]
