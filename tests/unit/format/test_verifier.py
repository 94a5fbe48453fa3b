# mypy: untyped-calls-exclude="slatespark.format._generated"

from __future__ import annotations

import struct
from contextlib import nullcontext
from uuid import UUID

import flatbuffers
import numpy as np
import pytest

from slatespark.errors import CorruptDataError
from slatespark.format import manifest_codec, verifier
from slatespark.format._generated import Checkpoint, ExternalDb, WorkerSpec
from slatespark.format.building import put_offsets, put_ulid, put_uuid
from slatespark.format.info import SstInfo
from slatespark.format.manifest import Manifest, Segment
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.references import SstHandle, SstMap, SstView
from slatespark.format.schemas import CHECKPOINT, EXTERNAL_DB, MANIFEST_V2, ULID, WORKER_SPEC
from slatespark.format.ulid import Ulid
from slatespark.format.verifier import Kind, Slot, Table, verify

# A table without fields: root offset 8, its vtable at 4 (4 bytes), the table at 8 (vtable 4 bytes before).
EMPTY = struct.pack("<IHHi", 8, 4, 4, 4)


def damaged(data: bytes, at: int, form: str, value: int) -> bytes:
    copy = bytearray(data)
    struct.pack_into(form, copy, at, value)
    return bytes(copy)


def worker(text: bytes) -> bytes:
    builder = flatbuffers.Builder(64)
    name = builder.CreateString(text.decode("utf-8"))
    WorkerSpec.Start(builder)
    WorkerSpec.AddWorkerId(builder, name)
    builder.Finish(WorkerSpec.End(builder))
    return bytes(builder.Output())


def test_a_table_without_fields_passes() -> None:
    verify(EMPTY, ULID, what="it")
    verify(memoryview(EMPTY), ULID, what="it")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0",
        damaged(EMPTY, 0, "<I", 9),  # not aligned
        damaged(EMPTY, 0, "<I", 12),  # after the end
        damaged(EMPTY, 0, "<I", 0xFFFFFFFC),
        damaged(EMPTY, 8, "<i", 12),  # vtable before the buffer
        damaged(EMPTY, 8, "<i", -4),  # vtable after it
        damaged(EMPTY, 8, "<i", 3),
        damaged(EMPTY, 4, "<H", 5),  # odd vtable
        damaged(EMPTY, 4, "<H", 10),  # vtable longer than the buffer
    ],
)
def test_offsets_outside_the_buffer_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptDataError, match="it: "):
        verify(data, ULID, what="it")


def test_a_missing_required_field_is_refused() -> None:
    with pytest.raises(CorruptDataError, match="ExternalDb"):
        verify(EMPTY, EXTERNAL_DB, what="it")


def test_a_field_outside_the_buffer_is_refused() -> None:
    data = struct.pack("<IHHHHi", 12, 8, 8, 0, 404, 8)
    with pytest.raises(CorruptDataError, match="outside"):
        verify(data, ULID, what="it")


def test_strings_are_utf8_and_zero_terminated() -> None:
    data = worker(b"name!")
    at = data.index(b"name!")
    verify(data, WORKER_SPEC, what="it")
    with pytest.raises(CorruptDataError, match="UTF-8"):
        verify(damaged(data, at, "<B", 0xFF), WORKER_SPEC, what="it")
    with pytest.raises(CorruptDataError, match="zero-terminated"):
        verify(damaged(data, at + 5, "<B", 1), WORKER_SPEC, what="it")
    with pytest.raises(CorruptDataError, match="outside"):
        verify(damaged(data, at - 4, "<I", 1000), WORKER_SPEC, what="it")


def checkpoint(*, with_type: bool, with_value: bool, kind: int = 1) -> bytes:
    builder = flatbuffers.Builder(64)
    builder.StartObject(1)
    epoch = builder.EndObject()
    builder.StartObject(2)
    uuid = builder.EndObject()
    Checkpoint.Start(builder)
    Checkpoint.AddId(builder, uuid)
    if with_type:
        Checkpoint.AddMetadataType(builder, kind)
    if with_value:
        Checkpoint.AddMetadata(builder, epoch)
    builder.Finish(Checkpoint.End(builder))
    return bytes(builder.Output())


def test_a_union_is_whole_or_absent() -> None:
    verify(checkpoint(with_type=True, with_value=True), CHECKPOINT, what="it")
    verify(checkpoint(with_type=False, with_value=False), CHECKPOINT, what="it")
    verify(checkpoint(with_type=True, with_value=True, kind=9), CHECKPOINT, what="it")  # unknown, so not verified
    for half in (True, False):
        with pytest.raises(CorruptDataError, match="union"):
            verify(checkpoint(with_type=half, with_value=not half), CHECKPOINT, what="it")


def test_tables_nested_too_deep_are_refused() -> None:
    loop = Table("Loop", ())
    object.__setattr__(loop, "slots", (Slot("next", 4, Kind.TABLE, target=loop),))
    # Offsets are unsigned, so a table refers only forward; a chain of 65 is too deep.
    count = verifier.MAX_DEPTH + 1
    tables = [struct.pack("<iI", 12 + 8 * number - 4, 4) for number in range(count)]
    data = struct.pack("<IHHH2x", 12, 6, 8, 4) + b"".join(tables) + struct.pack("<i4x", 12 + 8 * count - 4)
    with pytest.raises(CorruptDataError, match="64"):
        verify(data, loop, what="it")


