"""Handed loads: what is recorded of them, and what damaged records do."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from slatespark.errors import CorruptDataError
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.handed_loads import (
    HANDED_LOADS_DIR,
    HandedLoad,
    HandedPart,
    delete_handed_load,
    fetch_handed_loads,
    publish_handed_load,
)
from slatespark.table.records.json_objects import encode_json, with_checksum

RECORD = CommitRecord(0, "cooperativeWrite", "0123456789abcdef", "slatespark", 5, 4, 9, 9, {"put": 1})
FIRST = HandedPart("01M82BFQ5TC5DGSMW160FNH9A1", "6162", 3, ("a", "b"), (), ("c",))
SECOND = HandedPart("01M82BFQ5TC5DGSMW160FNH9A2", "6163", 2, (), ("c",), ("d", "e"))
LOAD = HandedLoad(7, (FIRST, SECOND), "app", 2, RECORD)
LATER = HandedLoad(12, (SECOND,), None, None, RECORD)


def test_it_has_the_files_of_all_segments() -> None:
    assert LOAD.outputs == {"c", "d", "e"}
    assert LOAD.path.endswith(f"7-{FIRST.job_id}.json")


def test_loads_are_listed_until_they_are_deleted() -> None:
    store = MemoryStore("handed loads")
    assert fetch_handed_loads(store) == []
    publish_handed_load(store, LATER)
    publish_handed_load(store, LOAD)
    assert fetch_handed_loads(store) == [LOAD, LATER]
    with pytest.raises(FileExistsError):
        publish_handed_load(store, LOAD)
    delete_handed_load(store, LOAD)
    assert fetch_handed_loads(store) == [LATER]


@pytest.mark.parametrize("damage", [b"{}", b"[]", b"?", None])
def test_damage_is_named(damage: bytes | None) -> None:
    store = MemoryStore(f"damaged load {damage!r}")
    publish_handed_load(store, LOAD)
    data = bytes(store.get(LOAD.path))
    store.put(LOAD.path, [data.replace(b'"base":7', b'"base":8') if damage is None else damage])
    with pytest.raises(CorruptDataError, match=HANDED_LOADS_DIR):
        fetch_handed_loads(store)


@pytest.mark.parametrize(
    "damage",
    [
        {"base": "7"},
        {"base": None},
        {"parts": []},
        {"parts": {}},
        {"parts": ["c"]},
        {"parts": [{**asdict(FIRST), "destination": "3"}]},
        {"parts": [{**asdict(FIRST), "outputs": "c"}]},
        {"app": "app", "version": None},
        {"app": 1},
        {"version": "2"},
        {"record": []},
    ],
)
def test_a_record_of_other_types_is_damaged_whatever_its_checksum(damage: dict[str, object]) -> None:
    store = MemoryStore(f"mistyped load {damage}".replace("/", "-"))
    content = json.loads(encode_json(asdict(LOAD)))
    store.put(LOAD.path, [encode_json(with_checksum({**content, **damage}))])
    with pytest.raises(CorruptDataError, match=HANDED_LOADS_DIR):
        fetch_handed_loads(store)
