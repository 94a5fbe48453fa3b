"""Windows of a k-way merge: where they are cut, and keys that no window holds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from slatespark.errors import CorruptDataError
from slatespark.format.row import Row
from slatespark.kernels.columns import RowColumns
from slatespark.table.read.merge.cursor import LayerCursor, layer_windows
from slatespark.table.read.merge.windows import LongKey, MergeWindow, version_windows, whole_key_windows
from slatespark.table.read.planning.plan import Layer
from tests.unit.table.layers import new_stores, put_file

Name = tuple[bytes, int]  # key and seq
ROW_BYTES = 1  # a block, and with it a window, per row


def cursors(*layers: Sequence[Name], block_size: int = 4096) -> list[LayerCursor]:
    stores = new_stores()
    slices = [put_file(stores, [Row(*name) for name in names], block_size=block_size) for names in layers]
    return [LayerCursor(layer_windows(stores, Layer("run", (part,)), 1)) for part in slices]


def names_of(rows: RowColumns, low: int, high: int) -> list[Name]:
    return [(rows.key(row), int(rows.seqs[row])) for row in range(low, high)]


def content(window: MergeWindow) -> list[Name]:
    spans = zip(window.sources, window.lows.tolist(), window.highs.tolist(), strict=True)
    return [name for span in spans for name in names_of(*span)]


NEWER = [(b"a", 30), (b"c", 31), (b"e", 32)]
OLDER = [(b"a", 10), (b"b", 11), (b"e", 12), (b"f", 13)]


@pytest.mark.parametrize("block_size", [ROW_BYTES, 4096])
def test_windows_of_whole_keys_follow_each_other(block_size: int) -> None:
    windows = list(whole_key_windows(cursors(NEWER, OLDER, block_size=block_size)))
    found = [content(window) for window in windows if isinstance(window, MergeWindow)]
    assert len(found) == len(windows)
    assert sorted(name for names in found for name in names) == sorted(NEWER + OLDER)
    assert all(max(one)[0] < min(two)[0] for one, two in pairwise(found)), "no key is in two windows"


def test_no_rows() -> None:
    assert list(whole_key_windows([])) == []
    assert list(version_windows([])) == []


def test_a_long_key_comes_in_parts_newest_first() -> None:
    many = [(b"k", seq) for seq in range(40, 20, -1)]
    older = [(b"k", seq) for seq in range(9, 3, -1)]
    found: list[list[Name]] = []
    long_keys = []
    for window in whole_key_windows(cursors([(b"a", 50), *many], [*older, (b"z", 1)], block_size=ROW_BYTES)):
        if isinstance(window, LongKey):
            long_keys.append(window.key)
            found.append([name for part in window.parts for name in names_of(*part)])
        else:
            found.append(content(window))
    assert long_keys == [b"k"]
    assert found == [[(b"a", 50)], [*many, *older], [(b"z", 1)]]


@pytest.mark.parametrize("block_size", [ROW_BYTES, 60])
@pytest.mark.parametrize("first_below", [21, 22, 40])
def test_a_lower_layer_with_a_newer_version(first_below: int, block_size: int) -> None:
    many = [(b"k", seq) for seq in range(40, 20, -1)]
    below = [(b"k", seq) for seq in range(first_below, 0, -1)]
    long_key = next(whole_key_windows(cursors(many, below, block_size=block_size)))
    assert isinstance(long_key, LongKey)
    with pytest.raises(CorruptDataError, match="layer order"):
        list(long_key.parts)


@pytest.mark.parametrize("block_size", [ROW_BYTES, 4096])
def test_versions_of_a_key_may_alternate(block_size: int) -> None:
    one = [(b"a", 9), (b"a", 5), (b"a", 1), (b"c", 8), (b"c", 4)]
    other = [(b"a", 5), (b"b", 3), (b"c", 6)]
    found = [content(window) for window in version_windows(cursors(one, other, block_size=block_size))]

    def order(name: Name) -> tuple[bytes, int]:
        return name[0], -name[1]

    assert sorted((name for names in found for name in names), key=order) == sorted(one + other, key=order)
    assert all(max(map(order, one)) < min(map(order, two)) for one, two in pairwise(found))
    together = [names for names in found if (b"a", 5) in names]
    assert len(together) == 1
    assert together[0].count((b"a", 5)) == 2, "equal rows are in one window"