def test_shared_parts_count_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = flatbuffers.Builder(64)
    path = builder.CreateString("p")
    builder.StartObject(2)
    uuid = builder.EndObject()
    builder.StartObject(2)
    ulid = builder.EndObject()
    builder.StartVector(4, 1000, 4)
    for _ in range(1000):
        builder.PrependUOffsetTRelative(ulid)
    ids = builder.EndVector()
    ExternalDb.Start(builder)
    ExternalDb.AddPath(builder, path)
    ExternalDb.AddSourceCheckpointId(builder, uuid)
    ExternalDb.AddSstIds(builder, ids)
    builder.Finish(ExternalDb.End(builder))
    data = bytes(builder.Output())
    verify(data, EXTERNAL_DB, what="it")
    monkeypatch.setattr(verifier, "MAX_APPARENT_BYTES", len(data))
    with pytest.raises(CorruptDataError, match="expand"):
        verify(data, EXTERNAL_DB, what="it")
    monkeypatch.undo()
    monkeypatch.setattr(verifier, "MAX_TABLES", 500)
    with pytest.raises(CorruptDataError, match="500"):
        verify(data, EXTERNAL_DB, what="it")


@pytest.mark.parametrize("backwards", [False, True])
def test_tables_that_share_a_vtable_are_each_inside_the_buffer(backwards: bool) -> None:
    builder = flatbuffers.Builder(64)
    ids = [put_ulid(builder, Ulid(number)) for number in (1 << 70, 1 << 80, 1 << 90)]
    path, source = builder.CreateString("p"), put_uuid(builder, UUID(int=1))
    numbers = put_offsets(builder, ids[::-1] if backwards else ids)
    ExternalDb.Start(builder)
    ExternalDb.AddPath(builder, path)
    ExternalDb.AddSourceCheckpointId(builder, source)
    ExternalDb.AddSstIds(builder, numbers)
    builder.Finish(ExternalDb.End(builder))
    data = bytes(builder.Output())
    verify(data, EXTERNAL_DB, what="it")
    for lost in (4, 8, 12):  # of the last table, whichever is verified first
        with pytest.raises(CorruptDataError, match="outside"):
            verify(data[:-lost], EXTERNAL_DB, what="it")


def test_tables_that_share_a_vtable_are_each_aligned() -> None:
    """Root at 16, a vector of two tables at 24; all share the vtable at 4, with one field at offset 4."""
    pair = Table("Pair", (Slot("items", 4, Kind.TABLES, target=ULID),))
    root = struct.pack("<I", 16) + struct.pack("<HHH", 6, 12, 4) + bytes(6) + struct.pack("<iI", 12, 4)

    def holding(second: int) -> bytes:
        vector = struct.pack("<III", 2, 36 - 28, second - 32)  # at 24
        tables = {36: struct.pack("<iQ", 36 - 4, 7), second: struct.pack("<iQ", second - 4, 8)}
        data = bytearray(root + vector + bytes(40))
        for at, table in tables.items():
            data[at : at + len(table)] = table
        return bytes(data)

    verify(holding(52), pair, what="it")
    with pytest.raises(CorruptDataError, match="multiple"):
        verify(holding(56), pair, what="it")


def test_a_union_of_unknown_type_lies_inside() -> None:
    either = Table("Either", (Slot("one", 6, Kind.UNION, variants={1: ULID}),))
    # A vtable of 8 bytes at 4, and the table at 12: the type at 16, the reference far behind the end.
    outside = struct.pack("<IHHHHiBxxx", 12, 8, 8, 4, 400, 8, 2)
    with pytest.raises(CorruptDataError):
        verify(outside, either, what="it")
    inside = struct.pack("<IHHHHiBxxxI", 12, 8, 12, 4, 8, 8, 2, 4)
    assert verify(inside, either, what="it") == {"Either one of type 2"}


@pytest.mark.parametrize(("count", "fits"), [(2, True), (5000, False)])
def test_large_parts_that_are_shared_again_and_again(count: int, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    views = tuple(SstView(Ulid(number), Ulid(1)) for number in range(2, 65))
    segments = tuple(Segment(b"%08d" % number, None, views, ()) for number in range(count))
    sst = SstHandle(Ulid(1), SstInfo(b"a", b"b", 100, 50, 100, 0))
    put_segment, made = manifest_codec._put_segment, list[int]()

    def put_once(builder: flatbuffers.Builder, segment: Segment) -> int:
        if not made:
            made.append(put_segment(builder, segment))
        return made[0]

    monkeypatch.setattr(manifest_codec, "_put_segment", put_once)
    data = encode_manifest(Manifest(ssts=SstMap([sst]), segments=segments, segment_extractor_name="x"))
    with nullcontext() if fits else pytest.raises(CorruptDataError, match="expand"):
        verify(memoryview(data)[2:], MANIFEST_V2, what="it")


def test_a_name_that_is_shared_too_often_is_not_decoded_each_time() -> None:
    """A manifest of 10 MB would take minutes: each of its checkpoints is the same one, with a name of 10 MB."""
    size = 1 << 20
    data = struct.pack("<II", 4, size) + b"n" * size + b"\0"
    walk = verifier._Walk(memoryview(data), "it")
    assert walk.string_all(np.zeros(4, np.int64))
    assert not walk.string_all(np.zeros(20, np.int64))
