"""SlateTransaction: a transaction with DataFrames. Reads and writes are Spark jobs; `Transaction` does the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import OptionError
from slatespark.options import refuse_filter
from slatespark.spark.expressions.assignments import Expression, expression
from slatespark.spark.expressions.conditions import filter_text, narrowing
from slatespark.spark.frame_columns import (
    quoted,
    require_frame,
    resolve_columns,
    select_columns,
    sort_for_load,
    split_names,
)
from slatespark.spark.frames.planned_read import plan_frame
from slatespark.spark.frames.upload import upload_frame
from slatespark.spark.jobs.run_job import described, job_text
from slatespark.spark.local_times import local_key, local_keys, taking_local_times
from slatespark.spark.table_location import TableLocation
from slatespark.spark.type_mapping import arrow_schema
from slatespark.table.read.reader import ReadPlan
from slatespark.table.transaction.options import delete_options, operator_of
from slatespark.table.transaction.transaction import Transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SlateTransaction:
    """Reads and writes of a table, with DataFrames, that become visible together or not at all. See `Transaction`.

    Made by `SlateTable.begin`. As a context manager it commits at the end of the block; an exception rolls it back. A
    DataFrame shows what the transaction had written when the DataFrame was made. It can be used until the transaction
    ends.

    Examples
    --------
    >>> from slatespark import SlateTable
    >>> table = SlateTable.create(spark, f"{path}/accounts", "id BIGINT, amount BIGINT", "id")
    >>> table.write(spark.sql("SELECT explode(array(1L, 2L)) AS id, 50L AS amount"))
    >>> with table.begin() as txn:
    ...     due = txn.getForUpdate(where="id = 1")
    ...     _ = txn.write(due.withColumn("amount", due.amount - 10)), txn.delete(keys=[2])
    >>> table.get(1), table.get(2)
    ({'id': 1, 'amount': 40}, None)
    """

    def __init__(self, spark: SparkSession, core: Transaction, location: TableLocation, name: str | None) -> None:
        self._spark, self._core, self._location, self._name = spark, core, location, name

    # --- state --------------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The transaction's id, as in its commit record."""
        return self._core.id

    @property
    def state(self) -> str:
        """`open`, `prepared`, `committed`, `rolled back`, `failed`, or `unknown` if the store did not answer."""
        return self._core.state

    @property
    def readVersion(self) -> int:
        """The version that the transaction reads."""
        return self._core.readVersion

    @property
    def readSeq(self) -> int:
        """The highest sequence number of other writers that the transaction sees."""
        return self._core.readSeq

    @property
    def readTimestamp(self) -> int | None:
        """The instant of its reads, in ms; None for the newest state when it began."""
        return self._core.readTimestamp

    @property
    def wasCommitted(self) -> bool:
        """Whether a commit with its `txnAppId` and `txnVersion` exists already; then its own commit does nothing."""
        return self._core.wasCommitted

    def __repr__(self) -> str:
        return f"Slate{self._core!r}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, unless done already; roll back after an exception."""
        self._core.__exit__(kind, error, trace)

    # --- reads --------------------------------------------------------------------------------------------------------

    @taking_local_times
    def read(
        self, columns: Sequence[str] | str | None = None, where: Expression | None = None, **readOptions: Any
    ) -> DataFrame:
        """Return the rows at the read point with all own writes so far, like `SlateTable.toDF`.

        Keys that are written too must be unchanged since the begin; others are not validated.

        Parameters
        ----------
        columns : the columns to return; no others are decoded
        where : text as in the option `filter`, which skips ranges, files and blocks, and may use the alias of the
            table; or a Column, with which Spark filters after the read
        readOptions : read options, except those that choose a version

        Raises
        ------
        OptionError, SchemaError
            When an option, the filter or a column's name is wrong.
        """
        if where is not None:
            refuse_filter(readOptions)
        named = None if columns is None else split_names(columns)
        if where is None or isinstance(where, str):
            limits = {"columns": named, "filter": None if where is None else filter_text(where, self._name)}
            given = {name: value for name, value in limits.items() if value is not None}
            return self._frame(self._core.planScan(**{**readOptions, **given}))
        condition = expression(where)
        rows = self._frame(self._core.planScan(**readOptions)).where(condition)
        return rows if named is None else select_columns(rows, named)

    @taking_local_times
    def get(self, *key: Any, **readOptions: Any) -> dict[str, Any] | None:
        """Return the row of one key as a dict, including own writes, without a Spark job; None if there is none.

        Parameters
        ----------
        key : a value for each key column; for a raw table the key as bytes
        readOptions : read options, except those that choose a version

        Raises
        ------
        InvalidRequestError
            When the values do not make a key, or the transaction has ended.
        """
        return self._core.get(*local_key(key, self._codec), **readOptions)

    @taking_local_times
    def getForUpdate(
        self,
        keys: Iterable[Any] | str | None = None,
        where: Expression | None = None,
        columns: Sequence[str] | str | None = None,
        **readOptions: Any,
    ) -> DataFrame:
        """Return rows like `read`; the transaction fails if any of these rows or keys changes before its commit.

        Parameters
        ----------
        keys : per key a tuple with a value for each key column, or a plain value if there is one key column; keys
            without a row count too
        where : instead, a condition as in the option `filter`: all keys in its ranges of leading key columns count.
            With a Column or other SQL text the whole table counts
        columns : the columns to return; a condition may name any column of the table
        readOptions : read options

        Raises
        ------
        InvalidRequestError, OptionError
            When the arguments name no keys.
        """
        named = None if columns is None else split_names(columns)
        if isinstance(keys, str) and where is None:
            keys, where = None, keys
        if keys is not None or where is None:
            if where is not None:
                raise OptionError("getForUpdate: give a condition or keys, and not both.", todo="Give one of them.")
            given = readOptions if named is None else {**readOptions, "columns": named}
            return self._frame(self._core.planForUpdate(local_keys(keys, self._codec), None, **given))
        refuse_filter(readOptions)
        needed = {} if named is None else {"columns": self._with_all(named)}
        narrowed = narrowing(where, self._codec().schema, self._spark, self._name)
        plan = self._core.planScan(**{**readOptions, **needed, **narrowed})
        rows = self._frame(plan).where(expression(where))
        self._core.lock(plan)
        return rows if named is None else select_columns(rows, named)

    # --- writes -------------------------------------------------------------------------------------------------------

    @taking_local_times
    def write(self, df: DataFrame, **writeOptions: Any) -> int:
        """Write rows that only this transaction sees until it commits; return the number of their keys.

        Spark partitions them by key range and sorts them. The last write of a key wins; TTLs start at the time of the
        commit.

        Parameters
        ----------
        df : rows with the columns of the table
        writeOptions : write options about rows: `operation`, `ttl`, ...

        Raises
        ------
        SchemaError, OptionError, InvalidRequestError
            When rows or options do not fit; the transaction is unchanged.
        """
        require_frame(df, "write")
        load = self._core.planLoad(arrow_schema(df.schema), **writeOptions)
        rows = sort_for_load(df, self._codec().key_columns)
        with described(self._spark, job_text("transaction on", self._location.path, self.readVersion)):
            return self._core.addFiles(load, upload_frame(rows, self._location, load))

    @taking_local_times
    def delete(
        self, condition: Expression | None = None, keys: Iterable[Any] | None = None, **writeOptions: Any
    ) -> int:
        """Delete rows and return how many keys got a tombstone.

        Parameters
        ----------
        condition : a Column, or any SQL expression of Spark as text, on the rows that the transaction sees. The commit
            validates the searched keys: the key ranges of text as in the option `filter`, else the whole table
        keys : instead, per key a tuple with a value for each key column, or a plain value if there is one; nothing is
            read
        writeOptions : write options: sizes, and `mergeOperator`

        Raises
        ------
        InvalidRequestError, OptionError
            When the arguments name no rows, or an option does not apply to a deletion.
        """
        if condition is None:
            return self._core.delete(None, local_keys(keys, self._codec), **writeOptions)
        if keys is not None:
            raise OptionError("delete: give a condition or keys, and not both.", todo="Give one of them.")
        write = delete_options(writeOptions)
        narrowed = narrowing(condition, self._codec().schema, self._spark, self._name)
        plan = self._core.planScan(**{**operator_of(writeOptions), **narrowed})
        rows = self._frame(plan).where(expression(condition))
        names = resolve_columns(self._codec().key_columns, rows.columns)
        deleted = self.write(rows.select(*[quoted(name) for name in names]), **write)
        self._core.lock(plan)
        return deleted

    # --- end ----------------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Do all steps of the commit that can fail, except for later conflicts; see `Transaction.prepare`.

        Raises
        ------
        TransactionConflictError
            When keys that the transaction depends on have changed since its read point.
        """
        self._core.prepare()

    @taking_local_times
    def commit(self, timestamp: int | str | datetime | None = None) -> int:
        """Make all writes visible at once and return their version; see `Transaction.commit`.

        Parameters
        ----------
        timestamp : the time of all its rows; by default that of the commit

        Raises
        ------
        TransactionConflictError
            When keys that the transaction depends on have changed since its read point; nothing was published.
        OptionError, ClockRegressionError
            When the timestamp is not valid; the transaction is unchanged.
        CommitConflictError
            When a SlateDB client is active on the table, or other writers won every race.
        UnavailableError
            When the store stopped answering, and it is unknown whether the commit landed.

        Examples
        --------
        >>> from slatespark import SlateTable
        >>> table = SlateTable.create(spark, f"{path}/dated", "id BIGINT", "id", history=True)
        >>> txn = table.begin()
        >>> rows = txn.write(spark.sql("SELECT 1L AS id"))
        >>> version = txn.commit(timestamp="2026-01-01")
        >>> table.get(1, timestampAsOf="2026-01-02")
        {'id': 1}
        """
        return self._core.commit(timestamp)

    def rollback(self) -> None:
        """End the transaction without a commit, and delete the files it wrote.

        Raises
        ------
        InvalidRequestError
            When it was committed.
        """
        self._core.rollback()

    # --- private helpers ----------------------------------------------------------------------------------------------

    def _codec(self) -> RowCodec:
        return self._core.codec

    def _frame(self, plan: ReadPlan) -> DataFrame:
        rows = plan_frame(self._spark, self._location, plan)
        return rows if self._name is None else rows.alias(self._name)

    def _with_all(self, named: Sequence[str]) -> list[str]:
        """Return the names together with those of all columns of the table."""
        own = {name.lower(): name for name in self._codec().schema.names}
        return [*own.values(), *(name for name in named if name.lower() not in own)]
