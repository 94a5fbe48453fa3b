"""The versions of one key that a compaction keeps, see `docs/explanation/what-a-compaction-keeps.md`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slatespark.kernels import DROPPED, GROUP_HEAD, GROUP_REST, PLAIN, TO_TOMBSTONE, Fields, Retention
from tests.unit.kernels.implementations import COMPILED, REFERENCE
from tests.unit.kernels.rows import Version, columns, delete, operand, put

EVERYTHING_SEEN = 2**64 - 1  # no snapshot is open

CASES: dict[str, tuple[dict[str, Any], list[Version], list[int]]] = {
    "the newest version hides the others": (
        {},
        [put(b"k", 3), put(b"k", 2), delete(b"k", 1)],
        [PLAIN, DROPPED, DROPPED],
    ),
    "a snapshot keeps the versions above it and the one it sees": (
        {"min_seq": 2},
        [put(b"k", 4), delete(b"k", 3), put(b"k", 2), put(b"k", 1)],
        [PLAIN, PLAIN, PLAIN, DROPPED],
    ),
    "a tombstone is kept if older versions may lie below": ({}, [delete(b"k", 3), put(b"k", 2)], [PLAIN, DROPPED]),
    "a tombstone is dropped if nothing lies below": (
        {"drops_tombstones": True},
        [delete(b"k", 3), put(b"k", 2)],
        [DROPPED, DROPPED],
    ),
    "only the oldest tombstones are dropped": (
        {"drops_tombstones": True, "min_seq": 1},
        [delete(b"k", 4), put(b"k", 3), delete(b"k", 2), delete(b"k", 1)],
        [PLAIN, PLAIN, DROPPED, DROPPED],
    ),
    "a version that expires now is expired": ({"now_ms": 10}, [put(b"k", 1, expire_ts=10)], [TO_TOMBSTONE]),
    "a version that expires later is not": ({"now_ms": 10}, [put(b"k", 1, expire_ts=11)], [PLAIN]),
    "an expired put hides older versions": (
        {"now_ms": 10, "drops_tombstones": True},
        [put(b"k", 2, expire_ts=10), put(b"k", 1)],
        [DROPPED, DROPPED],
    ),
    "an expired operand does not": ({"now_ms": 10}, [operand(b"k", 2, expire_ts=10), put(b"k", 1)], [DROPPED, PLAIN]),
    "a snapshot does not protect an expired version": (
        {"now_ms": 10, "min_seq": 0},
        [put(b"k", 2, expire_ts=10), operand(b"k", 1, expire_ts=10)],
        [TO_TOMBSTONE, DROPPED],
    ),
    "operands fold onto their base": (
        {},
        [operand(b"k", 3), operand(b"k", 2), put(b"k", 1)],
        [GROUP_HEAD, GROUP_REST, GROUP_REST],
    ),
    "operands fold onto a tombstone": ({"drops_tombstones": True}, [operand(b"k", 3), delete(b"k", 2)], [1, 2]),
    "a single operand is unchanged": ({"drops_tombstones": True}, [operand(b"k", 3)], [PLAIN]),
    "operands with different expiries do not fold": (
        {},
        [operand(b"k", 4, expire_ts=9), operand(b"k", 3, expire_ts=9), operand(b"k", 2), put(b"k", 1, expire_ts=9)],
        [GROUP_HEAD, GROUP_REST, PLAIN, PLAIN],
    ),
    "operands on both sides of a snapshot do not fold": (
        {"min_seq": 2},
        [operand(b"k", 4), operand(b"k", 3), operand(b"k", 2), put(b"k", 1)],
        [PLAIN, PLAIN, GROUP_HEAD, GROUP_REST],
    ),
    "a base that expires with its operands becomes a tombstone": (
        {"now_ms": 10},
        [operand(b"k", 2, expire_ts=10), put(b"k", 1, expire_ts=10)],
        [TO_TOMBSTONE, DROPPED],
    ),
    "history above the floor is kept": (
        {"floor_ms": 10, "now_ms": 10, "drops_tombstones": True},
        [
            delete(b"k", 5, create_ts=13),
            put(b"k", 4, create_ts=12, expire_ts=5),
            operand(b"k", 3, create_ts=11, expire_ts=5),
            put(b"k", 2, create_ts=10),
            put(b"k", 1, create_ts=9),
        ],
        [PLAIN, PLAIN, PLAIN, PLAIN, DROPPED],
    ),
    "below the floor even tombstones are dropped": (
        {"floor_ms": 10, "drops_tombstones": True},
        [delete(b"k", 2, create_ts=11), delete(b"k", 1, create_ts=10)],
        [PLAIN, DROPPED],
    ),
    "versions without a time are below every floor": ({"floor_ms": 10}, [put(b"k", 2), put(b"k", 1)], [PLAIN, DROPPED]),
    "a version past retention is dropped": (
        {"retired_ms": 10, "drops_tombstones": True},
        [operand(b"k", 2, create_ts=10), put(b"k", 1, create_ts=9)],
        [DROPPED, DROPPED],
    ),
    "it becomes a tombstone if older versions may lie below": (
        {"retired_ms": 10},
        [operand(b"k", 2, create_ts=10, expire_ts=99), put(b"k", 1, create_ts=9)],
        [DROPPED, TO_TOMBSTONE],
    ),
    "a recent operand keeps its base": (
        {"retired_ms": 10},
        [operand(b"k", 2, create_ts=11, expire_ts=99), put(b"k", 1, create_ts=9)],
        [PLAIN, PLAIN],
    ),
    "versions without a time are never past retention": ({"retired_ms": 10}, [put(b"k", 1)], [PLAIN]),
    "hidden versions may be past retention without the visible one": (
        {"retired_ms": 10, "min_seq": 0, "drops_tombstones": True},
        [put(b"k", 2, create_ts=11), put(b"k", 1, create_ts=10)],
        [PLAIN, DROPPED],
    ),
}


@pytest.mark.parametrize("kernels", [COMPILED, REFERENCE], ids=["compiled", "reference"])
@pytest.mark.parametrize("case", CASES)
def test_versions_kept_of_a_key(case: str, kernels: Any) -> None:
    given, versions, expected = CASES[case]
    rows = columns(*versions)
    fields = Fields(rows.seqs, rows.flags, rows.create_ts, rows.expire_ts)
    first = np.arange(len(rows)) == 0
    found = kernels.retain_versions(fields, first, Retention(**{"min_seq": EVERYTHING_SEEN, **given}))
    assert found.marks.tolist() == expected


@pytest.mark.parametrize("kernels", [COMPILED, REFERENCE], ids=["compiled", "reference"])
def test_outdated_rows_are_counted(kernels: Any) -> None:
    versions = [
        put(b"a", 1, create_ts=1, expire_ts=10),  # expired
        operand(b"b", 2, create_ts=1, expire_ts=10),  # expired
        put(b"b", 1, create_ts=5),  # past retention
        put(b"c", 2, create_ts=9),
        put(b"c", 1, create_ts=1, expire_ts=1),  # hidden, so its age is irrelevant
        delete(b"d", 1, create_ts=1),
    ]
    rows = columns(*versions)
    fields = Fields(rows.seqs, rows.flags, rows.create_ts, rows.expire_ts)
    first = np.array([True, True, False, True, False, True])
    retention = Retention(min_seq=EVERYTHING_SEEN, now_ms=10, retired_ms=5, drops_tombstones=True)
    assert kernels.retain_versions(fields, first, retention).outdated == 3
