"""The part of the WAL's rows that a split gets."""

from __future__ import annotations

import pickle

import pytest

from slatespark.format.paths import wal_path
from slatespark.format.row import Row
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.table.read.fetch import fetch_wal_share
from slatespark.table.read.planning.plan import Split
from slatespark.table.read.planning.wal_share import WalShare
from slatespark.table.snapshot import WalTail
from tests.support.row_values import columns_to_rows
from tests.support.wal_files import encode_wal
from tests.unit.table.layers import new_stores


def shared_rows(share: WalShare) -> list[tuple[bytes, int, bytes | None]]:
    return [(row.key, row.seq, row.value) for row in columns_to_rows(share.rows())]


def test_a_share_is_a_part_without_the_rest() -> None:
    stores = new_stores()
    keys = [b"5", b"3", b"8", b"1", b"3"]  # two files, each in the order of its writes
    for number, few in enumerate((range(3), range(3, 5)), 1):
        rows = [Row(keys[at], at + 1, value=b"v%d" % at) for at in few]
        stores.wal.put(wal_path(number), [encode_wal(rows)])
    tail = fetch_wal_share(stores, WalTail(1, 3), 0, ALL_KEYS)
    assert shared_rows(tail) == [
        (b"1", 4, b"v3"),
        (b"3", 5, b"v4"),
        (b"3", 2, b"v1"),
        (b"5", 1, b"v0"),
        (b"8", 3, b"v2"),
    ]

    share = pickle.loads(pickle.dumps(tail.within([KeyRange(b"3", b"5")])))
    assert shared_rows(share) == [(b"3", 5, b"v4"), (b"3", 2, b"v1")]
    rows = share.rows()
    assert len(rows.key_bytes) + len(rows.value_bytes) == 2 + 4
    assert (share.exceeds(5), share.exceeds(6)) == (True, False)
    assert shared_rows(pickle.loads(pickle.dumps(share))) == shared_rows(share)


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([ALL_KEYS], [b"1", b"3", b"5"]),
        ([KeyRange(b"", b"1")], []),
        ([KeyRange(b"1", b"3"), KeyRange(b"3", b"5")], [b"1", b"3"]),
        ([KeyRange(b"1", b"2"), KeyRange(b"4", None)], [b"1", b"5"]),
        ([KeyRange(b"3", b"3")], []),
        ([KeyRange(b"6", None)], []),
    ],
)
def test_a_share_of_ranges(ranges: list[KeyRange], expected: list[bytes]) -> None:
    stores = new_stores()
    stores.wal.put(
        wal_path(1), [encode_wal([Row(b"%d" % key, seq, value=b"v") for seq, key in enumerate((5, 1, 3), 1)])]
    )
    tail = fetch_wal_share(stores, WalTail(1, 2), 0, ALL_KEYS)
    for share in (tail, WalShare.of(tail.rows())):
        found = share.within(ranges)
        assert [key for key, _, _ in shared_rows(found)] == expected
        assert [key for key, _, _ in shared_rows(pickle.loads(pickle.dumps(found)))] == expected
        assert not found.exceeds(2 * len(expected))
        assert found.exceeds(2 * len(expected) - 1) is bool(expected)
        assert any(map(share.has_rows, ranges)) == bool(expected)


def test_keys_that_lie_in_order_are_not_copied() -> None:
    stores = new_stores()
    stores.wal.put(
        wal_path(1), [encode_wal([Row(b"%d" % key, seq, value=b"v") for seq, key in enumerate((5, 1, 3), 1)])]
    )
    tail = fetch_wal_share(stores, WalTail(1, 2), 0, ALL_KEYS)
    rows = tail.rows()
    for share, is_copied in ((tail, True), (WalShare.of(rows), False)):
        for part, expected in ((ALL_KEYS, [b"1", b"3", b"5"]), (KeyRange(b"2", None), [b"3", b"5"])):
            keys, start, end = share.within([part]).keys()
            assert [keys.key(at) for at in range(start, end)] == expected
            assert (keys is share.sources[0]) is not is_copied


def test_no_rows_are_a_share() -> None:
    stores = new_stores()
    tail = fetch_wal_share(stores, WalTail(1, 1), 0, ALL_KEYS)
    assert (len(tail), tail.exceeds(0), len(tail.rows()), tail.has_rows(ALL_KEYS)) == (0, False, 0, False)
    assert len(pickle.loads(pickle.dumps(tail.within([KeyRange(b"a", b"b")]))).rows()) == 0
    assert Split(KeyRange(b"", None), ()).wal is None
