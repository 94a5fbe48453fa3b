"""WriteJob: the facts of a write that are fixed before any of its tasks starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from slatespark.errors import InvalidRequestError
from slatespark.format.compactions import Compaction
from slatespark.format.manifest import Manifest
from slatespark.format.segments import WHOLE, KeySegments
from slatespark.options import WriteOptions
from slatespark.table.clock import Clock, read_clock
from slatespark.table.commit.claim import refuse_unwritable
from slatespark.table.commit.client_place import refuse_place
from slatespark.table.commit.earlier_table import refuse_earlier_table
from slatespark.table.commit.foreign_clients import Baseline, refuse_unknown_jobs
from slatespark.table.commit.row_times import COMMIT_TIMES, RowTimes
from slatespark.table.commit.wal_place import fetch_state_with_wal, refuse_dropped, refuse_other_database
from slatespark.table.commit.write_time import check_tick, check_timestamp
from slatespark.table.definition.segmentation import plan_segments
from slatespark.table.definition.table_definition import NO_DEFINITION, TableDefinition
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.manifests import is_at_rest
from slatespark.table.log.versioned_object import Version
from slatespark.table.records.leases import delete_lease, publish_lease
from slatespark.table.records.operations import Operation
from slatespark.table.rows.encoder import Stamp
from slatespark.table.snapshot import Snapshot, TableState
from slatespark.table.stores import TableStores
from slatespark.units import MAX_MS, MIN_MS

LAST_SEQ: Final = 2**64 - 1  # a SlateDB client takes any number for a write, also this one


@dataclass(frozen=True, slots=True)
class WriteJob:
    """The facts that the driver fixes before any task starts; small, and the same for all tasks.

    Attributes
    ----------
    planned_ms : the time of planning, also the time part of file ids
    baseline : the state of the database then
    base_seq : highest sequence number of trees and WAL then
    create_ts_ms : the commit clock time of all rows
    definition : definition of the table, as this write needs it
    delete_rate : bytes per second that a reap deletes, for the commit record
    times : times of its rows, beyond what the options of the write say
    compaction : its entry in `.compactions` with all sources; None for other operations
    max_retained : how many replaced versions are kept at most, by `versionRetention`; None for as many as usual
    snapshot_seq : oldest snapshot that a compaction kept, as a sequence number, for the commit record
    is_provisional : the commit gives the rows another time, and the end that retention from the write sets
    """

    write_id: str
    operation: Operation
    planned_ms: int
    baseline: Baseline
    base_seq: int
    create_ts_ms: int
    definition: TableDefinition = NO_DEFINITION
    delete_rate: int | None = None
    times: RowTimes = COMMIT_TIMES
    compaction: Compaction | None = None
    segments: KeySegments = WHOLE
    max_retained: int | None = None
    snapshot_seq: int | None = None
    is_provisional: bool = False

    def stamp(self, task: int, options: WriteOptions) -> Stamp:
        """Return seq and times of the rows of task number `task`.

        A later task has the higher seq, unless rows have times of their own: then no two tasks may share a key. Nor
        may they where a live client commits the rows: all have the number that they need if it flushes nothing until
        then.
        """
        first_seq = self.base_seq + 1
        if options.cooperates:
            first_seq = self.baseline.last_l0_seq
        elif options.timestamp_column is None:
            first_seq += task
        check_seq(first_seq)
        ttl_from_ms = self.planned_ms if options.ttl_from == "write" else None
        latest_ms = None if self.is_provisional else self.latest_expire_ms(self.planned_ms)
        return Stamp(first_seq, self.create_ts_ms, self.definition.ttl_ms(options.ttl_ms), ttl_from_ms, latest_ms)

    def latest_expire_ms(self, written_ms: int) -> int | None:
        """Return when rows expire at the latest, by the table's retention from the write; None for never."""
        retention_ms = self.definition.retention_from_write_ms
        return None if retention_ms is None else min(written_ms + retention_ms, MAX_MS)

    @property
    def creates(self) -> bool:
        """Whether there was no table when the write was planned."""
        return self.baseline.manifest_id == 0


