"""Which files of a read another reader of Parquet can take whole, by their copies, and what is left of the read.

Such a reader knows nothing of layers. So it gets whole files of the lowest runs, whose columns have the types of the
read. Where newer rows lie above, it leaves out the keys that they have, their *shadows*, and the rest of the read has
what is newer. All else stays with the rest, which reads as ever.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow as pa

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import OptionError
from slatespark.format.columnar_copy import CopyFooter
from slatespark.format.paths import copy_path
from slatespark.options import ReadOptions
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.storage import ObjectMeta, run_in_groups
from slatespark.table.read.arrow import Projection, type_of
from slatespark.table.read.copies.choice import NO_COPY, usable_footer
from slatespark.table.read.copies.usable import KnownCopies, covered_slices, refusal
from slatespark.table.read.fetch import measure_slices
from slatespark.table.read.planning.key_cover import KeyCover
from slatespark.table.read.planning.plan import (
    FileSlice,
    Layer,
    Split,
    cut_to_ranges,
    keep_slices,
    plan_ranges,
    stored_bytes,
)
from slatespark.table.read.reader import ReadPlan
from slatespark.table.read.scan import scan_split
from slatespark.table.read.wal_tail import share_tail
from slatespark.table.stores import TableStores

# Newer rows are read where the read is planned, and their keys go to every task. With more of them than a small share,
# Spark's join takes longer than tasks of slatespark, which merge the rows of the copies.
SHADOW_BYTES: Final = 8 << 20
_SHADOW_SHARE: Final = 64
LEAST_SHADOW_BYTES: Final = 1 << 20  # so few are worth a join however small the share

WHOLE: Final = "as Parquet"
SHADOWED: Final = "as Parquet, but for the keys of newer rows"


@dataclass(frozen=True, slots=True)
class ParquetFile:
    """A file that a reader of Parquet takes whole.

    Attributes
    ----------
    path : path of its copy, below the table
    rows : how many rows the copy has
    names : columns of the copy
    nans : columns that may hold NaN, which the statistics leave out; None if that is not known
    has_shadows : whether newer rows have some of its keys
    """

    path: str
    rows: int
    names: frozenset[str]
    nans: frozenset[str] | None
    has_shadows: bool


@dataclass(frozen=True, slots=True)
class ParquetShare:
    """What a reader of Parquet takes of a read, and what is left.

    Attributes
    ----------
    files : the files that it takes; of them it shows the rows that have not ended and pass the filter
    stored_bytes : size of the SSTs of these files
    shadows : the keys of newer rows, each once, as the key columns
    rest : the plan of all other rows
    rest_bytes : size of the SSTs that it needs
    reasons : how many files of the lowest runs are taken, and how many are not, by reason
    """

    files: tuple[ParquetFile, ...]
    stored_bytes: int
    shadows: pa.Table
    rest: ReadPlan
    rest_bytes: int
    reasons: Mapping[str, int]


def plan_parquet_share(stores: TableStores, plan: ReadPlan, options: ReadOptions, names: Sequence[str]) -> ParquetShare:
    """Return what a reader of Parquet takes of a read; fetches the footers of copies, and newer rows if they are few.

    Parameters
    ----------
    plan, options : plan and options of the read
    names : the columns that are read, those of the filter included

    Raises
    ------
    CorruptDataError, SnapshotExpiredError, UnavailableError
    """
    layers = _needed_layers(plan)
    covered = covered_slices(Split(ALL_KEYS, layers), lambda _: plan.settings.has_tail)
    reasons = dict.fromkeys(covered, refusal(plan.settings) or NO_COPY)
    footers: dict[FileSlice, CopyFooter] = {}
    for part, found in _judged(stores, plan, covered, names).items():
        reasons[part] = found if isinstance(found, str) else WHOLE
        if isinstance(found, CopyFooter):
            footers[part] = found
    # No two of the lowest slices share keys, so those that stay with the rest hide nothing of those that are taken.
    above = keep_slices(layers, lambda part: part not in covered)
    shadows = _fetch_shadows(stores, plan, above, footers)
    if shadows is None:
        for part in [part for part in footers if covered[part]]:
            reasons[part] = "many newer rows, or operands, may lie above"
            del footers[part]
        shadows = _Shadows.of([], plan.settings.projection.codec)
    for part in footers:
        reasons[part] = SHADOWED if shadows.any_in(part.keys) else WHOLE
    others = keep_slices(layers, lambda part: part not in footers)
    return ParquetShare(
        files=tuple(_file(part, footer, reasons[part] == SHADOWED) for part, footer in footers.items()),
        stored_bytes=sum(part.file.data_bytes for part in footers),
        shadows=shadows.rows,
        rest=replace(plan, splits=_rest(stores, plan, options, others)) if footers else plan,
        rest_bytes=stored_bytes(others),
        reasons=dict(Counter(reasons.values()).most_common()),
    )


def _file(part: FileSlice, footer: CopyFooter, has_shadows: bool) -> ParquetFile:
    nans = None if footer.label.nans is None else frozenset(footer.label.nans)
    return ParquetFile(copy_path(part.file.id), footer.label.rows, frozenset(footer.schema.names), nans, has_shadows)


def _needed_layers(plan: ReadPlan) -> tuple[Layer, ...]:
    """Return the layers of a plan with the files that its splits read, each as far as it is visible."""
    needed = {part.file for split in plan.splits for layer in split.layers for part in layer.slices}
    return keep_slices(plan.layers, lambda part: part.file in needed)


# --- files ------------------------------------------------------------------------------------------------------------


def _judged(
    stores: TableStores, plan: ReadPlan, covered: Mapping[FileSlice, bool], names: Sequence[str]
) -> dict[FileSlice, CopyFooter | str]:
    """Return for the lowest slices that have copies the footer of each, or why it is not read as Parquet.

    Parameters
    ----------
    covered : for each of the lowest slices, whether newer rows may lie above it
    """
    metas = {meta.path: meta for split in plan.splits for meta in split.copies}
    found = ((part, metas.get(copy_path(part.file.id))) for part in covered)
    copied = {part: meta for part, meta in found if meta is not None}

    def judge(part: FileSlice) -> CopyFooter | str:
        return _judge(stores, plan, part, copied[part], names, is_covered=covered[part])

    return dict(run_in_groups(judge, list(copied), is_remote=stores.main.is_remote))


def _judge(
    stores: TableStores, plan: ReadPlan, part: FileSlice, meta: ObjectMeta, names: Sequence[str], *, is_covered: bool
) -> CopyFooter | str:
    if not part.is_whole:
        return "a part of the file is not visible"
    codec = plan.settings.projection.codec
    footer = usable_footer(stores, part, meta, plan.settings, is_covered=is_covered)
    if (
        isinstance(footer, CopyFooter)
        and (other := _differing(footer, [*codec.key_columns, *names], codec)) is not None
    ):
        return f"the copy has no column {other} of the type of the read"
    return footer


def _differing(footer: CopyFooter, names: Sequence[str], codec: RowCodec) -> str | None:
    """Return the first column that a reader by name takes for another one, or with another type.

    Readers may ignore the case of names. A column that a usable copy does not have is null in all rows.
    """
    held = {item.name: item.type for item in footer.schema}
    spellings: dict[str, set[str]] = {}
    for name in held:
        spellings.setdefault(name.lower(), set()).add(name)
    for name in names:
        if not spellings.get(name.lower(), set()) <= {name}:
            return name
        if name in held and held[name] != type_of(name, codec):
            return name
    return None


# --- newer rows -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Shadows:
    """The keys of newer rows, ascending.

    Attributes
    ----------
    rows : the key columns
    keys : the same, encoded
    """

    rows: pa.Table
    keys: Sequence[bytes]

    @classmethod
    def of(cls, batches: Sequence[pa.RecordBatch], codec: RowCodec) -> _Shadows:
        found = pa.Table.from_batches(batches, schema=_key_projection(codec).schema)
        return cls(found.select(list(codec.key_columns)), found.column("_key").to_pylist())

    def any_in(self, keys: KeyRange) -> bool:
        """Tell whether any lies in a range."""
        at = bisect_left(self.keys, keys.start)
        return at < len(self.keys) and keys.contains(self.keys[at])


def _key_projection(codec: RowCodec) -> Projection:
    return Projection((*codec.key_columns, "_key"), shows_deletes=True, codec=codec)


def _fetch_shadows(
    stores: TableStores, plan: ReadPlan, above: Sequence[Layer], parts: Collection[FileSlice]
) -> _Shadows | None:
    """Return the keys from the first to the last of some slices of which the layers or the WAL have a version.

    None if these are many, or operands are among them.
    """
    settings, codec = plan.settings, plan.settings.projection.codec
    keys = KeyCover(part.keys for part in parts).shared(ALL_KEYS)  # one range: keys between files harm nothing
    layers = () if keys is None else cut_to_ranges(above, (keys,))
    if keys is None or not (layers or settings.has_tail):
        return _Shadows.of([], codec)
    share_bytes = sum(part.file.data_bytes for part in parts) // _SHADOW_SHARE
    limit_bytes = min(SHADOW_BYTES, max(share_bytes, LEAST_SHADOW_BYTES))
    if stored_bytes(layers) + sum(settings.wal.sizes) > limit_bytes or (settings.has_tail and not settings.wal.sizes):
        return None
    # A key is hidden by whatever is newest above, also by a deletion, and by a row that has expired.
    shown = replace(settings.visibility, include_deleted=True, include_expired=True)
    every = replace(settings, visibility=shown, projection=_key_projection(codec), residual=None, retired_ms=None)
    try:
        return _Shadows.of(list(scan_split(stores, Split(keys, layers), every)), codec)
    except OptionError:  # operands without an operator; the read may not need them, as they may have expired
        return None


# --- the rest ---------------------------------------------------------------------------------------------------------


def _rest(stores: TableStores, plan: ReadPlan, options: ReadOptions, layers: Sequence[Layer]) -> tuple[Split, ...]:
    """Return the splits of the rows in some layers and in the WAL, with the keys of the plan."""
    settings = plan.settings
    ranges = KeyCover(keys for split in plan.splits for keys in split.ranges or (split.keys,)).within(ALL_KEYS)
    copies = KnownCopies(stores, settings, plan.seeks_copies and bool(layers))
    splits = plan_ranges(
        layers,
        ranges,
        target_bytes=options.split_bytes,
        sample=copies.sample,
        measure=partial(measure_slices, stores),
    )
    splits = copies.add_to([split for split in splits if split.layers or plan.settings.has_tail])
    return share_tail(stores, splits, settings)
