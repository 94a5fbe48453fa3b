"""Merging the layers of a key range into new files: which versions stay is spec 7.4 and design 7, 8.

A window holds whole keys, and is decided, folded and written as a whole. A key whose versions go beyond a window is
gone through twice: once for its times, which decide, and once for its values. So memory is bounded by windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slatespark.option_values import MergeOperator
from slatespark.options import WriteOptions
from slatespark.table.clock import Clock
from slatespark.table.read.plan import Layer
from slatespark.table.stores import TableStores
from slatespark.table.write.sst_upload import NewFile


@dataclass(frozen=True, slots=True)
class MergeRules:
    """Which versions a compaction keeps; the same for all of its ranges, and picklable if the operator is.

    Attributes
    ----------
    now_ms : expired is what expires at or before it; None if nothing is
    min_seq : of each key every version above it stays, and the newest at or below it; for history tables
        `2**64 - 1` leaves it to the floor
    drops_tombstones : nothing older than the sources holds any of their keys
    floor_ms : of history tables, what was created after it stays as it is; None if everything does
    has_history : whether it is a history table
    retired_ms : of plain tables with retention, what was created at or before it goes; None if nothing does
    merge_operator : how operands fold; None if there must not be any
    """

    now_ms: int | None
    min_seq: int
    drops_tombstones: bool
    floor_ms: int | None = None
    has_history: bool = False
    retired_ms: int | None = None
    merge_operator: MergeOperator | None = None


@dataclass(frozen=True, slots=True)
class MergedRange:
    """What became of a key range.

    Attributes
    ----------
    files : uploaded, in key order; empty if nothing is left
    rows_in, rows_out : versions read, and versions in the files
    expired : versions that had expired, or were past retention: they are gone, or tombstones by now
    dropped : versions that are in no file: hidden, expired, folded into others, filtered, or tombstones
    bytes_in, bytes_out : stored bytes of the blocks read, and of the files
    """

    files: tuple[NewFile, ...]
    rows_in: int = 0
    rows_out: int = 0
    expired: int = 0
    dropped: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


def merge_range(
    stores: TableStores,
    clock: Clock,
    layers: Sequence[Layer],
    rules: MergeRules,
    options: WriteOptions,
    planned_ms: int,
    filters: Sequence[object] = (),
) -> MergedRange:
    """Merge the layers of a key range, and upload what stays.

    Parameters
    ----------
    layers : newest first, cut to the range; never the WAL
    rules : what stays
    options : codec, block, file and filter sizes; `writeBuffer` bounds the memory for stored bytes in flight
    planned_ms : time part of file ids, the driver's
    filters : look at what stays, one after the other

    Raises
    ------
    CorruptDataError, SnapshotExpiredError, UnavailableError
        When the sources cannot be read.
    OptionError
        When there are merge operands, and no operator.
    """
    raise NotImplementedError
