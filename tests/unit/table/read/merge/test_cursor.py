"""Windows of one layer: files that contradict their order are damage, since a merge would show hidden rows."""

from __future__ import annotations

from itertools import pairwise

import pytest

from slatespark import CorruptDataError
from slatespark.format.row import Row
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.table.read.fetch import fetch_index
from slatespark.table.read.merge.cursor import layer_windows
from slatespark.table.read.merge.layer_reads import MAX_GAP_BYTES, byte_ranges, group_slices
from slatespark.table.read.planning.plan import FileSlice, Layer
from tests.support.row_values import columns_to_rows
from tests.unit.table.layers import new_stores, put_file


@pytest.mark.parametrize(
    ("before", "behind", "keys", "is_damaged"),
    [
        pytest.param([b"a", b"b"], [b"c"], ALL_KEYS, False, id="ascending"),
        pytest.param([b"a", b"b"], [b"b", b"c"], ALL_KEYS, False, id="a key in both"),
        pytest.param([b"a", b"b"], [b"b", b"c"], KeyRange(b"aa"), True, id="a key in both, and a view that overlaps"),
        pytest.param([b"b", b"c"], [b"a", b"d"], ALL_KEYS, True, id="descending"),
    ],
)
def test_keys_ascend_from_file_to_file(
    before: list[bytes], behind: list[bytes], keys: KeyRange, is_damaged: bool
) -> None:
    stores = new_stores()
    first, second = (put_file(stores, [Row(key, seq) for key in part]) for part, seq in ((before, 9), (behind, 5)))
    if keys != ALL_KEYS:
        second = FileSlice(second.file, keys)
    windows = layer_windows(stores, Layer("run", (first, second)), 1 << 20)
    if is_damaged:
        with pytest.raises(CorruptDataError):
            list(windows)
    else:
        assert sum(window.high - window.low for window in windows) == len(before) + len(behind)


@pytest.mark.parametrize("step", [2, 5, 40])
def test_small_slices_of_a_file_share_windows(step: int) -> None:
    """Each was a window with a read of its own, and a merge of every layer for each was slower than a whole scan."""
    stores, window_bytes = new_stores(), 16_384
    rows = [Row(b"%05d" % (number // 3), 9 - number % 3, value=bytes(50)) for number in range(9000)]
    file = put_file(stores, rows, block_size=512).file
    ranges = [KeyRange(b"%05d" % start, b"%05d" % (start + 1)) for start in range(0, 3000, step)]
    windows = list(layer_windows(stores, Layer("run 0", tuple(FileSlice(file, keys) for keys in ranges)), window_bytes))
    found = [row for window in windows for row in columns_to_rows(window.rows)[window.low : window.high]]
    assert found == [row for row in rows if int(row.key) % step == 0]
    assert len(windows) <= 5 * file.data_bytes // window_bytes


def test_a_group_reaches_no_further_than_a_window() -> None:
    """A store may read what lies between the blocks, so a group of few bytes could be a whole file in memory."""
    stores, window_bytes = new_stores(), 1 << 20
    file = put_file(stores, [Row(b"%05d" % number, 1, value=bytes(2000)) for number in range(4000)]).file
    index = fetch_index(stores, file)
    edges = index.block_edges(file.info)
    for step in (3, 20, 200):
        slices = [FileSlice(file, KeyRange(b"%05d" % start, b"%05d" % (start + 1))) for start in range(0, 4000, step)]
        groups = [byte_ranges(edges, group) for group in group_slices(index, edges, slices, window_bytes)]
        assert sum(len(spans) for spans in groups) >= len(groups) > 1
        for spans in groups:
            assert spans[-1].end - spans[0].start <= window_bytes
            assert all(after.start - before.end <= MAX_GAP_BYTES for before, after in pairwise(spans))
