"""Record batches -> files: Parquet, CSV, JSON lines. A file appears when it is complete."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from slatespark.cli.files.file_formats import STANDARD_STREAM, FileFormat, compression_of
from slatespark.cli.files.present_parts import with_present_parts
from slatespark.cli.files.rows import json_lines
from slatespark.display.values import json_values
from slatespark.errors import InvalidRequestError

GROUP_ROWS: Final = 1 << 17  # per row group; fewer if the rows are large
GROUP_BYTES: Final = 64 << 20


def write_file(
    file: str,
    file_format: FileFormat,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    *,
    as_text: bool = False,
    overwrite: bool = False,
) -> int:
    """Write batches to a file, and return the number of rows.

    Parameters
    ----------
    as_text : write bytes as UTF-8 text, not hexadecimal, in formats without binary values
    overwrite : replace an existing file

    Raises
    ------
    InvalidRequestError
        When the file exists or cannot be written, or bytes are not UTF-8 text.
    """
    write: Callable[..., int] = {
        FileFormat.PARQUET: _write_parquet,
        FileFormat.CSV: _write_csv,
        FileFormat.JSON: _write_json,
    }[file_format]
    try:
        target = _target(file, overwrite=overwrite)
        with _complete_file(target) as part, _stream(part, file, file_format) as sink:
            return write(sink, batches, schema, as_text=as_text)
    except OSError as exc:
        raise InvalidRequestError(f"{file} cannot be written: {exc.strerror or exc}.") from exc
    except pa.ArrowNotImplementedError as exc:
        raise InvalidRequestError(
            f"{file}: {exc}.", todo="Choose other columns with --columns, or another format."
        ) from exc


def _target(file: str, *, overwrite: bool) -> Path:
    """Return where a file is written; a link stays one."""
    target = Path(os.path.realpath(file))  # Path.resolve raises RuntimeError for links in a circle
    if file == STANDARD_STREAM or (os.path.lexists(target) and not target.is_file()):
        raise InvalidRequestError(
            f"{file} is not a regular file.", why="An export replaces a file as a whole.", todo="Name a file."
        )
    if target.exists() and not overwrite:
        raise InvalidRequestError(f"{file} already exists.", todo="Choose another name, or use --overwrite.")
    return target


@contextmanager
def _complete_file(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside the target; it replaces the target when the block succeeds.

    No other process has it: two that export to one file would mix their rows.
    """
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        yield part
        part.replace(target)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


@contextmanager
def _stream(part: Path, file: str, file_format: FileFormat) -> Iterator[Any]:
    codec = None if file_format is FileFormat.PARQUET else compression_of(file)
    with part.open("wb") as raw:
        if codec is None:
            yield raw
        else:
            with pa.CompressedOutputStream(raw, codec) as packed:
                yield packed


def _write_parquet(sink: Any, batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, as_text: bool) -> int:
    del as_text  # Parquet has binary values
    rows = 0
    with pq.ParquetWriter(sink, schema) as writer:
        for table in _groups(batches, schema):
            writer.write_table(with_present_parts(table), row_group_size=len(table))
            rows += len(table)
    return rows


def _groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield batches combined into row groups."""
    group: list[pa.RecordBatch] = []
    rows = stored_bytes = 0
    for batch in batches:
        group.append(batch)
        rows, stored_bytes = rows + batch.num_rows, stored_bytes + batch.nbytes
        if rows >= GROUP_ROWS or stored_bytes >= GROUP_BYTES:
            yield pa.Table.from_batches(group, schema)
            group, rows, stored_bytes = [], 0, 0
    if rows:
        yield pa.Table.from_batches(group, schema)


def _write_csv(sink: Any, batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, as_text: bool) -> int:
    """Write a heading and rows. An empty field is null; empty text is two quotation marks."""
    rows = 0
    plain = pa.schema([pa.field(item.name, item.type if _is_number(item.type) else pa.string()) for item in schema])
    with pa_csv.CSVWriter(sink, plain) as writer:
        for batch in batches:
            arrays = [
                column
                if column.type == item.type
                else pa.array(_cells(item.name, column, as_text=as_text), pa.string())
                for column, item in zip(batch.columns, plain, strict=True)
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=plain))
            rows += batch.num_rows
    return rows


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _cells(name: str, column: pa.Array, *, as_text: bool) -> list[str | None]:
    """Return values of a column as text, nested ones as JSON."""
    values = json_values(column, as_text=as_text)
    if pa.types.is_binary(column.type) and (
        invalid := next((value for value in values if isinstance(value, dict)), None)
    ):
        raise InvalidRequestError(
            f"Column {name}: the bytes {invalid['hex']} are not UTF-8 text.",
            todo="Export without --text, or as JSON or Parquet.",
        )
    return [
        value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values
    ]


def _write_json(sink: Any, batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, as_text: bool) -> int:
    del schema
    rows = 0
    for batch in batches:
        lines = "".join(f"{line}\n" for line in json_lines([batch], as_text=as_text))
        sink.write(lines.encode("utf-8", "surrogatepass"))
        rows += batch.num_rows
    return rows
