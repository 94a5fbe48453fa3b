"""SlateTable: a table with DataFrames, in the style of `DeltaTable`.

Rows go through `TableFrames`, everything without a Spark job through `SlateStore`; the class only delegates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, Unpack

from pyspark.sql.types import StructType

from slatespark.display.progress import AskedProgress
from slatespark.errors import TableExistsError
from slatespark.options.keywords import FrameKeywords, ReadKeywords, WriteKeywords
from slatespark.slate_store import SlateStore
from slatespark.spark import arguments, creation, fact_frames
from slatespark.spark.arguments import Instant, Names, PathArgument
from slatespark.spark.assignments import Expression, checked
from slatespark.spark.merge import SlateMergeBuilder
from slatespark.spark.plan_frame import Place
from slatespark.spark.table_frames import TableFrames
from slatespark.spark.table_versions import TableVersions
from slatespark.spark.transaction import SlateTransaction
from slatespark.table.progress import Step
from slatespark.table.read.key_lookup import lookup_options
from slatespark.table.read.reader import check_history

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from slatespark.table.gc.drop_plan import DropReport


class SlateTable(TableVersions):
    """A SlateDB database as a table of DataFrames.

    Made by `create`, `createIfNotExists` or `forPath`. Options are keyword arguments (docs/reference/options.md).
    Errors are slatespark's own, also those raised in Spark's tasks.

    Examples
    --------
    >>> table = SlateTable.create(spark, path, "tenant STRING, id BIGINT, name STRING", ["tenant", "id"])
    >>> table.write(names)
    >>> table.toDF(where="tenant = 'a' AND id < 10").show()
    >>> (table.alias("t").merge(changes.alias("c"), "t.tenant = c.tenant AND t.id = c.id")
    ...     .whenMatchedUpdateAll().whenNotMatchedInsertAll().execute())
    """

    @property
    def name(self) -> str | None:
        """The alias that conditions use; None without one."""
        return self._frames.name

    @classmethod
    def create(
        cls, spark: SparkSession, path: PathArgument, schema: StructType | str, keyColumns: Names, **properties: Any
    ) -> Self:
        """Create an empty typed table at `path` and return it.

        Parameters
        ----------
        schema : the columns, as a StructType or DDL text
        keyColumns : names of the key columns, in order; a list or a comma list
        properties : `keyFormat`, `valueFormat`, table properties such as `defaultTtl`, and the arguments of `forPath`

        Raises
        ------
        TableExistsError
            When there is a table already.
        SchemaError
            When a column has a type that no table, or no key, can hold.
        """
        storage = arguments.storage_arguments(properties)
        creation.create_table(path, schema, keyColumns, properties)
        return cls.forPath(spark, path, **storage)

    @classmethod
    def createIfNotExists(
        cls, spark: SparkSession, path: PathArgument, schema: StructType | str, keyColumns: Names, **properties: Any
    ) -> Self:
        """Return the table at `path`; create it as `create` does if there is none.

        Raises
        ------
        InvalidRequestError
            When the existing table has other key columns.
        """
        try:
            return cls.create(spark, path, schema, keyColumns, **properties)
        except TableExistsError:
            table = cls.forPath(spark, path, **arguments.storage_arguments(properties))
        creation.require_key_columns(table._store.url, table._frames.key_columns(), keyColumns)
        return table

    @classmethod
    def forPath(cls, spark: SparkSession, path: PathArgument, **storage: Any) -> Self:
        """Return the table at `path`.

        Parameters
        ----------
        storage : `walPath`, `clock` (`module:function`, which Spark's processes import), and options of the storage
            backend, with or without the prefix `storage.`, as from `**slatespark.storageOptions(spark)`

        Raises
        ------
        TableNotFoundError
            When there is no database.
        """
        store = SlateStore.open(arguments.path_text(path), **arguments.store_arguments(storage))
        return cls(store, TableFrames(spark, arguments.path_text(path), arguments.spark_options(storage)))

    @staticmethod
    def isSlateTable(
        spark: SparkSession | PathArgument | None = None, path: PathArgument | None = None, **storage: Any
    ) -> bool:
        """Tell whether there is a SlateDB database, raw or typed, at `path`.

        The session is not needed: `isSlateTable(spark, path)` and `isSlateTable(path)` are the same.
        """
        return creation.has_table(spark if path is None else path, storage)

    @staticmethod
    def drop(
        spark: SparkSession | PathArgument,
        path: PathArgument | None = None,
        *,
        force: bool = False,
        dryRun: bool = False,
        **storage: Any,
    ) -> DropReport:
        """Delete the table at `path` for good, without a Spark job; see `SlateStore.drop`.

        The session is not needed: `drop(spark, path)` and `drop(path)` are the same.
        """
        return creation.drop_table(spark if path is None else path, storage, force=force, dry_run=dryRun)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def toDF(
        self, columns: Names | None = None, where: Expression | None = None, **readOptions: Unpack[FrameKeywords]
    ) -> DataFrame:
        """Return the rows as a DataFrame; it keeps the snapshot of its first action.

        Spark's own reader of Parquet takes what the table has columnar copies of; then it is the snapshot of the call.

        Parameters
        ----------
        columns : the columns to return; no others are decoded
        where : text as in the option `filter`, which skips ranges, files and blocks; or a Column, with which Spark
            filters after the read
        readOptions : read options

        Raises
        ------
        OptionError, SchemaError
            When an option, the filter or a column's name is wrong.
        InvalidRequestError, HistoryTrimmedError
            At the call or at the first action, when the version does not exist, or was collected.
        """
        return self._frames.select(columns, where, readOptions)

    def versions(self, **readOptions: Unpack[ReadKeywords]) -> DataFrame:
        """Return every version of each row of a history table, with the time when it was valid.

        The columns are those of the table, `_valid_from`, `_valid_to` (null while it is valid) and `_is_current`. A
        read as of any instant in between shows that version.

        Raises
        ------
        OptionError
            When the table has no history.
        """
        check_history(self._store.url, self._store.definition)
        return self._frames.read({**readOptions, "readVersions": "intervals"})

    def changes(
        self, columns: Names | None = None, where: Expression | None = None, **readOptions: Unpack[FrameKeywords]
    ) -> DataFrame:
        """Return what changed between two versions, as a DataFrame; see `SlateStore.changes`.

        It keeps the two versions of its first action.

        Parameters
        ----------
        columns : the columns to return, `_change_type` among them if it is wanted
        where : text as in the option `filter`: only rows for which it is true belong to either version; or a Column,
            with which Spark filters the changes
        readOptions : `startingVersion` or `startingTimestamp`, and the other options of the change feed

        Raises
        ------
        OptionError
            When an option does not apply.
        InvalidRequestError, HistoryTrimmedError
            At the first action, when a version does not exist yet, or was collected.
        """
        return self._frames.select(columns, where, {**readOptions, "readChangeFeed": True})

    def asOf(
        self, df: DataFrame, ts: str, how: str = "left", columns: Names | None = None, **readOptions: Any
    ) -> DataFrame:
        """Join each row of a DataFrame with the version of its key that was valid at the row's own time.

        A row gets the columns that `get(key, timestampAsOf=time)` shows; they are null if there was no version then.
        Spark partitions the rows by key and time, and each task looks up the keys of its rows. The table is read as it
        is at this call.

        Parameters
        ----------
        df : with the key columns of the table, and a column of times
        ts : the column of times, TIMESTAMP or BIGINT of ms since 1970; null matches nothing
        how : `left`, or `inner` for only the rows that have a version
        columns : to add; by default all but the key
        readOptions : options of `SlateStore.asOf`

        Raises
        ------
        OptionError
            When the table has no history, or an option does not apply.
        SchemaError
            When the rows lack a column, or have one that the table adds.
        HistoryTrimmedError
            In the tasks, when a time is below the history floor.
        """
        return self._frames.as_of(df, ts, how, {**readOptions, "columns": columns})

    def lookup(self, keys: DataFrame, columns: Names | None = None, **readOptions: Any) -> DataFrame:
        """Return the rows that have the keys of a DataFrame: each once.

        Spark partitions the keys by ranges, and each task reads only the blocks that may hold its keys. So it costs
        less than a join with the table as long as the keys are few beside the rows. The table is read as it is at this
        call.

        Parameters
        ----------
        keys : with the key columns of the table; other columns do not matter
        columns : to return; by default all
        readOptions : read options, except ranges of keys

        Raises
        ------
        SchemaError
            When a key column is missing, or its type does not fit.
        OptionError
            When an option is invalid.
        """
        return self._frames.lookup(keys, lookup_options(readOptions, columns))

    def get(self, *key: Any, **readOptions: Unpack[ReadKeywords]) -> dict[str, Any] | None:
        """Return the row of one key as a dict, without a Spark job; None if no row is visible.

        Raises
        ------
        InvalidRequestError
            When the key has other columns or types.
        """
        return self._store.get(*key, **readOptions)

    def write(
        self,
        df: DataFrame,
        mode: str = "append",
        *,
        progress: AskedProgress = "auto",
        **writeOptions: Unpack[WriteKeywords],
    ) -> None:
        """Write rows in one commit. Spark partitions them by key range and sorts them, so that no two files overlap.

        Of several rows of one key the last is kept, or the one with the highest `sequenceColumn`. On a history table
        `timestampColumn` names the time of each row, and all versions of a key are kept.

        Parameters
        ----------
        mode : `append` upserts; `overwrite` replaces the table, or the key interval that `replaceWhere` names
        progress : `auto` shows a bar on a terminal or in a notebook once the call has taken a second, unless Spark
            shows its own; False none; or a function to call with the step, how much is done, and how much there is in
            all, 0 if unknown
        writeOptions : write options

        Raises
        ------
        SchemaError, OptionError, InvalidRequestError
            When rows or options do not fit; nothing was changed.
        CommitConflictError
            When a SlateDB client is active on the table, or other writers won every retry.
        """
        self._frames.load(df, mode, writeOptions, progress=progress)

    def ingest(
        self,
        paths: Sequence[PathArgument] | PathArgument,
        *,
        progress: AskedProgress = "auto",
        **writeOptions: Any,
    ) -> None:
        """Publish files of `SstWriter` in one commit, by a Spark job; see `SlateStore.ingest`.

        Each file is a task. The driver reads the ends of the files, and of files that overlap the rows too.

        Parameters
        ----------
        paths : local paths or URLs of the files, which executors can read too
        progress : a bar where one can be seen; see `SlateTable.write`
        writeOptions : those of `SlateStore.ingest`
        """
        with self._running("ingest into", progress, Step.INGESTING) as call:
            files = arguments.path_texts(paths)
            self._store.ingest(files, runner=call.tasks(), progress=call.progress, **writeOptions)

    def delete(
        self,
        condition: Expression | None = None,
        *,
        progress: AskedProgress = "auto",
        **writeOptions: Unpack[WriteKeywords],
    ) -> None:
        """Delete the rows for which a condition is true, in one commit; without a condition, all rows.

        Parameters
        ----------
        condition : a Column, or any SQL expression of Spark as text
        progress : a bar where one can be seen; see `SlateTable.write`
        writeOptions : write options

        Raises
        ------
        TransactionConflictError
            When another commit changed keys that the condition can match after the rows were read. Text of comparisons
            on leading key columns joined by `AND`, as in `filter`, can match a part of the table; anything else all of
            it.
        """
        self._frames.delete(condition, writeOptions, progress=progress)

    def update(
        self,
        condition: Expression | None = None,
        set: Mapping[str, Expression] | None = None,  # noqa: A002  # Delta's
        *,
        progress: AskedProgress = "auto",
        **writeOptions: Unpack[WriteKeywords],
    ) -> None:
        """Set columns of the rows for which a condition is true, in one commit; without a condition, of all rows.

        Parameters
        ----------
        condition : a Column, or any SQL expression of Spark as text
        set : by column, the new value as SQL text or a Column, which see the row's old values
        progress : a bar where one can be seen; see `SlateTable.write`
        writeOptions : write options, such as `ttl`: an updated row expires like a row that is written now

        Raises
        ------
        InvalidRequestError, SchemaError
            When a key column or nothing is set, a column does not exist, or a value does not fit it.
        TransactionConflictError
            As for `delete`.
        """
        self._frames.update(condition, checked(set, "update", "set"), writeOptions, progress=progress)

    def deleteRange(
        self,
        where: str | None = None,
        timestamp: Instant | None = None,
        *,
        progress: AskedProgress = "auto",
        **writeOptions: Any,
    ) -> int:
        """Delete all rows of some key intervals in one commit; see `SlateStore.deleteRange`.

        On a history table a Spark job searches the intervals, a split in each task. On other tables the driver cuts
        the files, without a job.
        """
        with self._running("delete a range of", progress, Step.REMOVING) as call:
            return self._store.deleteRange(
                where, timestamp, runner=call.tasks(), progress=call.progress, **writeOptions
            )

    def begin(self, readTimestamp: Instant | None = None, **options: Any) -> SlateTransaction:
        """Begin a transaction: reads at one point, and writes that become visible together when it commits.

        Parameters
        ----------
        readTimestamp : the instant to read as of, like `timestampAsOf`; by default the newest state
        options : `txnAppId` and `txnVersion`, `ifClientActive`, `pin`, `mergeOperator`, sizes and codec of files

        Raises
        ------
        OptionError
            When an option is wrong, or the instant lies in the future.
        HistoryTrimmedError
            When that point in the past can no longer be read exactly.
        """
        core, read = self._store.begin(readTimestamp, **options), self._frames.read_options()
        return SlateTransaction(
            self._frames.spark, core, Place(read.path, read.wal_path, read.storage, read.clock), self.name
        )

    def alias(self, name: str) -> Self:
        """Return the table under an alias that conditions can use, as in `t.id`."""
        return type(self)(self._store, replace(self._frames, name=name))

    def merge(self, source: DataFrame, condition: Expression) -> SlateMergeBuilder:
        """Return a builder that merges `source` into this table.

        Parameters
        ----------
        source : rows; give them an alias with `source.alias("s")`
        condition : decides which rows of both sides match; a Column, or SQL text such as `t.id = s.id`
        """
        return SlateMergeBuilder(self._frames, source, condition)

    # --- definition ---------------------------------------------------------------------------------------------------

    def setProperties(self, **properties: Any) -> None:
        """Set table properties, such as `defaultTtl="30d"`.

        Raises
        ------
        OptionError
            When a property is unknown, cannot be changed, or does not take this value.
        """
        self._store.setProperties(**properties)

    def dropColumns(self, *names: str) -> None:
        """Drop value columns. Their names cannot be used again, since old rows may still hold values of them.

        Raises
        ------
        SchemaError
            When a column does not exist or is part of the key.
        """
        self._store.dropColumns(*names)

    def detail(self) -> DataFrame:
        """Return one row that describes the table; docs/reference/slate-table.md lists the columns."""
        return fact_frames.detail_frame(self._frames.spark, self._store.detail())

    # --- copies -------------------------------------------------------------------------------------------------------

    def clone(
        self,
        target: PathArgument,
        version: int | None = None,
        checkpoint: str | None = None,
        *,
        history: bool = False,
        progress: AskedProgress = "auto",
    ) -> Self:
        """Make a shallow clone at `target` and return it, as a history table if asked; see `SlateStore.clone`."""
        self._store.clone(arguments.path_text(target), version, checkpoint, history=history, progress=progress)
        storage = {name: value for name, value in self._frames.options.items() if name != arguments.WAL_PATH}
        return self.forPath(self._frames.spark, target, **storage)

    def copyTo(
        self,
        target: PathArgument,
        *,
        storage: Mapping[str, Any] | None = None,
        versionAsOf: int | None = None,
        timestampAsOf: Instant | None = None,
        checkpoint: str | None = None,
        progress: AskedProgress = "auto",
    ) -> Self:
        """Copy the table, with all of its files, to an empty place in any store, by a Spark job; return the copy.

        Parameters
        ----------
        storage : options of the target's storage backend, which executors use too; by default those of this table, if
            the store is of the same kind
        versionAsOf, timestampAsOf, checkpoint : what to copy; see `SlateStore.copyTo`
        progress : a bar where one can be seen; see `SlateTable.write`
        """
        with self._running("copy", progress, Step.COPYING) as call:
            copy = self._store.copyTo(
                arguments.path_text(target),
                storage=storage,
                versionAsOf=versionAsOf,
                timestampAsOf=timestampAsOf,
                checkpoint=checkpoint,
                runner=call.tasks(),
                progress=call.progress,
            )
        clock = {name: value for name, value in self._frames.options.items() if name == arguments.CLOCK}
        located = {name: value for name, value in copy._common.items() if name != "path"}
        return self.forPath(self._frames.spark, target, **located, **clock)
