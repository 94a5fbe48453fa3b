"""The rows of a table as DataFrames: read and written through `format("slate")`, by the options of one table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from slatespark.display.progress import AskedProgress, showing_progress
from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import OptionError
from slatespark.options import Call, ReadOptions, refuse_filter
from slatespark.options.values import bytes_text, normalize_name, parse_text, refuse_place, with_own_spelling
from slatespark.options.writing import require_mode
from slatespark.spark.expressions.assignments import Expression, expression, resolve_names, updated_rows
from slatespark.spark.expressions.conditions import filter_text, narrowing
from slatespark.spark.failures import own_errors
from slatespark.spark.frame_columns import (
    names_text,
    quoted,
    require_frame,
    resolve_columns,
    select_columns,
    sort_for_load,
    split_names,
)
from slatespark.spark.frames.as_of import as_of_frame
from slatespark.spark.frames.lookup import lookup_frame
from slatespark.spark.frames.parquet import ParquetRead, parquet_frame, plan_parquet_read, refusal
from slatespark.spark.frames.planned_read import feed_frame
from slatespark.spark.jobs.run_job import beside_spark, described, job_text, run_job
from slatespark.spark.local_times import with_zone
from slatespark.spark.pyspark_api import activate, find_context
from slatespark.spark.source.kept_stores import kept_stores
from slatespark.spark.table_location import TableLocation
from slatespark.table.changes.feed import fetch_feed_plan
from slatespark.table.clock import Clock, resolve_clock
from slatespark.table.commit.cooperate_option import refuse_cooperation
from slatespark.table.commit.idempotence import is_committed
from slatespark.table.commit.read_set import ReadSet
from slatespark.table.definition.versions import fetch_codec, resolve_definition
from slatespark.table.progress import Step
from slatespark.table.read.as_of_join import parse_join
from slatespark.table.read.versions.resolve import resolve_snapshot
from slatespark.table.stores import TableStores
from slatespark.table.transaction.options import operator_of
from slatespark.table.write.change_options import parse_change
from slatespark.units import whole_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_OPENED_BY: Final = "SlateTable.forPath or create"
_DELIMITER: Final = "segmentdelimiter"  # bytes of other options are keys, which are hexadecimal as text


@dataclass(frozen=True)
class PendingChange:
    """The state of a table that a change depends on.

    Attributes
    ----------
    rows : all rows, with all columns, under the table's alias if it has one
    reads : the keys that were searched; a later commit to one of them makes the change fail
    key_columns : names as in `rows`
    """

    rows: DataFrame
    reads: ReadSet
    key_columns: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class TableFrames:
    """The rows of one table as DataFrames.

    Attributes
    ----------
    path : a local path or URL
    options : `walPath`, `clock` and `storage.*`, as Spark takes them; never shown, since they may hold credentials
    name : the alias that conditions use; None without one
    """

    spark: SparkSession
    path: str
    options: Mapping[str, str]
    name: str | None = None

    def __repr__(self) -> str:
        return f"TableFrames({self.path!r})"

    # --- rows ---------------------------------------------------------------------------------------------------------

    def select(
        self, columns: Sequence[str] | str | None, where: Expression | None, options: Mapping[str, Any]
    ) -> DataFrame:
        """Return rows under the table's alias; see `SlateTable.toDF`."""
        columns = None if columns is None else split_names(columns)
        by_spark, options = None if isinstance(where, str) else where, dict(options)
        if isinstance(where, str):
            refuse_filter(options)
            options["filter"] = filter_text(where, self.name)
        rows = self._read_divided(options if by_spark is not None else {**options, "columns": columns})
        if by_spark is not None:
            rows = self._aliased(rows).where(expression(by_spark))  # it may name the alias, and columns not returned
            rows = rows if columns is None else select_columns(rows, columns)
        return self._aliased(rows)

    def versions(self, options: Mapping[str, Any]) -> DataFrame:
        """Return every version of each row; see `SlateTable.versions`."""
        given = with_own_spelling(options, ("columns", "readVersions"))
        return self.select(given.pop("columns", None), None, {**given, "readVersions": "intervals"})

    def read(self, options: Mapping[str, Any]) -> DataFrame:
        """Return the rows that the data source reads with these options."""
        with own_errors():
            return self.spark.read.format("slate").options(**self._texts(options)).load(self.path)

    def _read_divided(self, options: Mapping[str, Any]) -> DataFrame:
        """Return changes, or rows of which Spark's own reader of Parquet takes what it can; else as `read`.

        A client of Spark Connect leaves both to the server, which may have credentials that it has not.
        """
        parsed = self._parsed(options)
        if parsed.read_change_feed and find_context(self.spark) is not None:
            return self._changes(parsed)
        read = self._plan_parquet(parsed)
        if read is not None and (read.share is not None or not parsed.pushdown):
            with own_errors():
                found = parquet_frame(self.spark, self.location(), self.stores().url, read)
            if found is not None:
                return found
        return self.read(options)

    def _changes(self, options: ReadOptions) -> DataFrame:
        """Return changes, planned by this process: it has imported what the data source's own would have to."""
        location = self.location()
        return feed_frame(self.spark, location, fetch_feed_plan(location.open(), options, self.clock))

    def explain_parquet(self, options: Mapping[str, Any], files: int) -> Mapping[str, int]:
        """Return how many files of the lowest runs Spark reads as Parquet, and how many it does not, by reason.

        Parameters
        ----------
        options : the options of a read that may use copies
        files : how many there are
        """
        stores, parsed = self.stores(), replace(self._parsed(options), pin_ms=None)
        if (reason := refusal(self.spark, stores, parsed)) is not None:
            return {reason: files}
        return plan_parquet_read(self.spark, stores, parsed, self.clock).reasons

    def _plan_parquet(self, options: ReadOptions) -> ParquetRead | None:
        """Return how Spark's Parquet reader and slatespark's tasks divide a read; None if it has no copies."""
        stores = self.stores()
        if options.use_copies is False or refusal(self.spark, stores, options) is not None:
            return None
        if options.use_copies is None and resolve_definition(stores).columnar == "false":
            return None
        return plan_parquet_read(self.spark, stores, options, self.clock)

    def write(
        self,
        rows: DataFrame,
        mode: str,
        options: Mapping[str, Any],
        *,
        progress: AskedProgress,
        call: str = "write to",
        version: int | None = None,
    ) -> None:
        """Write rows through the data source, partitioned as they are.

        Parameters
        ----------
        call, version : name the jobs in Spark's UI; see `job_text`
        """
        activate(self.spark)
        writer = rows.write.format("slate").mode(mode).options(**self._texts(options))
        with (
            own_errors(),
            showing_progress(beside_spark(self.spark, progress), Step.SPARK_TASKS) as listener,
            described(self.spark, job_text(call, self.path, version)),
        ):
            run_job(self.spark, partial(writer.save, self.path), progress=listener)

    def load(self, rows: DataFrame, mode: str, options: Mapping[str, Any], *, progress: AskedProgress = "auto") -> None:
        """Write rows sorted by key; see `SlateTable.write`."""
        require_mode(mode)
        require_frame(rows, "write")
        self.write(sort_for_load(rows, self.key_columns()), mode, options, progress=progress)

    def as_of(self, rows: DataFrame, ts: str, how: str, options: Mapping[str, Any]) -> DataFrame:
        """Return rows joined with the versions that were valid at their times; see `SlateTable.asOf`."""
        require_frame(rows, "asOf")
        parse_text(ts, "ts")
        parsed = parse_join(self._common, self._values(options), how)
        with own_errors():
            return as_of_frame(rows, self.location(), parsed, self.clock, self.key_columns(), ts, how)

    def lookup(self, keys: DataFrame, options: Mapping[str, Any]) -> DataFrame:
        """Return the rows that have the keys of a DataFrame; see `SlateTable.lookup`."""
        require_frame(keys, "lookup")
        parsed = self._parsed(options)
        with own_errors():
            return self._aliased(lookup_frame(keys, self.location(), parsed, self.clock, self.key_columns()))

    # --- changes ------------------------------------------------------------------------------------------------------

    def begin_change(self, narrowed: Mapping[str, Any]) -> PendingChange:
        """Return the state that a change depends on. It is resolved before the read, so later commits are conflicts.

        Parameters
        ----------
        narrowed : read options: `filter` and `mergeOperator`, or none
        """
        reads = self.read_set(narrowed.get("filter"))
        rows = self.read(narrowed)
        keys = tuple(resolve_columns(self.key_columns(), rows.columns))
        return PendingChange(self._aliased(rows), reads, keys)

    def read_set(self, condition: str | None = None) -> ReadSet:
        """Return the keys of the newest state that a condition can match; all keys without a condition.

        Parameters
        ----------
        condition : condition in the grammar of the read option `filter`
        """
        snapshot = resolve_snapshot(self.stores(), self.read_options(), self.clock)
        return ReadSet.of_condition(snapshot, condition, self.codec())

    def write_change(
        self, change: PendingChange, rows: DataFrame, call: str, *, progress: AskedProgress = "auto", **options: Any
    ) -> None:
        """Write the rows of a change; fails where a later commit touched the keys that the change depends on."""
        given = {**options, "readSet": change.reads.to_text()}
        self.write(rows, "append", given, progress=progress, call=call, version=change.reads.manifest_id)

    def is_committed(self, options: Mapping[str, Any], call: Call, operation: str) -> bool:
        """Tell whether an earlier commit has the `txnAppId` and `txnVersion` of these options.

        Options that do not apply to the change are refused.

        Parameters
        ----------
        options : the options of a change that depends on a read, so that no live client can commit it
        call : which options it takes
        operation : its name, for the message
        """
        write = parse_change(call, self._common, self._values(options))
        refuse_cooperation(write, operation, "Write the rows, or operation=delete for their keys.")
        return is_committed(self.stores(), write)

    def delete(
        self, condition: Expression | None, options: Mapping[str, Any], *, progress: AskedProgress = "auto"
    ) -> None:
        """Delete the rows for which a condition is true; see `SlateTable.delete`."""
        if self.is_committed(options, Call.DELETE, "delete by a condition"):
            return
        # The filter only narrows the read. Spark still decides, so text keeps its meaning in Spark SQL.
        change = self.begin_change(self._change_read(condition, options))
        rows = change.rows if condition is None else change.rows.where(expression(condition))
        keys = rows.select(*[quoted(name) for name in change.key_columns])
        self.write_change(change, keys, "delete from", progress=progress, **{**options, "operation": "delete"})

    def update(
        self,
        condition: Expression | None,
        assigned: Mapping[str, Expression],
        options: Mapping[str, Any],
        *,
        progress: AskedProgress = "auto",
    ) -> None:
        """Set columns of the rows for which a condition is true; see `SlateTable.update`."""
        if self.is_committed(options, Call.UPDATE, "update"):
            return
        with own_errors():
            change = self.begin_change(self._change_read(condition, options))
            types = {field.name: field.dataType for field in change.rows.schema.fields}
            names = resolve_names(assigned, list(types), self.name, called="update", types=types)
            rows = change.rows if condition is None else change.rows.where(expression(condition))
            changed = updated_rows(rows, names, change.key_columns)
            self.write_change(change, changed, "update", progress=progress, **options)

    # --- definition ---------------------------------------------------------------------------------------------------

    def codec(self) -> RowCodec:
        """Return the codec of the newest version's rows."""
        return fetch_codec(self.stores())

    def key_columns(self) -> tuple[str, ...]:
        """Return the names of the key columns, in order."""
        return self.codec().key_columns

    def read_options(self) -> ReadOptions:
        """Return the options of a read of the newest version."""
        return ReadOptions.parse(self._common)

    @property
    def clock(self) -> Clock:
        """The clock of the table: that of the option `clock`, or the system clock."""
        return resolve_clock(self.options.get("clock"))

    def stores(self) -> TableStores:
        """Return the stores of the table."""
        return kept_stores(self.read_options())

    def location(self) -> TableLocation:
        """Return the location of the table for tasks, which may have another working folder."""
        stores = self.stores()
        return TableLocation(stores.url, stores.wal_url, stores.storage, self.options.get("clock"))

    # --- private helpers ----------------------------------------------------------------------------------------------

    @property
    def _common(self) -> dict[str, str]:
        """The options that all calls share, as text."""
        return {"path": self.path, **self._texts({})}

    def _change_read(self, condition: Expression | None, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options by which a change with these write options reads the rows that its condition is about."""
        return {**operator_of(options), **narrowing(condition, self.codec().schema, self.spark, self.name)}

    def _aliased(self, rows: DataFrame) -> DataFrame:
        return rows if self.name is None else rows.alias(self.name)

    def _texts(self, options: Mapping[str, Any]) -> dict[str, str]:
        """Return the table's options and those of a call as Spark takes them."""
        refuse_place(options, _OPENED_BY)
        given = [*self.options.items(), *options.items()]
        return {name: _option_text(name, value) for name, value in given if value is not None}

    def _values(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a call as this process parses them: lists stay lists, since a name may hold a comma."""
        refuse_place(options, _OPENED_BY)
        return {
            name: value if isinstance(value, list | tuple) else _option_text(name, value)
            for name, value in options.items()
            if value is not None
        }

    def _parsed(self, options: Mapping[str, Any]) -> ReadOptions:
        """Return the options of a read that this process plans."""
        return ReadOptions.parse({**self._common, **self._values(options)})


def _option_text(name: str, value: object) -> str:
    """Return the value of an option as text."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        return bytes_text(data) if normalize_name(name) == _DELIMITER else data.hex()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return str(with_zone(value).isoformat())
    if isinstance(value, timedelta):
        return f"{value // timedelta(milliseconds=1)}ms"
    if isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(part, str) for part in value):
        return names_text(value)
    if isinstance(value, str | float):
        return str(value)
    if (number := whole_number(value)) is not None:
        return str(number)
    raise OptionError(f"{name}: {value!r} cannot be passed to Spark.", todo="Give text or a number.")
