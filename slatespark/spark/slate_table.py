"""SlateTable: a table with DataFrames, in the style of `DeltaTable`. What is no DataFrame is `SlateStore`'s work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql.types import StructType

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import InvalidRequestError, OptionError, TableExistsError, TableNotFoundError
from slatespark.options import ReadOptions, WriteOptions, refuse_filter
from slatespark.options.properties import parse_properties, split_creation
from slatespark.options.values import STORAGE_PREFIX
from slatespark.spark.conditions import narrowing
from slatespark.spark.distributed import quoted, resolve_columns, sort_for_load, split_names
from slatespark.spark.failures import own_errors
from slatespark.spark.frames import (
    checkpoints_frame,
    detail_frame,
    expiry_frame,
    files_frame,
    history_frame,
    runs_frame,
    sequences_frame,
)
from slatespark.spark.merge import SlateMergeBuilder
from slatespark.spark.merge_rows import Expression, expression
from slatespark.spark.plan_frame import Place
from slatespark.spark.range_merges import SparkRunner, check_filters_travel
from slatespark.spark.timeline_frame import timeline_frame
from slatespark.spark.transaction import SlateTransaction
from slatespark.spark.type_mapping import arrow_schema, struct_type
from slatespark.table.checkpoints.store import CheckpointFacts
from slatespark.table.clock import SystemClock
from slatespark.table.commit.idempotence import is_committed
from slatespark.table.commit.read_set import ReadSet
from slatespark.table.compaction.filter import CompactionFilter
from slatespark.table.compaction.report import CompactionReport
from slatespark.table.definition.versions import resolve_codec
from slatespark.table.gc.report import VacuumReport
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.history.resolution import Resolution
from slatespark.table.read.history.sequences import SequenceMatch
from slatespark.table.read.reader import check_history
from slatespark.table.read.resolve import resolve_snapshot
from slatespark.table.retention.reap_report import ReapReport
from slatespark.table.slate_store import SlateStore
from slatespark.table.stores import TableStores, open_stores
from slatespark.table.verify.findings import VerifyReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from slatespark.table.gc.absence import AbsenceReport

_WAL_PATH = "walPath"


@dataclass(frozen=True)
class Change:
    """The state of a table that a change depends on.

    Attributes
    ----------
    rows : all rows, with all columns, under the table's alias if it has one
    reads : the keys that were looked through; a later commit to one of them makes the change fail
    key_columns : names as in `rows`
    """

    rows: DataFrame
    reads: ReadSet
    key_columns: tuple[str, ...]


class SlateTable:
    """A SlateDB database as a table of DataFrames.

    Make one with `create`, `createIfNotExists` or `forPath`. Options are keyword arguments, as in the reference of
    options; errors are slatespark's own, also those that arise in Spark's tasks.

    Examples
    --------
    >>> table = SlateTable.create(spark, path, "tenant STRING, id BIGINT, name STRING", ["tenant", "id"])
    >>> table.write(names)
    >>> table.toDF(where="tenant = 'a' AND id < 10").show()
    >>> (table.alias("t").merge(changes.alias("c"), "t.tenant = c.tenant AND t.id = c.id")
    ...     .whenMatchedUpdateAll().whenNotMatchedInsertAll().execute())
    """

    def __init__(
        self, spark: SparkSession, store: SlateStore, path: str, options: Mapping[str, str], name: str | None = None
    ) -> None:
        self._spark, self._store, self._path, self._options, self.name = spark, store, path, dict(options), name

    @classmethod
    def create(
        cls,
        spark: SparkSession,
        path: str,
        schema: StructType | str,
        keyColumns: Sequence[str] | str,
        **properties: Any,
    ) -> Self:
        """Create an empty typed table at `path` and return it.

        Parameters
        ----------
        schema : columns, as a StructType or as DDL text
        keyColumns : names of the columns that make the key, in order; a list or a comma list
        properties : `keyFormat`, `valueFormat`, table properties such as `defaultTtl`, and `storage.*`

        Raises
        ------
        TableExistsError
            When a table stands there already.
        SchemaError
            When a column has a type that no table, or no key, can hold.
        """
        columns, storage = arrow_schema(struct_type(schema), split_names(keyColumns)), _storage_of(properties)
        SlateStore.create(path, schema=columns, keyColumns=split_names(keyColumns), **_without_prefix(properties))
        return cls.forPath(spark, path, **storage)

    @classmethod
    def createIfNotExists(
        cls,
        spark: SparkSession,
        path: str,
        schema: StructType | str,
        keyColumns: Sequence[str] | str,
        **properties: Any,
    ) -> Self:
        """Return the table at `path`; create it, as `create` does, if there is none.

        Raises
        ------
        InvalidRequestError
            When the table that is there has other key columns.
        """
        try:
            return cls.create(spark, path, schema, keyColumns, **properties)
        except TableExistsError:
            table = cls.forPath(spark, path, **_storage_of(properties))
        have, wanted = table._key_columns(), split_names(keyColumns)
        if [name.lower() for name in have] != [name.lower() for name in wanted]:
            raise InvalidRequestError(
                f"{table._store.url} is there, with key columns {', '.join(have)} instead of {', '.join(wanted)}.",
                todo="Choose another path, or open it with forPath.",
            )
        return table

    @classmethod
    def forPath(cls, spark: SparkSession, path: str, **storage: Any) -> Self:
        """Return the table at `path`.

        Parameters
        ----------
        storage : `walPath`, and what the storage backend takes, with or without `storage.` in front; so
            `**slatespark.storageOptions(spark)` serves

        Raises
        ------
        TableNotFoundError
            When there is no database.
        """
        given = _without_prefix(storage)
        store = SlateStore.open(path, **given)
        wal_path = given.pop(_WAL_PATH, given.pop("wal_path", None))
        options = {f"{STORAGE_PREFIX}{name}": value for name, value in given.items()}
        return cls(spark, store, path, options if wal_path is None else {**options, _WAL_PATH: wal_path})

    @staticmethod
    def isSlateTable(path: str, **storage: Any) -> bool:
        """Tell whether there is a SlateDB database, raw or typed, at `path`."""
        try:
            SlateStore.open(path, **_without_prefix(storage))
        except TableNotFoundError:
            return False
        return True

    # --- rows ---------------------------------------------------------------------------------------------------------

    def toDF(
        self, columns: Sequence[str] | str | None = None, where: Expression | None = None, **readOptions: Any
    ) -> DataFrame:
        """Return the rows as a DataFrame, which keeps the snapshot of its first action.

        Parameters
        ----------
        columns : only these are decoded
        where : text as in the option `filter`, which skips ranges, files and blocks; or a Column, by which Spark
            filters after reading
        readOptions : read options

        Raises
        ------
        OptionError, SchemaError
            When an option, the filter or a column's name is wrong.
        """
        columns = None if columns is None else split_names(columns)
        by_spark, options = None if isinstance(where, str) else where, dict(readOptions)
        if isinstance(where, str):
            refuse_filter(options)
            options["filter"] = where
        listed = columns is None or by_spark is not None or any("," in name or name != name.strip() for name in columns)
        rows = self._load(options if listed else {**options, "columns": columns})
        if by_spark is not None:
            rows = rows.where(by_spark)
        if listed and columns is not None:  # names that a comma list cannot hold, or columns that `where` needs too
            rows = rows.select(*[quoted(name) for name in columns])
        return rows if self.name is None else rows.alias(self.name)

    def versions(self, **readOptions: Any) -> DataFrame:
        """Return every version of each row of a history table, with the time in which it was valid.

        The columns are those of the table, `_valid_from`, `_valid_to` (null while it is valid) and `_is_current`. At
        any instant in between, a read as of then shows that row.

        Raises
        ------
        OptionError
            When the table has no history.
        """
        check_history(self._store.url, self._store.definition)
        return self._load({**readOptions, "readVersions": "intervals"})

    def get(self, *key: Any, **readOptions: Any) -> dict[str, Any] | None:
        """Return the row of one key as a dict, without a Spark job; None if there is no visible one.

        Raises
        ------
        InvalidRequestError
            When the key has other columns or types.
        """
        return self._store.get(*key, **readOptions)

    def write(self, df: DataFrame, mode: str = "append", **writeOptions: Any) -> None:
        """Write rows in one commit: Spark partitions them by ranges of the key and sorts them, so no two files overlap.

        Of several rows of one key the later one is kept, or the one with the highest `sequenceColumn`.
        On a history table `timestampColumn` says the time of each row, and all versions of a key are kept.

        Parameters
        ----------
        mode : `append` upserts, `overwrite` replaces the table, or the interval of keys that `replaceWhere` names
        writeOptions : write options

        Raises
        ------
        SchemaError, OptionError, InvalidRequestError
            When rows or options do not fit; nothing was changed.
        CommitConflictError
            When a SlateDB client is at work on the table, or other writers kept winning.
        """
        if mode not in ("append", "overwrite"):
            raise OptionError(f"mode: {mode!r} is not acceptable.", todo="Choose append or overwrite.")
        with own_errors():
            self._save(sort_for_load(df, self._key_columns()), mode, writeOptions)

    def ingest(self, paths: Sequence[str] | str, **writeOptions: Any) -> None:
        """Make files of `SstWriter` visible in one commit, without a Spark job; as `SlateStore.ingest`.

        Parameters
        ----------
        paths : local paths or URLs of the files
        writeOptions : those that `SlateStore.ingest` takes
        """
        self._store.ingest(paths, **writeOptions)

    def delete(self, condition: Expression | None = None, **writeOptions: Any) -> None:
        """Delete the rows for which a condition is true, in one commit; without one, all rows.

        Parameters
        ----------
        condition : a Column, or SQL text with any expression of Spark SQL
        writeOptions : write options

        Raises
        ------
        TransactionConflictError
            When anything was committed, after the rows were read, to the keys that the condition can match. These are a
            part of the table if it is text of comparisons on leading key columns, joined by `AND`, as in `filter`.
        """
        with own_errors():
            if self._is_committed(writeOptions):
                return
            # Only a filter more: Spark still decides, so that text means here what it means everywhere in Spark.
            change = self._begin_change(narrowing(condition, self._codec().schema, self._spark))
            rows = change.rows if condition is None else change.rows.where(expression(condition))
            keys = rows.select(*[quoted(name) for name in change.key_columns])
            self._write_change(change, keys, **{**writeOptions, "operation": "delete"})

    def begin(self, readTimestamp: int | str | datetime | None = None, **options: Any) -> SlateTransaction:
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
        core, read = self._store.begin(readTimestamp, **options), self._read_options()
        return SlateTransaction(self._spark, core, Place(read.path, read.wal_path, read.storage), self.name)

    def alias(self, name: str) -> Self:
        """Return the table under a name that conditions can use, as in `t.id`."""
        return type(self)(self._spark, self._store, self._path, self._options, name)

    def merge(self, source: DataFrame, condition: Expression) -> SlateMergeBuilder:
        """Return a builder of a merge of `source` into this table.

        Parameters
        ----------
        source : rows; give it a name with `source.alias("s")`
        condition : which rows of both sides match, a Column or SQL text such as `t.id = s.id`
        """
        return SlateMergeBuilder(self, source, condition)

    # --- facts --------------------------------------------------------------------------------------------------------

    def setProperties(self, **properties: Any) -> None:
        """Set table properties, such as `defaultTtl="30d"`.

        Raises
        ------
        OptionError
            When one is unknown, has no such value, or cannot be changed.
        """
        self._store.setProperties(**properties)

    def setHistoryFloor(self, ts: int | str | datetime) -> None:
        """Give up the past of a history table below an instant; see `SlateStore.setHistoryFloor`."""
        self._store.setHistoryFloor(ts)

    def deleteRange(
        self, where: str | None = None, timestamp: int | str | datetime | None = None, **writeOptions: Any
    ) -> int:
        """Delete all rows of an interval of keys in one commit, without a Spark job; see `SlateStore.deleteRange`."""
        return self._store.deleteRange(where, timestamp, **writeOptions)

    def trimHistory(self, after: int | str | datetime, **writeOptions: Any) -> int:
        """Remove everything that a history table learnt after an instant; see `SlateStore.trimHistory`."""
        return self._store.trimHistory(after, **writeOptions)

    def dropColumns(self, *names: str) -> None:
        """Take columns of the value out of the table; their names cannot come back, since old rows may hold them.

        Raises
        ------
        SchemaError
            When one is not there, or is of the key.
        """
        self._store.dropColumns(*names)

    def detail(self) -> DataFrame:
        """Return what the table is, in one row; the columns are listed in the reference of SlateTable."""
        return detail_frame(self._spark, self._store.detail())

    def history(self, limit: int | None = None) -> DataFrame:
        """Return the newest `limit` versions, newest first; all that exist without a limit."""
        return history_frame(self._spark, self._store.history(limit))

    def resolve(self, **readOptions: Any) -> Resolution:
        """Return what a read with these options would see: version, sequence number, time, and how they are found.

        Raises
        ------
        HistoryTrimmedError
            When the past that is asked for can no longer be answered exactly.
        """
        return self._store.resolve(**readOptions)

    def sequences(self) -> DataFrame:
        """Return the points of the sequence tracker, oldest first: which sequence number was reached when."""
        return sequences_frame(self._spark, self._store.sequences())

    def seqToTimestamp(self, seq: int, *, round: str = "down") -> SequenceMatch | None:  # noqa: A002  # the client says so
        """Return the tracker's point of a sequence number, or the nearest one `down` or `up`; None if there is none."""
        return self._store.seqToTimestamp(seq, round=round)

    def timestampToSeq(self, timestamp: int | str | datetime, *, round: str = "down") -> SequenceMatch | None:  # noqa: A002  # the client says so
        """Return the tracker's point of an instant, or the nearest one `down` or `up`; None if there is none."""
        return self._store.timestampToSeq(timestamp, round=round)

    def checkpoints(self) -> DataFrame:
        """Return the checkpoints, those too that commits left for `versionRetention`."""
        return checkpoints_frame(self._spark, self._store.checkpoints())

    def createCheckpoint(
        self, name: str | None = None, lifetime: str | int | timedelta | None = None, version: int | None = None
    ) -> CheckpointFacts:
        """Keep a version from being collected; see `SlateStore.createCheckpoint`."""
        return self._store.createCheckpoint(name, lifetime, version)

    def refreshCheckpoint(self, idOrName: str, lifetime: str | int | timedelta | None = None) -> CheckpointFacts:
        """Let a checkpoint last for so long from now, for ever by default; see `SlateStore.refreshCheckpoint`."""
        return self._store.refreshCheckpoint(idOrName, lifetime)

    def deleteCheckpoint(self, idOrName: str) -> None:
        """Release a checkpoint: what it alone kept may be collected."""
        self._store.deleteCheckpoint(idOrName)

    def restoreToVersion(self, version: int, **writeOptions: Any) -> int:
        """Make the state of an earlier version the newest one; see `SlateStore.restoreToVersion`."""
        return self._store.restoreToVersion(version, **writeOptions)

    def restoreToTimestamp(self, timestamp: int | str | datetime, **writeOptions: Any) -> int:
        """Make the newest version committed at or before an instant the newest one."""
        return self._store.restoreToTimestamp(timestamp, **writeOptions)

    def clone(self, target: str, version: int | None = None, checkpoint: str | None = None) -> Self:
        """Make a shallow clone at `target`, and return it; see `SlateStore.clone`."""
        self._store.clone(target, version, checkpoint)
        storage = {name: value for name, value in self._options.items() if name != _WAL_PATH}
        return self.forPath(self._spark, target, **storage)

    def files(self) -> DataFrame:
        """Return the files of the newest version, layer by layer, newest first."""
        return files_frame(self._spark, self._store.files(countRows=True))

    def runs(self) -> DataFrame:
        """Return the layers of the newest version, L0 views and sorted runs, newest first."""
        return runs_frame(self._spark, self._store.runs())

    def compact(
        self,
        full: bool = False,
        where: str | None = None,
        filters: Sequence[CompactionFilter] = (),
        now: int | str | datetime | None = None,
        **options: Any,
    ) -> CompactionReport:
        """Merge layers of the table into sorted runs by a Spark job, a range of keys a task; see `SlateStore.compact`.

        Parameters
        ----------
        full : merge everything into one run
        where : merge everything in intervals of keys
        filters : asked about every version that would be kept, if anything is merged; they travel to the executors
        now : the instant at which expiry and retention are judged
        options : further arguments of `SlateStore.compact`, and write options

        Raises
        ------
        InvalidRequestError
            When a filter cannot be pickled, fails, or answers with something else than decisions; nothing was changed.
        CommitConflictError
            When what was merged was changed meanwhile, or a SlateDB client is at work.
        """
        check_filters_travel(filters)
        return self._store.compact(full, where, filters, now, runner=SparkRunner(self._spark), **options)

    def reap(
        self,
        maxBatchRows: int | None = None,
        maxBatchBytes: int | str | None = None,
        now: int | str | datetime | None = None,
        **writeOptions: Any,
    ) -> ReapReport:
        """Delete the rows that are past the table's `retention`, without a Spark job, and return what was done.

        Parameters
        ----------
        maxBatchRows, maxBatchBytes : bounds of what one commit deletes by tombstones, and of what it reads and rewrites
        now : the instant at which retention is judged; by default a minute before the system clock's, or the last clock
            tick if that is later; with `clock=custom` the tick
        writeOptions : write options, such as `ifClientActive`

        Raises
        ------
        CommitConflictError
            When others kept committing, or a SlateDB client is at work.
        """
        return self._store.reap(maxBatchRows, maxBatchBytes, now, **writeOptions)

    def timeline(self, version: int | None = None, **readOptions: Any) -> DataFrame:
        """Return, along the keys, which files are visible in which interval, which are overshadowed, and since when.

        Parameters
        ----------
        version : a manifest id; by default the newest one
        readOptions : read options that choose a version another way
        """
        return timeline_frame(self._spark, self._store.timeline(version, **readOptions))

    def expiry(self, per: str | None = None, **readOptions: Any) -> DataFrame:
        """Return what expires when: rows and stored bytes by hour or day, expired already, never.

        Parameters
        ----------
        per : `hour` or `day`; by default hours if everything expires within three days, else days
        readOptions : read options that choose a version, and `now`

        Raises
        ------
        OptionError
            When `per` is neither, or an option would leave rows out.
        """
        return expiry_frame(self._spark, self._store.expiry(per, **readOptions))

    def vacuum(
        self, minAge: str | int | timedelta = "24h", *, dryRun: bool = False, fences: bool = False
    ) -> VacuumReport:
        """Delete the objects that nobody needs any more, without a Spark job; return what went, what stayed, and why.

        Parameters
        ----------
        minAge : nothing younger goes, and every version stays that was the newest one at some moment since
        dryRun : only say what would go
        fences : WAL fences go too; see `SlateStore.vacuum`
        """
        return self._store.vacuum(minAge, dryRun=dryRun, fences=fences)

    def proveAbsent(self, *key: Any, where: str | None = None, **options: Any) -> AbsenceReport:
        """Return where rows of a key, or of an interval of keys, are still stored, or that they are gone.

        Every object that holds rows is looked through, without a Spark job; see `SlateStore.proveAbsent`.
        """
        return self._store.proveAbsent(*key, where=where, **options)

    def verify(self, *, allVersions: bool = False) -> VerifyReport:
        """Read every byte of the newest version, or of all versions that exist, and return what is wrong."""
        return self._store.verify(all_versions=allVersions)

    def plotLayers(self, ax: Any = None, **readOptions: Any) -> Any:
        """Return a matplotlib figure of the layers of a version over their keys, on axes of its own or on `ax`."""
        return self._store.plotLayers(ax, **readOptions)

    def plotTimeline(self, ax: Any = None, *, version: int | None = None, **readOptions: Any) -> Any:
        """Return a matplotlib figure of the timeline along the keys, on axes of its own or on `ax`."""
        return self._store.plotTimeline(ax, version=version, **readOptions)

    def plotExpiry(self, ax: Any = None, *, per: str | None = None, **readOptions: Any) -> Any:
        """Return a matplotlib figure of the stored bytes that expire by hour or day, on axes of its own or on `ax`."""
        return self._store.plotExpiry(ax, per=per, **readOptions)

    def __repr__(self) -> str:
        return f"SlateTable({self._store.url!r})"

    def __str__(self) -> str:
        """Show facts, columns and layers of the newest version as text."""
        return str(self._store)

    def _repr_html_(self) -> str:
        """Show facts, columns and a picture of the layers of the newest version in a notebook."""
        return self._store._repr_html_()

    # --- in between ---------------------------------------------------------------------------------------------------

    def _begin_change(self, narrowed: Mapping[str, Any] | None = None) -> Change:
        """Return what a change depends on; the state is looked at first, so that no commit in between goes unseen.

        Parameters
        ----------
        narrowed : read options: `filter`, or none
        """
        snapshot = resolve_snapshot(self._stores(), self._read_options(), SystemClock())
        reads = ReadSet.of_condition(snapshot, (narrowed or {}).get("filter"), self._codec())
        rows = self._load(narrowed or {})
        keys = tuple(resolve_columns(self._key_columns(), rows.columns))
        return Change(rows if self.name is None else rows.alias(self.name), reads, keys)

    def _write_change(self, change: Change, rows: DataFrame, **options: Any) -> None:
        self._save(rows, "append", {**options, "readSet": change.reads.to_text()})

    def _is_committed(self, options: Mapping[str, Any]) -> bool:
        """Tell whether a change was committed before under its `txnAppId`: then the table shows it already."""
        return is_committed(self._stores(), WriteOptions.parse({"path": self._path, **self._texts(options)}))

    def _load(self, options: Mapping[str, Any]) -> DataFrame:
        with own_errors():
            return self._spark.read.format("slate").options(**self._texts(options)).load(self._path)

    def _save(self, rows: DataFrame, mode: str, options: Mapping[str, Any]) -> None:
        rows.write.format("slate").mode(mode).options(**self._texts(options)).save(self._path)

    def _texts(self, options: Mapping[str, Any]) -> dict[str, str]:
        """Return options as Spark takes them."""
        return {name: _text(name, value) for name, value in {**self._options, **options}.items() if value is not None}

    def _key_columns(self) -> tuple[str, ...]:
        return self._codec().key_columns

    def _codec(self) -> RowCodec:
        stores = self._stores()
        return resolve_codec(stores, fetch_latest_manifest(stores)[1])

    def _stores(self) -> TableStores:
        options = self._read_options()
        return open_stores(options.path, storage=options.storage, wal_path=options.wal_path)

    def _read_options(self) -> ReadOptions:
        return ReadOptions.parse({"path": self._path, **self._options})


def _storage_of(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of the arguments of `create` is about storage.

    Raises
    ------
    OptionError
        When one is neither that nor a property.
    """
    rest = split_creation(properties)[2]
    parse_properties({name: value for name, value in rest.items() if not _is_storage(name)})
    return rest


def _is_storage(name: str) -> bool:
    return name.startswith(STORAGE_PREFIX) or name in (_WAL_PATH, "wal_path")


def _without_prefix(storage: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of storage as `SlateStore` takes them."""
    return {name.removeprefix(STORAGE_PREFIX): value for name, value in storage.items()}


def _text(name: str, value: object) -> str:
    """Return an option's value as text."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value // timedelta(milliseconds=1))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(str(part) for part in value)
    if isinstance(value, str | int | float):
        return str(value)
    raise OptionError(f"{name}: {value!r} cannot be handed to Spark.", todo="Give text or a number.")
