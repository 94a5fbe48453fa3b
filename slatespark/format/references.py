"""References to SSTs in manifests and compactions files: handles, views, and sorted runs of views.

A handle identifies an SST and contains its info. A view references an SST, in whole or in part. Source:
`docs/reference/format/manifest.md`, `docs/reference/format/flatbuffers.md`.
"""

# mypy: untyped-calls-exclude="slatespark.format._generated"

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import flatbuffers
import numpy as np

from slatespark.errors import CorruptDataError
from slatespark.format._generated import BytesBound as BoundTable
from slatespark.format._generated import BytesRange as RangeTable
from slatespark.format._generated import CompactedSsTable as SstTable
from slatespark.format._generated import CompactedSsTableV2 as HandleTable
from slatespark.format._generated import CompactedSsTableView as ViewTable
from slatespark.format._generated import SortedRunV2 as RunTable
from slatespark.format.building import put_offsets, put_ulid
from slatespark.format.info import FORMAT_VERSION, SstInfo, check_format_version, info_of, infos_of, put_info
from slatespark.format.schemas import (
    BYTES_BOUND,
    BYTES_RANGE,
    COMPACTED_SST,
    COMPACTED_SST_V2,
    SORTED_RUN_V2,
    SST_VIEW,
)
from slatespark.format.table_templates import Form, Parts, TemplateBuilder
from slatespark.format.ulid import Ulid
from slatespark.format.wire_columns import WireColumns
from slatespark.format.wire_table import WireTable, field_numbers
from slatespark.ranges import KeyRange, key_after

_START, _END = field_numbers(BYTES_RANGE, "start_bound", "end_bound")
_BOUND_KEY, _BOUND_TYPE = field_numbers(BYTES_BOUND, "key", "bound_type")
_SST_ID, _SST_INFO, _SST_VERSION = field_numbers(COMPACTED_SST_V2, "id", "info", "format_version")
_OLD_ID, _OLD_INFO, _OLD_VERSION, _OLD_RANGE = field_numbers(
    COMPACTED_SST, "id", "info", "format_version", "visible_range"
)
_VIEW_ID, _VIEW_SST, _VIEW_RANGE = field_numbers(SST_VIEW, "id", "sst_id", "visible_range")
_RUN_ID, _RUN_VIEWS = field_numbers(SORTED_RUN_V2, "id", "ssts")


class BoundType(IntEnum):
    """Kind of a range bound. On disk, do not change."""

    UNBOUNDED = 1
    INCLUDED = 2
    EXCLUDED = 3


@dataclass(frozen=True, slots=True)
class Bound:
    """One bound of a range as stored; the key is None exactly for an unbounded end."""

    kind: BoundType
    key: bytes | None = None

    def __post_init__(self) -> None:
        if (self.key is None) != (self.kind is BoundType.UNBOUNDED):
            raise ValueError(f"a bound of kind {self.kind.name} cannot have the key {self.key!r}")


UNBOUNDED = Bound(BoundType.UNBOUNDED)


@dataclass(frozen=True, slots=True)
class BytesRange:
    """A key range with the kinds of bounds as stored."""

    start: Bound
    end: Bound

    @classmethod
    def of(cls, keys: KeyRange) -> BytesRange:
        """Convert a half-open range: included start, excluded end."""
        start = Bound(BoundType.INCLUDED, keys.start) if keys.start else UNBOUNDED
        end = UNBOUNDED if keys.end is None else Bound(BoundType.EXCLUDED, keys.end)
        return cls(start, end)

    def key_range(self) -> KeyRange:
        """Return the same keys as a half-open range."""
        start, end = self.start, self.end
        low = b"" if start.key is None else key_after(start.key) if start.kind is BoundType.EXCLUDED else start.key
        high = None if end.key is None else key_after(end.key) if end.kind is BoundType.INCLUDED else end.key
        return KeyRange(low, high)


@dataclass(frozen=True, slots=True)
class SstHandle:
    """An SST: its id, its info, and the version of its data blocks."""

    id: Ulid
    info: SstInfo
    format_version: int = FORMAT_VERSION

    def key_range(self) -> KeyRange:
        """Return the keys that the SST may contain; unbounded if the last key is unknown."""
        return self.info.key_range()


