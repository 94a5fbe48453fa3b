"""Which files a scan leaves out: each rule by itself, and in tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slatespark.table.read.reader as reader
from tests.support.effort import examples
from tests.support.fake_clock import FakeClock
from tests.unit.table.read.planning.test_skipping import HOUR_MS, START_MS, new_store, put


@settings(max_examples=examples(10))
@given(st.integers(0, 2**32))
def test_random_tables_look_the_same_without_records(seed: int) -> None:
    numbers = np.random.default_rng(seed)
    clock = FakeClock(START_MS)
    store = new_store(clock, **({"retention": "3h"} if numbers.integers(2) else {}))
    for _ in range(int(numbers.integers(1, 8))):
        start = int(numbers.integers(10))
        keys = bytes(range(97 + start, 97 + start + int(numbers.integers(1, 6))))
        operation = ["upsert", "upsert", "upsert", "delete", "merge"][int(numbers.integers(5))]
        ttl = {} if operation == "delete" else {"ttl": [None, "1h", "2h"][int(numbers.integers(3))]}
        put(store, keys, bytes([97 + int(numbers.integers(26))]), operation=operation, **ttl)
        clock.advance(int(numbers.integers(HOUR_MS)))
    with pytest.MonkeyPatch.context() as patch:
        reads = [_random_read(numbers) for _ in range(12)]
        found = [store.scan(**options).read_all() for options in reads]
        patch.setattr(reader, "file_properties", lambda *_, **__: {})
        for options, rows in zip(reads, found, strict=True):
            assert rows == store.scan(**options).read_all(), options


def _random_read(numbers: np.random.Generator) -> dict[str, Any]:
    options: dict[str, Any] = {
        "now": START_MS + int(numbers.integers(10)) * HOUR_MS // 2,
        "metadataColumns": True,
        "mergeOperator": "concat",
        "includeExpired": bool(numbers.integers(4) == 0),
        "includeDeleted": bool(numbers.integers(4) == 0),
        "readVersions": "all" if numbers.integers(4) == 0 else "latest",
    }
    instant = f"'{np.datetime64(START_MS + int(numbers.integers(12)) * HOUR_MS // 3, 'ms')}Z'"
    conditions = [
        f"_seq {['<', '>', '='][int(numbers.integers(3))]} {int(numbers.integers(8))}",
        f"_create_ts {['<', '>='][int(numbers.integers(2))]} {instant}",
        f"_expire_ts {['<', '>='][int(numbers.integers(2))]} {instant}",
        "_expire_ts IS NULL",
        "key > X'63'",
    ]
    chosen = [condition for condition in conditions if numbers.integers(4) == 0]
    return {**options, "filter": " AND ".join(chosen)} if chosen else options