def begin_write(
    stores: TableStores,
    clock: Clock,
    *,
    operation: Operation,
    found: Version[Manifest] | None,
    definition: TableDefinition = NO_DEFINITION,
    timestamp_ms: int | None = None,
    state: TableState | None = None,
    write_id: str | None = None,
) -> WriteJob:
    """Read the state of the table, fix what the tasks of a write need, and publish a lease.

    Parameters
    ----------
    found : the newest manifest, as the caller read it; None if there is no table
    definition : definition of the table, as this write needs it
    timestamp_ms : the commit clock time of all rows; by default that of the local clock, or the last tick if it is
        later. On a history table it may lie before the last tick
    state : the newest version with its WAL, if `found` was read along with them
    write_id : names the job, and its caller publishes the lease; by default it gets a new name, and a lease

    Raises
    ------
    RaceLostError
        When `found` is None and the table was created since.
    UnsupportedFormatError
        When the database cannot be written.
    OptionError
        When the declared segment extractor is not that of the table.
    ClockRegressionError
        When the last clock tick is ahead of the local clock or of `timestamp_ms`, or that is ahead of the clock.
    InvalidRequestError
        When the WAL is elsewhere, or belongs to another database; when the sequence numbers are used up; or when there
        is no table, but an earlier one left some of its objects, a client has one under an encoded name, or the place
        is in a folder of another table.
    """
    now_ms = read_clock(clock)
    segments = plan_segments(stores.url, None if found is None else found.value, definition.segment_extractor)
    if found is None:
        refuse_other_database(stores)
        refuse_dropped(stores)
        refuse_earlier_table(stores)
        refuse_place(stores)
        baseline, base_seq, tick_ms = Baseline(0, 0, 0, 0, 1), 0, Manifest().last_l0_clock_tick
    else:
        refuse_unwritable(stores.url, found.value)
        if not is_at_rest(stores, found):  # else the list is as slatespark's last commit left it
            refuse_unknown_jobs(stores, fetch_compactions(stores).value)
        state = state or fetch_state_with_wal(stores)
        baseline = Baseline.of(*state.version, state.wal.end)
        base_seq, tick_ms = state.last_seq, state.tick_ms
    present_ms = None if definition.has_own_time else now_ms
    check_tick(stores, tick_ms, present_ms)
    check_seq(base_seq + 1)
    create_ts_ms = max(now_ms, tick_ms)
    if timestamp_ms is not None:
        check_timestamp(stores, timestamp_ms, MIN_MS if definition.has_history else tick_ms, present_ms)
        create_ts_ms = timestamp_ms
    name = write_id or draw_write_id(clock)
    if found is None:
        definition = replace(definition, created_by=name)
    job = WriteJob(name, operation, now_ms, baseline, base_seq, create_ts_ms, definition, segments=segments)
    if write_id is None:
        publish_job(stores, job)
    return job


def begin_rewrite(
    stores: TableStores, clock: Clock, operation: Operation, snapshot: Snapshot, definition: TableDefinition
) -> WriteJob:
    """Begin a write without rows of its own: on a table with a clock of its own, at the last tick."""
    tick_ms = snapshot.tick_ms if definition.has_own_time else None
    return begin_write(
        stores, clock, operation=operation, found=snapshot.version, definition=definition, timestamp_ms=tick_ms
    )


def publish_job(stores: TableStores, job: WriteJob) -> None:
    """Publish the lease of a job, which keeps collectors off its files."""
    publish_lease(stores.main, job.write_id, job.planned_ms)


def draw_write_id(clock: Clock) -> str:
    """Return a new name for a job."""
    return f"{clock.random_bits(64):016x}"


@contextmanager
def abandoned_on_error(stores: TableStores, job: WriteJob) -> Iterator[None]:
    """Abandon a job if the block raises."""
    try:
        yield
    except BaseException:
        abandon_write(stores, job)
        raise


def abandon_write(stores: TableStores, job: WriteJob) -> None:
    """Delete the lease of a job. Its files stay: a commit whose answer was lost may have published them."""
    delete_lease(stores.main, job.write_id)


def check_seq(seq: int) -> None:
    """Refuse a sequence number that there is not; raises `InvalidRequestError`."""
    if seq > LAST_SEQ:
        raise InvalidRequestError(
            f"The sequence numbers of the database are used up: the next one would be {seq}, the last one there is "
            f"{LAST_SEQ}.",
            why="A SlateDB client was given a high number for one of its writes.",
            todo="Write the rows into a new database, whose numbers begin anew.",
        )
