"""What became of a table since a version: little is held of the versions in between, however many there are."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

from slatespark.format.info import SstInfo
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import manifest_path
from slatespark.format.references import SstHandle, SstMap
from slatespark.format.ulid import Ulid
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.commit.later_commits import find_later_commits
from slatespark.table.log.versioned_object import Version
from slatespark.table.stores import TableStores

FILES, FEW, MANY = 1000, 64, 256
INFO = SstInfo(first_entry=b"a", last_entry=b"b", index_offset=10, index_len=10, filter_offset=10, filter_len=0)


def peak_of(versions: int) -> int:
    """The most memory that a look at so many versions takes, in bytes."""
    store = MemoryStore(f"later/{versions}")
    base = Manifest(ssts=SstMap(SstHandle(Ulid(number), INFO) for number in range(FILES)), last_l0_seq=1)
    data = encode_manifest(base)
    for number in range(1, versions + 1):
        store.put(manifest_path(number), [data])
    latest = Version(versions + 1, replace(base, last_l0_seq=2))
    stores = TableStores(main=store, wal=store)
    tracemalloc.start()
    try:
        found = list(find_later_commits(stores, Version(1, base), latest, {}))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [(commit.manifest_id, commit.added) for commit in found] == [(versions + 1, ())]
    return peak


def test_memory_does_not_grow_with_the_versions_in_between() -> None:
    peak_of(FEW)  # what is loaded once
    assert peak_of(MANY) < 1.5 * peak_of(FEW)
