"""The real client writes all the time while we read: every read is one consistent snapshot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slatespark import SlateStore, SnapshotExpiredError
from tests.support.counting_client import CountingClient

SCANS = 60


@pytest.mark.slow
@pytest.mark.parametrize("collects", [False, True])
def test_scans_beside_a_client_that_writes(collects: bool, tmp_path: Path) -> None:
    client = CountingClient(tmp_path / "db", collects=collects)
    store = SlateStore.open(str(tmp_path / "db"))
    reads: list[Callable[[], list[tuple[bytes, bytes]]]] = [
        lambda: pairs(store),
        lambda: pairs(store, splitSize=2000),
        lambda: pairs(store, order="desc")[::-1],
        lambda: pairs(store, readBuffer=1, splitSize=500),
    ]
    numbers, expired = [], 0
    with client.running():
        for turn in range(SCANS):
            try:
                numbers.append(client.check(reads[turn % len(reads)]))
            except SnapshotExpiredError:
                expired += 1
    assert numbers == sorted(numbers)
    assert len(set(numbers)) > 5
    assert expired == 0 or collects
    assert len(numbers) > SCANS // 4


def pairs(store: SlateStore, order: str = "asc", **options: Any) -> list[tuple[bytes, bytes]]:
    rows = store.scan(order, **options).read_all().to_pylist()
    return [(row["key"], row["value"]) for row in rows]
