"""Rows as they are handed over: anything that has columns becomes batches of one schema."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from slatespark.errors import SchemaError


def as_batches(batches: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Return what was given as batches, and their schema; raises `SchemaError` when it has no columns."""
    if isinstance(batches, pa.RecordBatchReader):
        return batches.schema, batches
    if isinstance(batches, pa.Table):
        return batches.schema, batches.to_batches()
    if isinstance(batches, pa.RecordBatch):
        batches = [batches]
    rows = iter(batches) if isinstance(batches, Iterable) else iter([batches])
    first = next(rows, None)
    if not isinstance(first, pa.RecordBatch):
        raise SchemaError(
            f"Nothing that has columns was given, but {type(first).__name__}.",
            todo="Give a pyarrow Table, RecordBatch, RecordBatchReader, or several batches.",
        )
    return first.schema, itertools.chain([first], rows)


def require_schema(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield batches, all of the schema that the write was checked with: a column that one lacks would become null."""
    for batch in batches:
        if not isinstance(batch, pa.RecordBatch):
            raise SchemaError(f"A {type(batch).__name__} is no batch of rows.", todo="Give pyarrow RecordBatches.")
        if (batch.schema.names, batch.schema.types) != (schema.names, schema.types):
            raise SchemaError(
                f"A batch has the columns {_described(batch.schema)}, the first one {_described(schema)}.",
                todo="Give all batches of a write the same columns.",
            )
        yield batch


def _described(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema) or "none"
