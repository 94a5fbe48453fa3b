"""CSV files -> record batches of text and inferred values, whatever the size of a row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as pa_csv

from slatespark.errors import InvalidRequestError

BLOCK_BYTES: Final = 4 << 20
MAX_BLOCK_BYTES: Final = 256 << 20  # memory is several times this


class CsvSource:
    """A CSV file, opened again with larger blocks when a row does not fit into one.

    Parameters
    ----------
    file : for messages
    open_again : opens the file at its start; called once only unless it `is_repeatable`
    null_texts : texts that mean null
    text_columns : columns whose type is not inferred

    Raises
    ------
    InvalidRequestError
        At the call or while reading: a row is too large.
    pa.ArrowInvalid
        Likewise: it is not CSV.
    """

    def __init__(
        self,
        file: str,
        open_again: Callable[[], Any],
        *,
        is_repeatable: bool,
        null_texts: list[str],
        text_columns: Collection[str],
    ) -> None:
        self._file, self._open, self.is_repeatable, self._null_texts = file, open_again, is_repeatable, null_texts
        self._block_bytes = BLOCK_BYTES
        self._reader = self._opened(dict.fromkeys(text_columns, pa.string()))

    @property
    def schema(self) -> pa.Schema:
        """The columns, as text or with inferred types."""
        return self._reader.schema

    def read_as_text(self, names: Collection[str]) -> None:
        """Open the file again, with further columns whose type is not inferred."""
        self._reader = self._opened({**self._types(), **dict.fromkeys(names, pa.string())})

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; each once, even if the file is opened again."""
        rows = 0
        while True:
            try:
                for batch in _after(rows, self._reader):
                    yield batch
                    rows += batch.num_rows
            except pa.ArrowInvalid as exc:
                types = self._types()
                self._enlarge(exc)
                self._reader = self._opened(types)
            else:
                return

    def _types(self) -> dict[str, pa.DataType]:
        return {item.name: item.type for item in self.schema}

    def _opened(self, types: Mapping[str, pa.DataType]) -> pa_csv.CSVStreamingReader:
        while True:
            try:
                return pa_csv.open_csv(
                    self._open(),
                    read_options=pa_csv.ReadOptions(block_size=self._block_bytes),
                    parse_options=pa_csv.ParseOptions(newlines_in_values=True),
                    convert_options=pa_csv.ConvertOptions(
                        column_types=types,
                        null_values=self._null_texts,
                        strings_can_be_null=True,
                        quoted_strings_can_be_null=False,
                        timestamp_parsers=[pa_csv.ISO8601],
                    ),
                )
            except pa.ArrowInvalid as exc:
                self._enlarge(exc)

    def _enlarge(self, exc: pa.ArrowInvalid) -> None:
        """Double the blocks if an error says that a row does not fit into one; else raise it."""
        if "straddling" not in str(exc):
            raise exc
        if not self.is_repeatable or self._block_bytes >= MAX_BLOCK_BYTES:
            todo = "Use Parquet for such rows." if self.is_repeatable else "Name a regular file, or use Parquet."
            raise InvalidRequestError(
                f"{self._file} has a row of more than {self._block_bytes:,} bytes.", todo=todo
            ) from exc
        self._block_bytes *= 2


def _after(rows: int, batches: pa_csv.CSVStreamingReader) -> Iterator[pa.RecordBatch]:
    """Yield what follows the first rows."""
    left = rows
    for batch in batches:
        if left < batch.num_rows:
            yield batch.slice(left)
        left = max(0, left - batch.num_rows)
