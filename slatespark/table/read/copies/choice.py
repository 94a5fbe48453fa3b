"""Which parts of a split are read from columnar copies, and why the others are not.

A copy serves where nothing older lies below its file, where it is complete for the read, and where it has fewer stored
bytes to read than the blocks of the file; under newer rows, sometimes far fewer. Rows of newer layers are laid over it
by key, in `scan`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from slatespark.encoding.column_types import INTEGERS
from slatespark.encoding.row_codec import RowCodec
from slatespark.format.codecs import Compression
from slatespark.format.columnar_copy import CopyFooter
from slatespark.format.paths import copy_path
from slatespark.storage import ObjectMeta, run_in_groups
from slatespark.table.read.arrow import CREATE_TS, EXPIRE_TS, SEQ, type_of
from slatespark.table.read.copies.part import CopyPart
from slatespark.table.read.copies.row_groups import choose_groups
from slatespark.table.read.copies.stored import UNUSABLE, cached_footer, warn_unusable
from slatespark.table.read.fetch import measure_slice
from slatespark.table.read.planning.plan import FileSlice, Split
from slatespark.table.read.scan_settings import ScanSettings
from slatespark.table.stores import TableStores

# A stored byte of a copy, decompressed, decoded and put among newer rows, takes as long as so many bytes of an SST that
# come from a local disk and are not compressed. All columns then take half the time with the SST.
MERGE_FACTOR: Final = 12

USED: Final = "from copies"
NO_COPY: Final = "there is no copy"


@dataclass(frozen=True, slots=True)
class CopyChoice:
    """How the lowest slices of a split are read.

    Attributes
    ----------
    parts : those that are read from copies, in key order
    reasons : for each of the lowest slices, `USED`, or why it is read from its SST
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

    def judge(part: FileSlice) -> CopyPart | str:
        meta = metas.get(copy_path(part.file.id))
        return NO_COPY if meta is None else _judge(stores, part, meta, settings, is_covered=is_covered[part])

    judged = dict(run_in_groups(judge, list(is_covered), is_remote=stores.main.is_remote))
    parts = [found for found in judged.values() if isinstance(found, CopyPart)]
    reasons = {part: found if isinstance(found, str) else USED for part, found in judged.items()}
    return CopyChoice(tuple(sorted(parts, key=lambda found: found.part.keys.start)), reasons)


def _judge(
    stores: TableStores, part: FileSlice, meta: ObjectMeta, settings: ScanSettings, *, is_covered: bool
) -> CopyPart | str:
    """Return how a copy is used, or why it is not."""
    footer = usable_footer(stores, part, meta, settings, is_covered=is_covered)
    return footer if isinstance(footer, str) else _cheaper(stores, part, meta, footer, settings, is_covered=is_covered)


def usable_footer(
    stores: TableStores, part: FileSlice, meta: ObjectMeta, settings: ScanSettings, *, is_covered: bool
) -> CopyFooter | str:
    """Return the footer of a copy with the rows and columns of a read, or why it cannot serve."""
    try:
        footer = cached_footer(stores.main, meta)
    except UNUSABLE as exc:
        warn_unusable(stores.main, meta, exc)
        return "the copy is damaged"
    label = footer.label
    if not label.is_of(part.file.id, part.file.info):
        warn_unusable(stores.main, meta, f"{stores.url}/{meta.path} is not of the SST that it is named after.")
        return "the copy is of another SST"
    if label.max_seq > settings.visibility.max_seq:
        return "rows are newer than the read"
    if is_covered and settings.fold is not None:
        return "merge operands may lie above"
    if (lacking := _lacking(footer, settings.columns, settings.projection.codec)) is not None:
        return f"the copy has no column {lacking} of the type of the read"
    return footer


def _cheaper(
    stores: TableStores,
    part: FileSlice,
    meta: ObjectMeta,
    footer: CopyFooter,
    settings: ScanSettings,
    *,
    is_covered: bool,
) -> CopyPart | str:
    groups, rows = choose_groups(part, footer, settings)
    codec, names = settings.projection.codec, settings.columns
    held = set(footer.schema.names)
    stored = dict.fromkeys(name for name in [*names, *_needed_times(settings)] if name in held)
    chosen = tuple(stored) or codec.key_columns[:1]
    key_names = tuple(name for name in codec.key_columns if name not in chosen)
    with_keys = is_covered or "_key" in names
    found = CopyPart(part, meta, footer, groups, chosen, key_names, is_covered, with_keys)
    sst_bytes = _sst_bytes(stores, found, rows)
    if found.stored_bytes >= sst_bytes:
        return "the copy has more bytes to read"
    is_plain = part.file.info.compression is Compression.NONE and not stores.main.is_remote
    if is_covered and is_plain and found.stored_bytes * MERGE_FACTOR >= sst_bytes:
        return "newer rows are merged faster with the SST"
    return found


def _sst_bytes(stores: TableStores, found: CopyPart, rows: int) -> int:
    """Return about how many stored bytes of the SST are read instead.

    Parameters
    ----------
    rows : of all row groups that the slice meets
    """
    part = found.part
    if found.groups and all(group.is_cut for group in found.groups):  # maybe few rows of them: the index tells
        return measure_slice(stores, part)
    return part.file.data_bytes * rows // max(1, found.footer.label.rows)


def _needed_times(settings: ScanSettings) -> list[str]:
    """Return the columns that decide whether a row is shown."""
    expiry = [] if settings.visibility.include_expired else [EXPIRE_TS]
    return expiry if settings.retired_ms is None else [*expiry, CREATE_TS]


def _lacking(footer: CopyFooter, names: Iterable[str], codec: RowCodec) -> str | None:
    """Return the first column that a copy does not have as the read needs it."""
    held = {item.name: item.type for item in footer.schema}
    for name in [*codec.key_columns, *names]:
        if name in held:
            if not _keeps_values(held[name], type_of(name, codec), is_exact=codec.value_format == "avro"):
                return name
        elif name == SEQ or (name in codec.schema.names and not _is_null(footer, name, codec)):
            return name
    return None


def _is_null(footer: CopyFooter, name: str, codec: RowCodec) -> bool:
    """Tell whether a column of the table, which a copy does not have, is null in all of its rows.

    A row lacks a column that is not in its schema, and is null there. Values without a schema may hold anything.
    """
    hidden = footer.label.hidden
    return hidden is not None and name not in hidden and name not in codec.key_columns


def _keeps_values(held: pa.DataType, wanted: pa.DataType, *, is_exact: bool) -> bool:
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
