"""TableReads: the methods of `SlateTable` that return rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from slatespark.options.keywords import FrameKeywords, ReadKeywords
from slatespark.spark.expressions.assignments import Expression
from slatespark.spark.frame_columns import split_names
from slatespark.spark.local_times import local_key, taking_local_times
from slatespark.spark.slate_table.arguments import Names
from slatespark.spark.slate_table.base import OpenTable
from slatespark.table.read.key_lookup import lookup_options
from slatespark.table.read.reader import check_history

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class TableReads(OpenTable):
    """Rows, versions of rows, changes and lookups; `SlateTable` inherits them."""

    def toDF(
        self, columns: Names | None = None, where: Expression | None = None, **readOptions: Unpack[FrameKeywords]
    ) -> DataFrame:
        """Return the rows as a DataFrame; it keeps the snapshot of its first action.

        Spark's own reader of Parquet takes what the table has columnar copies of; then it is the snapshot of the call.
        With the property `columnar` it may be that of the call in any case.

        Parameters
        ----------
        columns : the columns to return; no others are decoded
        where : text as in the option `filter`, which skips ranges, files and blocks, and may use the alias of the
            table; or a Column, with which Spark filters after the read
        readOptions : read options

        Raises
        ------
        OptionError, SchemaError
            When an option, the filter or a column's name is wrong.
        InvalidRequestError, HistoryTrimmedError
            At the call or at the first action, when the version does not exist, or was collected.

        Examples
        --------
        >>> table = SlateTable.create(spark, f"{path}/shelf", "shop STRING, item STRING, n BIGINT", ["shop", "item"])
        >>> table.write(spark.sql("SELECT 'kiel' AS shop, explode(array('oar', 'rope', 'sail')) AS item, 5L AS n"))
        >>> table.toDF("item", where="shop = 'kiel' AND item < 's'").collect()
        [Row(item='oar'), Row(item='rope')]
        """
        return self._frames.select(columns, where, readOptions)

    def versions(self, **readOptions: Unpack[ReadKeywords]) -> DataFrame:
        """Return every version of each row of a history table, with the time when it was valid.

        The columns are those of the table, `_valid_from`, `_valid_to` (null while no end is known) and `_is_current`. A
        read as of any instant in between shows that version.

        Parameters
        ----------
        readOptions : read options

        Raises
        ------
        OptionError
            When the table has no history.
        """
        check_history(self._store.url, self._store.definition)
        return self._frames.versions(readOptions)

    def changes(
        self, columns: Names | None = None, where: Expression | None = None, **readOptions: Unpack[FrameKeywords]
    ) -> DataFrame:
        """Return what changed between two versions, as a DataFrame; see `SlateStore.changes`.

        It keeps the two versions of the call; in a session of Spark Connect those of its first action.

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

        Examples
        --------
        >>> table = SlateTable.forPath(spark, f"{path}/shelf")
        >>> before = table.resolve().version
        >>> table.write(spark.sql("SELECT 'kiel' AS shop, 'oar' AS item, 9L AS n"))
        >>> table.changes("n,_change_type", startingVersion=before + 1, preImages=False).collect()
        [Row(n=9, _change_type='upsert')]
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
        df : rows with the key columns of the table, and a column of times
        ts : the column of times, TIMESTAMP or BIGINT of ms since 1970; null matches nothing
        how : `left`, or `inner` for only the rows that have a version
        columns : columns to add; by default all but the key
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
        named = None if columns is None else split_names(columns)
        return self._frames.as_of(df, ts, how, {**readOptions, "columns": named})

    def lookup(self, keys: DataFrame, columns: Names | None = None, **readOptions: Any) -> DataFrame:
        """Return the rows that have the keys of a DataFrame: each once.

        Spark partitions the keys by ranges, and each task reads only the blocks that may hold its keys. So it costs
        less than a join with the table as long as the keys are few beside the rows. Keys that take at most 1 MiB by
        Spark's estimate are looked up by one task without a shuffle. The table is read as it is at this call.

        Parameters
        ----------
        keys : rows with the key columns of the table; other columns do not matter
        columns : columns to return; by default all
        readOptions : read options, except key ranges

        Raises
        ------
        SchemaError
            When a key column is missing, or its type does not fit.
        OptionError
            When an option is invalid.
        """
        return self._frames.lookup(keys, lookup_options(readOptions, None if columns is None else split_names(columns)))

    @taking_local_times
    def get(self, *key: Any, **readOptions: Unpack[ReadKeywords]) -> dict[str, Any] | None:
        """Return the row of one key as a dict, without a Spark job; None if no row is visible.

        Parameters
        ----------
        key : a value for each key column; for a raw table the key as bytes
        readOptions : read options

        Raises
        ------
        InvalidRequestError
            When the key has other columns or types.
        """
        return self._store.get(*local_key(key, self._frames.codec), **readOptions)
