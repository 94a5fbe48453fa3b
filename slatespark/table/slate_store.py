"""SlateStore: a table with pyarrow, without Spark. Delegates everything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from slatespark.errors import OptionError, SlateError
from slatespark.options import ReadOptions, WriteOptions
from slatespark.options.properties import split_creation
from slatespark.options.values import (
    STORAGE_PREFIX,
    parse_count,
    parse_duration_or_none,
    parse_rounding,
    parse_text,
    refuse_misspelt,
)
from slatespark.table.checkpoints.store import (
    CheckpointFacts,
    create_checkpoint,
    delete_checkpoint,
    list_checkpoints,
    refresh_checkpoint,
)
from slatespark.table.clock import Clock, SystemClock, check_clock
from slatespark.table.commit.idempotence import settle_outcomes
from slatespark.table.compaction.auto import compact_after_write
from slatespark.table.definition.plan import plan_creation
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.gc.report import VacuumReport
from slatespark.table.gc.run import vacuum_table
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.arrow import row_dict
from slatespark.table.read.describe import (
    TableFacts,
    TableSummary,
    describe_table,
    summarise_table,
)
from slatespark.table.read.files import FileFacts, LayerFacts, list_files, list_layers
from slatespark.table.read.history.key_timeline import KeyTimeline, read_timeline
from slatespark.table.read.history.resolution import Resolution, resolve_read
from slatespark.table.read.history.sequences import (
    SequenceMatch,
    SequencePoint,
    find_seq_point,
    find_time_point,
    list_sequences,
)
from slatespark.table.read.history.time_travel import resolve_version
from slatespark.table.read.history.timeline import VersionFacts, list_versions
from slatespark.table.read.reader import look_up, open_batches, options_for_order, plan_read
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.retention.expiry_run import report_expiry
from slatespark.table.retention.expiry_tally import ExpiryReport
from slatespark.table.retention.reap_report import ReapReport
from slatespark.table.retention.reap_run import reap_table
from slatespark.table.retention.reaper import ReapLimits
from slatespark.table.rows.batches import as_batches
from slatespark.table.stores import TableStores, open_stores
from slatespark.table.transaction.begin import begin_transaction
from slatespark.table.transaction.transaction import Transaction
from slatespark.table.verify.findings import VerifyReport
from slatespark.table.verify.run import verify_table
from slatespark.table.write.alteration import (
    current_definition,
    delete_history_range,
    delete_where,
    drop_columns,
    raise_history_floor,
    set_properties,
)
from slatespark.table.write.clone import clone_table
from slatespark.table.write.ingest import ingest_files, parse_ingest
from slatespark.table.write.load import create_table, load_batches
from slatespark.table.write.range_replace import delete_range
from slatespark.table.write.restore import restore_to_version
from slatespark.table.write.trim import trim_history
from slatespark.units import parse_duration_ms, parse_time_ms

if TYPE_CHECKING:
    from slatespark.table.compaction.filter import CompactionFilter
    from slatespark.table.compaction.report import CompactionReport
    from slatespark.table.compaction.run import Progress, Runner
    from slatespark.table.gc.absence import AbsenceReport

_VERSION = parse_count(1, 2**63 - 1)


class SlateStore:
    """A SlateDB database as a table of `key` and `value`, read and written with pyarrow.

    Make one with `open` or `create`. Options are the keyword arguments of the methods, as in the reference of options,
    with Python values: times are ms since the epoch, ISO text or datetimes; keys are bytes.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from slatespark import SlateStore
    >>> store = SlateStore.create("memory://example")
    >>> version = store.write(pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"]}))
    >>> store.scan().read_all().to_pylist()
    [{'key': b'a', 'value': b'1'}, {'key': b'b', 'value': b'2'}]
    >>> store.get(b"b")
    {'key': b'b', 'value': b'2'}
    """

    def __init__(self, stores: TableStores, clock: Clock, common: dict[str, Any]) -> None:
        self._stores, self._clock, self._common = stores, clock, common

    @classmethod
    def open(cls, path: str, *, clock: Clock | None = None, **storage: Any) -> Self:
        """Return the table at `path`.

        Parameters
        ----------
        path : local path or URL
        clock : where time comes from; the system clock by default
        storage : `walPath`, and what the storage backend takes (`endpoint_url`, `key`, `secret`, ...)

        Raises
        ------
        TableNotFoundError
            When there is no database.
        """
        store = cls._at(path, clock, storage)
        fetch_latest_manifest(store._stores)
        return store

    @classmethod
    def create(
        cls,
        path: str,
        schema: pa.Schema | None = None,
        keyColumns: str | Sequence[str] | None = None,
        *,
        clock: Clock | str | None = None,
        **properties: Any,
    ) -> Self:
        """Create an empty table at `path` and return it.

        Parameters
        ----------
        path : local path or URL
        schema : columns of a typed table, with types and nullability; None for a table of `key` and `value`
        keyColumns : which of them make the key, in order
        clock : where time comes from, the system clock by default; or the table property of that name
        properties : `keyFormat`, `valueFormat`, table properties (`defaultTtl`, ...), and what `open` takes

        Raises
        ------
        TableExistsError
            When a table stands there already.
        SchemaError, OptionError, UnsupportedFormatError
            When there can be no such table.
        """
        if isinstance(clock, str):
            properties, clock = {**properties, "clock": clock}, None
        formats, known, storage = split_creation(properties)
        store = cls._at(path, clock, storage)
        options = WriteOptions.parse({**store._common, **formats, "keyColumns": keyColumns})
        create_table(store._stores, store._clock, plan_creation(schema, options, known), options)
        return store

    @classmethod
    def _at(cls, path: str, clock: Clock | None, storage: dict[str, Any]) -> Self:
        wal_path = storage.pop("walPath", storage.pop("wal_path", None))
        common = {"path": path, **{f"{STORAGE_PREFIX}{name}": value for name, value in storage.items()}}
        if wal_path is not None:
            common["walPath"] = wal_path
        stores = open_stores(path, storage=storage, wal_path=wal_path)
        return cls(stores, SystemClock() if clock is None else check_clock(clock), common)

    @property
    def url(self) -> str:
        """Where the table is."""
        return self._stores.url

    def __repr__(self) -> str:
        return f"SlateStore({self.url!r})"

    def __str__(self) -> str:
        """Show facts, columns and layers of the newest version as text."""
        from slatespark.display.summary_text import summary_text

        try:
            return summary_text(self._summary({}))
        except SlateError as exc:  # what is printed must not fail
            return f"{self!r}\n{type(exc).__name__}: {exc}"

    def _repr_html_(self) -> str:
        """Show facts, columns and a picture of the layers of the newest version in a notebook."""
        from slatespark.display.notebook import failure_html, summary_html

        try:
            return summary_html(self._summary({}))
        except SlateError as exc:
            return failure_html(repr(self), exc)

    def scan(self, order: str = "asc", **options: Any) -> pa.RecordBatchReader:
        """Return the rows as batches, in key order, of one snapshot.

        Parameters
        ----------
        order : `asc` or `desc`
        options : read options

        Raises
        ------
        OptionError, SchemaError, HistoryTrimmedError, CorruptDataError
            At the call, or while batches are taken.
        """
        parsed = self._read_options(options_for_order(order, options))
        return open_batches(self._stores, plan_read(self._stores, parsed, self._clock), order)

    def versions(self, **options: Any) -> pa.RecordBatchReader:
        """Return every version of each row of a history table, with the time in which it was valid.

        The columns are those of the table, `_valid_from`, `_valid_to` (null while it is valid) and `_is_current`. A
        version ends where the next one of its key begins, a deletion included, or where it expires. At any instant in
        between, a read as of then shows that row. Of a key the newest version comes first.

        Parameters
        ----------
        options : read options

        Raises
        ------
        OptionError
            When the table has no history.
        HistoryTrimmedError, CorruptDataError
            At the call, or while batches are taken.
        """
        return self.scan(**{**options, "readVersions": "intervals"})

    def get(self, *key: Any, **options: Any) -> dict[str, Any] | None:
        """Return the row of one key as a dict; None if there is no visible one.

        A value beyond the year 9999, which no datetime can hold, comes as a number: a date in days, a timestamp in
        microseconds, as `get` takes them, too; metadata columns in ms.

        Parameters
        ----------
        key : a value for each key column; of a raw table the key as bytes
        options : read options

        Raises
        ------
        InvalidRequestError
            When the values do not make a key.
        """
        batch = look_up(self._stores, key, self._read_options(options), self._clock)
        return None if batch is None else row_dict(batch)

    def write(
        self, batches: pa.Table | pa.RecordBatch | pa.RecordBatchReader | Iterable[pa.RecordBatch], **options: Any
    ) -> int:
        """Write rows in one commit, and return the version (manifest id) that shows them.

        Parameters
        ----------
        batches : columns `key` and `value`, both binary; `mode="overwrite"` replaces the table, or the interval of keys
            that `replaceWhere` names, `"append"` upserts
        options : write options

        Raises
        ------
        SchemaError, OptionError, InvalidRequestError
            When rows or options do not fit; nothing was changed.
        CommitConflictError
            When a SlateDB client is at work on the table, or other writers kept winning.
        """
        mode = options.pop("mode", "append")
        if mode not in ("append", "overwrite"):
            raise OptionError(f"mode: {mode!r} is not acceptable.", todo="Choose append or overwrite.")
        parsed = WriteOptions.parse({**self._common, **options})
        schema, rows = as_batches(batches)
        latest_id, _ = fetch_latest_manifest(self._stores)
        overwrite = mode == "overwrite"
        record = load_batches(self._stores, self._clock, schema, rows, parsed, overwrite=overwrite)
        compact_after_write(self._stores, self._clock, record, parsed)
        return _version(record, latest_id)

    def begin(self, readTimestamp: int | str | datetime | None = None, **options: Any) -> Transaction:
        """Begin a transaction: reads at one point, and writes that become visible together when it commits.

        Parameters
        ----------
        readTimestamp : read the table as of an instant, as `timestampAsOf`; by default its newest state
        options : `txnAppId` and `txnVersion`, `ifClientActive`, `pin`, `mergeOperator`, sizes and codec of files

        Raises
        ------
        OptionError
            When an option is wrong, or the instant lies in the future.
        HistoryTrimmedError
            When the past that is asked for can no longer be answered exactly.
        """
        return begin_transaction(self._stores, self._clock, self._common, readTimestamp, options)

    def ingest(self, paths: Sequence[str] | str, **options: Any) -> int:
        """Make files of `SstWriter` visible in one commit, and return the version that shows them.

        Their rows become the newest ones of their keys, as if they were written now; on history tables rows with times
        of their own keep them, and may not be older than what is stored of their keys.

        Parameters
        ----------
        paths : local paths or URLs; files of a table without history may not share keys
        options : write options: sizes and codec of the new files, `timestamp`, `mergeSchema`, those of the commit

        Raises
        ------
        SchemaError, OptionError, InvalidRequestError, CorruptDataError
            When a file does not fit the table, or is damaged; nothing was changed.
        CommitConflictError
            When rows would come before younger versions, or other writers kept winning.
        """
        parsed = parse_ingest(self._common, options)
        given = [paths] if isinstance(paths, str) else list(paths)
        latest_id, _ = fetch_latest_manifest(self._stores)
        record = ingest_files(self._stores, self._clock, given, parsed)
        compact_after_write(self._stores, self._clock, record, parsed)
        return _version(record, latest_id)

    def delete(self, condition: str, **options: Any) -> int:
        """Delete the rows for which a condition holds, and return the version that shows it.

        Parameters
        ----------
        condition : as the read option `filter`: `tenant = 'a' AND day < '2026-01-01'`
        options : write options

        Raises
        ------
        OptionError
            When the condition cannot be understood.
        TransactionConflictError
            When anything was committed, since the rows were looked for, to keys that the condition can match.
        """
        latest_id, _ = fetch_latest_manifest(self._stores)
        return _version(delete_where(self._stores, self._clock, condition, self._common, options), latest_id)

    def deleteRange(
        self, where: str | None = None, timestamp: int | str | datetime | None = None, **options: Any
    ) -> int:
        """Delete all rows of an interval of keys in one commit, and return the version that shows it.

        On a plain table no row is looked at: what stands is cut to outside of the interval. On a history table a
        tombstone with that time is written for each row that a read as of then shows in the interval, so reads as of
        any time stay exact before and after.

        Parameters
        ----------
        where : comparisons on leading key columns, joined by `AND`: `=` or `IN` on all but the last of them; of a raw
            table give `startKey`, `endKey` or `keyPrefix` instead
        timestamp : history tables: the instant from which on the rows are deleted; by default that of the commit
        options : write options

        Raises
        ------
        OptionError
            When the condition is not exactly one of key ranges.
        CommitConflictError
            When a SlateDB client is at work on the table, or other writers kept winning; on a history table, when one
            of the rows has a later version.
        TransactionConflictError
            On a history table, when anything was committed to the range since its rows were looked for.
        """
        latest_id, _ = fetch_latest_manifest(self._stores)
        given = {**options, "timestamp": timestamp}
        if self.definition.has_history:
            return _version(delete_history_range(self._stores, self._clock, where, self._common, given), latest_id)
        parsed = WriteOptions.parse({**self._common, **given})
        return _version(delete_range(self._stores, self._clock, where, parsed), latest_id)

    def trimHistory(self, after: int | str | datetime, **options: Any) -> int:
        """Remove everything that a history table learnt after an instant, in one commit; return the version without it.

        The version one below that one shows what was there before, for `versionRetention`, at least seven days.

        Parameters
        ----------
        after : ms since the epoch, ISO text or a datetime; row versions created later go
        options : write options

        Raises
        ------
        InvalidRequestError
            When the table has no history.
        HistoryTrimmedError
            When the instant lies below the history floor.
        CommitConflictError
            When anything was committed meanwhile, or a SlateDB client is at work.
        """
        after_ms = parse_time_ms(after, name="trimHistory")
        parsed = WriteOptions.parse({**self._common, **options})
        latest_id, _ = fetch_latest_manifest(self._stores)
        return _version(trim_history(self._stores, self._clock, after_ms, parsed), latest_id)

    @property
    def definition(self) -> TableDefinition:
        """Key columns, formats, schema and properties, as they are now."""
        return current_definition(self._stores)

    def setProperties(self, **properties: Any) -> None:
        """Set table properties; others stay. Raises `OptionError` for one that is unknown or cannot change."""
        set_properties(self._stores, self._clock, properties)

    def setHistoryFloor(self, ts: int | str | datetime) -> None:
        """Give up the past of a history table below an instant, so that compaction may drop what only that needs.

        Reads as of an earlier time fail from now on, and so do writes of rows with earlier times of their own. Of each
        key the newest version of then stays.

        Parameters
        ----------
        ts : ms since the epoch, ISO text or a datetime; not below the floor that is set

        Raises
        ------
        InvalidRequestError
            When the table has no history, or the floor would fall.
        OptionError
            When the instant lies in the future.
        """
        raise_history_floor(self._stores, self._clock, parse_time_ms(ts, name="setHistoryFloor"))

    def dropColumns(self, *names: str) -> None:
        """Take columns out of the table. They cannot come back, since rows keep their values.

        Raises
        ------
        SchemaError
            When a column does not exist or is part of the key.
        """
        drop_columns(self._stores, self._clock, names)

    def detail(self, *, countRows: bool = False, **options: Any) -> TableFacts:
        """Return the facts of the table: definition, version, layers, files, WAL, checkpoints.

        Parameters
        ----------
        countRows : count row versions too, which costs a request per file
        options : read options that choose a version
        """
        return describe_table(self._stores, self._read_options(options), self._clock, count_rows=countRows)

    def history(self, limit: int | None = None) -> tuple[VersionFacts, ...]:
        """Return the newest `limit` versions of the table, newest first, with what is known of their commits."""
        return list_versions(self._stores, None if limit is None else parse_count(0, 2**63 - 1)(limit, "limit"))

    def resolve(self, **options: Any) -> Resolution:
        """Return what a read with these options would see: version, sequence number, time, and how they are found.

        Parameters
        ----------
        options : read options

        Raises
        ------
        HistoryTrimmedError
            When the past that is asked for can no longer be answered exactly.
        """
        return resolve_read(self._stores, self._read_options(options), self._clock)

    def sequences(self) -> tuple[SequencePoint, ...]:
        """Return the points of the sequence tracker, oldest first: which sequence number was reached when."""
        return list_sequences(self._stores)

    def seqToTimestamp(self, seq: int | str, *, round: str = "down") -> SequenceMatch | None:  # noqa: A002  # the client says so
        """Return when a sequence number was reached, as far as the sequence tracker knows.

        Parameters
        ----------
        seq : a sequence number
        round : take the nearest point at or below it (`down`), or at or above it (`up`)

        Returns
        -------
        The point found, and whether it is another one than was asked for; None if there is none on that side.

        Raises
        ------
        OptionError
            When `seq` is no number, or `round` neither.
        """
        number = parse_count(0, 2**63 - 1)(seq, "seq")
        return find_seq_point(self._stores, number, round_up=parse_rounding(round))

    def timestampToSeq(self, timestamp: int | str | datetime, *, round: str = "down") -> SequenceMatch | None:  # noqa: A002  # the client says so
        """Return the sequence number reached at an instant, as far as the sequence tracker knows.

        Parameters
        ----------
        timestamp : ms since the epoch, ISO text or a datetime
        round, and what is returned : as for `seqToTimestamp`

        Raises
        ------
        OptionError
            When `timestamp` is no instant, or `round` neither.
        """
        time_ms = parse_time_ms(timestamp, name="timestamp")
        return find_time_point(self._stores, time_ms, round_up=parse_rounding(round))

    def checkpoints(self) -> tuple[CheckpointFacts, ...]:
        """Return the checkpoints, those too that commits left for `versionRetention`."""
        return list_checkpoints(self._stores)

    def createCheckpoint(
        self, name: str | None = None, lifetime: str | int | timedelta | None = None, version: int | None = None
    ) -> CheckpointFacts:
        """Keep a version from being collected, and return its checkpoint.

        Parameters
        ----------
        name : one that no other checkpoint has; reads take it, or the id, in the option `checkpoint`
        lifetime : a duration like `7d`; for ever by default
        version : the newest state by default, with all that the WAL holds

        Raises
        ------
        InvalidRequestError
            When the name is taken, or the version does not exist yet.
        SnapshotExpiredError
            When the version, or a file of it, was collected.
        """
        return create_checkpoint(
            self._stores,
            self._clock,
            name=None if name is None else parse_text(name, "name"),
            lifetime_ms=parse_duration_or_none(lifetime, "lifetime"),
            manifest_id=None if version is None else _VERSION(version, "version"),
        )

    def refreshCheckpoint(self, idOrName: str, lifetime: str | int | timedelta | None = None) -> CheckpointFacts:
        """Let a checkpoint last for so long from now, for ever by default.

        Raises
        ------
        HistoryTrimmedError
            When there is no such checkpoint, or none any more.
        """
        lifetime_ms = parse_duration_or_none(lifetime, "lifetime")
        settle_outcomes(self._stores)
        return refresh_checkpoint(self._stores, self._clock, parse_text(idOrName, "idOrName"), lifetime_ms)

    def deleteCheckpoint(self, idOrName: str) -> None:
        """Release a checkpoint: what it alone kept may be collected. Raises as `refreshCheckpoint`."""
        settle_outcomes(self._stores)
        delete_checkpoint(self._stores, self._clock, parse_text(idOrName, "idOrName"))

    def restoreToVersion(self, version: int, **options: Any) -> int:
        """Make the state of an earlier version the newest one, in one commit, and return the new version.

        Rows written since are hidden, not lost: the version one below the new one shows them, for `versionRetention`,
        at least seven days, and restoring that one undoes the restore. Schema and properties stay as they are.

        Parameters
        ----------
        version : a manifest id, as in `history()`
        options : write options

        Raises
        ------
        HistoryTrimmedError
            When the version, or a file of it, was collected.
        CommitConflictError
            When anybody else commits meanwhile.
        """
        parsed = WriteOptions.parse({**self._common, **options})
        return restore_to_version(self._stores, self._clock, _VERSION(version, "version"), parsed).manifest_id

    def restoreToTimestamp(self, timestamp: int | str | datetime, **options: Any) -> int:
        """Make the newest version committed at or before an instant the newest one; see `restoreToVersion`.

        Raises
        ------
        OptionError
            When the instant lies in the future.
        HistoryTrimmedError
            When that version was collected, or there was none yet.
        """
        time_ms = parse_time_ms(timestamp, name="timestamp")
        return self.restoreToVersion(resolve_version(self._stores, time_ms, self._clock), **options)

    def clone(self, target: str, version: int | None = None, checkpoint: str | None = None) -> Self:
        """Make a shallow clone at `target`, and return it: a table of its own that begins with the files of this one.

        Parameters
        ----------
        target : an empty place in the same store
        version, checkpoint : what to clone, one of them or neither for the newest state

        Raises
        ------
        TableExistsError, InvalidRequestError
            When the place is not empty, or has no root in common with this table.
        HistoryTrimmedError
            When the version, or the checkpoint, is not there any more.
        """
        if version is not None and checkpoint is not None:
            raise OptionError("version and checkpoint are both given.", todo="Give one of them.")
        number = None if version is None else _VERSION(version, "version")
        clone_table(self._stores, self._clock, parse_text(target, "target"), version=number, checkpoint=checkpoint)
        return self._at(target, self._clock, dict(self._stores.storage))

    def files(self, *, countRows: bool = False, **options: Any) -> tuple[FileFacts, ...]:
        """Return the files of a version, layer by layer, newest first; parameters as for `detail`."""
        return list_files(self._stores, self._read_options(options), self._clock, count_rows=countRows)

    def runs(self, **options: Any) -> tuple[LayerFacts, ...]:
        """Return the layers of a version, L0 views and sorted runs, newest first; `options` as for `detail`."""
        return list_layers(self._stores, self._read_options(options), self._clock)

    def plotLayers(self, ax: Any = None, **options: Any) -> Any:
        """Return a matplotlib figure of the layers of a version over their keys.

        Parameters
        ----------
        ax : matplotlib axes to draw on; by default a figure of its own
        options : read options that choose a version

        Raises
        ------
        InvalidRequestError
            When matplotlib is not installed.
        """
        from slatespark.display.plots import plot_layers

        return plot_layers(self._summary(options), ax)

    def compact(
        self,
        full: bool = False,
        where: str | None = None,
        filters: Sequence[CompactionFilter] = (),
        now: int | str | datetime | None = None,
        *,
        l0Only: bool = False,
        due: bool = False,
        dryRun: bool = False,
        minCompactionSources: int = 4,
        maxCompactionSources: int = 8,
        includeSizeThreshold: float = 4.0,
        progress: Progress | None = None,
        runner: Runner | None = None,
        **options: Any,
    ) -> CompactionReport:
        """Merge layers of the table into sorted runs, and return what was done; of what reads show, nothing changes.

        Without anything chosen it merges what the size-tiered scheduler of a SlateDB client would, until that would
        rest: four or more neighbours of similar size at a time, each merge a commit of its own.

        Parameters
        ----------
        full : merge everything into one run
        where : merge everything in intervals of keys: comparisons on leading key columns, joined by `AND`, `=` or `IN`
            on all but the last of them; of a raw table give `startKey`, `endKey` or `keyPrefix` instead
        filters : asked about every version that would be kept, one after the other; if nothing is merged, none is asked
        now : the instant at which expiry and retention are judged; by default a minute before the clock's, or the last
            clock tick if that is later; with `clock=custom` the tick
        l0Only : merge all L0 views into a run, and no run
        due : rewrite files that may hold expired rows and are older than the table's `periodicCompactionInterval`
        dryRun : only return what would be merged; of several merges the first one
        minCompactionSources, maxCompactionSources : how many layers a size-tiered merge has
        includeSizeThreshold : how many times as large as the smallest newer one a run may be to be merged with it
        progress : is told how far it is: step, bytes done, bytes in all
        runner : merges ranges of keys, and returns what became of them; by default on threads of this process
        options : of the write options `compression`, `blockSize`, `sstSize`, `bloomBitsPerKey`, `writeBuffer`,
            `mergeOperator`, `ifClientActive`, and those that name keys

        Raises
        ------
        OptionError
            When an option is wrong, `now` is of the future, or operands are stored that nobody says how to fold, or the
            option says it otherwise than the table.
        InvalidRequestError
            When a filter fails, or answers with something else than decisions; nothing was changed.
        CommitConflictError
            When what was merged was changed meanwhile, or a SlateDB client is at work.
        """
        # With all that merges, which most uses of a table do without.
        from slatespark.table.compaction.options import parse_compaction
        from slatespark.table.compaction.plan import SizeTiers
        from slatespark.table.compaction.run import compact_table

        return compact_table(
            self._stores,
            self._clock,
            full=full,
            where=where,
            l0_only=l0Only,
            due=due,
            filters=filters,
            now_ms=None if now is None else parse_time_ms(now, name="now"),
            options=parse_compaction(self._common, options),
            tiers=SizeTiers.parse(minCompactionSources, maxCompactionSources, includeSizeThreshold),
            runner=runner,
            progress=progress,
            dry_run=dryRun,
        )

    def reap(
        self,
        maxBatchRows: int | None = None,
        maxBatchBytes: int | str | None = None,
        now: int | str | datetime | None = None,
        **options: Any,
    ) -> ReapReport:
        """Delete the rows that are past the table's `retention`, and return what was done.

        It takes as many commits as it needs, of which each leaves the table whole.

        Parameters
        ----------
        maxBatchRows, maxBatchBytes : bounds of what one commit deletes by tombstones, and of what it reads and rewrites
        now : the instant at which retention is judged; by default a minute before the clock's, or the last clock tick
            if that is later; with `clock=custom` the tick
        options : write options, such as `ifClientActive`

        Raises
        ------
        OptionError
            When an option is wrong, or `now` is of the future.
        CommitConflictError
            When others kept committing, or a SlateDB client is at work.
        """
        refuse_misspelt(options, ("maxBatchRows", "maxBatchBytes", "now"))
        limits = ReapLimits.parse(maxBatchRows, maxBatchBytes)
        return reap_table(
            self._stores,
            self._clock,
            now_ms=None if now is None else parse_time_ms(now, name="now"),
            max_batch_rows=limits.batch_rows,
            max_batch_bytes=limits.batch_bytes,
            options=WriteOptions.parse({**self._common, **options}),
        )

    def vacuum(
        self, minAge: str | int | timedelta = "24h", *, dryRun: bool = False, fences: bool = False
    ) -> VacuumReport:
        """Delete the objects that nobody needs any more, and return what went, what stayed, and why.

        What a version, a checkpoint, a clone or a job needs stays. The present is not changed, but versions go that no
        checkpoint keeps, and checkpoints that have expired.

        Parameters
        ----------
        minAge : nothing younger goes, and every version stays that was the newest one at some moment since
        dryRun : only say what would go
        fences : WAL fences go too, which keep writers out that were shut out and do not know it yet; only where no
            client has been asleep for longer than `minAge`

        Raises
        ------
        OptionError
            When `minAge` is no duration.
        InvalidRequestError
            When the WAL is elsewhere, or what `walPath` leads to belongs to another database.
        CommitConflictError
            When others kept changing the manifest.
        UnavailableError
            When the store stopped answering; the next vacuum goes on from there.
        """
        min_age_ms = parse_duration_ms(minAge, name="minAge")
        return vacuum_table(self._stores, self._clock, min_age_ms=min_age_ms, dry_run=dryRun, fences=fences)

    def proveAbsent(self, *key: Any, where: str | None = None, **options: Any) -> AbsenceReport:
        """Return where rows of a key, or of an interval of keys, are still stored, or that they are gone.

        Every object that holds rows is looked through: what no version shows, what views hide and what deletions hide,
        too. Rows of the keys that are deletions count as well, since they name the key. Parts of unfinished multipart
        uploads to S3 are not covered: no listing shows them.

        Parameters
        ----------
        key : a value for each key column; of a raw table the key as bytes
        where : instead of a key, comparisons on leading key columns, as for `deleteRange`
        options : `startKey`, `endKey` or `keyPrefix` of a raw table

        Raises
        ------
        OptionError
            When not exactly one of these is given.
        InvalidRequestError
            When the WAL is kept elsewhere; nothing is proven then.
        CorruptDataError
            When an object cannot be read; nothing is proven then.
        ConflictError
            When the table changed faster than it could be looked through.
        """
        from slatespark.table.gc.absence import keys_to_prove, prove_absent

        given = WriteOptions.parse({**self._common, **options})
        return prove_absent(self._stores, keys_to_prove(self._stores, key, where, given))

    def timeline(self, version: int | None = None, **options: Any) -> KeyTimeline:
        """Return, along the keys, which files are visible in which interval, which are overshadowed, and since when.

        Parameters
        ----------
        version : a manifest id; by default the newest one
        options : read options that choose a version another way
        """
        return read_timeline(self._stores, self._read_options({**options, "versionAsOf": version}), self._clock)

    def plotTimeline(self, ax: Any = None, *, version: int | None = None, **options: Any) -> Any:
        """Return a matplotlib figure of the timeline; parameters as for `timeline`.

        Parameters
        ----------
        ax : matplotlib axes to draw on; by default a figure of its own

        Raises
        ------
        InvalidRequestError
            When matplotlib is not installed.
        """
        from slatespark.display.plots import plot_timeline

        return plot_timeline(self.timeline(version, **options), ax)

    def expiry(self, per: str | None = None, **options: Any) -> ExpiryReport:
        """Return what expires when: rows and stored bytes by hour or day, expired already, never.

        Everything that is stored counts, also versions that a read does not show.

        Parameters
        ----------
        per : `hour` or `day`; by default hours if everything expires within three days, else days
        options : read options that choose a version, and `now`

        Raises
        ------
        OptionError
            When `per` is neither, or an option would leave rows out.
        """
        return report_expiry(self._stores, self._read_options(options), self._clock, per=per)

    def plotExpiry(self, ax: Any = None, *, per: str | None = None, **options: Any) -> Any:
        """Return a matplotlib figure of the stored bytes that expire by hour or day; parameters as for `expiry`.

        Parameters
        ----------
        ax : matplotlib axes to draw on; by default a figure of its own

        Raises
        ------
        InvalidRequestError
            When matplotlib is not installed.
        """
        from slatespark.display.plots import plot_expiry

        return plot_expiry(self.expiry(per, **options), ax)

    def _summary(self, options: dict[str, Any]) -> TableSummary:
        return summarise_table(self._stores, self._read_options(options), self._clock)

    def verify(self, *, all_versions: bool = False) -> VerifyReport:
        """Read every byte of the newest version, or of all versions that exist, and return what is wrong."""
        return verify_table(self._stores, self._clock, all_versions=all_versions)

    def _read_options(self, options: dict[str, Any]) -> ReadOptions:
        return ReadOptions.parse({**self._common, **options})


def _version(record: CommitRecord | None, latest_id: int) -> int:
    return latest_id if record is None else record.manifest_id
