"""The row groups of a columnar copy, by their statistics: which may have rows to show, and where splits may cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from slatespark.encoding.row_codec import RowCodec
from slatespark.format.columnar_copy import CopyFooter
from slatespark.ranges import KeyRange
from slatespark.table.read.arrow import METADATA_TYPES, type_of
from slatespark.table.read.copies.part import CopyGroup
from slatespark.table.read.planning.plan import CutPoint, FileSlice, SstFile
from slatespark.table.read.scan_settings import ScanSettings

if TYPE_CHECKING:
    from slatespark.encoding.predicates.value_bounds import ValueBounds


def choose_groups(part: FileSlice, footer: CopyFooter, settings: ScanSettings) -> tuple[tuple[CopyGroup, ...], int]:
    """Return the row groups that may have rows to show, and the rows of all groups that the slice meets."""
    from slatespark.encoding.predicates.value_bounds import may_pass

    codec, condition = settings.projection.codec, settings.residual
    is_whole = part.is_whole
    statistics = GroupStatistics(footer, codec)
    ranges = [] if is_whole else statistics.key_ranges()
    groups: list[CopyGroup] = []
    row = inside_rows = 0
    for number in range(footer.metadata.num_row_groups):
        count, first_row = footer.metadata.row_group(number).num_rows, row
        row += count
        is_cut = False
        if not is_whole:
            keys = ranges[number].intersect(part.file.info.key_range())
            if not keys.overlaps(part.keys):
                continue
            is_cut = keys.intersect(part.keys) != keys
        inside_rows += count
        if condition is None or may_pass(condition, statistics.all_bounds(number, condition.columns)):
            groups.append(CopyGroup(number, first_row, is_cut))
    return tuple(groups), inside_rows


class GroupStatistics:
    """The statistics of a copy, for columns that have the type of the read."""

    def __init__(self, footer: CopyFooter, codec: RowCodec) -> None:
        self._metadata, self._codec = footer.metadata, codec
        self._nans, self._starts = footer.label.nans, footer.label.starts
        paths = [self._metadata.schema.column(number).path for number in range(self._metadata.num_columns)]
        counts = Counter(paths)  # a column `s.x` is called like the part x of a struct s
        leaves = {path: number for number, path in enumerate(paths) if counts[path] == 1}
        self._columns = {
            item.name: (leaves[item.name], item.type)
            for item in footer.schema
            if item.name in leaves and not pa.types.is_nested(item.type) and item.type == _type_in(codec, item.name)
        }

    def bounds(self, group: int, name: str) -> ValueBounds | None:
        """Return the bounds of a column in a row group; None if they are unknown."""
        from slatespark.encoding.predicates.value_bounds import bounds_of

        if name not in self._columns:
            return None
        leaf, kind = self._columns[name]
        has_nan = self._nans is None or name in self._nans
        return bounds_of(self._metadata.row_group(group).column(leaf).statistics, kind, has_nan=has_nan)

    def all_bounds(self, group: int, names: Iterable[str]) -> dict[str, ValueBounds]:
        """Return the bounds of columns, as far as they are known."""
        found = ((name, self.bounds(group, name)) for name in names)
        return {name: bounds for name, bounds in found if bounds is not None}

    def key_ranges(self) -> list[KeyRange]:
        """Return for each row group a range that holds its keys. The keys of a file ascend, from group to group too."""
        starts = self._starts
        if starts is not None:
            return list(map(KeyRange, starts, (*starts[1:], None)))
        from slatespark.encoding.predicates.value_bounds import key_range_of

        names, codec = self._codec.key_columns, self._codec
        found = [
            key_range_of([self.bounds(group, name) for name in names], codec)
            for group in range(self._metadata.num_row_groups)
        ]
        ends: list[bytes | None] = []
        last: bytes | None = None  # keys lie below it
        for keys, is_exact in reversed(found):
            last = _least(last, keys.end)
            ends.append(last)
            last = _least(last, keys.start) if is_exact else last
        ranges: list[KeyRange] = []
        first = b""  # keys do not lie below it
        for (keys, is_exact), end in zip(found, reversed(ends), strict=True):
            first = max(first, keys.start)
            ranges.append(KeyRange(first, end))
            first = max(first, end or b"") if is_exact else first
        return ranges


def _least(one: bytes | None, other: bytes | None) -> bytes | None:
    return other if one is None else one if other is None else min(one, other)


def _type_in(codec: RowCodec, name: str) -> pa.DataType | None:
    """Return the type of a column of a read; None if no read has it."""
    return type_of(name, codec) if name in codec.schema.names or name in METADATA_TYPES else None


def sample_groups(file: SstFile, footer: CopyFooter, codec: RowCodec, spacing_bytes: int) -> list[CutPoint]:
    """Return cut points of a file between row groups, at least about `spacing_bytes` of the SST apart.

    A split that cuts a row group reads it in vain in part, and needs its keys to find where.
    """
    statistics, metadata = GroupStatistics(footer, codec), footer.metadata
    row_bytes = file.data_bytes / max(1, footer.label.rows)
    points: list[CutPoint] = []
    filled = 0  # bytes since the last point
    reach: bytes | None = b""  # where the keys of the group before end
    key = file.info.first_entry or b""
    for number, keys in enumerate(statistics.key_ranges()):
        if filled >= spacing_bytes and reach is not None and reach <= keys.start:
            points.append(CutPoint(key, filled))
            key, filled = keys.start, 0
        reach = keys.end
        filled += round(metadata.row_group(number).num_rows * row_bytes)
    return [*points, CutPoint(key, filled)]
