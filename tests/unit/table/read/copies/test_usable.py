"""Which slices may be read from copies: none with older rows below, or with a key that another file of its run has."""

from __future__ import annotations

from slatespark.format.row import Row, RowKind
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.table.read.copies.usable import covered_slices, lowest_slices
from slatespark.table.read.planning.plan import Layer, Split
from slatespark.table.stores import TableStores
from tests.unit.table.layers import new_stores, put_file


def layer(stores: TableStores, *files: list[bytes]) -> Layer:
    slices = [put_file(stores, [Row(key, 9 - at, RowKind.PUT, b"v") for at, key in enumerate(keys)]) for keys in files]
    return Layer("run", tuple(slices))


def test_nothing_lies_below_a_file_nor_shares_a_key_with_it() -> None:
    stores = new_stores()
    upper = layer(stores, [b"a"], [b"m"], [b"z"])
    lower = layer(stores, [b"b", b"d"], [b"d", b"f"], [b"g", b"i"], [b"i"], [b"k", b"n"])
    found = lowest_slices([upper, lower])
    assert found == [upper.slices[0], lower.slices[4], upper.slices[2]], "d and i have versions in two files"
    assert lowest_slices([upper, lower], own=False) == []


def test_rows_above_cover_a_file() -> None:
    stores = new_stores()
    upper, lower = layer(stores, [b"a"], [b"m"]), layer(stores, [b"c", b"d"], [b"k", b"n"], [b"p"])
    found = covered_slices(Split(ALL_KEYS, (upper, lower)), KeyRange(b"p").overlaps)
    alone, under_files, under_wal = lower.slices
    assert found == {upper.slices[0]: False, alone: False, under_files: True, under_wal: True}
