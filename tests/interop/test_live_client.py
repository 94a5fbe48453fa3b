"""The real client writes all the time while we read: every read is one consistent snapshot."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slatespark import SlateStore, SnapshotExpiredError
from slatespark.table.definition.versions import fetch_definition
from slatespark.table.log.manifests import fetch_latest_manifest
from tests.support.counting_client import CountingClient

SCANS = 60
STATES = 6  # to be seen at least, however slow the client is beside other work
MOST_S = 60


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
    numbers, expired = list[int](), 0
    limit = time.monotonic() + MOST_S
    with client.running():
        for turn in itertools.count():
            if turn >= SCANS and (len(set(numbers)) >= STATES or time.monotonic() > limit):
                break
            try:
                numbers.append(client.check(reads[turn % len(reads)]))
            except SnapshotExpiredError:
                expired += 1
    assert numbers == sorted(numbers)
    assert len(set(numbers)) >= STATES
    assert expired == 0 or collects
    assert len(numbers) > SCANS // 4


@pytest.mark.slow
def test_a_client_goes_on_while_properties_change(tmp_path: Path) -> None:
    """Each change creates a version of the manifest, which must not disturb the owner of the database."""
    client = CountingClient(tmp_path / "db", collects=False)
    store = SlateStore.open(str(tmp_path / "db"))
    before = fetch_latest_manifest(store._stores)
    with client.running():
        numbers = []
        for turn in range(20):
            store.setProperties(defaultTtl=f"{turn + 1}d")
            numbers.append(client.check(lambda: pairs(store)))
    after = fetch_latest_manifest(store._stores)
    assert numbers == sorted(numbers)
    assert after.number >= before.number + 20
    assert (after.value.writer_epoch, after.value.compactor_epoch) == (
        before.value.writer_epoch,
        before.value.compactor_epoch,
    )
    assert fetch_definition(store._stores).value.properties["defaultTtl"] == "20d"


def pairs(store: SlateStore, order: str = "asc", **options: Any) -> list[tuple[bytes, bytes]]:
    rows = store.scan(order, **options).read_all().to_pylist()
    return [(row["key"], row["value"]) for row in rows]
