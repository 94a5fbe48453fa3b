"""Which version shows a table as it was when a sequence number was its last one.

The oldest version with that last sequence number serves unchanged: a later one may have a load that a live client
committed, which takes no number of its own. Where there is none, a later version serves without the rows above the
number, if nothing up to it was dropped or merged away since. Or an earlier one serves with rows of the WAL, if that
holds all numbers in between. A read that is not known to be exact is refused.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import HistoryTrimmedError, OptionError, SnapshotExpiredError, TableNotFoundError
from slatespark.format.manifest import Manifest
from slatespark.format.paths import wal_path
from slatespark.format.wal import decode_wal
from slatespark.table.checkpoints.version_files import refuse_collected_ssts
from slatespark.table.log.versioned_object import Version
from slatespark.table.read.versions.kept_versions import KeptVersions
from slatespark.table.read.versions.unnumbered import lost_segment, may_differ
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.operations import Operation
from slatespark.table.snapshot import Snapshot, WalTail, wal_sizes
from slatespark.table.stores import TableStores, object_context
from slatespark.units import ms_to_text

_KEEPING: Final = frozenset(
    {Operation.WRITE, Operation.INGEST, Operation.TRANSACTION}
)  # operations of slatespark that leave everything in place


def find_seq(stores: TableStores, kept: KeptVersions, newest: Snapshot, seq: int) -> tuple[int, Manifest, WalTail]:
    """Return the version, and the part of the WAL, whose rows up to `seq` are the table as it was then.

    Parameters
    ----------
    kept : the versions that exist
    newest : the newest state

    Raises
    ------
    OptionError
        When the number is not used yet.
    HistoryTrimmedError
        When no version is known to be exact.
    """
    if seq > newest.max_seq:
        raise OptionError(
            f"{stores.url}: sequence number {seq} is not used yet.", todo=f"The last one is {newest.max_seq}."
        )
    if seq > newest.manifest.last_l0_seq:
        return newest.manifest_id, newest.manifest, newest.wal
    numbers = kept.numbers
    position = bisect_left(numbers, seq, key=lambda each: kept.manifest(each).last_l0_seq)
    after = numbers[position] if position < len(numbers) else newest.manifest_id
    before = numbers[position - 1] if position else None
    manifest = kept.manifest(after) if position < len(numbers) else newest.manifest
    if manifest.last_l0_seq == seq:
        after, manifest = _with_files(stores, kept, Version(after, manifest), newest)
        return after, manifest, no_wal(manifest)
    if _holds(kept, before, after, manifest, seq):
        return after, manifest, no_wal(manifest)
    tail = None if before is None else _find_in_wal(stores, kept.manifest(before), seq)
    if before is None or tail is None:
        raise _unknown(stores, kept, before, after, seq)
    return before, kept.manifest(before), tail


def no_wal(manifest: Manifest) -> WalTail:
    """Return the tail of a version without a file of it."""
    return WalTail(manifest.replay_after_wal_id + 1, manifest.replay_after_wal_id + 1)


# --- a version that ends with the number ----------------------------------------------------------------------------


def _with_files(
    stores: TableStores, kept: KeptVersions, oldest: Version[Manifest], newest: Snapshot
) -> Version[Manifest]:
    """Return the oldest version that ends with a number; if files of it are gone, the newest one if that does too.

    Raises
    ------
    HistoryTrimmedError
        When files are gone, and more than merges may have come between the two.
    """
    number, manifest = oldest
    if number == newest.manifest_id or manifest.last_l0_seq < newest.manifest.last_l0_seq:
        return oldest
    try:
        refuse_collected_ssts(stores, number, manifest, newest.manifest)
    except (SnapshotExpiredError, TableNotFoundError) as exc:
        between = range(number + 1, min(newest.manifest_id, kept.latest + 1))
        are_known = set(between).issubset(kept.numbers)
        if not are_known or lost_segment(manifest, newest.manifest) or may_differ(stores, number, newest.manifest_id):
            raise HistoryTrimmedError(
                f"{stores.url}: files of version {number}, the first with sequence number {manifest.last_l0_seq}, are "
                "not there any more.",
                why="Later versions with this number may have other rows: a live client commits loads, and drops "
                "segments, without a number of their own.",
                todo="Read the newest rows, without seqAsOf.",
            ) from exc
        return newest.version
    return oldest


# --- a later version ------------------------------------------------------------------------------------------------


def _holds(kept: KeptVersions, before: int | None, after: int, manifest: Manifest, seq: int) -> bool:
    """Tell whether a version is known to hold everything that was visible at a number below its last one.

    Parameters
    ----------
    before, after : the neighbours of the number among the versions that exist
    manifest : the manifest of `after`
    """
    if before == after - 1 and _is_flush_under_snapshot(kept.manifest(before), manifest, seq):
        return True
    record = max((kept.records[known] for known in kept.records if known <= after), key=_number, default=None)
    if record is None or record.operation not in _KEEPING or record.removed or record.replaces:
        return False
    if record.manifest_id < after and not _stands_unchanged(record, manifest):
        return False
    if record.first_seq is not None and record.first_seq <= seq < (record.last_seq or 0):
        return False  # between rows of one commit, which became visible together
    # Its base is `before`, or has no row above the number; so whatever became of older versions, none is missing here.
    return before == record.manifest_id - 1 or (record.first_seq is not None and record.first_seq <= seq + 1)


def _number(record: CommitRecord) -> int:
    return record.manifest_id


def _stands_unchanged(record: CommitRecord, manifest: Manifest) -> bool:
    """Tell whether a later version shows the result of a commit: no number was used since, and its files all exist.

    Others may have merged older files in between. They merged no row of the commit, so they dropped nothing that one
    of those up to the number before it did not hide already.
    """
    whole = {str(view.sst_id) for view in manifest.views() if view.visible_range is None}
    return manifest.last_l0_seq == record.last_seq and whole.issuperset(record.files)


def _is_flush_under_snapshot(earlier: Manifest, later: Manifest, seq: int) -> bool:
    """Tell whether a client flushed its memtable while a snapshot at or below the number made it keep all above it.

    slatespark's commits leave no L0, so they are never taken for it.
    """
    kept_views = set(earlier.views()) <= set(later.views())
    return later.has_l0() and kept_views and later.recent_snapshot_min_seq <= seq


# --- the WAL --------------------------------------------------------------------------------------------------------


def _find_in_wal(stores: TableStores, manifest: Manifest, seq: int) -> WalTail | None:
    """Return the files of the WAL that continue a version up to a number; None if they are not all there.

    They are if each number in between has a row: whatever changes a table without one uses a number that has none.
    """
    sizes = wal_sizes(stores, manifest)
    start = end = manifest.replay_after_wal_id + 1
    reached = manifest.last_l0_seq
    while reached < seq:
        if end not in sizes:
            return None
        seqs = _fetch_seqs(stores, end) if sizes[end] else np.empty(0, np.uint64)  # an empty object is a fence
        found = np.unique(seqs[(seqs > np.uint64(reached)) & (seqs <= np.uint64(seq))])
        if not np.array_equal(found, np.arange(reached + 1, reached + 1 + len(found), dtype=np.uint64)):
            return None
        reached, end = reached + len(found), end + 1
    return WalTail(start, end, reached, sizes=tuple(sizes[number] for number in range(start, end)))


def _fetch_seqs(stores: TableStores, number: int) -> NDArray[np.uint64]:
    path = wal_path(number)
    with object_context(stores.wal, path):
        return decode_wal(bytes(stores.wal.get(path))).seqs


# --- refusal --------------------------------------------------------------------------------------------------------


def _unknown(stores: TableStores, kept: KeptVersions, before: int | None, after: int, seq: int) -> HistoryTrimmedError:
    """Return the error for a number of which no version is known to be exact."""
    first = kept.numbers[0]
    near = [
        f"{kept.manifest(number).last_l0_seq} (version {number})" for number in (before, after) if number is not None
    ]
    return HistoryTrimmedError(
        f"{stores.url}: the rows as of sequence number {seq} are no longer complete.",
        why="The version that had them was garbage-collected, and later ones may have merged or dropped rows."
        if before is None or before < after - 1
        else f"Version {after} dropped rows, merged older versions of rows with newer ones, or made all rows of its "
        "commit visible together.",
        todo=f"The nearest that can be answered: {', '.join(near)}. The earliest time is "
        f"{ms_to_text(kept.time_ms(first))}, sequence number {kept.manifest(first).last_l0_seq}.",
    )
