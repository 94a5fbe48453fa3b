"""Which parts of a split are read from columnar copies, and why the others are not.

A copy serves where nothing older lies below its file, where it is complete for the read, and where it has fewer stored
bytes to read than the blocks of the file. Rows of newer layers are laid over it by key, in `scan`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from slatespark.encoding.column_types import INTEGERS
from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import CorruptDataError, SnapshotExpiredError, UnsupportedFormatError
from slatespark.format.columnar_copy import CopyFooter
from slatespark.format.copy_chunks import chunk_range, leaf_columns
from slatespark.format.paths import copy_path
from slatespark.ranges import ByteRange, KeyRange
from slatespark.storage import ObjectMeta
from slatespark.table.read.arrow import CREATE_TS, EXPIRE_TS, METADATA_TYPES, SEQ, type_of
from slatespark.table.read.key_cover import KeyCover
from slatespark.table.read.plan import FileSlice, Layer, Split
from slatespark.table.read.scan_settings import ScanSettings
from slatespark.table.read.stored_copies import cached_footer, list_copies
from slatespark.table.stores import OWN_ROOT, TableStores

if TYPE_CHECKING:
    from slatespark.encoding.predicates.value_bounds import ValueBounds

USED: Final = "from copies"
NO_COPY: Final = "there is no copy"

# A copy that cannot be used is as good as none; the rows are in the SST.
UNUSABLE: Final = (CorruptDataError, SnapshotExpiredError, UnsupportedFormatError)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CopyGroup:
    """A row group of a copy that may have rows to show.

    Attributes
    ----------
    number : in the copy
    first_row : number of its first row, in the copy and in the SST
    is_cut : whether some of its rows may lie outside the slice
    """

    number: int
    first_row: int
    is_cut: bool


@dataclass(frozen=True, slots=True)
class CopyPart:
    """A slice of a file that is read from the file's copy.

    Attributes
    ----------
    part : the slice
    meta, footer : of the copy
    groups : ascending; the others have no row to show
    names : columns of the copy that are read
    key_names : those that are read as well where keys are needed
    is_covered : whether newer rows may lie above
    with_keys : whether the keys of all rows are needed
    """

    part: FileSlice
    meta: ObjectMeta
    footer: CopyFooter
    groups: tuple[CopyGroup, ...]
    names: tuple[str, ...]
    key_names: tuple[str, ...]
    is_covered: bool
    with_keys: bool
    _leaves: dict[bool, list[int]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def needs_keys(self, group: CopyGroup) -> bool:
        """Tell whether the keys of a row group are needed."""
        return self.with_keys or group.is_cut

    def names_of(self, group: CopyGroup) -> tuple[str, ...]:
        """Return the columns of a row group that are read."""
        return (*self.names, *self.key_names) if self.needs_keys(group) else self.names

    def spans(self, group: CopyGroup) -> list[ByteRange]:
        """Return where the column chunks of a row group lie that are read."""
        metadata, with_keys = self.footer.metadata, self.needs_keys(group)
        if with_keys not in self._leaves:
            self._leaves[with_keys] = leaf_columns(metadata, self.names_of(group))
        return [chunk_range(metadata, group.number, leaf) for leaf in self._leaves[with_keys]]

    def fetched_together(self, window_bytes: int) -> Iterator[list[CopyGroup]]:
        """Yield consecutive row groups that a window holds, or one that is larger."""
        batch: list[CopyGroup] = []
        size = 0
        for group in self.groups:
            added = sum(map(len, self.spans(group)))
            if batch and size + added > window_bytes:
                yield batch
                batch, size = [], 0
            batch.append(group)
            size += added
        if batch:
            yield batch

    @property
    def stored_bytes(self) -> int:
        """Stored bytes that are read."""
        return sum(len(span) for group in self.groups for span in self.spans(group))


# --- planning ---------------------------------------------------------------------------------------------------------


def with_copies(stores: TableStores, splits: Sequence[Split], settings: ScanSettings) -> tuple[Split, ...]:
    """Return splits with the columnar copies that they may use; costs a listing where there may be any."""
    lowest = [lowest_slices(split.layers) if split.points is None else [] for split in splits]
    if not any(lowest) or refusal(settings) is not None:
        return tuple(splits)
    known = list_copies(stores.main)
    found = (dict.fromkeys(known[part.file.id] for part in parts if part.file.id in known) for parts in lowest)
    return tuple(replace(split, copies=tuple(metas)) for split, metas in zip(splits, found, strict=True))


def refusal(settings: ScanSettings) -> str | None:
    """Return why no copy can answer a read; None if copies can."""
    shown = settings.visibility
    if settings.validity is not None or shown.all_versions or shown.max_create_ts_ms is not None:
        return "the read shows older versions"
    if shown.include_deleted:
        return "the read shows deletions"
    if settings.ignore_undecodable:
        return "the read skips rows that do not decode"
    return None


def lowest_slices(layers: Sequence[Layer]) -> list[FileSlice]:
    """Return the slices of our files below which nothing older lies, and which share no key with a neighbour."""
    found: list[FileSlice] = []
    below = KeyCover()
    for layer in reversed(layers):
        ends = [None, *(_overlap(one, other) for one, other in pairwise(layer.slices)), None]
        for part, (before, behind) in zip(layer.slices, pairwise(ends), strict=True):
            is_ours = part.file.root == OWN_ROOT and not layer.is_above_wal
            if is_ours and not before and not behind and not below.overlaps(part.keys):
                found.append(part)
        for part in layer.slices:
            below.add(part.keys)
    return sorted(found, key=lambda part: part.keys.start)


def _overlap(one: FileSlice, other: FileSlice) -> bool:
    return one.keys.overlaps(other.keys)


# --- choice -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CopyChoice:
    """How the lowest slices of a split are read.

    Attributes
    ----------
    parts : those that are read from copies, in key order
    reasons : for each of the lowest slices `USED`, or why it is read from its SST
    """

    parts: tuple[CopyPart, ...]
    reasons: Mapping[FileSlice, str]


def choose_copies(
    stores: TableStores, split: Split, settings: ScanSettings, *, is_covered: Mapping[FileSlice, bool]
) -> CopyChoice:
    """Choose what is read from copies; costs a request for each footer that is not cached.

    Parameters
    ----------
    is_covered : for each of the lowest slices, whether newer rows may lie above it
    """
    metas = {meta.path: meta for meta in split.copies}
    parts: list[CopyPart] = []
    reasons: dict[FileSlice, str] = {}
    for part, covered in is_covered.items():
        meta = metas.get(copy_path(part.file.id))
        found = NO_COPY if meta is None else _judge(stores, part, meta, settings, is_covered=covered)
        reasons[part] = found if isinstance(found, str) else USED
        if isinstance(found, CopyPart):
            parts.append(found)
    return CopyChoice(tuple(sorted(parts, key=lambda found: found.part.keys.start)), reasons)


def without_parts(layers: Sequence[Layer], parts: Iterable[CopyPart]) -> tuple[Layer, ...]:
    """Return layers without the slices that are read from copies."""
    copied = {found.part for found in parts}
    rest = (Layer(layer.name, tuple(part for part in layer.slices if part not in copied)) for layer in layers)
    return tuple(layer for layer in rest if layer.slices)


def covered_slices(split: Split, wal_meets: Callable[[KeyRange], bool]) -> dict[FileSlice, bool]:
    """Return the lowest slices of a split, and for each whether newer rows may lie above it.

    Parameters
    ----------
    wal_meets : whether the WAL may have rows with keys of a range
    """
    lowest = lowest_slices(split.layers)
    chosen = set(lowest)
    above = KeyCover(part.keys for layer in split.layers for part in layer.slices if part not in chosen)
    return {part: above.overlaps(part.keys) or wal_meets(part.keys) for part in lowest}


def _judge(
    stores: TableStores, part: FileSlice, meta: ObjectMeta, settings: ScanSettings, *, is_covered: bool
) -> CopyPart | str:
    """Return how a copy is used, or why it is not."""
    try:
        footer = cached_footer(stores.main, meta)
    except UNUSABLE as exc:
        _log.warning("%s The SST is read instead.", exc)
        return "the copy is damaged"
    label = footer.label
    if not label.is_of(part.file.id, part.file.info):
        _log.warning("%s/%s is not of the SST that it is named after. The SST is read instead.", stores.url, meta.path)
        return "the copy is of another SST"
    if label.max_seq > settings.visibility.max_seq:
        return "rows are newer than the read"
    if is_covered and settings.fold is not None:
        return "merge operands may lie above"
    if (lacking := _lacking(footer, settings.columns, settings.projection.codec)) is not None:
        return f"the copy has no column {lacking} of the type of the read"
    return _cheaper(part, meta, footer, settings, is_covered=is_covered)


def _cheaper(
    part: FileSlice,
    meta: ObjectMeta,
    footer: CopyFooter,
    settings: ScanSettings,
    *,
    is_covered: bool,
) -> CopyPart | str:
    groups, rows = _choose_groups(part, footer, settings)
    codec, names = settings.projection.codec, settings.columns
    held = set(footer.schema.names)
    stored = dict.fromkeys(name for name in [*names, *_needed_times(settings)] if name in held)
    chosen = tuple(stored) or codec.key_columns[:1]
    key_names = tuple(name for name in codec.key_columns if name not in chosen)
    with_keys = is_covered or "_key" in names
    found = CopyPart(part, meta, footer, groups, chosen, key_names, is_covered, with_keys)
    sst_bytes = part.file.data_bytes * rows // max(1, footer.label.rows)
    return found if found.stored_bytes < sst_bytes else "the copy has more bytes to read"


def _needed_times(settings: ScanSettings) -> list[str]:
    """Return the columns that decide whether a row is shown."""
    expiry = [] if settings.visibility.include_expired else [EXPIRE_TS]
    return expiry if settings.retired_ms is None else [*expiry, CREATE_TS]


def _lacking(footer: CopyFooter, names: Iterable[str], codec: RowCodec) -> str | None:
    """Return the first column that a copy does not have as the read needs it."""
    held = {item.name: item.type for item in footer.schema}
    for name in [*codec.key_columns, *names]:
        if name in held:
            if not _becomes(held[name], type_of(name, codec), is_exact=codec.value_format == "avro"):
                return name
        elif name not in METADATA_TYPES or name == SEQ or name in codec.schema.names:
            return name
    return None


def _becomes(held: pa.DataType, wanted: pa.DataType, *, is_exact: bool) -> bool:
    """Tell whether values of a column that was widened since are those that its rows have.

    Numbers of JSON are decoded anew, maybe to other digits.
    """
    if held == wanted:
        return True
    if not is_exact:
        return False
    if held in INTEGERS and wanted in INTEGERS:
        return INTEGERS.index(held) < INTEGERS.index(wanted)
    return bool(held == pa.float32() and wanted == pa.float64())


# --- row groups -------------------------------------------------------------------------------------------------------


def _choose_groups(part: FileSlice, footer: CopyFooter, settings: ScanSettings) -> tuple[tuple[CopyGroup, ...], int]:
    """Return the row groups that may have rows to show, and the rows of all groups that the slice meets."""
    from slatespark.encoding.predicates.value_bounds import key_range_of, may_pass

    codec, condition = settings.projection.codec, settings.residual
    is_whole = part.keys.intersect(part.file.info.key_range()) == part.file.info.key_range()
    statistics = _Statistics(footer, codec)
    groups: list[CopyGroup] = []
    row = inside_rows = 0
    for number in range(footer.metadata.num_row_groups):
        count, first_row = footer.metadata.row_group(number).num_rows, row
        row += count
        is_cut = False
        if not is_whole:
            keys = key_range_of([statistics.bounds(number, name) for name in codec.key_columns], codec)
            if not keys.overlaps(part.keys):
                continue
            is_cut = keys.intersect(part.keys) != keys
        inside_rows += count
        if condition is None or may_pass(condition, statistics.all_bounds(number, condition.columns)):
            groups.append(CopyGroup(number, first_row, is_cut))
    return tuple(groups), inside_rows


class _Statistics:
    """The statistics of a copy, for columns that have the type of the read."""

    def __init__(self, footer: CopyFooter, codec: RowCodec) -> None:
        self._metadata = footer.metadata
        leaves = {self._metadata.schema.column(number).path: number for number in range(self._metadata.num_columns)}
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
        return bounds_of(self._metadata.row_group(group).column(leaf).statistics, kind)

    def all_bounds(self, group: int, names: Iterable[str]) -> dict[str, ValueBounds]:
        """Return the bounds of columns, as far as they are known."""
        found = ((name, self.bounds(group, name)) for name in names)
        return {name: bounds for name, bounds in found if bounds is not None}


def _type_in(codec: RowCodec, name: str) -> pa.DataType | None:
    """Return the type of a column of a read; None if no read has it."""
    return type_of(name, codec) if name in codec.schema.names or name in METADATA_TYPES else None
