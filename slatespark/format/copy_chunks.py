"""The column chunks of a columnar copy: where those of some columns lie, and their rows.

A row group has a chunk for each leaf column. A reader of few columns fetches their chunks alone. Parquet has a checksum
for each page, which is verified here.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slatespark.errors import CorruptDataError
from slatespark.format.codecs import Buffer
from slatespark.ranges import ByteRange


def leaf_columns(metadata: pq.FileMetaData, names: Iterable[str]) -> list[int]:
    """Return the numbers of the leaf columns of some columns, ascending; more than these where names hold dots."""
    wanted = tuple(names)
    paths = (metadata.schema.column(number).path for number in range(metadata.num_columns))
    return [number for number, path in enumerate(paths) if _is_below(path, wanted)]


def _is_below(path: str, names: tuple[str, ...]) -> bool:
    return any(path == name or path.startswith(f"{name}.") for name in names)


def chunk_range(metadata: pq.FileMetaData, group: int, leaf: int) -> ByteRange:
    """Return where a column chunk lies."""
    chunk = metadata.row_group(group).column(leaf)
    start = chunk.data_page_offset
    if chunk.has_dictionary_page:
        start = min(start, chunk.dictionary_page_offset)
    return ByteRange(start, start + chunk.total_compressed_size)


@dataclass(frozen=True, slots=True)
class GroupChunks:
    """Column chunks of one row group, as they are stored.

    Attributes
    ----------
    metadata : Parquet metadata of the copy
    number : number of the row group
    data : the bytes of the chunks by their offset
    """

    metadata: pq.FileMetaData
    number: int
    data: Mapping[int, Buffer]

    def read(self, names: list[str]) -> pa.Table:
        """Return columns whose chunks are all there.

        Raises
        ------
        CorruptDataError
            When a page is damaged.
        """
        options: dict[str, Any] = {"page_checksum_verification": True, "pre_buffer": False, "metadata": self.metadata}
        count = self.metadata.row_group(self.number).num_rows
        try:
            file = pq.ParquetFile(pa.PythonFile(_ChunkFile(self.data), mode="r"), **options)
            rows = file.read_row_group(self.number, columns=names, use_threads=False).select(names)
        except (pa.ArrowException, OSError, KeyError) as exc:
            raise CorruptDataError(f"row group {self.number} of the columnar copy cannot be read: {exc}.") from exc
        if rows.num_rows != count:
            raise CorruptDataError(
                f"row group {self.number} of the columnar copy has {rows.num_rows} rows, not {count}."
            )
        return rows


class _ChunkFile(io.RawIOBase):
    """A file of which only some chunks exist. Parquet reads each as a whole."""

    def __init__(self, data: Mapping[int, Buffer]) -> None:
        self._data, self._at = data, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        end = max((start + len(memoryview(chunk)) for start, chunk in self._data.items()), default=0)
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: end}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        chunk = self._data.get(self._at)
        if chunk is None or size < 0:
            raise OSError(f"offset {self._at} is not the start of a chunk")
        self._at += min(size, len(memoryview(chunk)))
        return bytes(memoryview(chunk)[:size])
