"""Lookups of many keys, in a table and in a snapshot."""

from __future__ import annotations

import pyarrow as pa

from slatespark.options import ReadOptions
from slatespark.table.clock import Clock
from slatespark.table.read.key_lookup import fetch_key_lookup, look_up_rows
from slatespark.table.read.versions.read_point import ReadPoint
from slatespark.table.rows.batches import Rows, as_batches, require_schema
from slatespark.table.stores import TableStores


def open_lookup(
    stores: TableStores,
    clock: Clock,
    options: ReadOptions,
    keys: Rows,
    point: ReadPoint | None,
) -> pa.RecordBatchReader:
    """Return the rows that have some keys; see `SlateStore.lookup`.

    Parameters
    ----------
    keys : rows with the key columns
    point : what the read sees; None for what `options` choose
    """
    schema, batches = as_batches(keys)
    plan = fetch_key_lookup(stores, options, clock, schema, schema.names, point)
    rows = pa.Table.from_batches(require_schema(batches, schema), schema)
    return pa.RecordBatchReader.from_batches(plan.schema, look_up_rows(stores, plan, rows))
