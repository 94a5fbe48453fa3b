"""Reading: rows, versions of rows, one key, and what a read resolves to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slatespark.table.inspection.resolution import Resolution, resolve_read
from slatespark.table.read.arrow import row_dict
from slatespark.table.read.reader import look_up, open_batches, options_for_order, plan_read

if TYPE_CHECKING:
    pass
from slatespark.table.slate_store.base import OpenTable


class Reads(OpenTable):
    """Reading: rows, versions of rows, one key, and what a read resolves to."""

    def scan(self, order: str = "asc", **options: Any) -> pa.RecordBatchReader:
        """Return the rows as batches, in key order, of one snapshot.

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
        return open_batches(self._stores, plan_read(self._stores, parsed, self._clock), order)

    def versions(self, **options: Any) -> pa.RecordBatchReader:
        """Return every version of each row of a history table, with the time in which it was valid.

        The columns are those of the table, `_valid_from`, `_valid_to` (null while it is valid) and `_is_current`. A
        version ends where the next one of its key begins, a deletion included, or where it expires. At any instant in
        between, a read as of then shows that row. Of a key the newest version comes first.

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
        """Return the row of one key as a dict; None if there is no visible one.

        A value beyond the year 9999, which no datetime can hold, comes as a number: a date in days, a timestamp in
        microseconds, as `get` takes them, too; metadata columns in ms.

        Parameters
        ----------
        key : a value for each key column; of a raw table the key as bytes
        options : read options

        Raises
        ------
        InvalidRequestError
            When the values do not make a key.
        """
        batch = look_up(self._stores, key, self._read_options(options), self._clock)
        return None if batch is None else row_dict(batch)

    def resolve(self, **options: Any) -> Resolution:
        """Return what a read with these options would see: version, sequence number, time, and how they are found.

        Parameters
        ----------
        options : read options

        Raises
        ------
        HistoryTrimmedError
            When the past that is asked for can no longer be answered exactly.
        """
        return resolve_read(self._stores, self._read_options(options), self._clock)
