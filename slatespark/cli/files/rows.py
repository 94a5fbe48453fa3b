"""Record batches -> lines of text or JSON for the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from slatespark.display.values import json_values, text_of
from slatespark.texts import GAP, NOTHING, bytes_text, printable

SAMPLED_ROWS: Final = 100  # the first rows set the column widths, since a scan may be huge
RAW_HEADINGS: Final[Mapping[str, str]] = MappingProxyType(
    {"_seq": "seq", "_op": "op", "_create_ts": "created", "_expire_ts": "expires"}
)
_NO_HEADINGS: Final[Mapping[str, str]] = MappingProxyType({})


def limit_batches(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield batches until `limit` rows have passed; no batch is fetched beyond them."""
    left = limit
    if left == 0:
        return
    for batch in batches:
        if left is None:
            yield batch
            continue
        taken = min(left, batch.num_rows)  # the limit may be beyond what Arrow counts to
        yield batch.slice(0, taken)
        left -= taken
        if not left:
            return


def json_lines(
    batches: Iterable[pa.RecordBatch], *, as_text: bool, headings: Mapping[str, str] = _NO_HEADINGS
) -> Iterator[str]:
    """Yield each row as a JSON object; `headings` renames columns."""
    for batch in batches:
        names = [headings.get(name, name) for name in batch.schema.names]
        columns = [json_values(column, as_text=as_text) for column in batch.columns]
        for values in zip(*columns, strict=True):
            yield json.dumps(dict(zip(names, values, strict=True)), ensure_ascii=False)


def text_lines(
    batches: Iterable[pa.RecordBatch], *, as_text: bool, headings: Mapping[str, str] = _NO_HEADINGS
) -> Iterator[str]:
    """Yield a heading and the rows in aligned columns, as wide as the first rows need; nothing if there are no rows."""
    rows = _cells(batches, as_text=as_text, headings=headings)
    sample = list(islice(rows, SAMPLED_ROWS + 1))
    if len(sample) < 2:
        return
    widths = [max(len(row[at]) for row in sample) for at in range(len(sample[0]))]
    for row in chain(sample, rows):
        yield _pad(row, widths)


def _pad(row: list[str], widths: list[int]) -> str:
    return GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _cells(batches: Iterable[pa.RecordBatch], *, as_text: bool, headings: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield the heading, then every row, as text."""
    is_first = True
    for batch in batches:
        if is_first:
            yield [printable(headings.get(name, name)) for name in batch.schema.names]
            is_first = False
        columns = [_column_cells(column, as_text=as_text) for column in batch.columns]
        for values in zip(*columns, strict=True):
            yield list(values)


def _column_cells(column: pa.Array, *, as_text: bool) -> list[str]:
    if pa.types.is_binary(column.type):
        values: list[Any] = column.to_pylist()
        return [NOTHING if value is None else bytes_text(value, as_text=as_text) for value in values]
    return [text_of(value) for value in json_values(column, as_text=as_text)]
