"""Replacing or deleting all rows of a key range in one commit.

No old file is rewritten: views are cut (`tree_edit.CutViews`), so the work depends on the new rows only.
"""

from __future__ import annotations

from collections.abc import Sequence

from slatespark.errors import OptionError
from slatespark.format.manifest import Manifest
from slatespark.options import WriteOptions
from slatespark.ranges import KeyRange
from slatespark.table.clock import Clock
from slatespark.table.commit.commit import commit_write
from slatespark.table.commit.cooperate_option import cooperation_refused, refuse_cooperation
from slatespark.table.commit.empty_commit import end_without_commit, record_empty
from slatespark.table.commit.idempotence import is_committed
from slatespark.table.commit.job import WriteJob, abandoned_on_error, begin_write, draw_write_id, publish_job
from slatespark.table.commit.read_set import ReadSet
from slatespark.table.commit.tree_edit import CutViews
from slatespark.table.commit.wal_place import fetch_state_with_wal
from slatespark.table.cooperation.segment_drop import drop_segment_beside_client
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.log.versioned_object import Version
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.operations import Operation
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.snapshot import fetch_newest_state
from slatespark.table.stores import TableStores
from slatespark.table.write.exact_ranges import find_segment, ranges_to_delete
from slatespark.table.write.range_cut import RangeCut, plan_cut


def delete_range(
    stores: TableStores,
    clock: Clock,
    where: str | None,
    options: WriteOptions,
    found: Version[Manifest],
    definition: TableDefinition,
) -> CommitRecord | None:
    """Delete all rows of some key ranges in one commit, without tombstones. Requires: a table without history.

    Returns None if it was committed before, or if no row version lies in the ranges: then no version is published.

    Parameters
    ----------
    where : a condition on leading key columns; None for a raw table, where `options` give the keys
    found, definition : the newest ones

    Raises
    ------
    OptionError
        When the condition is not exactly a set of key ranges; with `ifClientActive=cooperate` also when it is not
        exactly one segment, or with `ifLastSeq`.
    CommitConflictError, UnsupportedFormatError
        As `commit_write`, or `drop_segment_beside_client`.
    """
    if is_committed(stores, options):
        return None
    if found.value.segment_extractor_name is None:
        refuse_cooperation(options, "deleteRange", "Delete rows by key.")
    definition = definition.declaring(options.properties)
    keys = ranges_to_delete(where, options, definition.codec())
    if options.cooperates:
        _refuse_beside_client(options)
        prefix = _segment_of(keys, found.value)
        return drop_segment_beside_client(stores, clock, prefix, definition.codec(), options)
    state = fetch_state_with_wal(stores)
    job = begin_write(
        stores,
        clock,
        operation=Operation.DELETE_RANGE,
        found=state.version,
        definition=definition,
        state=state,
        write_id=draw_write_id(clock),  # the lease comes once there is something to delete
    )
    cut = plan_cut(stores, clock, keys, definition.codec(), state)
    if not cut.holds_rows:
        record_empty(stores, clock, job, options)
        return None
    publish_job(stores, job)
    with abandoned_on_error(stores, job):
        return commit_write(stores, clock, job, (), options, edit=cut.edit)


def _refuse_beside_client(options: WriteOptions) -> None:
    """Refuse the options that a deletion beside a client does not take; raises `OptionError`."""
    if options.txn is not None:
        raise OptionError(
            "txnAppId: deleteRange beside a client does not take it.",
            why="Only writes and deletes of rows do.",
            todo="Omit txnAppId and txnVersion.",
        )
    if options.if_last_seq is not None:
        raise cooperation_refused("ifLastSeq", "Omit it.")


def _segment_of(keys: Sequence[KeyRange], manifest: Manifest) -> bytes:
    """Return the prefix of the one segment that key ranges are exactly; raises `OptionError` if they are not."""
    prefix = find_segment(keys, manifest)
    if prefix is None:
        raise cooperation_refused("deleteRange of other keys than those of exactly one segment", "Give its prefix.")
    return prefix


def commit_cut(
    stores: TableStores,
    clock: Clock,
    job: WriteJob,
    outputs: Sequence[tuple[NewFile, ...]],
    options: WriteOptions,
    keys: Sequence[KeyRange],
    *,
    depends_on: ReadSet | None = None,
) -> CommitRecord | None:
    """Publish the files of a job, which replace all rows of some intervals; None if there are neither.

    An interval that holds nothing needs no commit, unless that has to check reads.

    Parameters
    ----------
    keys : the intervals, ascending, not overlapping
    outputs, depends_on : as for `commit_write`, which also lists the errors
    """
    if job.creates:
        cut = RangeCut(CutViews(tuple(keys), seed=0), holds_rows=False)
    else:
        cut = plan_cut(stores, clock, keys, job.definition.codec(), fetch_newest_state(stores))
    if not (cut.holds_rows or any(outputs) or job.creates or depends_on is not None):
        end_without_commit(stores, clock, job, options)
        return None
    return commit_write(stores, clock, job, outputs, options, edit=cut.edit, depends_on=depends_on)
