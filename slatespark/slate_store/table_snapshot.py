"""TableSnapshot: a table as it was at one moment, for any number of reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from slatespark.errors import OptionError
from slatespark.options import ReadOptions
from slatespark.options.fields import Call, find_other, option_keys, with_common
from slatespark.options.values import normalize_name, unknown_option
from slatespark.slate_store.lookup import open_lookup
from slatespark.table.clock import Clock
from slatespark.table.read.arrow import row_dict
from slatespark.table.read.key_lookup import lookup_options
from slatespark.table.read.reader import fetch_read_plan, look_up, open_batches, options_for_order
from slatespark.table.read.versions.read_point import ReadPoint, refuse_another_point
from slatespark.table.rows.batches import Rows
from slatespark.table.stores import TableStores
from slatespark.table.tasks import scan_threads

if TYPE_CHECKING:
    from slatespark.slate_store.dataset import SlateDataset

CHOICES: Final = ("versionAsOf", "timestampAsOf", "seqAsOf", "checkpoint", "now", "pin")
_IN_SNAPSHOT: Final = option_keys(ReadOptions, Call.TRANSACTION_READ)


class TableSnapshot:
    """A table as it was at one moment. Made by `SlateStore.snapshot`.

    All reads show the same rows, and evaluate expiry at the same instant. None looks for a newer version, so a lookup
    costs no more than the ranges that it reads. A collector may delete its files, unless it was made with `pin`; a read
    that misses one raises `SnapshotExpiredError`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from slatespark import SlateStore
    >>> store = SlateStore.create("memory://fixed")
    >>> version = store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    >>> snapshot = store.snapshot()
    >>> version = store.write(pa.table({"key": [b"a"], "value": [b"2"]}))
    >>> snapshot.get(b"a"), store.get(b"a")
    ({'key': b'a', 'value': b'1'}, {'key': b'a', 'value': b'2'})
    """

    def __init__(self, stores: TableStores, clock: Clock, common: Mapping[str, Any], point: ReadPoint) -> None:
        self._stores, self._clock, self._common, self._point = stores, clock, dict(common), point

    def __repr__(self) -> str:
        return f"TableSnapshot({self._stores.url!r}, version={self.version})"

    @property
    def version(self) -> int:
        """The version (manifest id)."""
        return self._point.snapshot.manifest_id

    @property
    def seq(self) -> int:
        """The highest sequence number of its rows, those in the WAL included."""
        return self._point.snapshot.max_seq

    @property
    def now(self) -> int:
        """The instant at which expiry is evaluated, in ms since 1970."""
        return self._point.snapshot.now_ms

    def scan(self, order: str = "asc", parallelism: int | None = None, **options: Any) -> pa.RecordBatchReader:
        """Return the rows as batches, in key order.

        Parameters
        ----------
        order : `asc` or `desc`
        parallelism : threads that read; by default one per processor, or two on a remote store
        options : read options, except those that choose a version

        Raises
        ------
        OptionError, SchemaError
            When an option is invalid, or chooses a version.
        SnapshotExpiredError, CorruptDataError
            At the call, or while batches are taken.
        """
        threads = scan_threads(parallelism, is_remote=self._stores.main.is_remote)
        parsed = self._parse(options_for_order(order, options, threads=threads))
        plan = fetch_read_plan(self._stores, parsed, self._clock, point=self._point)
        return open_batches(self._stores, plan, order, threads=threads)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as a stream of the Arrow C interface: DuckDB, Polars, DataFusion and others take a snapshot.

        Each use scans again, so a query may name a snapshot more than once. A reader that `scan` returns can be used
        once only.
        """
        return self.scan().__arrow_c_stream__(requested_schema)

    def dataset(self, **options: Any) -> SlateDataset:
        """Return it as a dataset of pyarrow: engines that know these read only the columns and blocks of a query.

        Parameters
        ----------
        options : read options for every scan, except `columns` and those that choose a version

        Raises
        ------
        OptionError
            When an option is invalid, or chooses a version.

        Examples
        --------
        >>> import duckdb, pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://in-duckdb", "id BIGINT, name STRING", "id")
        >>> version = store.write(pa.table({"id": [1, 2], "name": ["a", "b"]}))
        >>> names = store.snapshot().dataset()
        >>> duckdb.sql("SELECT name FROM names WHERE id = 2").fetchall()
        [('b',)]
        """
        from slatespark.slate_store.dataset import SlateDataset  # here: few users of a table need it

        return SlateDataset(self.scan, options, repr(self))

    def versions(self, **options: Any) -> pa.RecordBatchReader:
        """Return every version of each row of a history table; as `SlateStore.versions`, of this moment.

        Parameters
        ----------
        options : read options, except those that choose a version

        Raises
        ------
        OptionError
            When the table has no history, or an option is invalid.
        SnapshotExpiredError
            At the call, or while batches are taken: a file of the snapshot was collected.
        """
        return self.scan(**{**options, "readVersions": "intervals"})

    def get(self, *key: Any, **options: Any) -> dict[str, Any] | None:
        """Return the row of one key as a dict, as `SlateStore.get`; None if none is visible.

        Parameters
        ----------
        key : a value for each key column; for a raw table the key as bytes
        options : read options, except those that choose a version

        Raises
        ------
        InvalidRequestError
            When the values do not make a key.
        SnapshotExpiredError
            When a file that may hold the key was collected.
        """
        batch = look_up(self._stores, key, self._parse(options), self._clock, point=self._point)
        return None if batch is None else row_dict(batch)

    def lookup(
        self,
        keys: Rows,
        columns: Sequence[str] | str | None = None,
        **options: Any,
    ) -> pa.RecordBatchReader:
        """Return the rows that have some keys, as `SlateStore.lookup`, of this moment.

        Parameters
        ----------
        keys : rows with the key columns of the table; other columns do not matter
        columns : columns to return; by default all
        options : read options, except key ranges and those that choose a version

        Raises
        ------
        SchemaError
            When a key column is missing, or a value of it does not fit.
        SnapshotExpiredError
            While batches are taken: a file of the snapshot was collected.
        """
        parsed = self._parse(lookup_options(options, columns))
        return open_lookup(self._stores, self._clock, parsed, keys, self._point)

    def _parse(self, given: Mapping[str, Any]) -> ReadOptions:
        refuse_another_point(given, "a snapshot", "Give it to SlateStore.snapshot, or read the table itself.")
        return ReadOptions.parse(with_common(self._common, given))


def parse_choice(common: Mapping[str, Any], given: Mapping[str, Any]) -> ReadOptions:
    """Return the options that choose the moment of a snapshot; raises `OptionError` for others."""
    if (other := find_other(ReadOptions, given, CHOICES)) is not None:
        if normalize_name(other) in map(normalize_name, _IN_SNAPSHOT):
            todo = "Give it to the reads of the snapshot."
            raise OptionError(f"snapshot: {other} is an option of a read.", todo=todo)
        raise unknown_option(other, list(CHOICES))
    return ReadOptions.parse(with_common(common, given))
