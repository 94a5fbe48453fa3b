"""SlateDataset: a snapshot as a dataset of pyarrow, which hands its filter and columns to the scan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import InMemoryDataset, Scanner

from slatespark.encoding.predicates.arrow_expression import columns_of, find_filter, find_tree
from slatespark.errors import InvalidRequestError
from slatespark.options.values import with_own_spelling


@dataclass(frozen=True, slots=True)
class SlateFragment:
    """The only part of a dataset, with the method of pyarrow's that DataFusion calls."""

    dataset: SlateDataset

    def scanner(self, schema: pa.Schema | None = None, **kwargs: Any) -> Scanner:
        """Return a scanner as that of the dataset, whose schema is `schema`."""
        del schema
        return self.dataset.scanner(**kwargs)


class SlateDataset(InMemoryDataset):  # type: ignore[misc]  # pyarrow has no types
    """A table as it was at one moment, as a dataset of pyarrow. Made by `TableSnapshot.dataset`.

    DuckDB, DataFusion and Polars (`scan_pyarrow_dataset`) read only the columns of a query. Comparisons of whole
    numbers, strings, bytes and dates with constants, joined by `AND`, also `IN` and `BETWEEN`, skip files and blocks as
    the option `filter` does. Every other condition counts too; it only skips nothing.

    Of pyarrow's own methods `scanner`, `to_table`, `to_batches`, `head`, `take` and `count_rows` are there; the others
    are an `InvalidRequestError`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import pyarrow.dataset as ds
    >>> from slatespark import SlateStore
    >>> store = SlateStore.create("memory://as-dataset", "id BIGINT, name STRING", "id")
    >>> version = store.write(pa.table({"id": [1, 2], "name": ["a", "b"]}))
    >>> store.snapshot().dataset().to_table(columns=["name"], filter=ds.field("id") > 1).to_pylist()
    [{'name': 'b'}]
    """

    def __init__(self, scan: Callable[..., pa.RecordBatchReader], options: Mapping[str, Any], shown: str) -> None:
        super().__init__(scan(**options).schema.empty_table())  # a dataset of pyarrow must hold something
        self._scan, self._options, self._shown = scan, with_own_spelling(options, ("columns", "filter")), shown

    def __repr__(self) -> str:
        return f"SlateDataset({self._shown})"

    def scanner(
        self,
        columns: list[str] | Mapping[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002  # pyarrow's
        **kwargs: Any,
    ) -> Scanner:
        """Return a scanner of the rows.

        Parameters
        ----------
        columns : names, or an expression for each name; by default all
        filter : a condition; rows for which it is true are returned
        kwargs : as of `pyarrow.dataset.Scanner.from_batches`, such as `batch_size`

        Raises
        ------
        SnapshotExpiredError, CorruptDataError
            At the call, or while batches are taken.
        """
        asked = dict(self._options)
        tree = None if filter is None else find_tree(filter)
        if (needed := self._needed(columns, () if filter is None else (filter,))) is not None:
            asked["columns"] = needed
        if tree is not None and asked.get("filter") is None:
            asked["filter"] = find_filter(tree, self.schema)
        return Scanner.from_batches(self._scan(**asked), columns=columns, filter=filter, **kwargs)

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[SlateFragment]:  # noqa: A002  # pyarrow's
        """Yield the only part of the dataset, which is all of it; DataFusion asks for parts.

        Parameters
        ----------
        filter : not used; the scan of the part has one of its own
        """
        del filter
        yield SlateFragment(self)

    def _needed(
        self, columns: list[str] | Mapping[str, pc.Expression] | None, others: tuple[pc.Expression, ...]
    ) -> list[str] | None:
        """Return the columns that must be read; None for all."""
        if columns is None:
            return None
        names = [] if isinstance(columns, Mapping) else list(columns)
        for expression in (*(columns.values() if isinstance(columns, Mapping) else ()), *others):
            if (tree := find_tree(expression)) is None:
                return None
            names += columns_of(tree)
        return list(dict.fromkeys(names)) or self.schema.names[:1]

    # --- what pyarrow would do to the empty table ---------------------------------------------------------------------

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise InvalidRequestError(
            "A SlateDataset has no such method.",
            why="pyarrow reads what it asks for by itself.",
            todo="Call to_table() first, with columns and a filter, or name the dataset in a query of DuckDB.",
        )

    filter = join = join_asof = replace_schema = sort_by = __reduce__ = _refuse
