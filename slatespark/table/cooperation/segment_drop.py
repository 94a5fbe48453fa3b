"""Dropping a segment beside a live client: its coordinator empties the tree as soon as it reads the job.

    older rows flushed -> job with all layers of the tree submitted -> emptied by the client -> commit record

No worker takes part, and no epoch moves. Rows that are flushed later stay. If there are none, the client removes the
segment. See docs/explanation/cooperative-writes.md.
"""

from __future__ import annotations

from typing import Final

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import CommitConflictError
from slatespark.format.compactions import Compactions, DrainSpec
from slatespark.format.manifest import Manifest
from slatespark.options import WriteOptions
from slatespark.ranges import prefix_range
from slatespark.table.clock import Clock, now_or
from slatespark.table.commit.file_facts import removed_files
from slatespark.table.commit.job import draw_write_id
from slatespark.table.commit.later_commits import is_drained
from slatespark.table.commit.wal_place import fetch_state_with_wal
from slatespark.table.cooperation.submission import Submitter
from slatespark.table.cooperation.unflushed_rows import await_flush
from slatespark.table.log.manifests import later_manifests
from slatespark.table.log.versioned_object import Version
from slatespark.table.records.commit_record import CLIENT_EPOCH, CommitRecord
from slatespark.table.records.commits import publish_commit_record
from slatespark.table.records.json_objects import hex_bounds
from slatespark.table.records.operations import ENGINE, Operation
from slatespark.table.stores import TableStores

MAX_ATTEMPTS: Final = 5


def drop_segment_beside_client(
    stores: TableStores, clock: Clock, prefix: bytes, codec: RowCodec, options: WriteOptions
) -> CommitRecord | None:
    """Let the client that has the database open drop a segment; return the record, or None if there is nothing in it.

    Parameters
    ----------
    options : `clientTimeout` and `unflushedRows`

    Raises
    ------
    CommitConflictError
        When no client answers, when rows of the segment are not flushed in time, or when the client compacts it
        again and again.
    """
    await_flush(stores, clock, fetch_state_with_wal(stores).wal.end, codec, options, keys=prefix_range(prefix))
    submitter = Submitter(stores, clock, timeout_ms=options.client_timeout_ms)

    def plan(manifest: Manifest, _: Compactions) -> tuple[DrainSpec, ...]:
        tree = manifest.find_tree(prefix)
        if tree is None or not (tree.l0 or tree.compacted):
            return ()
        return (DrainSpec(prefix, tuple(view.id for view in tree.l0), tuple(run.id for run in tree.compacted)),)

    begun_ms = clock.now_ms()
    for _ in range(MAX_ATTEMPTS):
        planned = submitter.submit(plan)
        if planned is None:
            return None
        found = _find_dropped(stores, planned, prefix)
        if found is not None:
            return _recorded(stores, clock, *found, prefix, begun_ms)
    raise CommitConflictError(
        f"{stores.url}: the client refused {MAX_ATTEMPTS} times to drop segment {prefix.hex()}.",
        why="It compacted the segment at the same time.",
        todo="Try again.",
    )


def _find_dropped(
    stores: TableStores, planned: Version[Manifest], prefix: bytes
) -> tuple[Manifest, Version[Manifest]] | None:
    """Return the first version since the plan without the segment's layers, behind the one before; None for none."""
    tree = planned.value.find_tree(prefix)
    assert tree is not None  # it was planned
    before = planned.value
    for number, manifest in later_manifests(stores, planned.number + 1):
        if manifest is None:
            continue
        if is_drained(tree, manifest.find_tree(prefix)):
            return before, Version(number, manifest)
        before = manifest
    return None


def _recorded(
    stores: TableStores, clock: Clock, before: Manifest, after: Version[Manifest], prefix: bytes, begun_ms: int
) -> CommitRecord:
    record = CommitRecord(
        manifest_id=after.number,
        operation=Operation.DELETE_RANGE,
        write_id=draw_write_id(clock),
        engine=ENGINE,
        committed_ms=now_or(clock, begun_ms),
        write_time_ms=after.value.last_l0_clock_tick,
        first_seq=None,
        last_seq=None,
        removed=removed_files(before, after.value),
        compactor_epoch=CLIENT_EPOCH,
        replaced=[hex_bounds(prefix_range(prefix))],
    )
    publish_commit_record(stores.main, record)
    return record
