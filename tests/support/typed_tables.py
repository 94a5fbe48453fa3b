"""Typed tables made by hand: rows encoded by a codec, written as they are, and a definition beside them.

So a test may also store what no writer of ours would: values of unknown schemas, or none at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from slatespark import SlateStore
from slatespark.encoding.row_codec import RowCodec
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import definition_log, definition_path, publish_definition
from slatespark.table.log.versioned_object import Version
from slatespark.table.stores import TableStores, open_stores


def define(
    schema: pa.Schema, keys: Sequence[str], *, key_format: str = "tuple", value_format: str = "avro"
) -> TableDefinition:
    """The first definition of a table."""
    bare = TableDefinition(key_format=key_format, key_columns=tuple(keys), value_format=value_format)
    return bare.with_schema(schema)


def encoded(codec: RowCodec, table: pa.Table) -> pa.Table:
    """The rows as a raw table."""
    return pa.table({"key": _column(*codec.encode_keys(table)), "value": _column(*codec.encode_values(table))})


def _column(data: Any, offsets: Any) -> pa.Array:
    raw = data.tobytes()
    return pa.array([raw[start:end] for start, end in pairwise(offsets)], pa.binary())


def make_typed(url: str, definition: TableDefinition, *parts: pa.Table, **options: Any) -> SlateStore:
    """A table with one commit per part; an empty store at `url` is made one."""
    store = SlateStore.create(url)
    stores_of(url).main.delete(definition_path(1))  # so far it is a raw table
    for part in parts:
        store.write(encoded(definition.codec(), part), **options)
    publish_definition(stores_of(url), Version(1, definition))
    return SlateStore.open(url)


def write_raw(url: str, table: pa.Table, **options: Any) -> None:
    """Write keys and values as they are, past the definition of the table."""
    stores = stores_of(url)
    log = definition_log(stores)
    found = log.latest()
    assert found is not None
    stores.main.delete(log.path(found[0]))
    SlateStore.open(url).write(table, **options)
    stores.main.create(log.path(found[0]), found[1])


def stores_of(url: str) -> TableStores:
    """Where the table is."""
    return open_stores(url, storage={})
