"""`scan_slate`: a table as a lazy frame of Polars."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from slatespark.options.values import with_own_spelling
from slatespark.polars.predicates import find_filter
from slatespark.slate_store import SlateStore
from slatespark.slate_store.table_snapshot import CHOICES, TableSnapshot


def scan_slate(path: str | os.PathLike[str], *, storage: dict[str, Any] | None = None, **options: Any) -> pl.LazyFrame:
    """Return the rows of a table as a lazy frame.

    Only the columns that a query uses are decoded. Comparisons of whole numbers, strings and dates with constants,
    joined by `&`, also `is_in` and `is_between`, skip files and blocks as the option `filter` does. The frame shows the
    table as it is at this call, whenever it is collected.

    Parameters
    ----------
    path : local path or URL
    storage : arguments of `SlateStore.open`
    options : those of `SlateStore.snapshot`, which choose the moment, and other read options

    Raises
    ------
    TableNotFoundError
        When there is no table.
    OptionError, HistoryTrimmedError
        When an option is wrong, or the past that it asks for can no longer be read exactly.

    Examples
    --------
    >>> import polars as pl
    >>> import pyarrow as pa
    >>> from slatespark import SlateStore
    >>> from slatespark.polars import scan_slate
    >>> store = SlateStore.create("memory://orders", "tenant STRING, id BIGINT, total DOUBLE", "tenant,id")
    >>> version = store.write(pa.table({"tenant": ["a", "b"], "id": [1, 1], "total": [2.5, 4.0]}))
    >>> scan_slate("memory://orders").filter(pl.col("tenant") == "a").select("id", "total").collect().rows()
    [(1, 2.5)]
    """
    options = with_own_spelling(options, (*CHOICES, "columns", "filter"))
    chosen = {name: value for name, value in options.items() if name in CHOICES}
    rest = {name: value for name, value in options.items() if name not in CHOICES}
    snapshot = SlateStore.open(path, **(storage or {})).snapshot(**chosen)
    schema = snapshot.scan(**rest).schema

    def read(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        del batch_size  # batches are as large as the blocks that they come from
        return _read(snapshot, rest, schema, with_columns=with_columns, predicate=predicate, n_rows=n_rows)

    return register_io_source(read, schema=_frame(schema.empty_table()).schema, is_pure=True)


def _read(
    snapshot: TableSnapshot,
    options: dict[str, Any],
    schema: pa.Schema,
    *,
    with_columns: list[str] | None,
    predicate: pl.Expr | None,
    n_rows: int | None,
) -> Iterator[pl.DataFrame]:
    """Yield the rows that Polars asks for: the first `n_rows` of the table, those of them that pass, some columns."""
    asked = dict(options)
    if with_columns is not None:
        tested = () if predicate is None else predicate.meta.root_names()
        asked["columns"] = list(dict.fromkeys([*with_columns, *tested])) or schema.names[:1]
    if predicate is not None and n_rows is None and asked.get("filter") is None:
        asked["filter"] = find_filter(predicate.meta.serialize(format="json"), schema)
    left = n_rows
    for batch in snapshot.scan(**asked):
        frame = _frame(pa.Table.from_batches([batch]))
        if left is not None:
            frame = frame.head(left)
            left -= frame.height
        if predicate is not None:
            frame = frame.filter(predicate)
        yield frame if with_columns is None or not with_columns else frame.select(with_columns)
        if left == 0:
            return


def _frame(rows: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)  # of a table, not of a column
    return frame
