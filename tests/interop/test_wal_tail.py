"""Scans of a database whose newest rows are in the WAL alone, cut into splits, against the client's own scan."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slatespark import SlateStore
from tests.support.client import Client, ClientOptions, Delete, Location, Merge, Put, Ttl, Write
from tests.support.our_reads import our_rows
from tests.support.segments import FixedPrefix

KEYS = [b"%s%03d" % (prefix, number) for prefix in (b"aa", b"ab", b"zz") for number in range(60)]


def batch(generator: np.random.Generator, size: int) -> list[Write]:
    writes: list[Write] = []
    for number in generator.permutation(len(KEYS))[:size].tolist():
        key, value = KEYS[number], generator.bytes(40)
        ttl = [None, Ttl(after_ms=3_600_000), Ttl(after_ms=1)][generator.integers(3)]
        kinds: list[Write] = [Put(key, value, ttl), Merge(key, value, ttl), Delete(key)]
        writes.append(kinds[generator.integers(3)])
    return writes


@pytest.mark.parametrize("is_segmented", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_puts_deletes_operands_and_ttl(seed: int, is_segmented: bool, tmp_path: Path) -> None:
    generator = np.random.default_rng(seed)
    options = ClientOptions(segments=FixedPrefix(2) if is_segmented else None)
    location = Location.local(tmp_path / "db")
    with Client.open(location, options) as client:
        for _ in range(2):
            client.write(batch(generator, 120))
            client.flush_memtable()
        for _ in range(4):
            client.write(batch(generator, 50))
            client.flush_wal()
        shown = client.scan()
        client.close(flush=False)
    store = SlateStore.open(str(tmp_path / "db"))
    for limit in ("1", "1m"):
        for split_size in ("500", "2k", "1m"):
            given = {"includeExpired": True, "splitSize": split_size, "walBuffer": limit}
            assert our_rows(store, **given) == shown
    [every, once] = (
        store.scan(readVersions="all", metadataColumns=True, splitSize="1k", walBuffer=limit).read_all()
        for limit in ("1", "1m")
    )
    assert every == once
