"""CSV files -> record batches of text and inferred values, whatever the size of a row."""

from __future__ import annotations

import io
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as pa_csv

from slatespark.errors import InvalidRequestError

BLOCK_BYTES: Final = 4 << 20
MAX_BLOCK_BYTES: Final = 256 << 20  # memory is several times this

_LAST_LINE_BYTES: Final = 34
_PLACE: Final = re.compile(r"(?:In CSV column #(?P<column>\d+): )?Row #(?P<row>\d+): ")  # in errors of Arrow


class CsvSource:
    """A CSV file, opened again with larger blocks when a row does not fit into one.

    Parameters
    ----------
    file : name of the file, for messages
    open_again : opens the file at its start; called once only unless it `is_repeatable`
    null_texts : texts that mean null
    delimiter : the character between fields
    is_typed : tells whether the type of a column, by its name, is not inferred

    Attributes
    ----------
    schema : the columns, as text or with inferred types; rows have numbers as text, since Arrow would change some

    Raises
    ------
    InvalidRequestError
        At the call or while reading: text is not UTF-8, a row is too large, or the file ends within quotation marks.
    pa.ArrowInvalid
        Likewise: it is not CSV, or a later value has another type than the first ones; it names row and column.
    """

    def __init__(
        self,
        file: str,
        open_again: Callable[[], Any],
        *,
        is_repeatable: bool,
        null_texts: list[str],
        delimiter: str,
        is_typed: Callable[[str], bool],
    ) -> None:
        self._file, self._open, self._is_repeatable, self._null_texts = file, open_again, is_repeatable, null_texts
        self._delimiter = delimiter
        self._block_bytes, self.schema = BLOCK_BYTES, pa.schema([])
        head, rest, inferred = self._begun()
        for item in inferred:
            if pa.types.is_binary(item.type) and not is_typed(item.name):
                raise InvalidRequestError(
                    f"{file}: column {item.name} holds text that is not UTF-8.",
                    todo="Convert the file to UTF-8, as `iconv -f latin1 -t utf-8` does.",
                )
        self.schema = pa.schema(
            [
                item.with_type(pa.string()) if is_typed(item.name) or pa.types.is_null(item.type) else item
                for item in inferred
            ]
        )
        self._types = {item.name: pa.string() if _is_number(item.type) else item.type for item in self.schema}
        self._reader, self._last = self._opened(head, rest)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; each once, even if the file is opened again."""
        rows = 0
        while True:
            try:
                for batch in _after(rows, self._reader):
                    yield batch
                    rows += batch.num_rows
            except pa.ArrowInvalid as exc:
                self._enlarge(exc)
                self._reader, self._last = self._opened(b"", self._open())
            else:
                if not self._last.was_found:
                    raise InvalidRequestError(
                        f"{self._file} ends within quotation marks.",
                        why="It may have been cut off.",
                        todo="Export it again, or close the quotation marks.",
                    )
                return

    def _begun(self) -> tuple[bytes, Any, pa.Schema]:
        """Return the first bytes of the file, what reads the others, and the columns as Arrow infers them."""
        while True:
            rest = self._open()
            head = _read_fully(rest, self._block_bytes - _LAST_LINE_BYTES)
            is_all = len(head) < self._block_bytes - _LAST_LINE_BYTES
            cut = () if is_all else (b"x", b"x")  # Arrow looks for the end of a row in two blocks: not in these
            try:
                with self._parsed(iter([head, *cut]), {}, None) as reader:
                    return head, rest, reader.schema
            except pa.ArrowInvalid as exc:
                self._enlarge(exc)

    def _opened(self, head: bytes, rest: Any) -> tuple[pa_csv.CSVStreamingReader, _LastLine]:
        while True:
            last = _LastLine(len(self.schema), self._delimiter)
            blocks = _blocks(head, rest, self._block_bytes - _LAST_LINE_BYTES, last.line)
            try:
                return self._parsed(blocks, self._types, last.judge), last
            except pa.ArrowInvalid as exc:
                self._enlarge(exc)
                head, rest = b"", self._open()

    def _parsed(
        self,
        blocks: Iterator[bytes],
        types: Mapping[str, pa.DataType],
        judge: Callable[[pa_csv.InvalidRow], str] | None,
    ) -> pa_csv.CSVStreamingReader:
        return pa_csv.open_csv(
            _Stream(blocks),
            # On several threads Arrow does not know the number of a row that it cannot read, and is no faster.
            read_options=pa_csv.ReadOptions(block_size=self._block_bytes, use_threads=False),
            parse_options=pa_csv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=judge
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types=types,
                null_values=self._null_texts,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                timestamp_parsers=[pa_csv.ISO8601],
            ),
        )

    def _enlarge(self, exc: pa.ArrowInvalid) -> None:
        """Double the blocks if an error says that a row does not fit into one; else raise it."""
        if "straddling" not in str(exc):
            raise pa.ArrowInvalid(_PLACE.sub(self._place, str(exc), count=1)) from exc
        if not self._is_repeatable or self._block_bytes >= MAX_BLOCK_BYTES:
            todo = "Use Parquet for such rows." if self._is_repeatable else "Name a regular file, or use Parquet."
            raise InvalidRequestError(
                f"{self._file} has a row of more than {self._block_bytes:,} bytes.", todo=todo
            ) from exc
        self._block_bytes *= 2

    def _place(self, found: re.Match[str]) -> str:
        """Return a place as other errors name it: Arrow counts the heading as a row, and columns from 0."""
        row, column = f"row {int(found['row']) - 1}", found["column"]
        return f"{row}: " if column is None else f"{row}, column {self.schema.names[int(column)]}: "


def _is_number(kind: pa.DataType) -> bool:
    return any(fits(kind) for fits in (pa.types.is_integer, pa.types.is_floating))


class _LastLine:
    """A line that follows a file and has another number of columns, so Arrow asks what to do with it.

    It does not ask when the line is within quotation marks: then the file has lost its end. Counting the marks would
    not tell, since one in a cell that does not start with it is a character like others.
    """

    def __init__(self, columns: int, delimiter: str) -> None:
        self._text = secrets.token_hex(_LAST_LINE_BYTES // 2 - 1) + (delimiter if columns == 1 else "")
        self.line, self.was_found = f"\n{self._text}".encode(), False

    def judge(self, row: pa_csv.InvalidRow) -> str:
        """Return what to do with a row that has another number of columns than the first one."""
        if row.text != self._text:
            return "error"
        self.was_found = True
        return "skip"


class _Stream(io.RawIOBase):
    """Blocks as the file that Arrow reads; each `read` returns one of them."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        super().__init__()
        self._blocks = blocks

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        del size  # that of a block, or more
        return next(self._blocks, b"")


def _blocks(head: bytes, rest: Any, size: int, last_line: bytes) -> Iterator[bytes]:
    """Yield the head and the rest of a file, the last line with what comes before it."""
    block = head or _read_fully(rest, size)
    while len(block) >= size:
        yield block
        block = _read_fully(rest, size)
    yield block + last_line


def _read_fully(file: Any, size: int) -> bytes:
    """Return as many bytes; fewer at the end of the file."""
    parts, left = [], size
    while left and (part := file.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _after(rows: int, batches: pa_csv.CSVStreamingReader) -> Iterator[pa.RecordBatch]:
    """Yield what follows the first rows."""
    left = rows
    for batch in batches:
        if left < batch.num_rows:
            yield batch.slice(left)
        left = max(0, left - batch.num_rows)
