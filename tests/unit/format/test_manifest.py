# mypy: untyped-calls-exclude="slatespark.format._generated"

from __future__ import annotations

import pickle
import struct
from dataclasses import replace
from uuid import UUID

import flatbuffers
import pytest

from slatespark.errors import CorruptDataError, SlateError, UnsupportedFormatError
from slatespark.format._generated import CompactedSsTable, ManifestV1
from slatespark.format._generated import SortedRun as RunTable
from slatespark.format.building import put_offsets, put_ulid
from slatespark.format.info import SstInfo, put_info
from slatespark.format.manifest import NO_TICK, Checkpoint, ExternalDb, Manifest, Segment
from slatespark.format.manifest_codec import decode_manifest, encode_manifest
from slatespark.format.manifest_outline import decode_outline
from slatespark.format.references import (
    UNBOUNDED,
    Bound,
    BoundType,
    BytesRange,
    SortedRun,
    SstHandle,
    SstMap,
    SstView,
    compacted_sst_of,
    put_range,
)
from slatespark.format.schemas import MANIFEST_V2
from slatespark.format.sequence_tracker import SequenceTracker
from slatespark.format.ulid import Ulid
from slatespark.format.wire_table import WireTable
from slatespark.ranges import ALL_KEYS, KeyRange

U64 = (1 << 64) - 1


def info(first: bytes, last: bytes | None) -> SstInfo:
    return SstInfo(first, last, index_offset=100, index_len=20, filter_offset=100, filter_len=0)


def handle(number: int, first: bytes = b"a", last: bytes | None = b"z") -> SstHandle:
    return SstHandle(Ulid(number), info(first, last))


def view(number: int, keys: BytesRange | None = None, *, sst: int | None = None) -> SstView:
    return SstView(Ulid(number), Ulid(number if sst is None else sst), keys)


def cut(start: bytes | None, end: bytes | None, *, end_included: bool = False) -> BytesRange:
    kind = BoundType.INCLUDED if end_included else BoundType.EXCLUDED
    return BytesRange(
        UNBOUNDED if start is None else Bound(BoundType.INCLUDED, start), UNBOUNDED if end is None else Bound(kind, end)
    )


FULL = Manifest(
    nonce=U64,
    external_dbs=(
        ExternalDb("a/b", UUID(int=5), UUID(int=(1 << 128) - 1), (Ulid(1), Ulid(2))),
        ExternalDb("ü", UUID(int=0), None, ()),
    ),
    initialized=False,
    writer_epoch=3,
    compactor_epoch=U64,
    replay_after_wal_id=4,
    wal_id_last_seen=9,
    last_compacted_l0_sst_view_id=Ulid((1 << 128) - 1),
    ssts=SstMap([handle(1), handle(2, b"", None), replace(handle(3), format_version=1), handle(4, b"pa", b"pz")]),
    l0=(view(1), view(7, cut(None, b"c"), sst=1)),
    compacted=(
        SortedRun(9, (view(2),)),
        SortedRun(4, ()),
        SortedRun(0, (view(3, cut(b"b", b"c", end_included=True)),)),
    ),
    last_l0_clock_tick=-5,
    checkpoints=(
        Checkpoint(UUID(int=1), 7, 0, 11),
        Checkpoint(UUID(int=2), 8, (1 << 32) - 1, 12, "nämé"),
        Checkpoint(UUID(int=3), 8, 5, 12, "", metadata_epoch=77),
    ),
    last_l0_seq=U64 - 1,
    recent_snapshot_min_seq=5,
    sequence_tracker=SequenceTracker(((1, 1000), (5, 2000))),
    segments=(
        Segment(b"p", None, (view(4),), ()),
        Segment(b"q", Ulid(8), (), (SortedRun(10, ()),)),
    ),
    segment_extractor_name="fixed1",
)


def test_every_field_round_trips() -> None:
    assert decode_manifest(encode_manifest(FULL)) == FULL
    assert decode_manifest(memoryview(encode_manifest(FULL))) == FULL


def test_a_new_manifest_round_trips() -> None:
    new = decode_manifest(encode_manifest(Manifest()))
    assert new == Manifest()
    assert (new.last_l0_clock_tick, new.initialized, new.sequence_tracker.points) == (NO_TICK, True, ())


def test_manifests_are_values() -> None:
    again = decode_manifest(encode_manifest(FULL))
    assert hash(again) == hash(FULL)
    assert pickle.loads(pickle.dumps(FULL)) == FULL
    shuffled = replace(FULL, ssts=SstMap(reversed(list(FULL.ssts.values()))))
    assert shuffled == FULL
    assert shuffled != replace(FULL, ssts=FULL.ssts.keeping([Ulid(1)]))
    assert FULL.ssts.keeping([Ulid(1)]).adding([handle(2, b"", None)]).keys() == {Ulid(1), Ulid(2)}


