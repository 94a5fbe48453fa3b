"""Rows of a scan on their way to the terminal: record batches in, lines out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from slatespark.cli.output import json_bytes
from slatespark.display.text import GAP, NOTHING, bytes_text
from slatespark.units import ms_to_text

SAMPLED_ROWS = 100  # the first rows decide how wide the columns are; a scan may be endless
_HEADINGS = {"_seq": "seq", "_op": "op", "_create_ts": "created", "_expire_ts": "expires"}


def limit_batches(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield batches until `limit` rows have passed; no batch is fetched beyond them."""
    left = limit
    if left == 0:
        return
    for batch in batches:
        if left is None:
            yield batch
            continue
        yield batch.slice(0, left)
        left -= min(left, batch.num_rows)
        if not left:
            return


def json_lines(batches: Iterable[pa.RecordBatch], *, as_text: bool) -> Iterator[str]:
    """Yield each row as a JSON object."""
    for batch in batches:
        names = [_HEADINGS.get(name, name) for name in batch.schema.names]
        columns = [_python_values(batch.column(at)) for at in range(batch.num_columns)]
        for values in zip(*columns, strict=True):
            row = {name: json_bytes(value, as_text=as_text) for name, value in zip(names, values, strict=True)}
            yield json.dumps(row, ensure_ascii=False)


def text_lines(batches: Iterable[pa.RecordBatch], *, as_text: bool) -> Iterator[str]:
    """Yield a heading and each row in columns as wide as the first rows need; nothing if there is no row."""
    rows = _cells(batches, as_text=as_text)
    sample = list(islice(rows, SAMPLED_ROWS + 1))
    if len(sample) < 2:
        return
    widths = [max(len(row[at]) for row in sample) for at in range(len(sample[0]))]
    for row in chain(sample, rows):
        yield _pad(row, widths)


def _pad(row: list[str], widths: list[int]) -> str:
    return GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _cells(batches: Iterable[pa.RecordBatch], *, as_text: bool) -> Iterator[list[str]]:
    """Yield the heading, then every row, as text."""
    is_first = True
    for batch in batches:
        if is_first:
            yield [_HEADINGS.get(name, name) for name in batch.schema.names]
            is_first = False
        columns = [_python_values(batch.column(at)) for at in range(batch.num_columns)]
        for values in zip(*columns, strict=True):
            yield [_cell(value, as_text=as_text) for value in values]


def _cell(value: Any, *, as_text: bool) -> str:
    if value is None:
        return NOTHING
    return bytes_text(value, as_text=as_text) if isinstance(value, bytes) else str(value)


def _python_values(column: pa.Array) -> list[Any]:
    """Return the values of a column; instants become ISO text, also those that no calendar holds."""
    if not pa.types.is_timestamp(column.type):
        return list(column.to_pylist())
    return [None if us is None else ms_to_text(us // 1000) for us in column.cast(pa.int64()).to_pylist()]
