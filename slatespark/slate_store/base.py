"""OpenTable: what every part of `SlateStore` inherits, and how the arguments of a call become options."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

import pyarrow as pa

from slatespark.errors import SnapshotExpiredError
from slatespark.options import Call, ReadOptions, WriteOptions
from slatespark.options.fields import with_common
from slatespark.options.values import STORAGE_PREFIX, WAL_PATH, parse_location, refuse_place
from slatespark.table.clock import Clock, SystemClock, check_clock
from slatespark.table.log.manifests import fetch_latest_manifest, seen_manifest
from slatespark.table.read.reader import resolve_table
from slatespark.table.read.versions.read_point import KeptPoint, ReadPoint
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.stores import TableStores, absolute_location, open_stores, split_wal_path


class OpenTable:
    """The state of an open table: stores, clock, and the options that all calls share."""

    def __init__(
        self, stores: TableStores, clock: Clock, common: dict[str, Any], refresh_ms: int | None = None
    ) -> None:
        self._stores, self._clock, self._common = stores, clock, common
        stores.heads.keeps_tail = True
        self._last_commit: CommitRecord | None = None
        self._kept = None
        if refresh_ms is not None:
            newest = ReadOptions.parse(common)
            self._kept = KeptPoint(stores, clock, refresh_ms, partial(resolve_table, stores, newest, clock))

    @classmethod
    def _at(
        cls,
        path: str | os.PathLike[str],
        clock: Clock | str | None,
        storage: dict[str, Any],
        refresh_ms: int | None = None,
    ) -> Self:
        # Resolved once, here: later calls may be made in another working folder.
        path = absolute_location(parse_location(path, "path"))
        wal_path, storage = split_wal_path(storage)
        given = {_storage_name(name): value for name, value in storage.items()}
        backend = {name[len(STORAGE_PREFIX) :]: value for name, value in given.items()}
        stores = open_stores(path, storage=backend, wal_path=wal_path)
        common = {"path": path, **{name: stores.storage[name[len(STORAGE_PREFIX) :]] for name in given}}
        if wal_path is not None:
            common[WAL_PATH] = wal_path
        return cls(stores, SystemClock() if clock is None else check_clock(clock), common, refresh_ms)

    @property
    def url(self) -> str:
        """The location of the table."""
        return self._stores.url

    def __repr__(self) -> str:
        return f"SlateStore({self.url!r})"

    def _read_options(self, options: Mapping[str, Any]) -> ReadOptions:
        return ReadOptions.parse(with_common(self._common, self._of_call(options)))

    def _read_point(self, options: ReadOptions) -> ReadPoint | None:
        """Return the point that a read takes instead of the newest state; None without one."""
        if self._kept is None or options.reads_past or options.pin_ms is not None or options.read_change_feed:
            return None
        return self._kept.current()

    @contextmanager
    def _reading(self, point: ReadPoint | None) -> Iterator[None]:
        """Forget the kept state if it is the point that is read, and a file of it is gone: the next read looks anew."""
        try:
            yield
        except SnapshotExpiredError:
            if self._kept is not None and point is not None:
                self._kept.forget()
            raise

    def _read_by(self, reader: pa.RecordBatchReader, point: ReadPoint | None) -> pa.RecordBatchReader:
        """Return the rows of a reader, with `_reading` as long as they are taken."""
        if point is None:
            return reader

        def batches() -> Iterator[pa.RecordBatch]:
            with self._reading(point):
                yield from reader

        return pa.RecordBatchReader.from_batches(reader.schema, batches())

    def _write_options(self, options: Mapping[str, Any]) -> WriteOptions:
        return WriteOptions.parse(with_common(self._common, self._of_call(options)))

    def _options_of(
        self, name: str, call: Call, options: Mapping[str, Any], *, why: str, arguments: Sequence[str] = ()
    ) -> WriteOptions:
        """Return the options of a call that takes some of those of a write; see `WriteOptions.of_call`."""
        return WriteOptions.of_call(name, call, self._common, self._of_call(options), arguments=arguments, why=why)

    def _version_of(self, record: CommitRecord | None) -> int:
        """Return the version that a call published; the newest one that it has seen if it published none."""
        self._last_commit = record
        if record is not None:
            self._stores.heads.note_created()  # perhaps by a live client, after the last object of ours
            return record.manifest_id
        seen = seen_manifest(self._stores)
        return fetch_latest_manifest(self._stores).number if seen is None else seen.number

    @staticmethod
    def _of_call(options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the options of a call, which may not name another clock or place than the open table has."""
        refuse_place(options, "SlateStore.open or create")
        return options


def location_options(table: OpenTable) -> dict[str, Any]:
    """Return the options that open the same table, in any working folder: `path`, `walPath`, those of its storage."""
    return dict(table._common)


def last_commit(table: OpenTable) -> CommitRecord | None:
    """Return the record of the last call that changes rows; None if it found nothing to commit.

    Requires: no other thread uses the table.
    """
    return table._last_commit


def _storage_name(name: str) -> str:
    """Return the full name of a storage option, which may be given as Spark has it."""
    return name if name.lower().startswith(STORAGE_PREFIX) else f"{STORAGE_PREFIX}{name}"
