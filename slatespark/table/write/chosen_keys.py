"""The keys that a call of `erase`, `proveAbsent` or `delete` is about: one key, several, or key ranges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from slatespark.encoding.row_codec import RowCodec
from slatespark.encoding.row_keys import check_key_columns, keys_of_rows
from slatespark.errors import InvalidRequestError, OptionError
from slatespark.options import WriteOptions
from slatespark.ranges import KeyRange, merge_ranges, point_range
from slatespark.table.rows.batches import as_batches, require_schema
from slatespark.table.write.exact_ranges import named_ranges

_WITH_COLUMNS = (pa.Table, pa.RecordBatch, pa.RecordBatchReader)


def choose_keys(
    call: str, key: Sequence[Any], where: str | None, keys: Any, options: WriteOptions, codec: RowCodec
) -> tuple[KeyRange, ...]:
    """Return the keys that a call names, as ascending ranges that do not overlap; none if `keys` has none.

    Parameters
    ----------
    call : its name, for messages
    key : a value for each key column; empty if not given
    where : a condition on leading key columns
    keys : rows with the key columns as pyarrow, or a sequence of keys: of several columns each a sequence of values
    options : `startKey`, `endKey` or `keyPrefix` of a raw table

    Raises
    ------
    OptionError
        When not exactly one of these is given.
    InvalidRequestError, SchemaError
        When something is not a key of the table.
    """
    ranges = named_ranges(where, options, codec)
    given = [name for name, found in (("a key", bool(key)), ("keys", keys is not None), ("a range", ranges)) if found]
    if len(given) != 1:
        raise OptionError(
            f"{call}: {' and '.join(given)} are given together." if given else f"{call}: no key is given.",
            todo="Give the values of a key, several keys by keys, or a range by where.",
        )
    if ranges is not None:
        return ranges
    if keys is None:
        return (point_range(codec.encode_key(key)),)
    return merge_ranges(map(point_range, encode_listed(keys, codec)))


def encode_listed(keys: Any, codec: RowCodec) -> list[bytes]:
    """Return the bytes of keys that a user lists, in the same order.

    Parameters
    ----------
    keys : rows with the key columns as pyarrow, or a sequence of keys: of several columns each a sequence of values

    Raises
    ------
    InvalidRequestError, SchemaError
        When something is not a key of the table.
    """
    if isinstance(keys, _WITH_COLUMNS) or hasattr(keys, "__arrow_c_stream__"):
        return _keys_of_rows(keys, codec)
    if isinstance(keys, str | bytes | Mapping) or not isinstance(keys, Iterable):
        raise InvalidRequestError(
            f"keys: {type(keys).__name__} is not a sequence of keys.", todo="Give a list of keys, or a pyarrow Table."
        )
    listed = list(keys)
    if listed and isinstance(listed[0], pa.RecordBatch):
        return _keys_of_rows(listed, codec)
    return [codec.encode_key(each if isinstance(each, tuple | list) else (each,)) for each in listed]


def _keys_of_rows(rows: Any, codec: RowCodec) -> list[bytes]:
    schema, batches = as_batches(rows)
    check_key_columns(schema, schema.names, codec)
    found: list[bytes] = []
    for batch in require_schema(batches, schema):
        encoded, there = keys_of_rows(pa.Table.from_batches([batch]), codec)
        if not there.all():
            raise InvalidRequestError("keys: a row has no key: a key column is null, or the key is empty.")
        found.extend(encoded.to_pylist())
    return found
