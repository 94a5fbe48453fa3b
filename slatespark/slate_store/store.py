"""SlateStore: a table with pyarrow, without Spark. It delegates everything."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from slatespark.display.progress import AskedProgress, showing_progress
from slatespark.options import WriteOptions
from slatespark.options.flags import parsing_flags
from slatespark.options.properties import split_creation
from slatespark.options.values import is_clock, parse_duration
from slatespark.slate_store.explaining import Explanations
from slatespark.slate_store.inspection import Inspection
from slatespark.slate_store.maintenance import Maintenance
from slatespark.slate_store.reading import Reads
from slatespark.slate_store.versions import Versions
from slatespark.slate_store.writing import Writes
from slatespark.table.clock import Clock
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.progress import Step

if TYPE_CHECKING:
    from slatespark.table.gc.drop_plan import DropReport

_ALWAYS: Final = "always"


class SlateStore(Explanations, Reads, Writes, Versions, Inspection, Maintenance):
    """A SlateDB database as a table, of typed columns or of `key` and `value`, read and written with pyarrow.

    Made by `open` or `create`. Options are keyword arguments of the methods, named as in the reference of options,
    with Python values: times are ms since the epoch, ISO text or datetimes; keys are bytes.

    Every call that reads the table can raise `UnavailableError` when the store does not answer, `CorruptDataError` when
    an object is damaged, `UnsupportedFormatError` when a later release wrote it, and `TableNotFoundError` when the
    table has been dropped. The methods name what else they raise.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from slatespark import SlateStore
    >>> store = SlateStore.create("memory://example")
    >>> version = store.write(pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"]}))
    >>> store.scan().read_all().to_pylist()
    [{'key': b'a', 'value': b'1'}, {'key': b'b', 'value': b'2'}]
    >>> store.get(b"b")
    {'key': b'b', 'value': b'2'}
    """

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        clock: Clock | str | None = None,
        refresh: str | int | timedelta = _ALWAYS,
        **storage: Any,
    ) -> Self:
        """Return the table at `path`.

        Parameters
        ----------
        path : local path or URL; a relative path is resolved now, for all calls
        clock : source of time, or `module:function` that returns ms since 1970; the system clock by default
        refresh : `always`: each read looks for a newer version. Or a duration: reads of the newest state take the one
            that was read last, up to this old, without a request; own writes are seen at once
        storage : `walPath`, and options of the storage backend (`endpoint_url`, `key`, `secret`, ...), also as
            `storage.endpoint_url`

        Raises
        ------
        TableNotFoundError
            When there is no database at `path`.
        OptionError
            When `refresh` is not a duration, or an option of the storage backend is unknown.

        Examples
        --------
        >>> from slatespark import SlateStore
        >>> created = SlateStore.create("memory://opened")
        >>> SlateStore.open("memory://opened", refresh="5s")
        SlateStore('memory://opened')
        """
        refresh_ms = None if refresh == _ALWAYS else parse_duration(refresh, "refresh")
        store = cls._at(path, clock, storage, refresh_ms)
        fetch_latest_manifest(store._stores)
        return store

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        schema: pa.Schema | str | None = None,
        keyColumns: str | Sequence[str] | None = None,
        *,
        clock: Clock | str | None = None,
        **properties: Any,
    ) -> Self:
        """Create an empty table at `path` and return it.

        Parameters
        ----------
        path : local path or URL
        schema : columns of a typed table, with types and nullability, as a pyarrow schema or as text such as
            `id BIGINT NOT NULL, name STRING`; None for a table of `key` and `value`
        keyColumns : the columns of the key, in order
        clock : source of time as for `open`; or the table property of that name
        properties : `keyFormat`, `valueFormat`, table properties (`defaultTtl`, ...), and the arguments of `open`

        Raises
        ------
        TableExistsError
            When a table exists there already.
        SchemaError, OptionError, UnsupportedFormatError
            When the schema or a property is invalid.

        Examples
        --------
        >>> from slatespark import SlateStore
        >>> columns = "shop STRING, item STRING, n BIGINT"
        >>> store = SlateStore.create("memory://stock", columns, "shop,item", defaultTtl="30d")
        >>> store.definition.key_columns
        ('shop', 'item')
        """
        from slatespark.encoding.column_list import parse_columns
        from slatespark.table.definition.plan import plan_creation
        from slatespark.table.write.load_run import create_table

        if isinstance(clock, str) and not is_clock(clock):
            properties, clock = {**properties, "clock": clock}, None
        formats, known, storage = split_creation(properties)
        store = cls._at(path, clock, storage)
        options = WriteOptions.parse({**store._common, **formats, "keyColumns": keyColumns})
        columns = parse_columns(schema) if isinstance(schema, str) else schema
        create_table(store._stores, store._clock, plan_creation(columns, options, known), options)
        return store

    @classmethod
    @parsing_flags
    def drop(
        cls,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        dryRun: bool = False,
        clock: Clock | str | None = None,
        progress: AskedProgress = "auto",
        **storage: Any,
    ) -> DropReport:
        """Delete the table at `path` for good, with all of its objects and nothing else, and return a report.

        Readers immediately find either the whole table or none. A drop that died is finished by the next
        one. The checkpoints by which other tables keep files for a clone go with the clone.

        Parameters
        ----------
        path : local path or URL
        force : drop it even if checkpoints, running jobs or a SlateDB client may need the table, or its newest manifest
            cannot be read; never where a clone may read its files
        dryRun : only report what would be deleted, and who may need it
        clock : source of time as for `open`
        progress : the progress bar; see `SlateStore.compact`
        storage : as for `open`

        Raises
        ------
        TableNotFoundError
            When there is no database at `path`.
        InvalidRequestError
            When the table may still be needed; the message says by whom.

        Examples
        --------
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://dropped")
        >>> report = SlateStore.drop("memory://dropped", dryRun=True)
        >>> report.dry_run, report.url
        (True, 'memory://dropped')
        >>> report = SlateStore.drop("memory://dropped")
        """
        from slatespark.table.gc.drop import drop_table  # most programs drop no table

        table = cls._at(path, clock, storage)
        with showing_progress(progress, Step.DELETING) as listener:
            return drop_table(table._stores, table._clock, force=force, dry_run=dryRun, progress=listener)
