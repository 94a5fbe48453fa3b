"""Reads: the methods of `SlateStore` that return rows, and `resolve`, which tells what they would see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import pyarrow as pa

from slatespark.options.keywords import ReadKeywords
from slatespark.slate_store.base import OpenTable
from slatespark.slate_store.lookup import open_lookup
from slatespark.slate_store.table_snapshot import TableSnapshot, parse_choice
from slatespark.table.inspection.resolution import Resolution, resolve_read
from slatespark.table.read.arrow import row_dict
from slatespark.table.read.as_of_join import join_as_of, parse_join
from slatespark.table.read.key_lookup import lookup_options
from slatespark.table.read.reader import (
    fetch_as_of_join,
    fetch_read_plan,
    look_up,
    open_batches,
    options_for_order,
    resolve_held,
)
from slatespark.table.read.versions.read_point import ReadPoint
from slatespark.table.rows.batches import Rows, as_batches, require_schema
from slatespark.table.tasks import scan_threads


class Reads(OpenTable):
    """Reading: rows, versions of rows, one key, and what a read resolves to."""

    def scan(
        self, order: str = "asc", parallelism: int | None = None, **options: Unpack[ReadKeywords]
    ) -> pa.RecordBatchReader:
        """Return the rows of one snapshot as batches, in key order.

        Parameters
        ----------
        order : `asc` or `desc`
        parallelism : threads that read; by default one per processor, or two on a remote store
        options : read options

        Raises
        ------
        OptionError, SchemaError, HistoryTrimmedError, CorruptDataError
            At the call, or while batches are taken.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://scanned", "id BIGINT, name STRING", "id")
        >>> version = store.write(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}))
        >>> store.scan("desc", filter="id < 3", columns="name").read_all().to_pylist()
        [{'name': 'b'}, {'name': 'a'}]
        """
        threads = scan_threads(parallelism, is_remote=self._stores.main.is_remote)
        parsed = self._read_options(options_for_order(order, options, threads=threads))
        point = self._read_point(parsed)
        with self._reading(point):
            plan = fetch_read_plan(self._stores, parsed, self._clock, point=point)
        return self._read_by(open_batches(self._stores, plan, order, threads=threads), point)

    def versions(self, **options: Unpack[ReadKeywords]) -> pa.RecordBatchReader:
        """Return every version of each row of a history table, with its interval of validity.

        The columns are those of the table, `_valid_from`, `_valid_to` (null while no end is known) and `_is_current`. A
        version ends when the next version or a deletion of its key begins, or when it expires. A read as of any instant
        in the interval shows the row. The newest version of a key comes first.

        Parameters
        ----------
        options : read options

        Raises
        ------
        OptionError
            When the table has no history.
        HistoryTrimmedError, CorruptDataError
            At the call, or while batches are taken.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://intervals", "id BIGINT, name STRING", "id", history=True)
        >>> for day, name in (("2026-01-01", "a"), ("2026-02-01", "b")):
        ...     _ = store.write(pa.table({"id": [1], "name": [name]}), timestamp=day)
        >>> [(row["name"], row["_is_current"]) for row in store.versions().read_all().to_pylist()]
        [('b', True), ('a', False)]
        """
        given: dict[str, Any] = {**options, "readVersions": "intervals"}
        return self.scan(**given)

    def changes(self, **options: Unpack[ReadKeywords]) -> pa.RecordBatchReader:
        """Return what changed between two versions, in key order: what makes the one from the other.

        The columns are those of the table, `_change_type`, `_commit_version` and `_commit_timestamp` (of the later
        version). A row that was written and is as it was before has no change. Each version is what `versionAsOf`
        shows: of a row that expired in between there is a `delete`.

        With `changes="log"` it returns every write instead, in the order of `_seq`, a further column: `upsert`,
        `delete`, and `merge` with the operand as it was written. Without an end it goes as far as the WAL goes now.
        `_commit_version` is the first version that still exists and shows the write, null if it is only in the WAL yet.
        `_commit_timestamp` is the time of slatespark's commit; of another client's write its `create_ts`.

        Parameters
        ----------
        options : `changes`, `net` or `log`; `startingVersion` or `startingTimestamp`, the first changes;
            `endingVersion` or `endingTimestamp`, the last ones, by default those of the newest version;
            `startingBoundInclusive`, `endingBoundInclusive`; of `net` alone `preImages`, `expired`, `includeExpired`
            and `mergeOperator`; and of the read options `columns`, `filter`, `startKey`, `endKey`, `keyPrefix`,
            `metadataColumns`, `splitSize`, `readBuffer`, `pin`

        Raises
        ------
        OptionError
            When an option does not apply, or the start is after the end.
        InvalidRequestError
            When a version does not exist yet.
        HistoryTrimmedError
            When one of the two versions was collected. For `log`, when any write in between is not known any more; it
            names the first version from which on all are.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://feed")
        >>> version = store.write(pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"]}))
        >>> version = store.write(pa.table({"key": [b"b"], "value": [b"3"]}))
        >>> changes = store.changes(startingVersion=version, preImages=False, columns="key,value,_change_type")
        >>> changes.read_all().to_pylist()
        [{'key': b'b', 'value': b'3', '_change_type': 'upsert'}]
        """
        # Imported here: most users of a table read no changes.
        from slatespark.table.changes.feed import fetch_feed_plan, open_feed

        parsed = self._read_options({**options, "readChangeFeed": True})
        return open_feed(self._stores, fetch_feed_plan(self._stores, parsed, self._clock))

    def asOf(
        self,
        rows: Rows,
        ts: str,
        how: str = "left",
        **options: Any,
    ) -> pa.RecordBatchReader:
        """Join each row with the version of its key that was valid at the row's own time, on a history table.

        A row gets the columns that `get(key, timestampAsOf=time)` shows. Without a version then, since none had come
        yet, it was deleted, or it had expired, they are null. The rows come in their order, a chunk at a time: only
        their keys are looked up.

        Parameters
        ----------
        rows : as for `write`, with the key columns of the table, and a column of times
        ts : the column of times: TIMESTAMP, UTC if without a zone, or BIGINT of ms since 1970; null matches nothing
        how : `left`, or `inner` for only the rows that have a version
        options : `columns` to add, by default all but the key; `metadataColumns`; options that choose a version of the
            table, which then says what it knew; `includeExpired`, `mergeOperator`, `pin`, `readBuffer`

        Raises
        ------
        OptionError
            When the table has no history, or an option does not apply.
        SchemaError
            When the rows lack a column, or have one that the table adds.
        HistoryTrimmedError
            When a time is below the history floor; while batches are taken.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> rates = SlateStore.create("memory://rates", "currency STRING, rate DOUBLE", "currency", history=True)
        >>> for day, rate in (("2026-01-01", 1.1), ("2026-02-01", 1.2)):
        ...     _ = rates.write(pa.table({"currency": ["EUR"], "rate": [rate]}), timestamp=day)
        >>> sales = pa.table({"currency": ["EUR", "EUR"], "sold_ms": [1767571200000, 1770249600000]})
        >>> rates.asOf(sales, "sold_ms", columns="rate").read_all()["rate"].to_pylist()
        [1.1, 1.2]
        """
        parsed = parse_join(self._common, self._of_call(options), how)
        schema, batches = as_batches(rows)
        plan = fetch_as_of_join(self._stores, parsed, self._clock, schema, schema.names, ts, how)
        joined = join_as_of(self._stores, plan, require_schema(batches, schema))
        return pa.RecordBatchReader.from_batches(pa.schema([*schema, *plan.added]), joined)

    def get(self, *key: Any, **options: Unpack[ReadKeywords]) -> dict[str, Any] | None:
        """Return the row of one key as a dict; None if none is visible.

        A value beyond the year 9999, which a datetime cannot hold, is returned as a number: a date in days, a timestamp
        in microseconds (`get` accepts them too), metadata columns in ms.

        Parameters
        ----------
        key : a value for each key column; for a raw table the key as bytes
        options : read options

        Raises
        ------
        InvalidRequestError
            When the values do not make a key.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://gotten", "tenant STRING, id BIGINT, name STRING", "tenant,id")
        >>> version = store.write(pa.table({"tenant": ["x"], "id": [1], "name": ["a"]}))
        >>> store.get("x", 1, columns="name")
        {'name': 'a'}
        """
        parsed = self._read_options(options)
        point = self._read_point(parsed)
        with self._reading(point):
            batch = look_up(self._stores, key, parsed, self._clock, point=point)
        return None if batch is None else row_dict(batch)

    def lookup(
        self,
        keys: Rows,
        columns: Sequence[str] | str | None = None,
        **options: Any,
    ) -> pa.RecordBatchReader:
        """Return the rows that have some keys: each once, in key order.

        Of the table only the blocks that may hold the keys are read.

        Parameters
        ----------
        keys : rows as for `write`, with the key columns of the table; other columns, and nulls that no key has, do not
            matter
        columns : columns to return; by default all
        options : read options, except key ranges

        Raises
        ------
        SchemaError
            When a key column is missing, or a value of it does not fit.
        OptionError
            When an option is invalid.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://looked-up")
        >>> version = store.write(pa.table({"key": [b"a", b"b", b"c"], "value": [b"1", b"2", b"3"]}))
        >>> store.lookup(pa.table({"key": [b"c", b"x", b"a"]})).read_all().to_pylist()
        [{'key': b'a', 'value': b'1'}, {'key': b'c', 'value': b'3'}]
        """
        parsed = self._read_options(lookup_options(options, columns))
        point = self._read_point(parsed)
        with self._reading(point):
            return self._read_by(open_lookup(self._stores, self._clock, parsed, keys, point), point)

    def snapshot(self, **options: Any) -> TableSnapshot:
        """Return the table as it is now, or as it was, for any number of reads that all show the same rows.

        Parameters
        ----------
        options : the read options that choose the moment (`versionAsOf`, `timestampAsOf`, `seqAsOf`, `checkpoint`), by
            default the newest state; `now`, at which expiry is evaluated; `pin`, for how long its files are kept

        Raises
        ------
        OptionError
            When another option is given.
        HistoryTrimmedError, SnapshotExpiredError
            When the requested past can no longer be read exactly.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://frozen")
        >>> version = store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
        >>> snapshot = store.snapshot()
        >>> version = store.delete("key = x'61'")
        >>> snapshot.get(b"a")
        {'key': b'a', 'value': b'1'}
        """
        chosen = parse_choice(self._common, self._of_call(options))
        point = ReadPoint(*resolve_held(self._stores, chosen, self._clock))
        return TableSnapshot(self._stores, self._clock, self._common, point)

    def resolve(self, **options: Any) -> Resolution:
        """Return what a read with these options would see: version, sequence number, time, and how they were found.

        Parameters
        ----------
        options : read options

        Raises
        ------
        HistoryTrimmedError
            When the requested past can no longer be read exactly.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://resolved")
        >>> version = store.write(pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"]}))
        >>> seen = store.resolve()
        >>> seen.version == version, seen.how
        (True, 'the newest state')
        """
        return resolve_read(self._stores, self._read_options(options), self._clock)
