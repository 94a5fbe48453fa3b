"""Gaps: exactly the ranges without a row are found, and few blocks are read for it."""

from __future__ import annotations

import hashlib
import itertools

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from slatespark.encoding.row_codec import RAW_CODEC
from slatespark.ranges import KeyRange, point_range
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.fetch import filter_sets, indexes
from slatespark.table.read.gaps import find_gaps, is_gap
from slatespark.table.read.planning.layers import distinct_files, fetch_layers
from slatespark.table.read.planning.plan import SstFile
from slatespark.table.stores import TableStores
from tests.faults.jobs import stores_of, table_of
from tests.support.effort import examples
from tests.support.failing_store import FailingStore

_names = itertools.count()
KEYS = st.lists(st.integers(0, 300), min_size=1, max_size=40, unique=True).map(sorted)


def key(number: int) -> bytes:
    return b"k%03d" % number


def one_file(numbers: list[int]) -> tuple[TableStores, FailingStore, SstFile]:
    url = f"memory://gaps-{next(_names)}"
    table = SlateStore.create(url, autoCompact=False)
    value = hashlib.shake_256(b"value").digest(400)
    table.write(table_of([(key(number), value) for number in numbers]), blockSize=1024)  # two rows in a block
    counted = FailingStore(MemoryStore(url.removeprefix("memory://")))
    stores = stores_of(counted)
    (file,) = distinct_files(fetch_layers(stores, fetch_latest_manifest(stores)[1]))
    return stores, counted, file


@settings(max_examples=examples(30))
@given(KEYS, st.lists(st.integers(0, 300), min_size=2, max_size=12, unique=True), st.booleans())
def test_gaps_are_the_ranges_without_rows(numbers: list[int], edges: list[int], are_points: bool) -> None:
    stores, _, file = one_file(numbers)
    edges.sort()
    bounds = [KeyRange(key(start), key(end)) for start, end in itertools.pairwise(edges)]
    ranges = [point_range(key(edge)) for edge in edges] if are_points else bounds
    gaps = find_gaps(stores, {file: ranges}, RAW_CODEC).get(file.id, ())
    for keys in ranges:
        assert is_gap(keys, gaps) == (not any(keys.contains(key(number)) for number in numbers))
    assert all(one.end is not None and one.end < other.start for one, other in itertools.pairwise(gaps))


def test_ranges_that_overlap_others_are_no_gaps() -> None:
    stores, _, file = one_file([0, 100, 200])
    wide, narrow = KeyRange(key(1), key(99)), KeyRange(key(5), key(150))
    assert find_gaps(stores, {file: [narrow, wide]}, RAW_CODEC) == {file.id: (wide,)}


def requests_for(ranges: list[KeyRange]) -> int:
    stores, counted, file = one_file(list(range(300)))
    indexes.clear()
    filter_sets.clear()
    before = sum(call.operation in ("get_range", "get_ranges") for call in counted.calls)
    find_gaps(stores, {file: ranges}, RAW_CODEC)
    return sum(call.operation in ("get_range", "get_ranges") for call in counted.calls) - before


def test_few_requests_tell() -> None:
    assert requests_for([KeyRange(b"", key(5)), KeyRange(key(290)), KeyRange(b"a", b"b"), KeyRange(b"l", b"m")]) == 0
    assert requests_for([KeyRange(key(20), key(200)), KeyRange(key(210), key(280))]) == 1, "the index"
    assert requests_for([KeyRange(key(20) + b"x", key(21)), KeyRange(key(200) + b"x", key(201))]) == 3
    absent = [point_range(key(number) + b"x") for number in range(1, 101)]
    assert requests_for(absent) <= 3, "the filter, and with luck nothing else"


def test_a_typed_table_asks_the_filter_for_whole_keys() -> None:
    url = f"memory://gaps-{next(_names)}"
    schema = pa.schema([("shop", pa.string()), ("id", pa.int64()), ("x", pa.int64())])
    table = SlateStore.create(url, schema, ["shop", "id"], autoCompact=False)
    table.write(pa.table({"shop": ["a"] * 500, "id": range(0, 1000, 2), "x": [1] * 500}, schema), blockSize=1024)
    counted = FailingStore(MemoryStore(url.removeprefix("memory://")))
    stores = stores_of(counted)
    (file,) = distinct_files(fetch_layers(stores, fetch_latest_manifest(stores)[1]))
    codec = table.definition.codec()
    odd = [KeyRange(codec.encode_key(("a", 5)), codec.encode_key(("a", 6)))]
    indexes.clear()
    filter_sets.clear()
    assert find_gaps(stores, {file: odd}, codec) == {file.id: tuple(odd)}
    assert [call.operation for call in counted.calls].count("get_range") <= 2
