"""Files of ours, put together by hand, opened by the real client."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from uuid import UUID

import numpy as np
import pytest

from slatespark.format.codecs import Compression
from slatespark.format.invariants import check_manifest
from slatespark.format.manifest import Checkpoint, Manifest
from slatespark.format.manifest_codec import decode_manifest, encode_manifest
from slatespark.format.paths import manifest_path, numbered, sst_path, wal_path
from slatespark.format.references import Bound, BoundType, BytesRange, SortedRun, SstHandle, SstMap, SstView
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.format.sequence_tracker import SequenceTracker
from slatespark.format.sst import SST_FORMAT_VERSION, SstBuilder
from slatespark.format.ulid import Ulid, make_ulid
from slatespark.ranges import KeyRange
from tests.conftest import ClientFactory
from tests.support.client import ClientOptions, Location, ScanRow, read_rows
from tests.support.wal_files import encode_wal

NOW_MS = 1_790_000_000_000  # long ago for whoever runs this
EXPIRES_MS = 4_000_000_000_000


def rows_of(keys: range, seq: int, tag: str) -> list[Row]:
    """Rows with and without times and values, some deleted."""
    rows = []
    for number in keys:
        key, created = b"key%05d" % number, NOW_MS - number if number % 3 else None
        if number % 7 == 6:
            rows.append(Row(key, seq, RowKind.DELETE, b"", created))
        else:
            expires = EXPIRES_MS + number if number % 5 == 0 else None
            rows.append(Row(key, seq, RowKind.PUT, f"{tag}{number}".encode() * (number % 11), created, expires))
    return rows


class Assembly:
    """A database put together file by file."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self.handles: list[SstHandle] = []

    def write(self, path: str, data: bytes) -> None:
        target = self.location.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def add_sst(self, rows: list[Row], codec: Compression, *, block_size: int = 512, min_filter_keys: int = 1) -> Ulid:
        ulid = make_ulid(NOW_MS, len(self.handles) + 1)
        builder = SstBuilder(
            block_size=block_size, compression=codec, min_filter_keys=min_filter_keys, created_ms=NOW_MS
        )
        columns = rows_to_columns(rows)
        for start in range(0, len(rows), 37):  # in steps, so that blocks wait for the next one
            builder.add([columns], np.arange(start, min(start + 37, len(rows)), dtype=np.int64))
        built = builder.finish()
        self.write(sst_path(ulid), b"".join(built.parts))
        self.handles.append(SstHandle(ulid, built.info, SST_FORMAT_VERSION))
        return ulid

    def publish(self, manifest: Manifest, number: int = 1) -> None:
        check_manifest(manifest, None, new_id=number, now_ms=NOW_MS)
        self.write(manifest_path(number), encode_manifest(manifest))


def visible(*layers: list[Row]) -> dict[bytes, Row]:
    """What a reader must see, of layers given newest first."""
    found: dict[bytes, Row] = {}
    for layer in layers:
        for row in layer:
            found.setdefault(row.key, row)
    return {key: row for key, row in sorted(found.items()) if row.kind is RowKind.PUT}


