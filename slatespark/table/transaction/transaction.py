"""Transaction: reads at one point with its own writes on top, and one commit that validates what it depends on.

Nothing is visible to others before the commit. Writes go at once to files that no manifest shows; reads take them as
the topmost layers. See docs/explanation/how-conflicts-are-found.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import ClockRegressionError, ConflictError, OptionError, SlateError, UnavailableError
from slatespark.options import ReadOptions, WriteOptions, refuse_filter
from slatespark.table.clock import Clock
from slatespark.table.commit.commit import commit_write
from slatespark.table.commit.conflicts import check_unchanged
from slatespark.table.commit.idempotence import find_outcome
from slatespark.table.commit.job import WriteJob
from slatespark.table.compaction.after_write import compact_after_write
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.arrow import row_dict
from slatespark.table.read.reader import (
    ReadPlan,
    fetch_look_up_plan,
    fetch_read_plan,
    look_up,
    open_batches,
    options_for_order,
    run_read,
)
from slatespark.table.read.versions.read_point import ReadPoint
from slatespark.table.records.idempotent_writes import TxnRecord
from slatespark.table.rows.batches import Rows, as_batches, require_schema
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.snapshot import TableState, fetch_newest_state
from slatespark.table.stores import TableStores
from slatespark.table.transaction.dependencies import Dependencies
from slatespark.table.transaction.options import (
    delete_options,
    encoded_keys,
    has_instants,
    key_table,
    one_of,
    operator_of,
    parse_read,
    parse_write,
)
from slatespark.table.transaction.own_load import plan_own_load
from slatespark.table.transaction.own_writes import OwnWrites
from slatespark.table.transaction.state import LIVE, UNENDED, TransactionState
from slatespark.table.transaction.times import CommitTimes
from slatespark.table.transaction.unpublished_files import UnpublishedFiles
from slatespark.table.write.load import Load
from slatespark.table.write.load_task import run_task
from slatespark.units import parse_time_ms


class Transaction:
    """Reads and writes of a table that become visible together, or not at all. Made by `SlateStore.begin`.

    As a context manager it commits at the end of the block, and is rolled back by an exception.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from slatespark import SlateStore
    >>> store = SlateStore.create("memory://accounts", pa.schema([("id", pa.int64()), ("amount", pa.int64())]), "id")
    >>> version = store.write(pa.table({"id": [1, 2], "amount": [100, 0]}))
    >>> with store.begin() as txn:
    ...     rows = txn.getForUpdate([1, 2]).read_all().to_pylist()
    ...     _ = txn.write(pa.table({"id": [1, 2], "amount": [rows[0]["amount"] - 30, rows[1]["amount"] + 30]}))
    ...     txn.get(2)
    {'id': 2, 'amount': 30}
    >>> store.get(1)
    {'id': 1, 'amount': 70}
    """

    def __init__(
        self,
        stores: TableStores,
        clock: Clock,
        *,
        common: Mapping[str, Any],
        begun: Mapping[str, Any],
        options: WriteOptions,
        job: WriteJob,
        point: ReadPoint,
        read_ms: int | None,
    ) -> None:
        self._stores, self._clock = stores, clock
        self._common, self._begun = dict(common), dict(begun)
        self._options, self._job = options, job
        self._point, self._read_ms = point, read_ms
        self._state = TransactionState.OPEN
        self._files = UnpublishedFiles(stores, clock, options, job)
        self._depends = Dependencies(stores, point, options.write_buffer_bytes)
        self._tried_from: int | None = None  # the newest version at the first attempt to commit

    # --- its state ----------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The write id, as in the commit record."""
        return self._job.write_id

    @property
    def state(self) -> str:
        """`open`, `prepared`, `committed`, `rolled back`, `failed`, or `unknown` where the store did not answer."""
        return self._state.value

    @property
    def readVersion(self) -> int:
        """The version that it reads."""
        return self._point.snapshot.manifest_id

    @property
    def readSeq(self) -> int:
        """Highest sequence number of other writers that it sees."""
        return self._point.snapshot.max_seq

    @property
    def readTimestamp(self) -> int | None:
        """The instant that it reads as of, in ms; None for the newest state when it began."""
        return self._read_ms

    @property
    def codec(self) -> RowCodec:
        """How the rows of the table are stored."""
        return self._point.definition.codec()

    @property
    def wasCommitted(self) -> bool:
        """Whether its `txnAppId` and `txnVersion` were committed before; its commit then does nothing."""
        return self._find_outcome() is not None

    def __repr__(self) -> str:
        return f"Transaction({self._stores.url!r}, {self.id}, {self.state})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, unless that was done; roll back after an exception, one of the commit included."""
        try:
            if kind is None and self._state in LIVE:
                self.commit()
        finally:
            if self._state in (*LIVE, TransactionState.FAILED):
                with contextlib.suppress(SlateError):  # the first error is the one to report
                    self.rollback()

    # --- reads --------------------------------------------------------------------------------------------------------

    def read(self, order: str = "asc", **options: Any) -> pa.RecordBatchReader:
        """Return the rows of the read point with all own writes so far, as `SlateStore.scan`.

        Keys that are written too must be unchanged since the begin; others are not validated.

        Parameters
        ----------
        order : `asc` or `desc`
        options : read options, except those that choose a version

        Raises
        ------
        SnapshotExpiredError
            At the call, or while batches are taken: a file that the transaction reads was garbage-collected.
        """
        return open_batches(self._stores, self.planScan(**options_for_order(order, options)), order)

    def planScan(self, **options: Any) -> ReadPlan:
        """Return the plan of a read, for a caller that runs it elsewhere.

        Parameters
        ----------
        options : as for `read`
        """
        self._state.require(*LIVE, call="read")
        plan = fetch_read_plan(self._stores, self._parse_read(options), self._clock, point=self._read_point())
        self._depends.note_read(plan)
        return plan

    def get(self, *key: Any, **options: Any) -> dict[str, Any] | None:
        """Return the row of one key as a dict, own writes included; None if none is visible. Validated as by `read`.

        Parameters
        ----------
        key : a value for each key column; for a raw table the key as bytes
        options : read options, except those that choose a version

        Raises
        ------
        InvalidRequestError
            When the values do not make a key, or the transaction has ended.
        """
        self._state.require(*LIVE, call="get")
        self._depends.note_key(self.codec.encode_key(key))
        batch = look_up(self._stores, key, self._parse_read(options), self._clock, point=self._read_point())
        return None if batch is None else row_dict(batch)

    def getForUpdate(
        self, keys: Iterable[Any] | str | None = None, where: str | None = None, **options: Any
    ) -> pa.RecordBatchReader:
        """Return rows as `read` does, and make the commit fail if another writer changes any of these keys before it.

        Parameters
        ----------
        keys : a tuple of values for each key, or a value where there is one key column; keys without a row count too
        where : instead, a condition as in the read option `filter`. It locks all keys in the ranges that it makes on
            leading key columns, or else the whole table
        options : read options

        Raises
        ------
        InvalidRequestError, OptionError
            When neither names any keys.
        TransactionConflictError
            When another writer has changed one of them already.
        """
        return open_batches(self._stores, self.planForUpdate(keys, where, **options))

    def planForUpdate(self, keys: Iterable[Any] | str | None, where: str | None, **options: Any) -> ReadPlan:
        """Return the plan of a read for update, for a caller that runs it elsewhere.

        Parameters
        ----------
        keys, where, options : as for `getForUpdate`
        """
        self._state.require(TransactionState.OPEN, call="getForUpdate")
        condition, wanted = one_of(where, keys, "getForUpdate")
        if condition is not None:
            refuse_filter(options)
            plan = self.planScan(**{**options, "filter": condition})
        else:
            found, parsed = encoded_keys(key_table(wanted, self.codec), self.codec), self._parse_read(options)
            plan = fetch_look_up_plan(self._stores, found, parsed, self._clock, point=self._read_point())
        self.lock(plan)
        return plan

    def lock(self, plan: ReadPlan) -> None:
        """Make the commit depend on all keys and ranges that a plan reads.

        Parameters
        ----------
        plan : a result of `planScan`

        Raises
        ------
        TransactionConflictError
            When another writer has changed one of them already.
        """
        self._state.require(TransactionState.OPEN, call="getForUpdate")
        with self._failing_on_conflict():
            self._depends.lock(plan)

    # --- writes -------------------------------------------------------------------------------------------------------

    def write(self, batches: Rows, **options: Any) -> int:
        """Write rows, which only this transaction sees until it commits; return how many keys they have.

        Later writes of a key win. TTLs count from the time of the commit.

        Parameters
        ----------
        batches : as for `SlateStore.write`
        options : write options for the rows: `operation`, `ttl`, ...

        Raises
        ------
        SchemaError, OptionError, InvalidRequestError
            When rows or options do not fit; the transaction is unchanged.
        TransactionConflictError
            When a key that the transaction has read was changed by another writer.
        """
        schema, rows = as_batches(batches)
        load = self.planLoad(schema, **options)
        return self.addFiles(load, (run_task(self._stores, self._clock, load, 0, require_schema(rows, schema)),))

    def delete(self, condition: str | None = None, keys: Iterable[Any] | None = None, **options: Any) -> int:
        """Delete rows, and return how many keys got a tombstone.

        Parameters
        ----------
        condition : a condition like the option `filter`, on the rows that the transaction sees; locks ranges as
            `getForUpdate` does
        keys : instead, a tuple of values for each key, or a value where there is one key column; nothing is read
        options : write options: sizes, and `mergeOperator`

        Raises
        ------
        InvalidRequestError, OptionError
            When neither names any rows, or an option does not apply to a deletion.
        """
        self._state.require(TransactionState.OPEN, call="delete")
        where, wanted = one_of(condition, keys, "delete")
        write = delete_options(options)
        if where is None:
            return self.write(key_table(wanted, self.codec), **write)
        plan = self.planScan(filter=where, columns=list(self.codec.key_columns), **operator_of(options))
        load = self.planLoad(plan.schema, **write)
        deleted = self.addFiles(load, (run_task(self._stores, self._clock, load, 0, run_read(self._stores, plan)),))
        self.lock(plan)
        return deleted

    def planLoad(self, schema: pa.Schema, **options: Any) -> Load:
        """Return the plan of a write, for a caller that runs its tasks elsewhere; errors as for `write`.

        Parameters
        ----------
        schema : the columns of the rows
        options : as for `write`
        """
        self._state.require(TransactionState.OPEN, call="write")
        parsed = parse_write(self._common, self._begun, options)
        self._protect_files()  # of earlier writes
        return plan_own_load(self._stores, self._clock, self._job, schema, parsed, last_seq=self._own.last_seq)

    def addFiles(self, load: Load, outputs: Sequence[tuple[NewFile, ...]]) -> int:
        """Add the files of a write, per task, to the transaction, and return how many rows they have.

        Requires: no other write was planned in between.

        Parameters
        ----------
        load : the plan of the write
        outputs : files of each task
        """
        self._state.require(TransactionState.OPEN, call="write")
        instants = has_instants(load.options, self._job.definition)
        self._files.add_write(outputs, has_instants=instants)
        with self._failing_on_conflict():
            self._depends.check_written([file for files in outputs for file in files])
        return sum(file.properties.num_rows for files in outputs for file in files)

    # --- commit and rollback ------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Do everything in advance that can make the commit fail: upload, and validate.

        Later commits of other writers can still make it fail. Afterwards the transaction can no longer write, or read
        for update. Only this process can commit it: the store holds nothing but files that no version shows.

        Raises
        ------
        TransactionConflictError
            Naming keys that the transaction locked, or read and wrote, and that have changed since its read point.
        """
        self._state.require(TransactionState.OPEN, call="prepare")
        self._protect_files()
        self._files.drop_hidden_versions()
        self._validate()
        self._state = TransactionState.PREPARED

    def commit(self, timestamp: int | str | datetime | None = None) -> int:
        """Make all writes visible at once, and return the version that shows them.

        Parameters
        ----------
        timestamp : the time of all its rows; by default that of the commit. It is above the read timestamp; on history
            tables without one, above all rows of the read point; on plain tables, not before the last clock tick.
            Tables with `clock=custom` need it

        Raises
        ------
        TransactionConflictError
            Naming keys that the transaction locked, or read and wrote, and that have changed since its read point;
            nothing was published.
        OptionError, ClockRegressionError
            When the timestamp is not valid; the transaction is unchanged.
        CommitConflictError
            When a SlateDB client is active on the table, or other writers won every race.
        UnavailableError
            When the store stopped answering, and it is unknown whether the commit landed. With `txnAppId` and
            `txnVersion` it may be repeated, and takes effect once. A repetition looks for the commit first; until it
            finds it the outcome stays unknown, whatever else it raises.
        """
        may_repeat = (TransactionState.UNKNOWN,) if self._options.txn is not None else ()
        self._state.require(TransactionState.OPEN, TransactionState.PREPARED, *may_repeat, call="commit")
        repeats = self._state is TransactionState.UNKNOWN
        if repeats and (outcome := self._find_outcome()) is not None:
            return self._end_as(outcome)
        given_ms = None if timestamp is None else parse_time_ms(timestamp, name="timestamp")
        reached = fetch_newest_state(self._stores)
        time_ms = self._resolve_time(given_ms, reached)
        if isinstance(time_ms, TxnRecord):
            return self._end_as(time_ms)
        if self._state is TransactionState.OPEN:
            self._protect_files()
            self._files.drop_hidden_versions()
        if not self._own.files:  # nothing will be published, so no commit validates
            self._validate()
        self._protect_files()
        state, own = self._state, self._own
        job = self._files.move_to(self._job, time_ms, reached.last_seq)
        self._state = TransactionState.UNKNOWN
        if self._tried_from is None:
            self._tried_from = reached.number
        try:
            options, reads = replace(self._options, timestamp_ms=given_ms), self._depends.read_set()
            record = commit_write(self._stores, self._clock, job, self._own.outputs, options, depends_on=reads)
        except (OptionError, ClockRegressionError):
            self._state = state
            raise
        except UnavailableError:  # the only one that may follow the publication
            raise
        except SlateError:
            self._state = state
            self._fail()
            raise
        finally:  # an open transaction reads by the previous time, and a repetition moves rows from there to its own
            self._files.replace_writes(own)
        self._state = TransactionState.COMMITTED
        if record is not None:
            self._files.delete_unpublished(record, repeats=repeats)
        compact_after_write(self._stores, self._clock, record, self._options, self._job.definition)
        return self.readVersion if record is None else record.manifest_id

    def rollback(self) -> None:
        """Abandon the transaction, also after a failed commit, and delete its files.

        Raises
        ------
        InvalidRequestError
            When it was committed, or rolled back.
        """
        self._state.require(*UNENDED, call="rollback")
        if self._tried_from is None:
            self._files.delete_all()
        elif self._state is not TransactionState.UNKNOWN:  # else a manifest that shows them may still appear
            self._files.delete_unshown(self._tried_from)
        self._files.release()
        self._state = TransactionState.ROLLED_BACK

    # --- private helpers ----------------------------------------------------------------------------------------------

    @property
    def _own(self) -> OwnWrites:
        return self._files.writes

    def _fail(self) -> None:
        """Allow only a rollback from now on; an unknown outcome stays unknown."""
        if self._state is not TransactionState.UNKNOWN:
            self._state = TransactionState.FAILED

    def _find_outcome(self) -> TxnRecord | None:
        return find_outcome(self._stores, fetch_latest_manifest(self._stores)[1], self._options)

    def _resolve_time(self, given_ms: int | None, reached: TableState) -> int | TxnRecord:
        """Return the time of the commit; if a given one is refused, what an earlier run has committed with it."""
        times = CommitTimes(self._point, self._read_ms, reached, now_ms=self._clock.now_ms())
        moves, writes = self._own.size <= self._options.rewrite_limit_bytes, bool(self._own.tasks)
        try:
            return times.resolve_commit_ms(self._stores, given_ms, self._job, moves=moves, writes=writes)
        except (OptionError, ClockRegressionError):
            if (outcome := self._find_outcome()) is None:
                raise
            return outcome

    def _end_as(self, earlier: TxnRecord) -> int:
        """End as what an earlier run or attempt has committed, and return its version."""
        if self._tried_from is None:
            self._files.delete_all()
        self._files.release()
        self._state = TransactionState.COMMITTED
        return earlier.manifest_id

    def _parse_read(self, options: Mapping[str, Any]) -> ReadOptions:
        return parse_read(self._common, self._begun, options)

    def _read_point(self) -> ReadPoint:
        self._protect_files()
        return replace(self._point, own=self._own.layers(), own_seq=self._own.last_seq)

    def _protect_files(self) -> None:
        with self._failing_on_conflict():
            self._files.protect()

    def _validate(self) -> None:
        if (reads := self._depends.read_set()) is not None:
            with self._failing_on_conflict():
                check_unchanged(self._stores, reads, self._own.outputs, self.codec, self._options)

    @contextlib.contextmanager
    def _failing_on_conflict(self) -> Iterator[None]:
        """Allow only a rollback after a conflict."""
        try:
            yield
        except ConflictError:
            self._fail()
            raise