def test_the_envelope_is_checked() -> None:
    data = encode_manifest(Manifest())
    assert data[:2] == b"\0\2"
    for version in (3, 255):
        with pytest.raises(UnsupportedFormatError, match=str(version)):
            decode_manifest(version.to_bytes(2, "big") + data[2:])
    for damaged in (b"", b"\0\2", b"\0\0" + data[2:], b"<!DOCTYPE html>"):
        with pytest.raises(CorruptDataError):
            decode_manifest(damaged)


def test_a_view_shows_the_intersection_of_both_ranges() -> None:
    sst = handle(1, b"b", b"f")
    assert view(1).key_range(sst) == KeyRange(b"b", b"f\0")
    assert view(1, cut(None, None)).key_range(sst.info) == KeyRange(b"b", b"f\0")
    assert view(1, cut(b"a", b"c")).key_range(sst) == KeyRange(b"b", b"c")
    assert view(1, cut(b"c", b"c", end_included=True)).key_range(sst) == KeyRange(b"c", b"c\0")
    assert view(1, cut(b"c", None)).key_range(handle(1, b"b", None)) == KeyRange(b"c", None)


def test_bounds_of_every_kind() -> None:
    assert BytesRange(UNBOUNDED, UNBOUNDED).key_range() == ALL_KEYS
    excluded = BytesRange(Bound(BoundType.EXCLUDED, b"k"), Bound(BoundType.INCLUDED, b"m"))
    assert excluded.key_range() == KeyRange(b"k\0", b"m\0")
    for kind, key in ((BoundType.UNBOUNDED, b"k"), (BoundType.INCLUDED, None), (BoundType.EXCLUDED, None)):
        with pytest.raises(ValueError, match="key"):
            Bound(kind, key)


def excluded_start() -> SstView:
    return view(1, BytesRange(Bound(BoundType.EXCLUDED, b"b"), UNBOUNDED))