def as_read(rows: dict[bytes, Row]) -> list[ScanRow]:
    return [ScanRow(row.key, row.value, row.seq, row.create_ts_ms or 0, row.expire_ts_ms) for row in rows.values()]


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name.lower())
def test_the_client_reads_our_files(codec: Compression, database: Location, client_factory: ClientFactory) -> None:
    assembly = Assembly(database)
    old = [rows_of(range(300), 0, "old"), rows_of(range(300, 500), 0, "old")]
    new = rows_of(range(100, 600, 2), 5, "new")
    run = SortedRun(0, tuple(SstView(ulid, ulid) for ulid in (assembly.add_sst(rows, codec) for rows in old)))
    top = assembly.add_sst(new, codec, block_size=4096)
    assembly.publish(
        Manifest(
            nonce=(1 << 64) - 1,
            ssts=SstMap(assembly.handles),
            l0=(SstView(top, top),),
            compacted=(run,),
            last_l0_clock_tick=NOW_MS,
            last_l0_seq=5,
            recent_snapshot_min_seq=5,
            sequence_tracker=SequenceTracker().record(5, NOW_MS // 1000),
        )
    )
    expected = visible(new, *old)
    assert read_rows(database) == as_read(expected)
    assert read_rows(database, start=b"key00250", end=b"key00350") == as_read(
        {key: row for key, row in expected.items() if b"key00250" <= key < b"key00350"}
    )
    client = client_factory(ClientOptions())
    for number in (0, 99, 100, 106, 299, 300, 301, 499, 598, 599, 700):
        key = b"key%05d" % number
        assert client.get(key) == (expected[key].value if key in expected else None)
    assert client.put(b"key00000", b"after").seq == 6
    client.flush_memtable()
    assert client.get(b"key00000") == b"after"
    client.close()
    # What the client made of our manifest is what we wrote, plus its own.
    newest = max((database.folder / "manifest").iterdir())
    manifest = decode_manifest(newest.read_bytes())
    assert manifest.nonce == 0
    assert {handle.id: handle for handle in assembly.handles}.items() <= manifest.ssts.items()
    assert manifest.compacted == (run,)


def test_the_client_replays_our_wal_and_shows_our_cuts(database: Location, client_factory: ClientFactory) -> None:
    assembly = Assembly(database)
    rows = rows_of(range(200), 1, "x")
    ulid = assembly.add_sst(rows, Compression.ZSTD, block_size=256)
    bounds = [KeyRange(b"", b"key00050"), KeyRange(b"key00100", b"key00120")]
    views = [SstView(make_ulid(NOW_MS, 50 + place), ulid, BytesRange.of(keys)) for place, keys in enumerate(bounds)]
    last = BytesRange(Bound(BoundType.INCLUDED, b"key00150"), Bound(BoundType.INCLUDED, b"key00151"))
    assembly.publish(
        Manifest(
            ssts=SstMap(assembly.handles),
            l0=(SstView(make_ulid(NOW_MS, 60), ulid, last),),
            compacted=(SortedRun(3, tuple(views)),),
            last_l0_clock_tick=NOW_MS,
            last_l0_seq=1,
            recent_snapshot_min_seq=1,
        )
    )
    tail = [Row(b"key00150", 2, RowKind.PUT, b"wal", NOW_MS), Row(b"zz", 2, RowKind.PUT, b"wal", NOW_MS)]
    assembly.write(wal_path(1), encode_wal(tail))
    assembly.write(wal_path(2), b"")
    assembly.write(wal_path(3), encode_wal([Row(b"zz", 3, RowKind.DELETE, b"", NOW_MS)], compression=Compression.LZ4))
    shown = [row for row in rows if any(keys.contains(row.key) for keys in (*bounds, last.key_range()))]
    expected = visible([Row(b"zz", 3, RowKind.DELETE), tail[0]], shown)
    assert read_rows(database) == as_read(expected)
    client = client_factory(ClientOptions())
    assert client.get(b"key00149") is None
    assert client.get(b"key00151") == rows[151].value
    assert client.put(b"a", b"b").seq == 4


def test_a_checkpoint_of_ours_can_be_read(database: Location, client_factory: ClientFactory) -> None:
    assembly = Assembly(database)
    rows = rows_of(range(50), 1, "x")
    ulid = assembly.add_sst(rows, Compression.SNAPPY, min_filter_keys=1000)
    point = Checkpoint(UUID("12345678-1234-4321-8765-123456789abc"), 1, 0, NOW_MS // 1000, "näme")
    assembly.publish(
        Manifest(
            ssts=SstMap(assembly.handles),
            compacted=(SortedRun(0, (SstView(ulid, ulid),)),),
            checkpoints=(point,),
            last_l0_seq=1,
            recent_snapshot_min_seq=1,
        )
    )
    with client_factory(ClientOptions()) as client:
        client.put(b"key00000", b"later")
        client.flush_memtable()
    assert read_rows(database, checkpoint=str(point.id)) == as_read(visible(rows))
    manifests = sorted((database.folder / "manifest").iterdir())
    for path in manifests:
        assert point in decode_manifest(path.read_bytes()).checkpoints
    # And the client's own changes of our manifest keep our rules.
    for one, other in pairwise(manifests):
        current, new = decode_manifest(one.read_bytes()), decode_manifest(other.read_bytes())
        check_manifest(new, current, new_id=numbered(other.name, "manifest") or 0, now_ms=None)


def test_manifests_of_many_files_are_read(database: Location) -> None:
    assembly = Assembly(database)
    parts = [rows_of(range(start, start + 5), 1, "m") for start in range(0, 500, 5)]
    ulids = [assembly.add_sst(rows, Compression.NONE) for rows in parts]
    runs = tuple(SortedRun(number, (SstView(ulids[number], ulids[number]),)) for number in reversed(range(100)))
    manifest = Manifest(ssts=SstMap(assembly.handles), compacted=runs, last_l0_seq=1, recent_snapshot_min_seq=1)
    assembly.publish(manifest)
    assert read_rows(database) == as_read(visible(*parts))
    one_run = replace(manifest, compacted=(SortedRun(7, tuple(SstView(ulid, ulid) for ulid in ulids)),))
    assembly.publish(one_run, 2)
    assert read_rows(database) == as_read(visible(*parts))
