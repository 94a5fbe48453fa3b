"""Deleting listed keys, whatever their rows: it depends on no read, so a live client can commit it for us."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import OptionError
from slatespark.options import Call, ReadOptions, WriteOptions
from slatespark.table.clock import Clock
from slatespark.table.commit.idempotence import is_committed
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import fetch_defined
from slatespark.table.read.points import SoughtKeys
from slatespark.table.read.reader import fetch_look_up_plan
from slatespark.table.read.scan import scan_split
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.stores import TableStores
from slatespark.table.write.change_options import parse_change
from slatespark.table.write.chosen_keys import encode_listed
from slatespark.table.write.history_replace import choose_state_at_write
from slatespark.table.write.load_plan import begin_load
from slatespark.table.write.load_run import run_load


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
    return _delete(stores, clock, _listed_keys(condition, codec), codec, options)


def delete_keys(
    stores: TableStores, clock: Clock, keys: Any, common: Mapping[str, Any], options: Mapping[str, Any]
) -> CommitRecord | None:
    """Delete the rows of some keys; None when none of them has one, be it hidden: that commits nothing, fences nobody.

    If one has, every key gets a tombstone, so that the deletion is a write like any other: it depends on no read, and
    rows that others write meanwhile are deleted too.

    Parameters
    ----------
    keys : as for `encode_listed`
    common : options of reads and writes: path and storage
    options : further write options

    Raises
    ------
    OptionError
        When an option does not apply to a deletion.
    InvalidRequestError, SchemaError
        When something is not a key of the table.
    CommitConflictError
        When a SlateDB client is active on the table, or other writers won every race.
    """
    write = parse_change(Call.DELETE, common, options)
    if is_committed(stores, write):
        return None
    definition = fetch_defined(stores)[1]
    codec = definition.codec()
    listed = sorted(set(encode_listed(keys, codec)))
    has_rows = bool(listed) and _have_a_row(stores, clock, listed, definition, common, write)
    return _delete(stores, clock, listed if has_rows else (), codec, write)


def _have_a_row(
    stores: TableStores,
    clock: Clock,
    keys: Sequence[bytes],
    definition: TableDefinition,
    common: Mapping[str, Any],
    write: WriteOptions,
) -> bool:
    """Tell whether one of the keys has a row at the time of the deletion; no value is decoded.

    Hidden rows count: a client shows expired ones, and a longer retention would show those past the present one.
    """
    at: Mapping[str, Any] = {}
    if definition.has_history:
        state = choose_state_at_write(stores, clock, write)
        if state.empty is not None:
            return False
        at = state.read
    columns = list(definition.codec().key_columns)
    read = {"columns": columns, "mergeOperator": _empty_value, "includeExpired": True, **at}
    plan = fetch_look_up_plan(stores, keys, ReadOptions.parse({**common, **read}), clock)
    return any(len(batch) for split in plan.splits for batch in scan_split(stores, split, plan.settings))


def _empty_value(base: bytes | None, operands: list[bytes]) -> bytes:
    """Return a value for any operands: a row with operands is visible whatever they fold to."""
    del base, operands
    return b""


def _delete(
    stores: TableStores, clock: Clock, keys: Sequence[bytes], codec: RowCodec, options: WriteOptions
) -> CommitRecord | None:
    """Commit a tombstone for each of some keys, which ascend."""
    columns = codec.decode([SoughtKeys.of(keys).packed], np.arange(len(keys), dtype=np.int64), list(codec.key_columns))
    rows = pa.RecordBatch.from_pydict(columns)
    load = begin_load(stores, clock, rows.schema, options, creates=False)
    return None if load is None else run_load(stores, clock, load, rows.schema, [rows])


def _listed_keys(condition: str, codec: RowCodec) -> tuple[bytes, ...]:
    # Imported here: most writes have no condition.
    from slatespark.encoding.predicates import bind_filter, parse_filter, plan_keys

    plan = plan_keys(bind_filter(parse_filter(condition, name="condition"), codec.schema), codec)
    if not plan.points or plan.residual.columns:
        raise OptionError(
            f"ifClientActive=cooperate: the condition {condition} does not list keys.",
            why="A client that goes on writing cannot check which rows fulfil a condition.",
            todo=f"Use = or IN on all of {', '.join(codec.key_columns)}, or ifClientActive=fail or fence.",
        )
    return plan.points
