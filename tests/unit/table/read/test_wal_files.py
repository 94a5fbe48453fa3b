"""Which WAL files are decoded together, and that their numbers grow from one to the next."""

from __future__ import annotations

import pytest

from slatespark import CorruptDataError
from slatespark.format.paths import wal_path
from slatespark.format.row import Row
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.table.read import fetch
from slatespark.table.read.fetch import fetch_wal_share
from slatespark.table.snapshot import WalTail
from tests.support.wal_files import encode_wal
from tests.unit.table.layers import new_stores
from tests.unit.table.read.test_wal_share import shared_rows


@pytest.mark.parametrize(
    ("sizes", "together"),
    [
        ([], []),
        ([0, 0], []),
        ([4, 6, 1], [[1, 2], [3]]),
        ([4, 0, 7, 0, 3], [[1], [3, 5]]),
        ([11, 1, 25, 10], [[1], [2], [3], [4]]),
    ],
)
def test_small_files_go_together(monkeypatch: pytest.MonkeyPatch, sizes: list[int], together: list[list[int]]) -> None:
    monkeypatch.setattr(fetch, "WAL_BATCH_BYTES", 10)
    files = [(number, bytes(size)) for number, size in enumerate(sizes, 1)]
    found = list(fetch._few_at_a_time(files))
    assert [[number for number, _ in few] for few in found] == together
    assert [each for few in found for each in few] == [each for each in files if each[1]]


@pytest.mark.parametrize("batch_bytes", [1, fetch.WAL_BATCH_BYTES], ids=["each alone", "together"])
@pytest.mark.parametrize(("first_seq", "is_sound"), [(2, False), (3, False), (4, True)])
def test_numbers_grow_from_file_to_file(
    monkeypatch: pytest.MonkeyPatch, batch_bytes: int, first_seq: int, *, is_sound: bool
) -> None:
    """Also in rows that are not wanted: of other keys, or in the trees already."""
    monkeypatch.setattr(fetch, "WAL_BATCH_BYTES", batch_bytes)
    stores = new_stores()
    for number, seqs in enumerate(([1, 2, 3], [first_seq, 5]), 1):
        stores.wal.put(wal_path(number), [encode_wal([Row(b"k", seq, value=b"v") for seq in seqs])])
    for above_seq, keys in [(0, ALL_KEYS), (9, ALL_KEYS), (0, KeyRange(b"x", None))]:
        if is_sound:
            wanted = [(b"k", seq, b"v") for seq in (5, 4, 3, 2, 1)] if keys == ALL_KEYS and not above_seq else []
            assert shared_rows(fetch_wal_share(stores, WalTail(1, 3), above_seq, keys)) == wanted
            continue
        with pytest.raises(CorruptDataError, match=wal_path(2)):
            fetch_wal_share(stores, WalTail(1, 3), above_seq, keys)