class SstMap(Mapping[Ulid, SstHandle]):
    """The SSTs of a manifest by id: immutable, hashable; equality ignores the order."""

    __slots__ = ("_by_id", "_hash")

    def __init__(self, handles: Iterable[SstHandle] = ()) -> None:
        self._by_id = {handle.id: handle for handle in handles}
        self._hash: int | None = None

    def __getitem__(self, ulid: Ulid) -> SstHandle:
        return self._by_id[ulid]

    def __iter__(self) -> Iterator[Ulid]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, ulid: object) -> bool:
        return ulid in self._by_id

    def __eq__(self, other: object) -> bool:
        return self._by_id == other._by_id if isinstance(other, SstMap) else NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._by_id.items()))
        return self._hash

    def __reduce__(self) -> tuple[type[SstMap], tuple[tuple[SstHandle, ...]]]:
        return SstMap, (tuple(self._by_id.values()),)

    def __repr__(self) -> str:
        return f"SstMap({list(self._by_id.values())!r})"

    def adding(self, handles: Iterable[SstHandle]) -> SstMap:
        """Return the map with additional SSTs."""
        return SstMap((*self._by_id.values(), *handles))

    def keeping(self, ids: Iterable[Ulid]) -> SstMap:
        """Return the map restricted to `ids`; unknown ids are ignored."""
        wanted = set(ids)
        return SstMap(handle for handle in self._by_id.values() if handle.id in wanted)


@dataclass(frozen=True, slots=True)
class SstView:
    """A reference to an SST in a tree: rows outside `visible_range` are hidden. None shows all rows."""

    id: Ulid
    sst_id: Ulid
    visible_range: BytesRange | None = None

    def key_range(self, handle: SstHandle | SstInfo) -> KeyRange:
        """Return the keys that the view may contain.

        Requires: `handle` is that of `sst_id`, or its info.
        """
        keys = handle.key_range()
        return keys if self.visible_range is None else self.visible_range.key_range().intersect(keys)


@dataclass(frozen=True, slots=True)
class SortedRun:
    """Non-overlapping views in key order, possibly none. A higher id means newer data."""

    id: int
    views: tuple[SstView, ...]


def range_of(table: WireTable) -> BytesRange:
    """Decode a range from a verified table."""
    return BytesRange(_bound_of(table.table(_START)), _bound_of(table.table(_END)))


def _bound_of(table: WireTable) -> Bound:
    key, kind = table.octets(_BOUND_KEY), table.i8(_BOUND_TYPE)
    try:
        return Bound(BoundType(kind), key)
    except ValueError as exc:
        which = "without" if key is None else "with a"
        raise CorruptDataError(f"A key range has a bound of type {kind} {which} key.") from exc


def put_range(builder: flatbuffers.Builder, keys: BytesRange) -> int:
    """Add a range to the builder; returns its offset."""
    start, end = _put_bound(builder, keys.start), _put_bound(builder, keys.end)
    RangeTable.Start(builder)
    RangeTable.AddEndBound(builder, end)
    RangeTable.AddStartBound(builder, start)
    return int(RangeTable.End(builder))


def _put_bound(builder: flatbuffers.Builder, bound: Bound) -> int:
    key = None if bound.key is None else builder.CreateByteVector(bound.key)
    BoundTable.Start(builder)
    if key is not None:
        BoundTable.AddKey(builder, key)
    BoundTable.AddBoundType(builder, bound.kind)
    return int(BoundTable.End(builder))


def handle_of(table: WireTable) -> SstHandle:
    """Decode a handle from a verified table."""
    return _handle(table.ulid(_SST_ID), info_of(table.table(_SST_INFO)), table.u16(_SST_VERSION))


def handles_of(table: WireTable, field: int) -> list[SstHandle]:
    """Decode a vector of handles in a verified table."""
    many = WireColumns.of_vector(table, field)
    if many is None or not many.has(_SST_VERSION).all():
        return list(map(handle_of, table.tables(field)))
    ids, infos = many.tables(_SST_ID).ulids(), infos_of(many.tables(_SST_INFO))
    return list(map(_handle, ids, infos, many.numbers(_SST_VERSION, "<u2")))


def _handle(ulid: Ulid, info: SstInfo, version: int | None) -> SstHandle:
    if info.first_entry is None:
        raise CorruptDataError(f"SST {ulid} has no first key.", why="The client cannot open it either.")
    if info.last_entry is not None and info.last_entry < info.first_entry:
        raise CorruptDataError(
            f"SST {ulid} has the last key {info.last_entry.hex()}, below its first key {info.first_entry.hex()}."
        )
    return SstHandle(ulid, info, check_format_version(1 if version is None else version))


