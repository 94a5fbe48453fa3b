"""Small databases, and the ways in which their bytes get damaged."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from slatespark import SlateStore
from slatespark.format.index import decode_index_section
from slatespark.format.info import SstInfo, decode_footer, decode_info_section, footer_range, info_range
from slatespark.format.paths import manifest_path, sst_path
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.log.manifests import fetch_latest_manifest
from tests.faults.jobs import stores_of
from tests.support.client import Client, ClientOptions, Delete, Location, Merge, Put, ScanRow
from tests.support.client_admin import compact_full

Objects: TypeAlias = Mapping[str, bytes]

MAX_US_MS: Final = (2**63 - 1) // 1000
CODECS: Final = ("None", "Snappy", "Zlib", "Lz4", "Zstd")
CLIENT_VIEW: Final[dict[str, Any]] = {"includeExpired": True, "mergeOperator": "concat", "metadataColumns": True}


def make_by_client(folder: Path, codec: str) -> None:
    """A run, L0 files with filters, operands and deletes, and rows in the WAL alone."""
    options = ClientOptions(codec=None if codec == "None" else codec, compactor=True, block_bytes=1024)
    with Client.open(Location.local(folder), options) as client:
        client.write([Put(b"key%03d" % number, b"value %d" % number * 3) for number in range(100)])
        compact_full(client)
        client.write([Merge(b"key%03d" % number, b"+") for number in range(0, 100, 9)])
        client.write([Delete(b"key%03d" % number) for number in range(0, 100, 11)])
        client.flush_memtable()
        client.write([Put(b"key%03d" % number, b"in the WAL") for number in range(5, 100, 13)])
        client.flush_wal()
        client.write([Merge(b"key001", b"?"), Put(b"large", b"0123456789" * 150)])
        client.flush_wal()


def make_by_us(folder: Path, codec: str) -> None:
    """Two runs with filters, operands, deletes and expiry; many blocks."""
    store = SlateStore.create(str(folder))
    options: dict[str, Any] = {"compression": codec.lower(), "blockSize": 1024}
    keys = [b"key%04d" % number for number in range(1100)]
    store.write(pa.table({"key": keys, "value": [b"v" + key for key in keys]}), ttl="7d", **options)
    rows = {
        "key": keys[::7],
        "value": [b"+"] * len(keys[::7]),
        "op": [("merge", "delete")[at % 2] for at in range(158)],
    }
    store.write(pa.table(rows), opColumn="op", **options)


def read_objects(folder: Path) -> dict[str, bytes]:
    """Every object of a database, by path."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


class InMemory:
    """A database in memory, whose objects are put back after each read."""

    _count = 0

    def __init__(self, objects: Objects) -> None:
        self.objects = objects

    def open(self, path: str, data: bytes | None) -> SlateStore:
        """The database with one object changed or removed, at a new place: indexes are cached by place."""
        InMemory._count += 1
        place = f"damaged/{InMemory._count}"
        store = MemoryStore(place)
        store._bucket.objects.clear()
        for name, content in {**self.objects, path: data}.items():
            if content is not None:
                store.put(name, [content])
        return SlateStore.open(store.url)


def scan_table(store: SlateStore) -> pa.Table:
    """What the client would show."""
    return store.scan(**CLIENT_VIEW).read_all()


