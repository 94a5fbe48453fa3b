"""Lookups of many keys, which some rows name: work grows with the keys, not with the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slatespark.encoding.row_keys import check_key_columns, keys_of_rows
from slatespark.encoding.without_pandas import array_of_numpy
from slatespark.options import ReadOptions
from slatespark.ranges import ALL_KEYS
from slatespark.table.clock import Clock
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.read.arrow import project
from slatespark.table.read.planning.plan import Layer, plan_points
from slatespark.table.read.planning.wal_share import WalShare
from slatespark.table.read.reader import bind_condition, fetch_layers_of, resolve_read, scan_settings
from slatespark.table.read.scan import scan_split
from slatespark.table.read.scan_settings import ScanSettings
from slatespark.table.read.versions.read_point import ReadPoint
from slatespark.table.read.wal_tail import fetch_tail, share_tail, with_tail
from slatespark.table.stores import TableStores


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """The plan of a lookup; the same for all keys, in any process.

    Attributes
    ----------
    settings : settings of the read
    layers : layers of the snapshot, newest first
    split_bytes : keys are looked up in parts that cost about that much
    """

    settings: ScanSettings
    layers: tuple[Layer, ...]
    split_bytes: int

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the rows that are found."""
        return self.settings.projection.schema


def fetch_key_lookup(
    stores: TableStores,
    options: ReadOptions,
    clock: Clock,
    rows: pa.Schema,
    names: Sequence[str],
    point: ReadPoint | None = None,
) -> KeyLookup:
    """Fix the snapshot of a lookup, and check the rows that name the keys.

    Parameters
    ----------
    rows, names : the key columns of the rows, with their types, and the names of all columns
    point : read point; None for the snapshot of the options

    Raises
    ------
    OptionError
        When the options have a key range.
    SchemaError
        When a key column is missing, or its type does not fit.
    InvalidRequestError, HistoryTrimmedError, CorruptDataError, UnsupportedFormatError
    """
    options.refuse_keys("lookup")

    def check(definition: TableDefinition) -> None:
        check_key_columns(rows, names, definition.codec())

    snapshot, definition = resolve_read(stores, options, clock, point, check)
    codec = definition.codec()
    check(definition)
    columns, condition = project(options, codec=codec), bind_condition(options, codec)
    settings = scan_settings(stores, snapshot, definition, options, columns, condition)
    return KeyLookup(settings, fetch_layers_of(stores, snapshot, point), options.split_bytes)


def fetch_lookup_tail(stores: TableStores, plan: KeyLookup) -> WalShare | None:
    """Return the rows of the WAL for several calls of `look_up_rows`, decoded once; None where that spares nothing."""
    settings = plan.settings
    limit_bytes = settings.wal_buffer_bytes
    tail = fetch_tail(stores, settings.wal, settings.wal_above_seq, ALL_KEYS, limit_bytes=limit_bytes)
    return None if tail is None else tail.as_source()  # in order, since each call searches it


def look_up_rows(
    stores: TableStores, plan: KeyLookup, rows: pa.Table, tail: WalShare | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the table that have the keys of some rows: each once, in key order.

    Keys that the table does not have, or cannot have, find nothing. All keys are held in memory, encoded.

    Parameters
    ----------
    tail : the result of `fetch_lookup_tail`, if that was called

    Raises
    ------
    SchemaError
        When a value of a key column does not fit the type of the table's.
    SnapshotExpiredError, CorruptDataError
    """
    keys, has_key = keys_of_rows(rows, plan.settings.projection.codec)
    distinct = pc.unique(keys.take(array_of_numpy(np.flatnonzero(has_key))))
    wanted = distinct.take(pc.array_sort_indices(distinct)).to_pylist()
    splits, settings = plan_points(plan.layers, wanted, target_bytes=plan.split_bytes), plan.settings
    splits = share_tail(stores, splits, settings) if tail is None else with_tail(splits, tail)
    for split in splits:
        yield from scan_split(stores, split, settings)


def lookup_options(given: Mapping[str, Any], columns: object) -> dict[str, Any]:
    """Return the read options of a lookup, with the columns to return."""
    return dict(given) if columns is None else {**given, "columns": columns}
