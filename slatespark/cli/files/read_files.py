"""Files -> record batches with the columns of a table, in chunks, so memory does not grow with the files."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from slatespark.cli.files.csv_source import CsvSource
from slatespark.cli.files.file_formats import STANDARD_STREAM, FileFormat, compression_of
from slatespark.cli.files.input_values import array_of_text
from slatespark.cli.files.json_rows import (
    NumberedObject,
    as_table_spells,
    batch_of_objects,
    has_decimals,
    read_chunks,
    schema_of_objects,
)
from slatespark.cli.files.target_columns import TargetColumns
from slatespark.errors import InvalidRequestError, SchemaError
from slatespark.table.progress import Progress, Step

PARQUET_ROWS: Final = 32_768  # per batch; fewer if the rows are large
PARQUET_BYTES: Final = 64 << 20  # of a batch, by the average of its row group; values that repeat may take more
_PARQUET_BUFFER_BYTES: Final = 1 << 20  # for each column; without it Arrow holds the columns of a whole row group
_DROP_FIRST: Final = "drop the table, which is empty, and "
_UNREADABLE: Final = (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError, OSError)
SAMPLE_ROWS: Final = 10_000  # the first objects, from which the types of a new table are inferred
SAMPLE_CHUNKS: Final = 8  # in which they must be, since they are held together: of large objects fewer count

_Rows: TypeAlias = tuple[pa.Schema, Iterator[pa.RecordBatch]]  # columns of a file, and its batches to come


@contextmanager
def read_files(
    files: Sequence[str], file_format: FileFormat, target: TargetColumns, progress: Progress | None
) -> Iterator[pa.RecordBatchReader]:
    """Open files while the block runs, one after the other, and yield their rows as one reader.

    Raises
    ------
    InvalidRequestError
        Naming the file, at the call or while reading: it does not exist or has another format.
    SchemaError
        When files have different columns, or columns that the table lacks.
    """
    with ExitStack() as stack:
        meter = _Meter(files, progress)
        readers = (_read_file(file, file_format, target, meter, stack) for file in files)
        first = next(readers)
        yield pa.RecordBatchReader.from_batches(first.schema, _concatenated(first, chain([first], readers), files))


class CountedRows:
    """Rows that are counted as they are read."""

    def __init__(self, source: pa.RecordBatchReader) -> None:
        self._source, self.count = source, 0

    def reader(self) -> pa.RecordBatchReader:
        """Return the rows; the first batch is read at once, so its errors are raised before anything is written."""
        first = next(self._source, None)
        return pa.RecordBatchReader.from_batches(self._source.schema, self._counted(first))

    def _counted(self, first: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        for batch in chain([] if first is None else [first], self._source):
            self.count += batch.num_rows
            yield batch


@dataclass(frozen=True, slots=True)
class _FileRows:
    """A file being read.

    Attributes
    ----------
    schema, batches : its columns, and its batches to come
    opened : what is open until the last one was read
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    opened: ExitStack