def rows_of(table: pa.Table) -> list[ScanRow]:
    """The same as rows; instants as numbers, since made-up ones are no dates."""
    columns = [table.column(name).to_pylist() for name in ("key", "value")]
    seqs = [seq % 2**64 for seq in table.column("_seq").to_pylist()]
    instants = [table.column(name).cast(pa.int64()).to_pylist() for name in ("_create_ts", "_expire_ts")]
    create_ts, expire_ts = ([None if us is None else us // 1000 for us in column] for column in instants)
    return [ScanRow(*row) for row in zip(*columns, seqs, (ms or 0 for ms in create_ts), expire_ts, strict=True)]


def as_ours(rows: list[ScanRow]) -> list[ScanRow]:
    """The client's rows as `rows_of` shows them: no later, and no earlier, than microseconds reach."""

    def clipped(ms: int) -> int:
        return max(-MAX_US_MS, min(MAX_US_MS, ms))

    return [
        replace(
            row,
            create_ts=clipped(row.create_ts or 0),
            expire_ts=None if row.expire_ts is None else clipped(row.expire_ts),
        )
        for row in rows
    ]


# --- damages --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Damage:
    """One object with other bytes; None removes it."""

    path: str
    name: str
    data: bytes | None


def live_objects(objects: Objects) -> dict[str, str]:
    """Objects that a read of the newest state depends on, with what they are."""
    stores = stores_of(_filled(objects))
    number, manifest = fetch_latest_manifest(stores)
    live = {manifest_path(number): "manifest"}
    live |= {sst_path(ulid): "SST" for ulid in manifest.ssts}
    after = f"wal/{manifest.replay_after_wal_id:020d}.sst"
    live |= {path: "WAL file" for path, data in objects.items() if path.startswith("wal/") and path > after and data}
    return live


def _filled(objects: Objects) -> MemoryStore:
    store = MemoryStore("examined")
    store._bucket.objects.clear()
    for name, content in objects.items():
        store.put(name, [content])
    return store


def sections(data: bytes) -> dict[str, tuple[int, int]]:
    """Where the parts of an SST or WAL file are: [start, end) by name; of the data the first and last block."""
    tail = footer_range(len(data))
    footer = decode_footer(data[tail.start : tail.end])
    span = info_range(footer, len(data))
    info = decode_info_section(data[span.start : span.end])
    edges = _block_edges(data, info)
    found = {
        "first block": (edges[0], edges[1]),
        "last block": (edges[-2], edges[-1]),
        "index": (info.index_offset, info.index_offset + info.index_len),
        "info": (span.start, span.end),
        "footer": (tail.start, tail.end),
    }
    if info.filter_len:
        found["filter"] = (info.filter_offset, info.filter_offset + info.filter_len)
    if info.stats_len:
        found["stats"] = (info.stats_offset, info.stats_offset + info.stats_len)
    return found


def _block_edges(data: bytes, info: SstInfo) -> list[int]:
    index = decode_index_section(data[info.index_offset : info.index_offset + info.index_len], info)
    return [int(edge) for edge in index.block_edges(info)]


def flips(path: str, name: str, data: bytes, places: list[int], rng: np.random.Generator) -> Iterator[Damage]:
    """One bit changed at each place."""
    for place in places:
        changed = bytearray(data)
        changed[place] ^= 1 << int(rng.integers(8))
        yield Damage(path, f"{name}: bit flipped at {place}", bytes(changed))


def overwrites(path: str, name: str, data: bytes, places: list[int]) -> Iterator[Damage]:
    """A few bytes set to 0, or to 255, at each place."""
    for place in places:
        for octet in (b"\0", b"\xff"):
            size = min(8, len(data) - place)
            if data[place : place + size] != octet * size:
                yield Damage(path, f"{name}: {octet!r} at {place}", data[:place] + octet * size + data[place + size :])


def resizes(path: str, name: str, data: bytes, rng: np.random.Generator) -> Iterator[Damage]:
    """The object cut, emptied, removed, or with something behind it."""
    for size in {0, 1, 2, 9, 10, 11, len(data) // 2, len(data) - 1, *rng.integers(1, len(data), 4).tolist()}:
        if size < len(data):
            yield Damage(path, f"{name}: cut to {size}", data[:size])
    for extra in (b"\0", data[-20:], b"\xff" * 1000):
        yield Damage(path, f"{name}: {len(extra)} bytes behind it", data + extra)
    yield Damage(path, f"{name}: removed", None)


def sample(start: int, end: int, count: int, rng: np.random.Generator) -> list[int]:
    """Places in [start, end): the first and last few, and some between."""
    ends = [*range(start, min(start + 4, end)), *range(max(start, end - 6), end)]
    return sorted({*ends, *rng.integers(start, end, count).tolist()})


def damages(objects: Objects, path: str, kind: str, rng: np.random.Generator, *, count: int) -> Iterator[Damage]:
    """Ways to damage one object; `count` scales how many."""
    data = objects[path]
    parts = {kind: (0, len(data))} if kind == "manifest" else sections(data)
    for part, (start, end) in parts.items():
        name = f"{kind} {path[-9:]}, {part}" if part != kind else kind
        weight = 10 if kind == "manifest" else 1
        yield from flips(path, name, data, sample(start, end, count * weight, rng), rng)
        yield from overwrites(path, name, data, sample(start, end, count * weight, rng)[::3])
    yield from resizes(path, kind, data, rng)


def resealed(objects: Objects, path: str, rng: np.random.Generator, *, count: int) -> Iterator[Damage]:
    """Bits flipped in blocks, index or filter whose checksums are then made right: only the contents give them away."""
    data = objects[path]
    for part, (start, end) in sections(data).items():
        if part in ("footer", "stats"):
            continue
        for place in rng.integers(start, end - 4, count).tolist():
            changed = bytearray(data)
            changed[place] ^= 1 << int(rng.integers(8))
            changed[end - 4 : end] = zlib.crc32(changed[start : end - 4]).to_bytes(4, "big")
            yield Damage(path, f"{path[:9]}, {part}: resealed after a flip at {place}", bytes(changed))
