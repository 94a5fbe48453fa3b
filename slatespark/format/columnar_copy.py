"""The columnar copy of an SST: a Parquet file, bound to the SST, and sealed so that damage is noticed.

    Parquet: magic, pages, page indexes | seal, 72 bytes | Parquet: footer, its length, magic

Readers of Parquet start from the footer and follow its offsets, so they never see the seal. It holds the SHA-256 of the
bytes before it and of those behind it: statistics in the footer decide which rows a scan skips, and Parquet itself has
checksums of pages only. See docs/reference/format/columnar-copies.md.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from operator import ge
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.format.codecs import Buffer
from slatespark.format.copy_encodings import encodings_of
from slatespark.format.info import SstInfo
from slatespark.format.ulid import Ulid
from slatespark.ranges import ByteRange

LABEL_KEY: Final = b"slatespark"  # in the key-value metadata of the file
FORMAT: Final = 1

_SEAL: Final = struct.Struct(">8s32s32s")  # magic, SHA-256 of all bytes before it, SHA-256 of all bytes behind it
_SEAL_MAGIC: Final = b"SLATECOL"
_TAIL: Final = struct.Struct("<I4s")  # length of the footer, magic of Parquet
_PARQUET_MAGIC: Final = b"PAR1"

_MAX_LEVELS: Final = 100  # of Arrow's reader
_OUTER_LEVELS: Final = 2  # the file, and the innermost value

_LISTS: Final = ("hidden", "nans", "starts")  # of the label; earlier releases may lack them


@dataclass(frozen=True, slots=True)
class CopyLabel:
    """What a copy says of itself.

    Attributes
    ----------
    sst, sst_digest : id of the SST, and `digest_of` its sections
    rows : number of rows, as many as the SST has
    min_seq, max_seq : smallest and largest sequence number of the SST
    hidden : columns that rows may hold and the copy does not; None if that is not known
    nans : columns with a NaN, be it in a part of them: Parquet's statistics leave it out; None if that is not known
    starts : the first key of each row group; None if they are not known
    format : number of the format of this label and the seal
    """

    sst: str
    sst_digest: str
    rows: int
    min_seq: int
    max_seq: int
    hidden: tuple[str, ...] | None = None
    nans: tuple[str, ...] | None = None
    starts: tuple[bytes, ...] | None = None
    format: int = FORMAT

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode a label; unknown fields are ignored."""
        try:
            content = json.loads(data)
            known = {item.name: content[item.name] for item in fields(cls) if item.name not in _LISTS}
            starts = content.get("starts")
            label = cls(
                **known,
                hidden=_names(content.get("hidden")),
                nans=_names(content.get("nans")),
                starts=None if starts is None else tuple(map(bytes.fromhex, starts)),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
            raise CorruptDataError(f"the label of the columnar copy is damaged: {exc!r}.") from exc
        numbers = (label.rows, label.min_seq, label.max_seq, label.format)
        if not all(isinstance(number, int) for number in numbers):
            raise CorruptDataError("the label of the columnar copy holds no numbers.")
        if label.format != FORMAT:
            raise UnsupportedFormatError(f"the columnar copy has format {label.format}, known is {FORMAT}.")
        return label

    def encode(self) -> str:
        """Return the label as JSON."""
        starts = None if self.starts is None else [key.hex() for key in self.starts]
        return json.dumps({**asdict(self), "starts": starts}, sort_keys=True)

    def is_of(self, sst_id: Ulid, info: SstInfo) -> bool:
        """Tell whether the copy is of an SST."""
        return self.sst == str(sst_id) and self.sst_digest == digest_of(sst_id, info)


def _names(found: list[Any] | None) -> tuple[str, ...] | None:
    return None if found is None else tuple(map(str, found))


def digest_of(sst_id: Ulid, info: SstInfo) -> str:
    """Return the digest of id and sections of an SST, which never changes; it reveals no key."""
    sections = [info.index_offset, info.index_len, info.filter_offset, info.filter_len]
    sections += [info.stats_offset, info.stats_len, int(info.compression.value)]
    return hashlib.sha256(json.dumps([str(sst_id), *sections]).encode()).hexdigest()


def is_too_deep(schema: pa.Schema) -> bool:
    """Tell whether Arrow would write a Parquet file with these columns that it then refuses to read."""
    return max((_levels(field.type) for field in schema), default=0) + _OUTER_LEVELS > _MAX_LEVELS


def _levels(kind: pa.DataType) -> int:
    """Return the levels of Parquet groups in a column."""
    if pa.types.is_struct(kind):
        return 1 + max((_levels(part.type) for part in kind), default=0)
    if pa.types.is_map(kind):
        return 2 + max(_levels(kind.key_type), _levels(kind.item_type))
    return 2 + _levels(kind.value_type) if pa.types.is_list(kind) else 0


class CopyBuilder:
    """Collects row groups, and returns the bytes of a copy.

    Parameters
    ----------
    schema : schema of the columns
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._sink = pa.BufferOutputStream()
        self._schema = schema
        self._writer: pq.ParquetWriter | None = None

    def add(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Add some rows as one row group."""
        rows = pa.Table.from_batches(batches)
        self._open(rows).write_table(rows, row_group_size=max(1, rows.num_rows))

    def _open(self, rows: pa.Table) -> pq.ParquetWriter:
        """Return the writer, which the first row group begins."""
        if self._writer is None:
            options = {"compression": "zstd", "write_page_index": True, "write_page_checksum": True}
            self._writer = pq.ParquetWriter(self._sink, self._schema, **options, **encodings_of(rows))
        return self._writer

    def finish(self, label: CopyLabel) -> list[Buffer]:
        """Return the copy as parts to store one after the other."""
        writer = self._open(self._schema.empty_table())
        writer.add_key_value_metadata({LABEL_KEY.decode(): label.encode()})
        writer.close()
        whole = memoryview(self._sink.getvalue())
        start = len(whole) - _TAIL.size - _TAIL.unpack(whole[-_TAIL.size :])[0]
        body, footer = whole[:start], whole[start:]
        return [body, _SEAL.pack(_SEAL_MAGIC, _sha256(body), _sha256(footer)), footer]


@dataclass(frozen=True, slots=True)
class CopyFooter:
    """The checked end of a copy.

    Attributes
    ----------
    metadata : the Parquet metadata, with row groups and statistics
    seal : the seal as stored; another copy of the same SST has another one
    end_bytes : length of seal and footer
    """

    label: CopyLabel
    metadata: pq.FileMetaData
    seal: bytes
    end_bytes: int

    @property
    def body_digest(self) -> bytes:
        """SHA-256 of the bytes before the seal."""
        digest: bytes = _SEAL.unpack(self.seal)[1]
        return digest

    @property
    def schema(self) -> pa.Schema:
        """The columns, without metadata."""
        return self.metadata.schema.to_arrow_schema().remove_metadata()


def end_range(tail: Buffer, size: int) -> ByteRange:
    """Return the range of seal and footer.

    Parameters
    ----------
    tail : the last bytes of the object, 8 at least
    size : size of the object

    Raises
    ------
    CorruptDataError
        When the object is no copy.
    """
    length, magic = _TAIL.unpack(memoryview(tail)[-_TAIL.size :]) if len(memoryview(tail)) >= _TAIL.size else (0, b"")
    start = size - _TAIL.size - length - _SEAL.size
    if magic != _PARQUET_MAGIC or start < len(_PARQUET_MAGIC):
        raise CorruptDataError("the columnar copy does not end as a Parquet file.", why="It is truncated or damaged.")
    return ByteRange(start, size)


def seal_range(footer: CopyFooter, size: int) -> ByteRange:
    """Return the range of the seal in an object of `size` bytes."""
    start = size - footer.end_bytes
    return ByteRange(start, start + _SEAL.size)


def decode_end(data: Buffer) -> CopyFooter:
    """Decode the bytes of `end_range`.

    Raises
    ------
    CorruptDataError
        When a byte of it is damaged.
    UnsupportedFormatError
        When a later release wrote it.
    """
    found = memoryview(data)
    seal = bytes(found[: _SEAL.size])
    magic, _, footer_digest = _SEAL.unpack(seal)
    footer = found[_SEAL.size :]
    if magic != _SEAL_MAGIC or footer_digest != _sha256(footer):
        raise CorruptDataError("the footer of the columnar copy does not match its seal.", why="It is damaged.")
    try:
        metadata = pq.read_metadata(pa.BufferReader(_PARQUET_MAGIC + bytes(footer)))
    except (pa.ArrowException, OSError) as exc:
        raise CorruptDataError(f"the footer of the columnar copy cannot be read: {exc}.") from exc
    label = CopyLabel.decode((metadata.metadata or {}).get(LABEL_KEY, b""))
    if metadata.num_rows != label.rows:
        raise CorruptDataError(f"the columnar copy has {metadata.num_rows} rows, and its label says {label.rows}.")
    starts = label.starts
    if starts is not None and (len(starts) != metadata.num_row_groups or any(map(ge, starts, starts[1:]))):
        raise CorruptDataError("the label of the columnar copy has no ascending key for each of its row groups.")
    return CopyFooter(label, metadata, seal, len(found))


@dataclass(frozen=True, slots=True)
class OpenCopy:
    """A copy of which every byte was checked."""

    footer: CopyFooter
    file: pq.ParquetFile

    def read_group(self, number: int, names: list[str] | None = None) -> pa.Table:
        """Return a row group; raises `CorruptDataError` if its pages cannot be read."""
        try:
            return self.file.read_row_group(number, columns=names)
        except (pa.ArrowException, OSError) as exc:
            raise CorruptDataError(f"row group {number} of the columnar copy cannot be read: {exc}.") from exc


def open_copy(data: Buffer) -> OpenCopy:
    """Open the bytes of a whole copy; raises as `decode_end`, also if a byte of the pages is damaged."""
    found = memoryview(data)
    end = end_range(found, len(found))
    footer = decode_end(found[end.start :])
    if _sha256(found[: end.start]) != footer.body_digest:
        raise CorruptDataError("the pages of the columnar copy do not match its seal.", why="They are damaged.")
    options: dict[str, Any] = {"page_checksum_verification": True}
    return OpenCopy(footer, pq.ParquetFile(pa.BufferReader(pa.py_buffer(found)), **options))


def _sha256(data: Buffer) -> bytes:
    return hashlib.sha256(data).digest()
