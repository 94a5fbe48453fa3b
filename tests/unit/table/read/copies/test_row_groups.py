"""Which keys a row group may have, by the statistics of its key columns alone, as in copies written at first."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.format.ulid import Ulid
from slatespark.ranges import KeyRange
from slatespark.table.columns.read import fetch_copy
from slatespark.table.read.copies.row_groups import GroupStatistics

ROWS = 1500
_names = itertools.count()

INTEGERS = {"id": pa.array(range(-700, 800), pa.int64())}
TENANTS = {
    "t": [f"t{number // 70:02d}" for number in range(ROWS)],
    "id": pa.array((number * 7 for number in range(ROWS)), pa.int32()),
}
NULLS = {
    "t": [None if number < 600 else "a\0b" if number < 1100 else "" for number in range(ROWS)],
    "id": pa.array((None if number in (3, 1003, 1400) else number for number in range(ROWS)), pa.int64()),
}
FLOATS = {"f": [math.nan, math.inf, -math.inf, *(number / 7 - 100 for number in range(ROWS - 3))]}
TWO_TENANTS = {"t": ["a" if number < 700 else "b" for number in range(ROWS)], "id": range(ROWS)}
ONE_TENANT = {"t": ["a"] * ROWS, "id": range(ROWS)}


def groups_of(columns: dict[str, Any], *, has_starts: bool = False) -> tuple[list[KeyRange], list[list[bytes]]]:
    """The ranges that statistics tell, or the label of the copy, and the keys, of each row group."""
    rows = pa.table(columns).append_column("v", pa.array(["x" * 50] * ROWS))
    url, keys = f"memory://row-groups-{next(_names)}", ", ".join(columns)
    store = SlateStore.create(url, rows.schema, keys, columnar=True, autoCompact=False, keyFormat="tuple")
    store.write(rows)
    store.compact(full=True)
    [file] = store.files()
    copy, codec = fetch_copy(store._stores.main, Ulid.parse(file.id)), store.timeline().codec
    groups = [copy.read_group(number).select(list(columns)) for number in range(copy.footer.metadata.num_row_groups)]
    stored = [[codec.encode_key(list(row.values())) for row in group.to_pylist()] for group in groups]
    assert copy.footer.label.starts is not None
    footer = copy.footer if has_starts else replace(copy.footer, label=replace(copy.footer.label, starts=None))
    return GroupStatistics(footer, codec).key_ranges(), stored


@pytest.mark.parametrize("columns", [INTEGERS, TENANTS, NULLS, FLOATS, ONE_TENANT])
def test_each_key_lies_in_the_range_of_its_group(columns: dict[str, Any]) -> None:
    ranges, stored = groups_of(columns)
    assert len(ranges) == len(stored) > 3
    assert sum(map(len, stored)) == ROWS
    for keys, found in zip(ranges, stored, strict=True):
        assert all(map(keys.contains, found))


@pytest.mark.parametrize(
    ("columns", "has_starts"),
    [(INTEGERS, False), (ONE_TENANT, False), (TWO_TENANTS, False), (TENANTS, True), (NULLS, True), (FLOATS, True)],
)
def test_a_group_has_no_keys_of_others(columns: dict[str, Any], has_starts: bool) -> None:
    """Also one of two tenants, by its statistics: its neighbours have one tenant each, and say where it ends."""
    ranges, stored = groups_of(columns, has_starts=has_starts)
    assert len(ranges) == len(stored) > 3
    for keys, found in zip(ranges, stored, strict=True):
        assert [key for group in stored for key in group if keys.contains(key)] == found


def test_a_group_of_one_tenant_meets_no_other_tenants() -> None:
    """Two key columns: a group may be taken to reach as far as its tenants do, and no further."""
    ranges, stored = groups_of(TENANTS)
    for keys, found in zip(ranges, stored, strict=True):
        met = {key[:4] for group in stored for key in group if keys.contains(key)}
        assert met == {key[:4] for key in found}
