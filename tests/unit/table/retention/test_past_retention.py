from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import strategies as st

from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.kernels import take_rows
from slatespark.kernels.columns import HAS_CREATE, TOMBSTONE, RowColumns, Selection
from slatespark.ranges import KeyRange, point_range
from slatespark.table.retention.past_retention import find_earliest_young, live_and_due, retired_keys, surviving_rows
from tests.support.row_values import columns_to_rows

PUT, MERGE, DELETE = RowKind.PUT, RowKind.MERGE, RowKind.DELETE
NOW_MS, RETIRED_MS = 200, 100


def row(key: bytes, seq: int, kind: RowKind = PUT, create: int | None = 50, expire: int | None = None) -> Row:
    return Row(key, seq, kind, b"" if kind is DELETE else b"v%d" % seq, create, expire)


# --- which keys show nothing but what is due ------------------------------------------------------------------------

GROUPS: list[tuple[list[Row], bool]] = [
    ([row(b"k", 1)], True),
    ([row(b"k", 1, create=100)], True),
    ([row(b"k", 1, create=101)], False),
    ([row(b"k", 1, create=None)], False),
    ([row(b"k", 2, create=101), row(b"k", 1)], False),
    ([row(b"k", 2), row(b"k", 1, create=101)], True),
    ([row(b"k", 2, DELETE), row(b"k", 1)], False),
    ([row(b"k", 2, MERGE, create=101), row(b"k", 1)], False),
    ([row(b"k", 2, MERGE), row(b"k", 1)], True),
    ([row(b"k", 2, MERGE, create=None), row(b"k", 1)], True),
    ([row(b"k", 2, MERGE, create=None), row(b"k", 1, create=None)], False),
    ([row(b"k", 2, MERGE), row(b"k", 1, DELETE, create=101)], True),
    ([row(b"k", 2, MERGE)], True),
    ([row(b"k", 3, MERGE, create=101, expire=200), row(b"k", 2, MERGE), row(b"k", 1)], True),
    ([row(b"k", 3, MERGE, create=101, expire=201), row(b"k", 2, MERGE), row(b"k", 1)], False),
    ([row(b"k", 1, expire=150)], True),
    ([row(b"k", 1, create=101, expire=150)], False),
    ([row(b"k", 2, MERGE, create=101, expire=150), row(b"k", 1, expire=150)], False),
    ([row(b"k", 2, MERGE), row(b"k", 1, create=101, expire=150)], True),
]


def found(pieces: Sequence[Sequence[Row]]) -> list[Row]:
    def windows() -> Iterator[tuple[list[RowColumns], Selection]]:
        for piece in pieces:
            positions = np.arange(len(piece), dtype=np.int64)
            yield [rows_to_columns(piece)], Selection(positions, np.zeros(len(piece), np.uint8))

    return [row for keys in retired_keys(windows(), NOW_MS, RETIRED_MS) for row in columns_to_rows(keys.rows)]


@pytest.mark.parametrize(("group", "retired"), GROUPS)
def test_a_key_retires_with_its_visible_row(group: list[Row], retired: bool) -> None:
    wanted = [Row(b"k", 0, DELETE)] if retired else []
    assert found([group]) == wanted
    assert found([[version] for version in group]) == wanted, "one version a window"
    around = [row(b"a", 5, create=None)], [row(b"z", 5, create=None)]
    assert found([[*around[0], *group, *around[1]]]) == wanted
    assert found([around[0], *[[version] for version in group], around[1]]) == wanted


def test_bytes_count_the_newest_versions() -> None:
    rows = [row(b"aa", 22), row(b"aa", 1), row(b"b", 3, create=101), row(b"c", 4)]
    windows = [([rows_to_columns(rows)], Selection(np.arange(4), np.zeros(4, np.uint8)))]
    assert [(len(keys.rows), keys.stored_bytes) for keys in retired_keys(windows, NOW_MS, RETIRED_MS)] == [
        (2, 2 + 3 + 1 + 2)
    ]


# --- what is left of a file -----------------------------------------------------------------------------------------


def left(rows: Sequence[Row], older: Sequence[KeyRange] = ()) -> tuple[list[Row], int]:
    columns = rows_to_columns(rows)
    survivors = surviving_rows(columns, 0, len(rows), older, RETIRED_MS)
    tombstones = survivors.positions[survivors.tombstones]
    columns.flags[tombstones] = (columns.flags[tombstones] & np.uint8(HAS_CREATE)) | np.uint8(TOMBSTONE)
    columns.value_lengths[tombstones] = 0
    return columns_to_rows(take_rows([columns], survivors.positions)), survivors.gone


