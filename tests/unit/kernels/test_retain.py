"""What a compaction keeps of one key, case by case: spec 7.4, design 7 and 8."""

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
    "a snapshot keeps what is above it, and what it sees": (
        {"min_seq": 2},
        [put(b"k", 4), delete(b"k", 3), put(b"k", 2), put(b"k", 1)],
        [PLAIN, PLAIN, PLAIN, DROPPED],
    ),
    "a tombstone stays where something older may lie below": ({}, [delete(b"k", 3), put(b"k", 2)], [PLAIN, DROPPED]),
    "a tombstone goes where nothing does": (
        {"drops_tombstones": True},
        [delete(b"k", 3), put(b"k", 2)],
        [DROPPED, DROPPED],
    ),
    "only tombstones at the old end go": (
        {"drops_tombstones": True, "min_seq": 1},
        [delete(b"k", 4), put(b"k", 3), delete(b"k", 2), delete(b"k", 1)],
        [PLAIN, PLAIN, DROPPED, DROPPED],
    ),
    "what expires at now has expired": ({"now_ms": 10}, [put(b"k", 1, expire_ts=10)], [TO_TOMBSTONE]),
    "what expires later has not": ({"now_ms": 10}, [put(b"k", 1, expire_ts=11)], [PLAIN]),
    "an expired put hides what is older": (
        {"now_ms": 10, "drops_tombstones": True},
        [put(b"k", 2, expire_ts=10), put(b"k", 1)],
        [DROPPED, DROPPED],
    ),
    "an expired operand does not": ({"now_ms": 10}, [operand(b"k", 2, expire_ts=10), put(b"k", 1)], [DROPPED, PLAIN]),
    "an expired version is no version that a snapshot needs": (
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
    "an operand alone stays as it is": ({"drops_tombstones": True}, [operand(b"k", 3)], [PLAIN]),
    "operands that expire at other times do not fold": (
        {},
        [operand(b"k", 4, expire_ts=9), operand(b"k", 3, expire_ts=9), operand(b"k", 2), put(b"k", 1, expire_ts=9)],
        [GROUP_HEAD, GROUP_REST, PLAIN, PLAIN],
    ),
    "operands that a snapshot sees apart do not fold": (
        {"min_seq": 2},
        [operand(b"k", 4), operand(b"k", 3), operand(b"k", 2), put(b"k", 1)],
        [PLAIN, PLAIN, GROUP_HEAD, GROUP_REST],
    ),
    "a base that expires with its operands is buried with them": (
        {"now_ms": 10},
        [operand(b"k", 2, expire_ts=10), put(b"k", 1, expire_ts=10)],
        [TO_TOMBSTONE, DROPPED],
    ),
    "history above the floor stays": (
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
    "below the floor not even a tombstone stays": (
        {"floor_ms": 10, "drops_tombstones": True},
        [delete(b"k", 2, create_ts=11), delete(b"k", 1, create_ts=10)],
        [PLAIN, DROPPED],
    ),
    "versions without a time lie below every floor": ({"floor_ms": 10}, [put(b"k", 2), put(b"k", 1)], [PLAIN, DROPPED]),
    "what is past retention goes": (
        {"retired_ms": 10, "drops_tombstones": True},
        [operand(b"k", 2, create_ts=10), put(b"k", 1, create_ts=9)],
        [DROPPED, DROPPED],
    ),
    "a tombstone takes its place where something older may lie below": (
        {"retired_ms": 10},
        [operand(b"k", 2, create_ts=10, expire_ts=99), put(b"k", 1, create_ts=9)],
        [DROPPED, TO_TOMBSTONE],
    ),
    "an operand that is young keeps what it folds onto": (
        {"retired_ms": 10},
        [operand(b"k", 2, create_ts=11, expire_ts=99), put(b"k", 1, create_ts=9)],
        [PLAIN, PLAIN],
    ),
    "rows without a time never retire": ({"retired_ms": 10}, [put(b"k", 1)], [PLAIN]),
    "what is hidden may be past retention alone": (
        {"retired_ms": 10, "min_seq": 0, "drops_tombstones": True},
        [put(b"k", 2, create_ts=11), put(b"k", 1, create_ts=10)],
        [PLAIN, DROPPED],
    ),
}


@pytest.mark.parametrize("kernels", [COMPILED, REFERENCE], ids=["compiled", "reference"])
@pytest.mark.parametrize("case", CASES)
def test_what_stays_of_a_key(case: str, kernels: Any) -> None:
    given, versions, expected = CASES[case]
    rows = columns(*versions)
    fields = Fields(rows.seqs, rows.flags, rows.create_ts, rows.expire_ts)
    first = np.arange(len(rows)) == 0
    found = kernels.retain_versions(fields, first, Retention(**{"min_seq": EVERYTHING_SEEN, **given}))
    assert found.marks.tolist() == expected


@pytest.mark.parametrize("kernels", [COMPILED, REFERENCE], ids=["compiled", "reference"])
def test_what_is_outdated_counts(kernels: Any) -> None:
    versions = [
        put(b"a", 1, create_ts=1, expire_ts=10),  # expired
        operand(b"b", 2, create_ts=1, expire_ts=10),  # expired
        put(b"b", 1, create_ts=5),  # past retention
        put(b"c", 2, create_ts=9),
        put(b"c", 1, create_ts=1, expire_ts=1),  # hidden, which says nothing of its age
        delete(b"d", 1, create_ts=1),
    ]
    rows = columns(*versions)
    fields = Fields(rows.seqs, rows.flags, rows.create_ts, rows.expire_ts)
    first = np.array([True, True, False, True, False, True])
    retention = Retention(min_seq=EVERYTHING_SEEN, now_ms=10, retired_ms=5, drops_tombstones=True)
    assert kernels.retain_versions(fields, first, retention).outdated == 3
