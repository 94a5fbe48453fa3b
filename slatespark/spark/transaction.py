"""SlateTransaction: a transaction with DataFrames. Its reads and writes are Spark jobs, all else is `Transaction`'s."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import OptionError
from slatespark.options import refuse_filter
from slatespark.spark.conditions import narrowing
from slatespark.spark.distributed import quoted, resolve_columns, sort_for_load, split_names
from slatespark.spark.merge_rows import Expression, expression
from slatespark.spark.plan_frame import Place, plan_frame, upload_frame
from slatespark.spark.type_mapping import arrow_schema
from slatespark.table.read.reader import ReadPlan
from slatespark.table.transaction.options import operator_of
from slatespark.table.transaction.transaction import Transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SlateTransaction:
    """Reads and writes of a table, with DataFrames, that become visible together or not at all. See `Transaction`.

    Made by `SlateTable.begin`. As a context manager it commits at the end of the block, and is rolled back by an
    exception. A DataFrame shows what the transaction had written when it was made, and can be used until the
    transaction ends.

    Examples
    --------
    >>> with table.begin() as txn:
    ...     due = txn.getForUpdate(where="tenant = 'a'").where("amount > 100")
    ...     txn.write(due.withColumn("amount", due.amount - 10))
    ...     txn.delete("tenant = 'b' AND closed")
    """

    def __init__(self, spark: SparkSession, core: Transaction, place: Place, name: str | None) -> None:
        self._spark, self._core, self._place, self._name = spark, core, place, name

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """What names it, in the commit record too."""
        return self._core.id

    @property
    def state(self) -> str:
        """`open`, `prepared`, `committed`, `rolled back`, `failed`, or `unknown` where the store did not answer."""
        return self._core.state

    @property
    def readVersion(self) -> int:
        """The version that it reads."""
        return self._core.readVersion

    @property
    def readSeq(self) -> int:
        """Highest sequence number that it sees of others."""
        return self._core.readSeq

    @property
    def readTimestamp(self) -> int | None:
        """The instant that it reads as of, in ms; None for the newest state at its begin."""
        return self._core.readTimestamp

    @property
    def wasCommitted(self) -> bool:
        """Whether it was committed before under its `txnAppId` and `txnVersion`: its commit will do nothing then."""
        return self._core.wasCommitted

    def __repr__(self) -> str:
        return f"Slate{self._core!r}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, unless that was done; roll back after an exception."""
        self._core.__exit__(kind, error, trace)

    # --- reads --------------------------------------------------------------------------------------------------------

    def read(
        self, columns: Sequence[str] | str | None = None, where: Expression | None = None, **readOptions: Any
    ) -> DataFrame:
        """Return the rows of the read point with all own writes so far, as `SlateTable.toDF`; they are not validated.

        Parameters
        ----------
        columns : only these are decoded
        where : text as in the option `filter`, which skips ranges, files and blocks; or a Column, by which Spark
            filters after reading
        readOptions : read options, but those that choose a version

        Raises
        ------
        OptionError, SchemaError
            When an option, the filter or a column's name is wrong.
        """
        if where is not None:
            refuse_filter(readOptions)
        named = None if columns is None else split_names(columns)
        if where is None or isinstance(where, str):
            limits = {"columns": named, "filter": where}
            given = {name: value for name, value in limits.items() if value is not None}
            return self._frame(self._core.plan_scan(**{**readOptions, **given}))
        rows = self._frame(self._core.plan_scan(**readOptions)).where(where)
        return rows if named is None else rows.select(*[quoted(name) for name in named])

    def get(self, *key: Any, **readOptions: Any) -> dict[str, Any] | None:
        """Return the row of one key as a dict, own writes included, without a Spark job; None if there is none."""
        return self._core.get(*key, **readOptions)

    def getForUpdate(
        self,
        keys: Iterable[Any] | str | None = None,
        where: Expression | None = None,
        columns: Sequence[str] | str | None = None,
        **readOptions: Any,
    ) -> DataFrame:
        """Return rows as `read` does, and make the commit fail if any of them, or of those keys, changes until then.

        Parameters
        ----------
        keys : a tuple of values for each key column, or a value where there is one key column; keys without a row
            count too
        where : instead, a condition as in the option `filter`: all keys in the ranges that it makes on leading key
            columns count. With a Column, or other SQL text, the whole table counts
        columns : only these are returned; a condition may name any column of the table
        readOptions : read options

        Raises
        ------
        InvalidRequestError, OptionError
            When that names no keys.
        """
        named = None if columns is None else split_names(columns)
        if isinstance(keys, str) and where is None:
            keys, where = None, keys
        if keys is not None or where is None:
            if where is not None:
                raise OptionError("getForUpdate: give a condition or keys, and not both.", todo="Give one of them.")
            given = readOptions if named is None else {**readOptions, "columns": named}
            return self._frame(self._core.plan_for_update(keys, None, **given))
        refuse_filter(readOptions)
        needed = {} if named is None else {"columns": self._with_all(named)}
        plan = self._core.plan_scan(**readOptions, **needed, **narrowing(where, self._codec.schema, self._spark))
        rows = self._frame(plan).where(expression(where))
        self._core.lock(plan)
        return rows if named is None else rows.select(*[quoted(name) for name in named])

    # --- writes -------------------------------------------------------------------------------------------------------

    def write(self, df: DataFrame, **writeOptions: Any) -> int:
        """Write rows, which only this transaction sees until it commits; return how many keys they have.

        Spark partitions them by ranges of the key and sorts them. Of several writes of one key the later one wins; TTLs
        count from the time of the commit.

        Parameters
        ----------
        writeOptions : write options that say something of the rows: `operation`, `ttl`, ...

        Raises
        ------
        SchemaError, OptionError, InvalidRequestError
            When rows or options do not fit; the transaction is as it was.
        """
        load = self._core.plan_load(arrow_schema(df.schema, ()), **writeOptions)
        rows = sort_for_load(df, self._codec.key_columns)
        return self._core.take_up(load, upload_frame(rows, self._place, load))

    def delete(
        self, condition: Expression | None = None, keys: Iterable[Any] | None = None, **writeOptions: Any
    ) -> int:
        """Delete rows, and return how many keys got a tombstone.

        Parameters
        ----------
        condition : a Column, or SQL text with any expression of Spark SQL, on what the transaction sees. What it
            searched is validated: the ranges of keys that the text makes as an option `filter`, else the whole table
        keys : instead, a tuple of values for each key column, or a value where there is one; nothing is read
        writeOptions : write options: sizes, and `mergeOperator`

        Raises
        ------
        InvalidRequestError, OptionError
            When that names no rows.
        """
        if condition is None:
            return self._core.delete(None, keys, **writeOptions)
        if keys is not None:
            raise OptionError("delete: give a condition or keys, and not both.", todo="Give one of them.")
        narrowed = narrowing(condition, self._codec.schema, self._spark)
        plan = self._core.plan_scan(**{**operator_of(writeOptions), **narrowed})
        rows = self._frame(plan).where(expression(condition))
        names = resolve_columns(self._codec.key_columns, rows.columns)
        deleted = self.write(rows.select(*[quoted(name) for name in names]), **{**writeOptions, "operation": "delete"})
        self._core.lock(plan)
        return deleted

    # --- its end ------------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Do all of the commit that may fail, but for what comes in between; see `Transaction.prepare`."""
        self._core.prepare()

    def commit(self, timestamp: int | str | datetime | None = None) -> int:
        """Make all writes visible at once, and return the version that shows them; see `Transaction.commit`."""
        return self._core.commit(timestamp)

    def rollback(self) -> None:
        """Give the transaction up; the files of what it wrote are removed."""
        self._core.rollback()

    # --- in between ---------------------------------------------------------------------------------------------------

    @property
    def _codec(self) -> RowCodec:
        return self._core.codec

    def _frame(self, plan: ReadPlan) -> DataFrame:
        rows = plan_frame(self._spark, self._place, plan)
        return rows if self._name is None else rows.alias(self._name)

    def _with_all(self, named: Sequence[str]) -> list[str]:
        """Return the names with those of all columns of the table."""
        own = {name.lower(): name for name in self._codec.schema.names}
        return [*own.values(), *(name for name in named if name.lower() not in own)]