@pytest.mark.parametrize(
    ("rows", "alone", "gone", "covered"),
    [
        ([row(b"k", 1)], [], 1, [row(b"k", 1, DELETE)]),
        ([row(b"k", 1, create=101)], [row(b"k", 1, create=101)], 0, [row(b"k", 1, create=101)]),
        ([row(b"k", 1, create=None)], [row(b"k", 1, create=None)], 0, [row(b"k", 1, create=None)]),
        ([row(b"k", 1, DELETE)], [], 0, [row(b"k", 1, DELETE)]),
        ([row(b"k", 2), row(b"k", 1)], [], 2, [row(b"k", 2, DELETE)]),
        ([row(b"k", 2, DELETE), row(b"k", 1, create=None)], [], 1, [row(b"k", 2, DELETE)]),
        (
            [row(b"k", 2, create=101), row(b"k", 1)],
            [row(b"k", 2, create=101)],
            1,
            [row(b"k", 2, create=101), row(b"k", 1, DELETE)],
        ),
        (
            [row(b"k", 4, create=101), row(b"k", 3, MERGE), row(b"k", 2), row(b"k", 1, create=40)],
            [row(b"k", 4, create=101)],
            3,
            [row(b"k", 4, create=101), row(b"k", 3, DELETE)],
        ),
        (
            [row(b"k", 3, create=101), row(b"k", 2, DELETE), row(b"k", 1)],
            [row(b"k", 3, create=101)],
            1,
            [row(b"k", 3, create=101), row(b"k", 2, DELETE)],
        ),
        (
            [row(b"k", 4, MERGE, create=102), row(b"k", 3, create=101), row(b"k", 2), row(b"k", 1)],
            [row(b"k", 4, MERGE, create=102), row(b"k", 3, create=101)],
            2,
            [row(b"k", 4, MERGE, create=102), row(b"k", 3, create=101), row(b"k", 2, DELETE)],
        ),
        (
            [row(b"k", 3, create=101), row(b"k", 2), row(b"k", 1, create=None)],
            [row(b"k", 3, create=101), row(b"k", 2), row(b"k", 1, create=None)],
            0,
            [row(b"k", 3, create=101), row(b"k", 2), row(b"k", 1, create=None)],
        ),
        ([row(b"k", 2, MERGE), row(b"k", 1)], [], 2, [row(b"k", 2, DELETE)]),
        (
            [row(b"k", 2, MERGE, create=101), row(b"k", 1)],
            [row(b"k", 2, MERGE, create=101), row(b"k", 1)],
            0,
            [row(b"k", 2, MERGE, create=101), row(b"k", 1)],
        ),
        ([row(b"k", 1, expire=1000)], [], 1, [row(b"k", 1, DELETE)]),
    ],
)
def test_a_rewrite_keeps_rows_that_are_not_due(
    rows: list[Row], alone: list[Row], gone: int, covered: list[Row]
) -> None:
    assert left(rows) == (alone, gone)
    assert left(rows, [point_range(b"k")]) == (covered, gone)
    assert left(rows, [KeyRange(b"", b"k"), KeyRange(b"l", None)]) == (alone, gone)


def test_a_rewrite_of_some_rows_leaves_the_others_alone() -> None:
    columns = rows_to_columns([row(key, 1) for key in (b"a", b"b", b"c", b"d")])
    survivors = surviving_rows(columns, 1, 3, [KeyRange(b"b", b"c")], RETIRED_MS)
    assert (survivors.positions.tolist(), survivors.tombstones.tolist(), survivors.gone) == ([1], [True], 2)


keys = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])


# --- small things ---------------------------------------------------------------------------------------------------


def test_due_rows_and_the_next_one() -> None:
    rows = [
        row(b"a", 1),
        row(b"b", 1, DELETE),
        row(b"c", 1, create=None),
        row(b"d", 1, create=140),
        row(b"e", 1, DELETE, create=110),
        row(b"f", 1, create=120),
    ]
    columns = rows_to_columns(rows)
    assert live_and_due(columns, RETIRED_MS).tolist() == [True, False, False, False, False, False]
    assert find_earliest_young(columns, 0, 6, RETIRED_MS) == 120
    assert find_earliest_young(columns, 0, 5, RETIRED_MS) == 140
    assert find_earliest_young(columns, 0, 3, RETIRED_MS) is None
