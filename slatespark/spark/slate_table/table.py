"""SlateTable: a table with DataFrames, in the style of `DeltaTable`.

Rows go through `TableFrames`, everything without a Spark job through `SlateStore`; the class only delegates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, Unpack

from pyspark.sql.types import StructType

from slatespark.display.progress import AskedProgress
from slatespark.errors import TableExistsError, TableNotFoundError
from slatespark.options.keywords import Instant, WriteKeywords
from slatespark.options.values import parse_text
from slatespark.slate_store import SlateStore
from slatespark.spark.expressions.assignments import Expression, checked
from slatespark.spark.frames import facts
from slatespark.spark.local_times import taking_local_times
from slatespark.spark.merge.builder import SlateMergeBuilder
from slatespark.spark.slate_table import arguments, creation
from slatespark.spark.slate_table.arguments import Names, PathArgument
from slatespark.spark.slate_table.reads import TableReads
from slatespark.spark.slate_table.upkeep import TableUpkeep
from slatespark.spark.slate_table.versions import TableVersions
from slatespark.spark.transaction import SlateTransaction
from slatespark.table.progress import Step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from slatespark.table.gc.drop_plan import DropReport


class SlateTable(TableReads, TableVersions, TableUpkeep):
    """A SlateDB database as a table of DataFrames.

    Made by `create`, `createIfNotExists` or `forPath`. Options are keyword arguments: see the reference of options.
    Errors are slatespark's own, also those raised in Spark's tasks; `SlateStore` lists those of every call.

    Examples
    --------
    >>> from slatespark import SlateTable
    >>> table = SlateTable.create(spark, f"{path}/names", "tenant STRING, id BIGINT, name STRING", ["tenant", "id"])
    >>> table.write(spark.sql("SELECT 'a' AS tenant, 1L AS id, 'ann' AS name"))
    >>> table.toDF(where="tenant = 'a' AND id < 10").collect()
    [Row(tenant='a', id=1, name='ann')]
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
        spark : the session that the table's jobs use
        path : local path or URL
        schema : the columns, as a StructType or DDL text
        keyColumns : names of the key columns, in order; a list or a comma list
        properties : `keyFormat`, `valueFormat`, table properties such as `defaultTtl`, and the arguments of `forPath`

        Raises
        ------
        TableExistsError
            When there is a table already.
        SchemaError
            When a column has a type that no table, or no key, can hold.

        Examples
        --------
        >>> from slatespark import SlateTable
        >>> table = SlateTable.create(spark, f"{path}/stock", "shop STRING, item STRING, n BIGINT", ["shop", "item"])
        >>> table.toDF().columns
        ['shop', 'item', 'n']
        """
        storage = arguments.storage_arguments(properties)
        store = creation.create_table(spark, path, schema, keyColumns, properties)
        return cls(store, arguments.frames_of_store(spark, store, storage))

    @classmethod
    def createIfNotExists(
        cls, spark: SparkSession, path: PathArgument, schema: StructType | str, keyColumns: Names, **properties: Any
    ) -> Self:
        """Return the table at `path`; create it as `create` does if there is none.

        Parameters
        ----------
        spark, path, schema, keyColumns, properties : as for `create`; only the key columns are compared

        Raises
        ------
        InvalidRequestError
            When the existing table has other key columns.
        TableExistsError
            When another table is being created there, or its creation was left unfinished.
        """
        try:
            return cls.create(spark, path, schema, keyColumns, **properties)
        except TableExistsError as exc:
            try:
                table = cls.forPath(spark, path, **arguments.storage_arguments(properties))
            except TableNotFoundError:  # it has a definition alone, of which the first error tells
                raise exc from None
        creation.require_key_columns(table._store.url, table._frames.key_columns(), keyColumns)
        return table

    @classmethod
    def forPath(cls, spark: SparkSession, path: PathArgument, **storage: Any) -> Self:
        """Return the table at `path`.

        Parameters
        ----------
        spark : the session that the table's jobs use
        path : local path or URL; a relative path is resolved now, for all calls
        storage : `walPath`, `clock` (`module:function`), and options of the backend, as from `storageOptions(spark)`

        Raises
        ------
        TableNotFoundError
            When there is no database.
        """
        store = SlateStore.open(arguments.path_text(path), **arguments.store_arguments(storage))
        return cls(store, arguments.frames_of_store(spark, store, storage))

    @staticmethod
    def isSlateTable(
        spark: SparkSession | PathArgument | None = None, path: PathArgument | None = None, **storage: Any
    ) -> bool:
        """Tell whether there is a SlateDB database, raw or typed, at `path`.

        The session is not needed: `isSlateTable(spark, path)` and `isSlateTable(path)` are the same.

        Parameters
        ----------
        spark : a session, or the path
        path : local path or URL
        storage : as for `forPath`

        Raises
        ------
        OptionError
            When the argument is not a path.
        """
        return creation.has_table(spark if path is None else path, storage)

    @staticmethod
    def drop(
        spark: SparkSession | PathArgument,
        path: PathArgument | None = None,
        *,
        force: bool = False,
        dryRun: bool = False,
        progress: AskedProgress = "auto",
        **storage: Any,
    ) -> DropReport:
        """Delete the table at `path` for good; see `SlateStore.drop`. The session is not needed, as for `isSlateTable`.

        Parameters
        ----------
        spark : a session, or the path
        path : local path or URL
        force : drop it even if it may still be needed, but never where a clone may read its files
        dryRun : only report what would be deleted, and who may need it
        progress : the progress bar; see `SlateTable.write`
        storage : as for `forPath`

        Raises
        ------
        TableNotFoundError
            When there is no database at `path`.
        InvalidRequestError
            When the table may still be needed; the message says by whom.
        """
        return creation.drop_table(spark if path is None else path, storage, progress, force=force, dry_run=dryRun)

    # --- rows ---------------------------------------------------------------------------------------------------------

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
        df : rows with the columns of the table, in any order; names ignore case
        mode : `append` upserts; `overwrite` replaces the table, or the key range that `replaceWhere` names
        progress : `auto` shows a bar on a terminal or in a notebook after a second, unless Spark shows its own; False
            none; or a function of the step, how much is done, and how much there is in all, 0 if unknown
        writeOptions : write options

        Raises
        ------
        SchemaError, OptionError, InvalidRequestError
            When rows or options do not fit; nothing was changed.
        CommitConflictError
            When a SlateDB client is active on the table, or other writers won every retry.

        Examples
        --------
        >>> table = SlateTable.forPath(spark, f"{path}/stock")
        >>> table.write(spark.sql("SELECT 'kiel' AS shop, explode(array('oar', 'sail')) AS item, 5L AS n"), ttl="30d")
        >>> table.get("kiel", "oar")
        {'shop': 'kiel', 'item': 'oar', 'n': 5}
        """
        self._frames.load(df, mode, writeOptions, progress=progress)

    @taking_local_times
    def ingest(
        self, paths: Sequence[PathArgument] | PathArgument, *, progress: AskedProgress = "auto", **writeOptions: Any
    ) -> None:
        """Publish files of `SstWriter` in one commit, by a Spark job; see `SlateStore.ingest`.

        Each file is a task. The driver reads the ends of the files, and of files that overlap the rows too.

        Parameters
        ----------
        paths : local paths or URLs of the files, which executors can read too
        progress : the progress bar; see `SlateTable.write`
        writeOptions : those of `SlateStore.ingest`

        Raises
        ------
        SchemaError, OptionError, InvalidRequestError, CorruptDataError
            When a file does not fit the table, or is damaged; nothing was changed.
        CommitConflictError
            When newer versions of the keys are stored, or other writers won every race.
        """
        with self._running("ingest into", progress, Step.INGESTING) as call:
            self._store.ingest(paths, runner=call.tasks(), progress=call.progress, **writeOptions)

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
        progress : the progress bar; see `SlateTable.write`
        writeOptions : write options that apply to a deletion: `timestamp`, sizes, options of the commit

        Raises
        ------
        TransactionConflictError
            When another commit changed keys that the condition can match. Text of comparisons on leading key columns,
            joined by `AND` as in `filter`, can match a part of the table; anything else all of it.

        Examples
        --------
        >>> table = SlateTable.forPath(spark, f"{path}/stock")
        >>> table.delete("shop = 'bonn' AND n = 0")
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
        set : for each column, the new value as SQL text or a Column, which see the row's old values
        progress : the progress bar; see `SlateTable.write`
        writeOptions : write options for stored rows, such as `ttl`: an updated row expires like one that is written now

        Raises
        ------
        InvalidRequestError, SchemaError
            When a key would change, or nothing is set; when a column does not exist, or a value does not fit it.
        TransactionConflictError
            As for `delete`.

        Examples
        --------
        >>> table = SlateTable.forPath(spark, f"{path}/stock")
        >>> table.update("item = 'sail'", {"n": "n - 1"})
        >>> table.get("kiel", "sail")
        {'shop': 'kiel', 'item': 'sail', 'n': 4}
        """
        self._frames.update(condition, checked(set, "update", "set"), writeOptions, progress=progress)

    @taking_local_times
    def deleteRange(
        self,
        where: str | None = None,
        timestamp: Instant | None = None,
        *,
        progress: AskedProgress = "auto",
        **writeOptions: Any,
    ) -> int:
        """Delete all rows of some key ranges in one commit, and return the version that shows it.

        On a history table a Spark job searches the intervals, a split in each task. On other tables the driver cuts
        the files, without a job.

        Parameters
        ----------
        where : comparisons on leading key columns, as for `SlateStore.deleteRange`
        timestamp : history tables: the time of the deletion; by default that of the commit
        progress : the progress bar; see `SlateTable.write`
        writeOptions : options of the range and the commit, and how files are written; see `SlateStore.deleteRange`

        Raises
        ------
        OptionError
            When the condition is not exactly a set of key ranges.
        CommitConflictError, TransactionConflictError
            When a SlateDB client is active on the table, or other writers won every race; on a history table, when
            another commit changed the range meanwhile.
        """
        with self._running("delete a range of", progress, Step.REMOVING) as call:
            return self._store.deleteRange(
                where, timestamp, runner=call.tasks(), progress=call.progress, **writeOptions
            )

    @taking_local_times
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
        core = self._store.begin(readTimestamp, **options)
        return SlateTransaction(self._frames.spark, core, self._frames.location(), self.name)

    def alias(self, name: str) -> Self:
        """Return the table under an alias that conditions can use, as in `t.id`.

        Parameters
        ----------
        name : the alias
        """
        return type(self)(self._store, replace(self._frames, name=parse_text(name, "alias")))

    def merge(self, source: DataFrame, condition: Expression) -> SlateMergeBuilder:
        """Return a builder that merges `source` into this table.

        Parameters
        ----------
        source : rows; give them an alias with `source.alias("s")`
        condition : decides which rows of both sides match; a Column, or SQL text such as `t.id = s.id`

        Examples
        --------
        >>> table = SlateTable.forPath(spark, f"{path}/stock")
        >>> arrived = spark.sql("SELECT 'kiel' AS shop, explode(array('oar', 'rope')) AS item, 8L AS n")
        >>> upsert = table.alias("t").merge(arrived.alias("s"), "t.shop = s.shop AND t.item = s.item")
        >>> upsert.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        >>> [table.get("kiel", item)["n"] for item in ("oar", "rope", "sail")]
        [8, 8, 4]
        """
        return SlateMergeBuilder(self._frames, source, condition)

    # --- definition ---------------------------------------------------------------------------------------------------

    def setProperties(self, /, **properties: Any) -> None:
        """Set table properties; others stay.

        Parameters
        ----------
        properties : values by name, such as `defaultTtl="30d"`; None is `none`, which turns a duration off

        Raises
        ------
        OptionError
            When a property is unknown, cannot be changed, or does not take this value.
        """
        self._store.setProperties(**properties)

    def dropColumns(self, *names: str) -> None:
        """Drop value columns. Their names cannot be used again, since old rows may still hold values of them.

        Parameters
        ----------
        names : names of value columns

        Raises
        ------
        SchemaError
            When a column does not exist or is part of the key.
        """
        self._store.dropColumns(*names)

    def detail(self) -> DataFrame:
        """Return one row that describes the table.

        Its columns: `url`, `kind`, `version`, `keyColumns`, `keyFormat`, `valueFormat`, `properties`, `files`,
        `storedBytes`, `l0Views`, `sortedRuns`, `lastSeq`, `clockTick`, `versions`; `storedHistoryFloor` and the
        effective `historyFloor`; `segmentExtractor` and `segments`; `copies` and `copyBytes` of columnar copies.
        """
        return facts.detail_frame(self._frames.spark, self._store.detail())

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
        """Make a shallow clone at `target` and return it: a separate table that begins with the files of this one.

        Parameters
        ----------
        target : an empty location in the same store
        version, checkpoint : what to clone, one of them or neither for the newest state
        history : whether the clone is a history table, also of a plain one; see `SlateStore.clone`
        progress : the progress bar; see `SlateTable.write`

        Raises
        ------
        OptionError, TableExistsError, InvalidRequestError
            When both a version and a checkpoint are given, the target is not empty or has no root in common with this
            table, or there is no such checkpoint.
        HistoryTrimmedError
            When the version was collected.
        """
        made = self._store.clone(arguments.path_text(target), version, checkpoint, history=history, progress=progress)
        return type(self)(made, arguments.frames_of_store(self._frames.spark, made, self._frames.options))

    @taking_local_times
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
        target : an empty location
        storage : options of the target's store, for executors too; by default this table's, if of the same kind
        versionAsOf, timestampAsOf, checkpoint : what to copy; see `SlateStore.copyTo`
        progress : the progress bar; see `SlateTable.write`

        Raises
        ------
        TableExistsError, InvalidRequestError
            When the target is not empty, or there is no such version or checkpoint.
        HistoryTrimmedError, CorruptDataError
            When the version was collected, or a file is damaged.
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
        return type(self)(copy, arguments.frames_of_store(self._frames.spark, copy, self._frames.options))
