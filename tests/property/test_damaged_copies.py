"""Damage anywhere in a columnar copy: a scan shows the rows of the SSTs all the same, whatever it asks for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from slatespark.table.columns import write
from slatespark.table.read.copies.part import CopyPart
from slatespark.table.read.copies.stored import footers
from slatespark.table.read.merge import cursor, joined_windows
from tests.support.effort import examples

_names = itertools.count()
SCHEMA: Final = pa.schema([("a", pa.string()), ("id", pa.int64()), ("v", pa.float64()), ("s", pa.string())])
FILTERS: Final = [
    "v > 1",
    "s = 'ab'",
    "a = 't1' AND id > 20",
    "s LIKE 'a%' AND v <= 2",
    "a IN ('t0', 't2') AND id BETWEEN 5 AND 90",
    "_seq > 1",
    "v = 'NaN'",
]
TEXTS: Final = ["", "a", "ab", "abc", "é", "\0", None]
SHARES: Final = st.integers(0, 9999).map(lambda number: number / 10_000)
TURNS: Final = 4
NUMBERS: Final = [0.0, -0.0, 1.5, -2.0, float("nan"), float("inf"), None]


@pytest.fixture(autouse=True)
def _copies_always_pay() -> Iterator[None]:
    """A copy of few rows is larger than its SST."""
    with patch.object(CopyPart, "stored_bytes", property(lambda _: -1)):
        yield


def _rows(data: st.DataObject, ids: list[int]) -> pa.Table:
    texts = data.draw(st.lists(st.sampled_from(TEXTS), min_size=5, max_size=5))
    numbers = data.draw(st.lists(st.sampled_from(NUMBERS), min_size=4, max_size=4))
    rows = [{"a": f"t{each % 3}", "id": each, "v": numbers[each % 4], "s": texts[each % 5]} for each in ids]
    return pa.Table.from_pylist(rows, SCHEMA)


def _make_table(data: st.DataObject) -> SlateStore:
    """A compacted table with copies of several row groups, and maybe newer layers above, or views that cut files."""
    store = SlateStore.create(f"memory://damaged-{next(_names)}/t", SCHEMA, "a, id", columnar=True, autoCompact=False)
    sizes = st.sampled_from(["1k", "2k", "64m"])
    store.write(_rows(data, [*range(data.draw(st.integers(5, 150)))]), blockSize="1k", ttl="10d")
    store.compact(full=True, blockSize="1k", sstSize=data.draw(sizes))
    if newer := data.draw(st.lists(st.integers(0, 150), max_size=10, unique=True)):
        store.write(_rows(data, newer), blockSize="1k", sstSize=data.draw(sizes))
    if gone := data.draw(st.lists(st.integers(0, 150), max_size=5, unique=True)):
        store.write(_rows(data, gone).select(["a", "id"]), operation="delete")
    if data.draw(st.booleans()):
        store.deleteRange("a = 't1' AND id > 40 AND id < 60")
    return store


def _damaged(data: st.DataObject, sound: bytes) -> bytes:
    """Bytes with some of them changed; the places are shares of the size, which differs a little from run to run."""
    kind = data.draw(st.sampled_from(["flip", "flip", "flips", "cut", "zeros", "less"]))
    places = [int(len(sound) * share) for share in data.draw(st.lists(SHARES, min_size=3, max_size=3))]
    found, first = bytearray(sound), places[0]
    if kind == "cut":
        return sound[:first]
    if kind == "zeros":
        found[first : first + 50] = bytes(len(found[first : first + 50]))
    elif kind == "less":
        del found[first : first + 20]
    else:
        for place in places[: 1 if kind == "flip" else 3]:
            found[place] ^= 1 << data.draw(st.integers(0, 7))
    return bytes(found)


def _options(data: st.DataObject) -> dict[str, Any]:
    options: dict[str, Any] = {"order": data.draw(st.sampled_from(["asc", "desc"]))}
    if data.draw(st.booleans()):
        options["splitSize"] = data.draw(st.sampled_from(["1k", "3k"]))
    if data.draw(st.booleans()):
        options["columns"] = data.draw(st.lists(st.sampled_from(SCHEMA.names), min_size=1, max_size=2, unique=True))
    if data.draw(st.booleans()):
        options["filter"] = data.draw(st.sampled_from(FILTERS))
    return options


def _shown(store: SlateStore, **options: Any) -> str:
    return repr(store.scan(**options).read_all().to_pylist())  # as text: NaN equals NaN


@settings(max_examples=examples(16))
@given(data=st.data())
def test_scans_of_damaged_copies(data: st.DataObject) -> None:
    windows = data.draw(st.sampled_from([1, 5000, 3 << 20]))
    with (
        patch.object(write, "GROUP_ROWS", data.draw(st.sampled_from([1, 4, 20]))),
        patch.object(write, "WINDOW_BYTES", 1),
        patch.multiple(cursor, MIN_WINDOW_BYTES=windows, MAX_WINDOW_BYTES=windows),
        patch.object(joined_windows, "SMALL_BATCH_ROWS", data.draw(st.sampled_from([1, 8192]))),
    ):
        store = _make_table(data)
        objects = store._stores.main
        paths = [meta.path for meta in objects.list("slatespark/columns/")]
        for turn in range(TURNS):
            path = paths[turn % len(paths)]
            sound = bytes(objects.get(path))
            footers.clear()
            if data.draw(st.booleans()):
                store.scan(columns="v").read_all()  # which remembers where everything was
            objects.put(path, [_damaged(data, sound)])
            options = _options(data)
            assert _shown(store, **options) == _shown(store, **options, useCopies=False)
            objects.put(path, [sound])