def _concatenated(first: _FileRows, rows: Iterable[_FileRows], files: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for file, part in zip(files, rows, strict=True):
        if part.schema.remove_metadata() != first.schema.remove_metadata():
            raise SchemaError(
                f"{file} and {files[0]} have different columns: {_columns(part.schema)}, and {_columns(first.schema)}.",
                todo="Import them one by one.",
            )
        try:
            for batch in part.batches:
                yield pa.RecordBatch.from_arrays(batch.columns, schema=first.schema)
        except _UNREADABLE as exc:
            raise _unreadable(file, exc) from exc
        part.opened.close()  # a process may have fewer files open than there are to import


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{item.name} {item.type}" for item in schema)


def _unreadable(file: str, exc: Exception, todo: str = "") -> InvalidRequestError:
    reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
    return InvalidRequestError(f"{file} cannot be read: {reason.rstrip('.')}.", todo=todo)


def _other_type(target: TargetColumns) -> str:
    """Return what to do when a value does not have the type of the first rows."""
    return f"The type is that of the first rows: {_DROP_FIRST if target.is_new else ''}give another one with --type."


class _Meter:
    """Reports how much of all files has been read."""

    def __init__(self, files: Sequence[str], progress: Progress | None) -> None:
        self._progress = progress
        self._total = 0 if STANDARD_STREAM in files else sum(_size(file) for file in files)
        self._before = 0

    def show(self, position: int) -> None:
        if self._progress is not None:
            self._progress(Step.IMPORTING, self._before + position, self._total)

    def finish(self, file: str) -> None:
        self._before += 0 if file == STANDARD_STREAM else _size(file)
        self.show(0)


def _size(file: str) -> int:
    try:
        return Path(file).stat().st_size
    except OSError as exc:
        raise _unreadable(file, exc) from exc


def _read_file(file: str, file_format: FileFormat, target: TargetColumns, meter: _Meter, stack: ExitStack) -> _FileRows:
    read = {FileFormat.PARQUET: _read_parquet, FileFormat.CSV: _read_csv, FileFormat.JSON: _read_json}[file_format]
    opened = stack.enter_context(ExitStack())
    try:
        return _FileRows(*read(file, target, meter, opened), opened)
    except _UNREADABLE as exc:
        raise _unreadable(file, exc) from exc


# --- Parquet --------------------------------------------------------------------------------------------------------


def _read_parquet(file: str, target: TargetColumns, meter: _Meter, stack: ExitStack) -> _Rows:
    if file == STANDARD_STREAM:
        raise InvalidRequestError("Parquet cannot be read from standard input.", todo="Name a file.")
    # Arrow opens no name that is not UTF-8. What it buffers before it is asked for, it keeps until the file is closed.
    opened = pq.ParquetFile(_open(file, stack), pre_buffer=False, buffer_size=_PARQUET_BUFFER_BYTES)
    source = stack.enter_context(opened)
    schema = source.schema_arrow
    for name in schema.names:
        target.type_of(name)  # refuses a column that the table lacks
    if target.as_text:
        schema = pa.schema([_as_bytes(item, target) for item in schema])

    def batches() -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in source.iter_batches(_batch_rows(source.metadata)):
            rows += batch.num_rows
            meter.show(_size(file) * rows // max(1, source.metadata.num_rows))
            yield batch.cast(schema) if target.as_text else batch
        meter.finish(file)

    return schema, batches()


def _batch_rows(metadata: pq.FileMetaData) -> int:
    """Return how many rows are read at a time: fewer where a row group has large ones."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    largest = max((group.total_byte_size // max(1, group.num_rows) for group in groups), default=0)
    return min(PARQUET_ROWS, max(1, PARQUET_BYTES // max(1, largest)))


def _as_bytes(item: pa.Field, target: TargetColumns) -> pa.Field:
    """Return a text field as a binary field if the column of the table is binary."""
    is_bytes = target.schema is not None and pa.types.is_binary(target.type_of(item.name) or item.type)
    return item.with_type(pa.binary()) if is_bytes and pa.types.is_string(item.type) else item


# --- CSV ------------------------------------------------------------------------------------------------------------


def _read_csv(file: str, target: TargetColumns, meter: _Meter, stack: ExitStack) -> _Rows:
    raw: list[BinaryIO] = []

    def open_again() -> BinaryIO:
        raw.append(_open(file, stack))
        codec = compression_of(file)
        return raw[-1] if codec is None else stack.enter_context(pa.CompressedInputStream(raw[-1], codec))

    source = CsvSource(
        file,
        open_again,
        is_repeatable=file != STANDARD_STREAM and Path(file).is_file(),
        null_texts=["", *([target.null_text] if target.null_text is not None else [])],
        delimiter=target.delimiter,
        is_typed=lambda name: target.type_of(name) is not None,
    )
    schema = pa.schema([pa.field(item.name, target.type_of(item.name) or item.type) for item in source.schema])

    def batches() -> Iterator[pa.RecordBatch]:
        first_row = 1
        for batch in _with_advice(file, source, target):
            meter.show(_position(raw[-1]))
            arrays = [
                _array_of_cells(column, item, target, first_row)
                for column, item in zip(batch.columns, schema, strict=True)
            ]
            first_row += batch.num_rows
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        meter.finish(file)

    return schema, batches()


def _with_advice(file: str, source: CsvSource, target: TargetColumns) -> Iterator[pa.RecordBatch]:
    try:
        yield from source
    except pa.ArrowInvalid as exc:
        is_guess = "conversion error" in str(exc) and "error to string" not in str(exc)
        raise _unreadable(file, exc, _other_type(target) if is_guess else "") from exc


def _array_of_cells(cells: pa.Array, item: pa.Field, target: TargetColumns, first_row: int) -> pa.Array:
    """Return a column as an array of its type; an error says where a type that does not fit comes from."""
    try:
        return array_of_text(cells, item, as_text=target.as_text, first_row=first_row)
    except SchemaError as exc:
        if target.type_of(item.name) is not None:
            raise
        raise SchemaError(str(exc.args[0]), why=exc.todo, todo=_other_type(target)) from exc


def _open(file: str, stack: ExitStack) -> BinaryIO:
    if file != STANDARD_STREAM:
        return stack.enter_context(Path(file).open("rb"))
    if sys.stdin is None:  # closed before this process began
        raise InvalidRequestError("Standard input is closed.", todo="Redirect it, or name a file.")
    return sys.stdin.buffer


def _position(stream: BinaryIO) -> int:
    return stream.tell() if stream.seekable() else 0


# --- JSON lines -----------------------------------------------------------------------------------------------------


def _read_json(file: str, target: TargetColumns, meter: _Meter, stack: ExitStack) -> _Rows:
    raw = _open(file, stack)
    codec = compression_of(file)
    stream = raw
    if codec is not None:
        if Path(file).is_file() and not _size(file):  # Arrow finds no row in it, as in a file that is not compressed
            raise _unreadable(file, pa.ArrowInvalid("Truncated compressed stream"))
        stream = stack.enter_context(io.BufferedReader(pa.CompressedInputStream(raw, codec)))
    is_exact = target.schema is None or has_decimals(target.schema, target.types)
    where = f"{file}: line "
    parsed = read_chunks(stream, file, Decimal if is_exact else float)
    chunks = (as_table_spells(chunk, target, where) for chunk in parsed)
    first = list(_first_chunks(chunks))
    schema = schema_of_objects([item for chunk in first for _, item in chunk], target)

    def batches() -> Iterator[pa.RecordBatch]:
        for chunk in chain(first, chunks):
            meter.show(_position(raw))
            yield batch_of_objects(chunk, schema, target, where)
        meter.finish(file)

    return schema, batches()


def _first_chunks(chunks: Iterator[list[NumberedObject]]) -> Iterator[list[NumberedObject]]:
    taken = 0
    for chunk in islice(chunks, SAMPLE_CHUNKS):
        yield chunk
        taken += len(chunk)
        if taken >= SAMPLE_ROWS:
            return
