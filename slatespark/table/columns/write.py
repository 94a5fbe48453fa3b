"""SST -> columnar copy: the rows of a finished SST, also of another client's, decoded and uploaded as Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import CorruptDataError
from slatespark.format.codecs import Buffer
from slatespark.format.columnar_copy import CopyBuilder, CopyLabel, digest_of, is_too_deep
from slatespark.format.paths import copy_path
from slatespark.format.properties import SstProperties
from slatespark.kernels import new_key_mask
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, RowColumns
from slatespark.table.columns.nans import NanColumns
from slatespark.table.read.arrow import CREATE_TS, EXPIRE_TS, SEQ, Projection, decode_columns, make_batch
from slatespark.table.read.merge.cursor import Window, layer_windows
from slatespark.table.read.planning.plan import Layer, SstFile
from slatespark.table.stores import TableStores
from slatespark.units import MAX_TIMESTAMP_MS

GROUP_ROWS: Final = 128 << 10  # of a row group, up to the end of a window
GROUP_BYTES: Final = 64 << 20  # in memory; fewer rows make a group where they are large
WINDOW_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class CopyRule:
    """How the copies of a table are written; picklable.

    Attributes
    ----------
    codec : codec of the table
    with_seq : store sequence numbers, too
    """

    codec: RowCodec
    with_seq: bool = False


@dataclass(frozen=True, slots=True)
class CopyOutcome:
    """What became of the copy of an SST.

    Attributes
    ----------
    sst : id of the SST
    rows, stored_bytes : rows and stored bytes of the copy; 0 if there is none
    refused : why the SST has no copy; None if it has one
    """

    sst: str
    rows: int = 0
    stored_bytes: int = 0
    refused: str | None = None


class _UnfitError(Exception):
    """An SST can have no copy; the message says why."""


def write_copy(stores: TableStores, file: SstFile, rule: CopyRule, known: SstProperties | None = None) -> CopyOutcome:
    """Write the columnar copy of an SST, unless its rows cannot be shown by one.

    A copy is for files of which each row is a put and the only version of its key. Every row is read, so the copy holds
    what the file holds.

    Parameters
    ----------
    file : complete file of this table
    known : what is known of its rows; without it they are read twice

    Raises
    ------
    SnapshotExpiredError, UnavailableError
        When the SST is gone, or the store did not answer.
    """
    try:
        parts, rows = _encode(stores, file, rule, known)
    except _UnfitError as exc:
        return CopyOutcome(str(file.id), refused=str(exc))
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as exc:
        return CopyOutcome(str(file.id), refused=f"Parquet cannot hold its columns: {exc}")
    except CorruptDataError as exc:
        return CopyOutcome(str(file.id), refused=f"it cannot be decoded: {exc.args[0]}")
    stores.main.put(copy_path(file.id), parts)
    return CopyOutcome(str(file.id), rows, sum(len(memoryview(part)) for part in parts))


def copy_projection(codec: RowCodec, *, any_flags: int, with_seq: bool) -> Projection:
    """Return the columns of a copy: those of the table, and times that any row has.

    Parameters
    ----------
    any_flags : flags that any row has
    """
    names = [*codec.schema.names]
    names += [CREATE_TS] if any_flags & HAS_CREATE else []
    names += [EXPIRE_TS] if any_flags & HAS_EXPIRE else []
    names += [SEQ] if with_seq else []
    return Projection(tuple(names), codec=codec)


def _encode(
    stores: TableStores, file: SstFile, rule: CopyRule, known: SstProperties | None
) -> tuple[list[Buffer], int]:
    """Return the bytes of a copy, and its number of rows."""
    any_flags = _any_flags(stores, file) if known is None else known.any_flags
    if any_flags & (TOMBSTONE | MERGE):
        raise _UnfitError(f"it holds {'merge operands' if any_flags & MERGE else 'deletions'}")
    projection = copy_projection(rule.codec, any_flags=any_flags, with_seq=rule.with_seq)
    if is_too_deep(projection.schema):
        raise _UnfitError("its columns are nested too deeply for Parquet")
    builder = CopyBuilder(projection.schema)
    rows, seqs = 0, _Span()
    nans = NanColumns(projection.schema)
    starts: list[bytes] = []
    group: list[pa.RecordBatch] = []
    for window in _checked_windows(stores, file, any_flags):
        span = window.indices
        arrays = decode_columns([window.rows], span, projection.names, projection, stores.url)
        batch = make_batch(arrays, projection)
        nans.add(batch)
        if not group:
            starts.append(window.rows.key(window.low))
        group.append(batch)
        rows += len(span)
        seqs.add(window.rows.seqs[window.low : window.high])
        # A window that ends with its blocks; one that is cut within them is followed by the rest.
        if window.high == len(window.rows) and _is_full(group):
            builder.add(group)
            group = []
    if group:
        builder.add(group)
    label = CopyLabel(
        str(file.id),
        digest_of(file.id, file.info),
        rows,
        seqs.low,
        seqs.high,
        hidden=_hidden_columns(rule.codec),
        nans=nans.names,
        starts=tuple(starts),
    )
    return builder.finish(label), rows


def _hidden_columns(codec: RowCodec) -> tuple[str, ...] | None:
    """Return the columns that rows may hold and the table does not have, dropped ones first of all.

    Every row has a schema that the codec knows, or it is not decoded. Values of other formats name no schema, and those
    of a table without value columns are not looked at.
    """
    if codec.value_format != "avro" or not codec.value_fields:
        return None
    from slatespark.encoding.avro_schema import column_name

    held = {column_name(item["name"]) for schema in codec.writer_schemas.values() for item in schema["fields"]}
    return tuple(sorted(held.difference(codec.schema.names)))


def _is_full(group: list[pa.RecordBatch]) -> bool:
    return sum(map(len, group)) >= GROUP_ROWS or sum(batch.nbytes for batch in group) >= GROUP_BYTES


@dataclass(slots=True)
class _Span:
    """The smallest and the largest of some sequence numbers."""

    low: int = (1 << 64) - 1
    high: int = 0

    def add(self, seqs: NDArray[np.uint64]) -> None:
        self.low, self.high = min(self.low, int(seqs.min())), max(self.high, int(seqs.max()))


def file_windows(stores: TableStores, file: SstFile) -> Iterator[Window]:
    """Yield all rows of a file."""
    return layer_windows(stores, Layer("copy", (file.whole(),)), WINDOW_BYTES)


def _any_flags(stores: TableStores, file: SstFile) -> int:
    """Return the flags that any row of a file has."""
    found = 0
    for window in file_windows(stores, file):
        found |= int(np.bitwise_or.reduce(window.rows.flags[window.low : window.high]))
    return found


def _checked_windows(stores: TableStores, file: SstFile, any_flags: int) -> Iterator[Window]:
    """Yield all rows of a file; raises `_UnfitError` at the first one that no copy can show."""
    last: bytes | None = None
    for window in file_windows(stores, file):
        rows, low, high = window.rows, window.low, window.high
        flags = int(np.bitwise_or.reduce(rows.flags[low:high]))
        if flags & ~any_flags:
            raise _UnfitError("its properties do not describe its rows")
        new = new_key_mask([rows], np.arange(low, high, dtype=np.int64))
        if not new.all() or rows.key(low) == last:
            raise _UnfitError("it holds several versions of a key")
        if _has_far_times(rows, low, high):
            raise _UnfitError("it holds times beyond those of a timestamp")
        last = rows.key(high - 1)
        yield window


def _has_far_times(rows: RowColumns, low: int, high: int) -> bool:
    times = np.concatenate([rows.create_ts[low:high], rows.expire_ts[low:high]])
    return bool(((times < -MAX_TIMESTAMP_MS) | (times > MAX_TIMESTAMP_MS)).any())
