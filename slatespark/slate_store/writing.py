"""Writes: the methods of `SlateStore` that change rows or the definition of the table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from slatespark.display.progress import AskedProgress, showing_progress
from slatespark.errors import OptionError
from slatespark.options import Call, WriteOptions
from slatespark.options.keywords import WriteKeywords
from slatespark.options.values import parse_paths
from slatespark.options.writing import require_mode
from slatespark.slate_store.base import OpenTable
from slatespark.table.progress import Step, reporting_rows, reporting_tasks
from slatespark.table.rows.batches import Rows, as_batches
from slatespark.table.tasks import THREADS, TaskRunner, ThreadRunner, thread_count

if TYPE_CHECKING:
    from slatespark.table.definition.table_definition import TableDefinition
    from slatespark.table.records.commit_record import CommitRecord
    from slatespark.table.transaction.transaction import Transaction


class Writes(OpenTable):
    """Writing: rows, deletions, ingested files, transactions, and the definition of the table."""

    def write(
        self,
        batches: Rows,
        *,
        mode: str = "append",
        parallelism: int | str | None = None,
        progress: AskedProgress = "auto",
        **options: Unpack[WriteKeywords],
    ) -> int:
        """Write rows in one commit, and return the version (manifest id) that shows them.

        Parameters
        ----------
        batches : rows with the columns of the table; of a raw one `key` and `value`, both binary. Also a dataset of
            pyarrow, a DataFrame of pandas or Polars, a relation of DuckDB, or anything else with a stream of Arrow's C
            interface
        mode : `append` upserts; `overwrite` replaces the table, or the key range that `replaceWhere` names
        parallelism : threads that sort, merge and upload; by default one per processor, up to two. Each takes
            `writeBuffer` and builds a file, which is some 300 MiB with the default sizes
        progress : the progress bar; see `SlateStore.compact`
        options : write options

        Raises
        ------
        SchemaError, OptionError, InvalidRequestError
            When rows or options do not fit; nothing was changed.
        CommitConflictError
            When a SlateDB client is active on the table, or other writers won every race.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://written", "id BIGINT, name STRING", "id")
        >>> version = store.write(pa.table({"id": [1, 2], "name": ["a", "b"]}))
        >>> version = store.write(pa.table({"id": [2], "name": ["c"]}), ttl="30d")
        >>> store.scan().read_all().to_pylist()
        [{'id': 1, 'name': 'a'}, {'id': 2, 'name': 'c'}]
        """
        from slatespark.table.write.load_plan import begin_load
        from slatespark.table.write.load_run import WRITE_THREADS, run_load

        require_mode(mode)
        parsed = self._write_options(options)
        threads = WRITE_THREADS if parallelism is None else ThreadRunner(thread_count(parallelism))
        schema, rows = as_batches(batches)
        load = begin_load(self._stores, self._clock, schema, parsed, overwrite=mode == "overwrite", creates=False)
        if load is None:
            return self._version_of(None)
        total = batches.num_rows if isinstance(batches, pa.Table | pa.RecordBatch) else 0
        with showing_progress(progress, Step.WRITING) as listener:
            told = reporting_rows(rows, listener, total=total)
            record = run_load(self._stores, self._clock, load, schema, told, threads=threads)
        return self._committed(record, parsed, load.job.definition)

    def begin(self, readTimestamp: int | str | datetime | None = None, **options: Any) -> Transaction:
        """Begin a transaction: reads at one point, and writes that become visible together when it commits.

        Parameters
        ----------
        readTimestamp : read the table as of an instant, as `timestampAsOf`; by default its newest state
        options : `txnAppId` and `txnVersion`, `ifClientActive`, `gcMinAge`, `commitRewriteLimit`, `pin`,
            `mergeOperator`, sizes and codec of files

        Raises
        ------
        OptionError
            When an option is invalid, or the instant is in the future.
        HistoryTrimmedError
            When the requested past can no longer be read exactly.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://begun", "id BIGINT, n BIGINT", "id")
        >>> version = store.write(pa.table({"id": [1], "n": [5]}))
        >>> with store.begin() as txn:
        ...     row = txn.getForUpdate([1]).read_all().to_pylist()[0]
        ...     _ = txn.write(pa.table({"id": [1], "n": [row["n"] + 1]}))
        >>> store.get(1)
        {'id': 1, 'n': 6}
        """
        from slatespark.table.transaction.begin import begin_transaction

        return begin_transaction(self._stores, self._clock, self._common, readTimestamp, self._of_call(options))

    def ingest(
        self,
        paths: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
        *,
        runner: TaskRunner | None = None,
        progress: AskedProgress = "auto",
        **options: Any,
    ) -> int:
        """Publish the rows of `SstWriter` files in one commit, and return the version that shows them.

        The rows become the newest versions of their keys, as if they were written now. On history tables rows with
        their own timestamps keep them, and must not be older than the stored versions of their keys.

        Parameters
        ----------
        paths : local paths or URLs; files of a table without history may not share keys
        runner : checks and writes the files, each in a task; by default on threads of this process
        progress : the progress bar; see `SlateStore.compact`
        options : write options: sizes and codec of the new files, `timestamp`, `mergeSchema`, options of the commit

        Raises
        ------
        SchemaError, OptionError, InvalidRequestError, CorruptDataError
            When a file does not fit the table, or is damaged; nothing was changed.
        CommitConflictError
            When newer versions of the keys are stored, or other writers won every race.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore, SstWriter
        >>> store = SlateStore.create("memory://loaded", "id BIGINT, name STRING", "id")
        >>> SstWriter("memory://outside/1.sst", keyColumns="id").write(pa.table({"id": [1], "name": ["a"]}))
        1
        >>> version = store.ingest("memory://outside/1.sst")
        >>> store.get(1)
        {'id': 1, 'name': 'a'}
        """
        from slatespark.table.write.ingest import ingest_files, parse_ingest

        parsed = parse_ingest(self._common, self._of_call(options))
        given = parse_paths(paths)
        with showing_progress(progress, Step.INGESTING) as listener:
            tasks = reporting_tasks(runner or THREADS, listener, Step.INGESTING)
            record = ingest_files(self._stores, self._clock, given, parsed, runner=tasks)
        return self._committed(record, parsed)

    def delete(
        self,
        condition: str | None = None,
        keys: Any = None,
        *,
        progress: AskedProgress = "auto",
        **options: Unpack[WriteKeywords],
    ) -> int:
        """Delete the rows that match a condition, or those of some keys, and return the version that shows it.

        Parameters
        ----------
        condition : a condition like the read option `filter`: `tenant = 'a' AND day < '2026-01-01'`
        keys : instead, the keys: rows as for `write` with the key columns, or a list of keys, each a value, or a tuple
            of one for each key column. They are looked up: if none has a row, be it hidden, nothing is committed;
            otherwise each of them gets a deletion
        progress : the progress bar; see `SlateStore.compact`
        options : write options that apply to a deletion: `timestamp`, sizes, options of the commit

        Raises
        ------
        OptionError
            When the condition cannot be parsed, or not exactly one of `condition` and `keys` is given.
        InvalidRequestError, SchemaError
            When something is not a key of the table.
        TransactionConflictError
            When another commit changed keys that the condition can match, after the rows were searched.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://thinned", "id BIGINT, name STRING", "id")
        >>> version = store.write(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}))
        >>> version = store.delete("name = 'a'")
        >>> version = store.delete(keys=[3])
        >>> store.scan().read_all().to_pylist()
        [{'id': 2, 'name': 'b'}]
        """
        from slatespark.table.write.deletion import delete_where
        from slatespark.table.write.key_deletes import delete_keys

        if (condition is None) == (keys is None):  # a variable that was to hold a condition may be None
            raise OptionError(
                f"delete: {'neither condition nor keys are' if keys is None else 'condition and keys are both'} given.",
                todo="Give condition or keys; overwrite the table to delete all rows.",
            )
        given = self._of_call(options)
        with showing_progress(progress, Step.REMOVING) as listener:
            if condition is None:
                record = delete_keys(self._stores, self._clock, keys, self._common, given)
            else:
                record = delete_where(self._stores, self._clock, condition, self._common, given, progress=listener)
        return self._committed(record, self._write_options(given))

    def update(
        self,
        condition: str | None = None,
        set: Mapping[str, Any] | None = None,  # noqa: A002  # Delta's
        *,
        progress: AskedProgress = "auto",
        **options: Unpack[WriteKeywords],
    ) -> int:
        """Set columns of the rows that match a condition, and return the version that shows the new values.

        Parameters
        ----------
        condition : a condition like the read option `filter`: `tenant = 'a' AND day < '2026-01-01'`; None for all rows
        set : new values by column: Python values, pyarrow scalars, or pyarrow expressions over the columns of the row,
            such as `pc.field("n") + 1`
        progress : the progress bar; see `SlateStore.compact`
        options : write options that apply to stored rows, such as `ttl`: an updated row expires like a row that is
            written now

        Raises
        ------
        OptionError
            When the condition cannot be parsed.
        InvalidRequestError, SchemaError
            When a key column or nothing is set, a column does not exist, or a value does not fit it.
        TransactionConflictError
            When another commit changed keys that the condition can match, after the rows were read.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import pyarrow.compute as pc
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://counted", "id BIGINT, n BIGINT", "id")
        >>> version = store.write(pa.table({"id": [1, 2], "n": [5, 7]}))
        >>> version = store.update("id = 1", {"n": pc.field("n") + 1})
        >>> store.get(1)
        {'id': 1, 'n': 6}
        """
        from slatespark.table.write.update import update_where

        given = self._of_call(options)
        with showing_progress(progress, Step.WRITING) as listener:
            record = update_where(
                self._stores, self._clock, condition, set or {}, self._common, given, progress=listener
            )
        return self._committed(record, self._write_options(given))

    def deleteRange(
        self,
        where: str | None = None,
        timestamp: int | str | datetime | None = None,
        *,
        runner: TaskRunner | None = None,
        progress: AskedProgress = "auto",
        **options: Any,
    ) -> int:
        """Delete all rows of some key ranges in one commit, and return the version that shows the deletion.

        On a plain table the views of files are cut, and only files that reach across an end of an interval are looked
        at. If no row version lies in the intervals, nothing is published, and the newest version is returned. On a
        history table each row that existed in the intervals as of `timestamp`, expired ones included, gets a tombstone
        with that time, so reads as of any time stay exact before and after it.

        Parameters
        ----------
        where : comparisons on leading key columns, joined by `AND` and `OR`, with `=` or `IN` on all but the last
            column that an alternative names; for a raw table give `startKey`, `endKey` or `keyPrefix` instead
        timestamp : history tables: the time of the deletion; by default that of the commit
        runner : history tables: searches the intervals and writes the tombstones; by default on threads of this process
        progress : the progress bar; see `SlateStore.compact`
        options : `startKey`, `endKey` or `keyPrefix` of a raw table; of the commit, and how files are written:
            `txnAppId`, `ifClientActive`, `compression`, ...

        Raises
        ------
        OptionError
            When the condition is not exactly a set of key ranges.
        CommitConflictError
            When a SlateDB client is active on the table, or other writers won every race; on a history table, when one
            of the rows has a later version.
        TransactionConflictError
            On a history table, when another commit changed the range after its rows were searched.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://ranges", "day STRING, id BIGINT, n BIGINT", "day,id")
        >>> version = store.write(pa.table({"day": ["mon", "mon", "tue"], "id": [1, 2, 1], "n": [1, 2, 3]}))
        >>> version = store.deleteRange("day = 'mon'")
        >>> store.scan().read_all().to_pylist()
        [{'day': 'tue', 'id': 1, 'n': 3}]
        """
        from slatespark.table.definition.versions import fetch_defined
        from slatespark.table.write.deletion import delete_history_range
        from slatespark.table.write.range_replace import delete_range

        found, definition = fetch_defined(self._stores)
        if definition.has_history:
            parsed = self._delete_options(Call.DELETE_HISTORY, {"timestamp": timestamp, **options})
            with showing_progress(progress, Step.REMOVING) as listener:
                tasks = reporting_tasks(runner or THREADS, listener, Step.REMOVING)
                record = delete_history_range(self._stores, self._clock, where, self._common, parsed, runner=tasks)
            return self._committed(record, parsed)
        parsed = self._delete_options(Call.DELETE_RANGE, options)
        if timestamp is not None:
            raise OptionError("timestamp: only a history table stores when rows were deleted.", todo="Omit it.")
        record = delete_range(self._stores, self._clock, where, parsed, found, definition)
        return self._version_of(record)

    def _committed(
        self, record: CommitRecord | None, options: WriteOptions, definition: TableDefinition | None = None
    ) -> int:
        """Return the version that a write published, once the compaction that may follow it has run.

        Parameters
        ----------
        record : None if the write found nothing to commit
        definition : as the write found it, if it tells
        """
        from slatespark.table.compaction.after_write import compact_after_write

        compact_after_write(self._stores, self._clock, record, options, definition)
        return self._version_of(record)

    def _delete_options(self, call: Call, options: Mapping[str, Any]) -> WriteOptions:
        why = "A deletion of ranges writes no rows but tombstones, and those of a history table alone."
        return self._options_of("deleteRange", call, options, why=why, arguments=("where", "timestamp"))

    @property
    def definition(self) -> TableDefinition:
        """The present key columns, formats, schema and properties."""
        from slatespark.table.write.alteration import current_definition

        return current_definition(self._stores)

    def setProperties(self, /, **properties: Any) -> None:
        """Set table properties; others stay.

        Parameters
        ----------
        properties : values by name, such as `defaultTtl="30d"`; None is `none`, which turns a duration off

        Raises
        ------
        OptionError
            When a property is unknown, cannot be changed, or does not take this value.
        UnavailableError
            When the change was made, but processes that have the table open learn it only with the next commit.

        Examples
        --------
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://set")
        >>> store.setProperties(defaultTtl="30d")
        >>> store.definition.properties["defaultTtl"]
        '30d'
        """
        from slatespark.table.write.alteration import set_properties

        set_properties(self._stores, self._clock, properties)

    def dropColumns(self, *names: str) -> None:
        """Drop columns of the table. Their names cannot be used again, since rows keep the old values.

        Parameters
        ----------
        names : names of value columns

        Raises
        ------
        SchemaError
            When a column does not exist or is part of the key.
        UnavailableError
            When the change was made, but processes that have the table open learn it only with the next commit.

        Examples
        --------
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://narrowed", "id BIGINT, name STRING, n BIGINT", "id")
        >>> store.dropColumns("n")
        >>> store.definition.schema.names
        ['id', 'name']
        """
        from slatespark.table.write.alteration import drop_columns

        drop_columns(self._stores, self._clock, names)