BROKEN: dict[str, tuple[Manifest, type[SlateError]]] = {
    "unknown SST": (replace(FULL, l0=(view(99),)), CorruptDataError),
    "excluded start": (replace(FULL, l0=(excluded_start(),)), CorruptDataError),
    "view beside the SST": (replace(FULL, l0=(view(1, cut(None, b"a")),)), CorruptDataError),
    "view behind the SST": (replace(FULL, l0=(view(1, cut(b"z\0", None)),)), CorruptDataError),
    "runs ascend": (replace(FULL, compacted=FULL.compacted[::-1]), CorruptDataError),
    "run twice": (replace(FULL, compacted=(SortedRun(9, ()), SortedRun(9, ()))), CorruptDataError),
    "run in two trees": (replace(FULL, compacted=(SortedRun(10, ()),)), CorruptDataError),
    "empty prefix": (replace(FULL, segments=(Segment(b"", None, (), ()),)), CorruptDataError),
    "prefix of another": (
        replace(FULL, segments=(Segment(b"a", None, (), ()), Segment(b"ab", None, (), ()))),
        CorruptDataError,
    ),
    "no first key": (
        replace(FULL, ssts=FULL.ssts.adding([replace(handle(5), info=replace(info(b"", None), first_entry=None))])),
        CorruptDataError,
    ),
    "last key below first": (replace(FULL, ssts=FULL.ssts.adding([handle(5, b"z", b"a")])), CorruptDataError),
    "unknown block format": (
        replace(FULL, ssts=FULL.ssts.adding([replace(handle(5), format_version=3)])),
        UnsupportedFormatError,
    ),
    "block format zero": (
        replace(FULL, ssts=FULL.ssts.adding([replace(handle(5), format_version=0)])),
        UnsupportedFormatError,
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_manifests_that_no_client_opens_are_refused(name: str) -> None:
    broken, error = BROKEN[name]
    with pytest.raises(error):
        decode_manifest(encode_manifest(broken))


def test_segments_come_in_order() -> None:
    assert decode_manifest(encode_manifest(replace(FULL, segments=FULL.segments[::-1]))) == FULL


def put_sst(builder: flatbuffers.Builder, sst: SstHandle, keys: BytesRange | None = None) -> int:
    ulid, stored = put_ulid(builder, sst.id), put_info(builder, sst.info)
    shown = None if keys is None else put_range(builder, keys)
    CompactedSsTable.Start(builder)
    if shown is not None:
        CompactedSsTable.AddVisibleRange(builder, shown)
    CompactedSsTable.AddInfo(builder, stored)
    CompactedSsTable.AddId(builder, ulid)
    CompactedSsTable.AddFormatVersion(builder, sst.format_version)
    return int(CompactedSsTable.End(builder))


def manifest_v1(handles: list[tuple[SstHandle, BytesRange | None]], runs: list[tuple[int, SstHandle]]) -> bytes:
    builder = flatbuffers.Builder(256)
    l0 = put_offsets(builder, [put_sst(builder, sst, keys) for sst, keys in handles])
    tables = []
    for number, sst in runs:
        ssts = put_offsets(builder, [put_sst(builder, sst)])
        RunTable.Start(builder)
        RunTable.AddId(builder, number)
        RunTable.AddSsts(builder, ssts)
        tables.append(RunTable.End(builder))
    compacted, checkpoints = put_offsets(builder, tables), put_offsets(builder, [])
    marker, uri = put_ulid(builder, Ulid(77)), builder.CreateString("s3://wal")
    ManifestV1.Start(builder)
    ManifestV1.AddInitialized(builder, True)
    ManifestV1.AddWriterEpoch(builder, 2)
    ManifestV1.AddWalIdLastSeen(builder, 6)
    ManifestV1.AddL0LastCompacted(builder, marker)
    ManifestV1.AddL0(builder, l0)
    ManifestV1.AddCompacted(builder, compacted)
    ManifestV1.AddLastL0ClockTick(builder, 123)
    ManifestV1.AddCheckpoints(builder, checkpoints)
    ManifestV1.AddLastL0Seq(builder, 55)
    ManifestV1.AddWalObjectStoreUri(builder, uri)
    ManifestV1.AddRecentSnapshotMinSeq(builder, 54)
    builder.Finish(ManifestV1.End(builder))
    return b"\0\1" + bytes(builder.Output())


def test_a_manifest_of_version_one_decodes_to_the_same_dataclass() -> None:
    shown = cut(b"c", b"d")
    found = decode_manifest(manifest_v1([(handle(3), None), (handle(2), shown)], [(4, handle(1))]))
    assert found == Manifest(
        writer_epoch=2,
        wal_id_last_seen=6,
        last_compacted_l0_sst_view_id=Ulid(77),
        ssts=SstMap([handle(1), handle(2), handle(3)]),
        l0=(view(3), view(2, shown)),
        compacted=(SortedRun(4, (view(1),)),),
        last_l0_clock_tick=123,
        last_l0_seq=55,
        recent_snapshot_min_seq=54,
        wal_object_store_uri="s3://wal",
    )
    # It is written as version 2, which has no field for the WAL's store.
    assert decode_manifest(encode_manifest(found)) == replace(found, wal_object_store_uri=None)


def test_an_sst_with_two_different_entries_is_refused() -> None:
    assert len(decode_manifest(manifest_v1([(handle(1), None), (handle(1), cut(b"c", None))], [])).ssts) == 1
    with pytest.raises(CorruptDataError, match="different"):
        decode_manifest(manifest_v1([(handle(1), None), (handle(1, b"b"), None)], []))


@pytest.mark.parametrize("stated", [None, 0, 2])
def test_an_absent_format_version_is_one(stated: int | None) -> None:
    builder = flatbuffers.Builder(64)
    ulid, stored = put_ulid(builder, Ulid(1)), put_info(builder, handle(1).info)
    CompactedSsTable.Start(builder)
    CompactedSsTable.AddId(builder, ulid)
    CompactedSsTable.AddInfo(builder, stored)
    if stated is not None:
        CompactedSsTable.AddFormatVersion(builder, stated)
    builder.Finish(CompactedSsTable.End(builder))
    table = WireTable.root(bytes(builder.Output()))
    if stated == 0:
        with pytest.raises(UnsupportedFormatError):
            compacted_sst_of(table)
    else:
        assert compacted_sst_of(table) == (replace(handle(1), format_version=stated or 1), None)


@pytest.mark.parametrize("count", [10, 80], ids=["few files", "many files"])
def test_a_table_with_a_longer_vtable_than_others(count: int) -> None:
    """A writer may state slots that it leaves empty, as many as it likes."""
    ssts = SstMap([handle(number) for number in range(1, count + 1)])
    expected = Manifest(ssts=ssts, l0=tuple(view(number) for number in range(1, count + 1)))
    data = encode_manifest(expected)
    envelope, body = data[:2], bytearray(data[2:])

    def u32(at: int) -> int:
        return int(struct.unpack_from("<I", body, at)[0])

    def vtable_of(table: int) -> int:
        return int(table - struct.unpack_from("<i", body, table)[0])

    ssts_slot = next(slot.offset for slot in MANIFEST_V2.slots if slot.name == "ssts")
    field = u32(0) + struct.unpack_from("<H", body, vtable_of(u32(0)) + ssts_slot)[0]
    third = field + u32(field) + 4 + 4 * 2
    table = third + u32(third)
    vtable = vtable_of(table)
    short = body[vtable : vtable + struct.unpack_from("<H", body, vtable)[0]]
    body += bytes(-len(body) % 8)
    longer = len(body)
    body += short + bytes(144 - len(short))
    struct.pack_into("<H", body, longer, 144)
    struct.pack_into("<i", body, table, table - longer)
    assert decode_manifest(envelope + bytes(body)) == expected
    assert decode_outline(envelope + bytes(body)) == decode_outline(data)
