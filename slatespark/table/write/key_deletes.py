"""Deleting keys that a condition lists, without reading a row: what a live client can commit for us."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import OptionError
from slatespark.options import WriteOptions
from slatespark.table.clock import Clock
from slatespark.table.definition.versions import fetch_defined
from slatespark.table.read.points import SoughtKeys
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.stores import TableStores
from slatespark.table.write.load_run import load_batches


def delete_listed_keys(stores: TableStores, clock: Clock, condition: str, options: WriteOptions) -> CommitRecord | None:
    """Delete the rows of all keys that a condition lists, whether they exist or not.

    Parameters
    ----------
    condition : comparisons with `=` or `IN` on all key columns, and on nothing else
    options : options with `operation=delete`

    Raises
    ------
    OptionError
        When the condition cannot be parsed, or does not list keys.
    """
    codec = fetch_defined(stores)[1].codec()
    keys = _listed_keys(condition, codec)
    packed = SoughtKeys.of(keys).packed
    columns = codec.decode([packed], np.arange(len(keys), dtype=np.int64), list(codec.key_columns))
    rows = pa.RecordBatch.from_pydict(columns)
    return load_batches(stores, clock, rows.schema, [rows], options)


def _listed_keys(condition: str, codec: RowCodec) -> tuple[bytes, ...]:
    # Imported here: most writes have no condition.
    from slatespark.encoding.predicates import bind_filter, parse_filter, plan_keys

    plan = plan_keys(bind_filter(parse_filter(condition, name="condition"), codec.schema), codec)
    if not plan.points or plan.residual.columns:
        raise OptionError(
            f"ifClientActive=cooperate: `{condition}` does not list keys.",
            why="A client that goes on writing cannot check which rows fulfil a condition.",
            todo=f"Use = or IN on all of {', '.join(codec.key_columns)}, or ifClientActive=fail or fence.",
        )
    return plan.points
