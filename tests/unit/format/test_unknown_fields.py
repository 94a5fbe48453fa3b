"""A field of a later release is noticed in every table of a manifest, or list of compactions, however deep it lies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.format._generated.CompactionsV1 import CompactionsV1
from slatespark.format._generated.DrainSegmentSpec import DrainSegmentSpec
from slatespark.format._generated.ManifestV2 import ManifestV2
from slatespark.format._generated.TieredCompactionContext import TieredCompactionContext
from slatespark.format._generated.TieredCompactionSpec import TieredCompactionSpec
from slatespark.format.compactions import (
    Compaction,
    Compactions,
    CompactionStatus,
    DrainSpec,
    decode_compactions,
    encode_compactions,
)
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import decode_manifest
from slatespark.format.paths import manifest_path
from slatespark.format.ulid import Ulid
from slatespark.format.verifier import MANY
from slatespark.storage.memory_store import MemoryStore
from tests.support.fixture_databases import DATA

SLOT: Final = 60  # behind all that are known
VERSION: Final = b"\0\2"  # before the flatbuffer
EXAMPLES: Final = 8  # of a kind

Decode = Callable[[bytes], Manifest | Compactions]

UNIONS: Final[dict[str, dict[int, type]]] = {
    "Spec": {1: TieredCompactionSpec, 2: DrainSegmentSpec},
    "Ctx": {1: TieredCompactionContext},
}
CASES: Final[dict[str, tuple[Any, Decode, set[str]]]] = {
    "manifest": (
        ManifestV2,
        decode_manifest,
        {
            "BytesBound",
            "BytesRange",
            "Checkpoint",
            "CompactedSsTableV2",
            "CompactedSsTableView",
            "ExternalDb",
            "ManifestV2",
            "Segment",
            "SortedRunV2",
            "SsTableInfo",
            "Ulid",
            "Uuid",
        },
    ),
    "compactions": (
        CompactionsV1,
        decode_compactions,
        {
            "BytesBound",
            "BytesRange",
            "CompactedSsTable",
            "Compaction",
            "CompactionsV1",
            "DrainSegmentSpec",
            "SsTableInfo",
            "Subcompaction",
            "TieredCompactionContext",
            "TieredCompactionSpec",
            "Ulid",
            "WorkerSpec",
        },
    ),
}


def with_field(data: bytes, at: int) -> bytes:
    """An object with one more field in the table at a position: its vtable is written anew behind the others."""
    body = data[len(VERSION) :]
    body += bytes(len(body) % 2)
    old = at - int.from_bytes(body[at : at + 4], "little", signed=True)
    size = int.from_bytes(body[old : old + 2], "little")
    known = body[old + 2 : old + size].ljust(SLOT - 2, b"\0")
    longer = (SLOT + 2).to_bytes(2, "little") + known + (4).to_bytes(2, "little")
    distance = (at - len(body)).to_bytes(4, "little", signed=True)
    return VERSION + body[:at] + distance + body[at + 4 :] + longer


def tables_of(table: Any) -> Iterator[tuple[str, int]]:
    """Kind and position of a table, and of all below it, as the generated accessors reach them."""
    yield type(table).__name__, table._tab.Pos
    for name in dir(type(table)):
        read = getattr(table, name)
        if name.startswith(("_", "GetRoot", "Init")) or name.endswith(("IsNone", "AsNumpy", "Length")):
            continue
        count = getattr(table, f"{name}Length", None)
        for item in [read()] if count is None else map(read, range(count())):
            if name in UNIONS and item is not None:
                variant = UNIONS[name][getattr(table, f"{name}Type")()]()
                variant.Init(item.Bytes, item.Pos)
                yield from tables_of(variant)
            elif hasattr(item, "_tab"):
                yield from tables_of(item)


def by_kind(root: Any, objects: Iterable[bytes]) -> dict[str, list[tuple[bytes, int]]]:
    """Objects with the positions of tables in them, by kind."""
    found: dict[str, list[tuple[bytes, int]]] = defaultdict(list)
    for data in objects:
        for kind, at in sorted(set(tables_of(root.GetRootAs(data[len(VERSION) :])))):
            found[kind].append((data, at))
    return found


def spread(items: list[tuple[bytes, int]]) -> list[tuple[bytes, int]]:
    """Some of them, from the first to the last."""
    return [items[number * (len(items) - 1) // (EXAMPLES - 1)] for number in range(EXAMPLES)]


@pytest.mark.parametrize("name", CASES)
def test_a_field_in_any_table_is_named(name: str) -> None:
    """Of the databases that clients have made, and of a drain."""
    root, decode, kinds = CASES[name]
    objects = [path.read_bytes() for path in sorted(DATA.glob(f"slatedb-*/**/{name}/*.{name}"))]
    drain = Compaction(Ulid(7), DrainSpec(b"p", (Ulid(8),), (9,)), CompactionStatus.SUBMITTED)
    objects += [encode_compactions(Compactions(1, (drain,)))] if name == "compactions" else []
    found = by_kind(root, [data for data in objects if data.startswith(VERSION)])
    assert set(found) == kinds
    for kind, items in found.items():
        for data, at in spread(items):
            assert decode(data).unknown_fields == frozenset()
            assert decode(with_field(data, at)).unknown_fields == {f"{kind} slot {SLOT}"}


def test_a_field_in_one_of_many_tables_is_named() -> None:
    """As many as are looked at together."""
    store = SlateStore.create("memory://unknown-fields")
    keys = [b"%06d" % number for number in range(2 * MANY)]
    for _ in range(2):
        store.write(pa.table({"key": keys, "value": [bytes(1000)] * len(keys)}), sstSize="1k", blockSize="1k")
    data = bytes(MemoryStore("unknown-fields").get(manifest_path(store.resolve().version)))
    assert len(decode_manifest(data).ssts) > 2 * MANY
    for kind, items in by_kind(ManifestV2, [data]).items():
        for _, at in spread(items):
            assert decode_manifest(with_field(data, at)).unknown_fields == {f"{kind} slot {SLOT}"}