def put_handle(builder: flatbuffers.Builder, handle: SstHandle) -> int:
    """Add a handle in the form of a manifest; returns its offset."""
    ulid, info = put_ulid(builder, handle.id), put_info(builder, handle.info)
    HandleTable.Start(builder)
    HandleTable.AddInfo(builder, info)
    HandleTable.AddId(builder, ulid)
    HandleTable.AddFormatVersion(builder, handle.format_version)
    return int(HandleTable.End(builder))


def _handle_parts(handle: SstHandle) -> Parts:
    info = handle.info
    numbers = (
        handle.id.high,
        handle.id.low,
        info.index_offset,
        info.index_len,
        info.filter_offset,
        info.filter_len,
        info.compression,
        info.sst_type,
        info.stats_offset,
        info.stats_len,
        info.filter_format,
        handle.format_version,
    )
    return numbers, (info.first_entry, info.last_entry)


HANDLE: Final = Form(COMPACTED_SST_V2, put_handle, _handle_parts)


def compacted_sst_of(table: WireTable) -> tuple[SstHandle, BytesRange | None]:
    """Decode the older form, which combines handle and visible range in one table."""
    shown = table.find(_OLD_RANGE)
    handle = _handle(table.ulid(_OLD_ID), info_of(table.table(_OLD_INFO)), table.u16(_OLD_VERSION))
    return handle, None if shown is None else range_of(shown)


def put_compacted_sst(builder: flatbuffers.Builder, handle: SstHandle) -> int:
    """Add an SST in the older form, which compactions files still use; returns its offset."""
    ulid, info = put_ulid(builder, handle.id), put_info(builder, handle.info)
    SstTable.Start(builder)
    SstTable.AddInfo(builder, info)
    SstTable.AddId(builder, ulid)
    SstTable.AddFormatVersion(builder, handle.format_version)
    return int(SstTable.End(builder))


def view_of(table: WireTable) -> SstView:
    """Decode a view from a verified table."""
    shown = table.find(_VIEW_RANGE)
    return SstView(table.ulid(_VIEW_ID), table.ulid(_VIEW_SST), None if shown is None else range_of(shown))


def views_of(table: WireTable, field: int) -> tuple[SstView, ...]:
    """Decode a vector of views in a verified table."""
    many = WireColumns.of_vector(table, field)
    if many is None:
        return tuple(map(view_of, table.tables(field)))
    shown: list[BytesRange | None] = [None] * table.count(field)
    for number in np.flatnonzero(many.has(_VIEW_RANGE)).tolist():
        shown[number] = range_of(many.table(number).table(_VIEW_RANGE))
    return tuple(map(SstView, many.tables(_VIEW_ID).ulids(), many.tables(_VIEW_SST).ulids(), shown))


def put_view(builder: flatbuffers.Builder, view: SstView) -> int:
    """Add a view to the builder; returns its offset."""
    view_id, sst_id = put_ulid(builder, view.id), put_ulid(builder, view.sst_id)
    shown = None if view.visible_range is None else put_range(builder, view.visible_range)
    ViewTable.Start(builder)
    if shown is not None:
        ViewTable.AddVisibleRange(builder, shown)
    ViewTable.AddSstId(builder, sst_id)
    ViewTable.AddId(builder, view_id)
    return int(ViewTable.End(builder))


def _view_parts(view: SstView) -> Parts:
    ids = view.id.high, view.id.low, view.sst_id.high, view.sst_id.low
    if view.visible_range is None:
        return ids, ()
    start, end = view.visible_range.start, view.visible_range.end
    return (*ids, start.kind, end.kind), (start.key, end.key)


VIEW: Final = Form(SST_VIEW, put_view, _view_parts)


def run_of(table: WireTable) -> SortedRun:
    """Decode a sorted run from a verified table."""
    return SortedRun(table.u32(_RUN_ID), views_of(table, _RUN_VIEWS))


def put_run(builder: TemplateBuilder, run: SortedRun) -> int:
    """Add a sorted run to the builder; returns its offset."""
    views = put_offsets(builder, [builder.put(VIEW, view) for view in run.views])
    RunTable.Start(builder)
    RunTable.AddSsts(builder, views)
    RunTable.AddId(builder, run.id)
    return int(RunTable.End(builder))
