"""Reading: rows, versions of rows, one key, and what a read resolves to."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from slatespark.slate_store.base import OpenTable
from slatespark.table.inspection.resolution import Resolution, resolve_read
from slatespark.table.read.arrow import row_dict
from slatespark.table.read.reader import fetch_read_plan, look_up, open_batches, options_for_order


class Reads(OpenTable):
    """Reading: rows, versions of rows, one key, and what a read resolves to."""

    def scan(self, order: str = "asc", **options: Any) -> pa.RecordBatchReader:
        """Return the rows of one snapshot as batches, in key order.

        Parameters
        ----------
        order : `asc` or `desc`
        options : read options

        Raises
        ------
        OptionError, SchemaError, HistoryTrimmedError, CorruptDataError
            At the call, or while batches are taken.
        """
        parsed = self._read_options(options_for_order(order, options))
        return open_batches(self._stores, fetch_read_plan(self._stores, parsed, self._clock), order)

    def versions(self, **options: Any) -> pa.RecordBatchReader:
        """Return every version of each row of a history table, with its interval of validity.

        The columns are those of the table, `_valid_from`, `_valid_to` (null while it is valid) and `_is_current`. A
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
        """
        return self.scan(**{**options, "readVersions": "intervals"})

    def get(self, *key: Any, **options: Any) -> dict[str, Any] | None:
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
        """
        batch = look_up(self._stores, key, self._read_options(options), self._clock)
        return None if batch is None else row_dict(batch)

    def resolve(self, **options: Any) -> Resolution:
        """Return what a read with these options would see: version, sequence number, time, and how they were found.

        Parameters
        ----------
        options : read options

        Raises
        ------
        HistoryTrimmedError
            When the requested past can no longer be read exactly.
        """
        return resolve_read(self._stores, self._read_options(options), self._clock)
