"""Rows of one task -> one sorted sequence with one version per key, spilling to local disk beyond a buffer.

A spill is an SST on local disk whose rows carry the spill's number as seq: so the read path's merge, newest first, is
what joins the spills, and the later row wins.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.errors import InvalidRequestError
from slatespark.format.codecs import Compression
from slatespark.format.manifest import SstHandle
from slatespark.format.paths import sst_path
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.format.sst import SST_FORMAT_VERSION, SstBuilder
from slatespark.format.ulid import make_ulid
from slatespark.kernels import gather_fields, new_key_mask, sort_rows, take_rows
from slatespark.kernels.columns import HAS_CREATE, MERGE, ROW_BITS, RowColumns, Visibility
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.storage import ObjectStore, open_scratch
from slatespark.table.read.cursor import LayerCursor, layer_windows
from slatespark.table.read.fold import Fold, fold_rows, row_at
from slatespark.table.read.plan import FileSlice, Layer, SstFile
from slatespark.table.read.scan import visible_windows, window_size
from slatespark.table.stores import OWN_ROOT, TableStores
from slatespark.table.write.rows import RowEncoder, Stamp
from slatespark.table.write.sequence import Ranks, order_repeats
from slatespark.units import MIN_MS

ROW_OVERHEAD_BYTES = 80  # what a row costs besides key and value: offsets, seq, times, flags, its place in the order
SPILL_BLOCK_BYTES = 65536

_EVERYTHING = Visibility(max_seq=2**64 - 1, now_ms=MIN_MS, all_versions=True)


@dataclass(frozen=True, slots=True)
class SortedRows:
    """A piece of the sorted sequence: packed `rows` of `sources`.

    Attributes
    ----------
    is_scattered : the rows lie anywhere in the sources; who goes through them several times should gather them first
    """

    sources: Sequence[RowColumns]
    rows: NDArray[np.int64]
    is_scattered: bool = False


def sort_rows_of_task(
    batches: Iterable[pa.RecordBatch], encoder: RowEncoder, stamp: Stamp, fold: Fold | None, *, buffer_bytes: int
) -> Iterator[SortedRows]:
    """Yield the rows of a task in key order, one version per key; the last row of a key wins, or `sequenceColumn` says.

    Parameters
    ----------
    batches : of the schema that the encoder was planned for
    encoder : makes rows of them
    stamp : seq and times of every row
    buffer_bytes : bounds the rows held in memory; the disk used is bounded by the data of the task
    fold : joins several operands of one key, None if not given

    Raises
    ------
    SchemaError
        When a row cannot be stored.
    InvalidRequestError
        When several operands of one key meet and no operator is given.
    """
    with ExitStack() as stack:
        spills: SpillArea | None = None
        for chunk in _sorted_chunks(batches, encoder, stamp, fold, buffer_bytes):
            if spills is None and chunk.is_last:
                yield SortedRows(chunk.sources, chunk.rows, is_scattered=True)
                return
            if spills is None:
                spills = SpillArea(stack.enter_context(tempfile.TemporaryDirectory(prefix="slatespark-spill-")))
            spills.add(chunk.sources, chunk.rows, chunk.ranks)
        if spills is not None:
            yield from spills.merge(stamp, fold, buffer_bytes)


@dataclass(frozen=True, slots=True)
class _Chunk:
    sources: Sequence[RowColumns]
    rows: NDArray[np.int64]
    ranks: Ranks | None  # of these rows
    is_last: bool


def _sorted_chunks(
    batches: Iterable[pa.RecordBatch], encoder: RowEncoder, stamp: Stamp, fold: Fold | None, buffer_bytes: int
) -> Iterator[_Chunk]:
    """Collect batches up to `writeBuffer` and sort each lot."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        for piece in _pieces(batch, buffer_bytes):
            size = _memory_of(piece)
            if held and held_bytes + size > buffer_bytes:
                yield _sort_chunk(held, encoder, stamp, fold, is_last=False)
                held, held_bytes = [], 0
            held.append(piece)
            held_bytes += size
    if held:
        yield _sort_chunk(held, encoder, stamp, fold, is_last=True)


def _memory_of(batch: pa.RecordBatch) -> int:
    return int(batch.nbytes) + ROW_OVERHEAD_BYTES * len(batch)


def _pieces(batch: pa.RecordBatch, limit_bytes: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch that is larger than the buffer."""
    parts = min(len(batch), -(-_memory_of(batch) // limit_bytes)) if len(batch) else 0
    rows = -(-len(batch) // parts) if parts else 0
    for start in range(0, len(batch), max(1, rows)):
        yield batch.slice(start, rows)


def _sort_chunk(
    held: list[pa.RecordBatch], encoder: RowEncoder, stamp: Stamp, fold: Fold | None, *, is_last: bool
) -> _Chunk:
    encoded = encoder.encode(pa.Table.from_batches(held), stamp)
    order = sort_rows(encoded.rows)
    if encoded.ranks is None:
        return _Chunk(*one_version_per_key([encoded.rows], order, fold), None, is_last)
    arranged = order_repeats(new_key_mask([encoded.rows], order), encoded.ranks.take(order))
    sources, rows = one_version_per_key([encoded.rows], order if arranged is None else order[arranged], None)
    return _Chunk(sources, rows, encoded.ranks.take(rows), is_last)


def one_version_per_key(
    sources: list[RowColumns], rows: NDArray[np.int64], fold: Fold | None
) -> tuple[list[RowColumns], NDArray[np.int64]]:
    """Keep the last of adjacent rows of one key; an operand that is not alone folds onto what precedes it.

    Parameters
    ----------
    sources, rows : packed rows; those of one key follow each other, oldest first
    fold : joins operands, None if not given

    Returns
    -------
    Sources (with the folded rows as a further one) and the rows that stay, in the same order.
    """
    first = new_key_mask(sources, rows)
    if first.all():
        return sources, rows
    last = np.append(first[1:], True)
    kept = rows[last]
    repeated = last & ~first & ((gather_fields(sources, rows).flags & MERGE) != 0)
    if not repeated.any():
        return sources, kept
    starts = np.maximum.accumulate(np.where(first, np.arange(len(rows)), 0))
    folded = [
        _fold_repeats([row_at(sources, int(row)) for row in rows[starts[end] : end + 1]], fold)
        for end in np.flatnonzero(repeated)
    ]
    kept[np.cumsum(last)[repeated] - 1] = (np.int64(len(sources)) << ROW_BITS) + np.arange(len(folded), dtype=np.int64)
    return [*sources, rows_to_columns(folded)], kept


def _fold_repeats(versions: list[Row], fold: Fold | None) -> Row:
    """Return one row for several of one key, given oldest to newest, of which the newest is an operand."""
    if fold is None:
        raise InvalidRequestError(
            f"Key {versions[0].key.hex()} comes several times with merge operands in one write.",
            todo="Say how they fold with the option mergeOperator.",
        )
    group: list[Row] = []
    for row in reversed(versions):
        if row.kind is not RowKind.DELETE:
            group.append(row)
        if row.kind is not RowKind.MERGE:
            break
    result = fold_rows(group, fold)
    grounded = len(group) < len(versions) or group[-1].kind is RowKind.PUT
    return result if grounded else replace(result, kind=RowKind.MERGE)


class SpillArea:
    """Sorted chunks of one task on local disk."""

    def __init__(self, folder: str) -> None:
        scratch = open_scratch(folder)
        self._stores = TableStores(main=scratch, wal=scratch)
        self._files: list[SstFile] = []
        self._ranked = False

    @property
    def store(self) -> ObjectStore:
        """Where the spills lie."""
        return self._stores.main

    def add(self, sources: Sequence[RowColumns], rows: NDArray[np.int64], ranks: Ranks | None = None) -> None:
        """Write one chunk; a later one is newer, unless ranks decide."""
        number = len(self._files) + 1
        flat = take_rows(sources, rows)
        flat.seqs[:] = number
        if ranks is not None:  # a spill needs no create_ts: its rows are stamped again
            self._ranked = True
            flat.create_ts[:] = ranks.order
            flat.flags[~ranks.there] &= np.uint8(~HAS_CREATE & 0xFF)
        builder = SstBuilder(
            block_size=SPILL_BLOCK_BYTES, compression=Compression.NONE, bloom_bits_per_key=0, created_ms=0
        )
        builder.add([flat], np.arange(len(flat), dtype=np.int64))
        built = builder.finish()
        spill_id = make_ulid(number, number)
        self.store.put(sst_path(spill_id), built.parts)
        handle = SstHandle(id=spill_id, info=built.info, format_version=SST_FORMAT_VERSION)
        self._files.append(SstFile(OWN_ROOT, handle.id, handle.info, handle.format_version))

    def merge(self, stamp: Stamp, fold: Fold | None, buffer_bytes: int) -> Iterator[SortedRows]:
        """Yield all rows in key order, one version per key, stamped again with the write's seq."""
        layers = [Layer("spill", (FileSlice(file, _extent(file)),)) for file in reversed(self._files)]
        window_bytes = window_size(buffer_bytes, len(layers))
        cursors = [LayerCursor(layer_windows(self._stores, layer, window_bytes)) for layer in layers]
        # A spill holds a key once, so all its versions are in one window; newest first, hence the reversal.
        for window, selection in visible_windows(cursors, _EVERYTHING, None):
            ordered = selection.rows[::-1]
            if self._ranked:
                ordered = _by_rank(window, ordered)
            sources, rows = one_version_per_key(window, ordered, fold)
            flat = take_rows(sources, rows[::-1])
            flat.seqs[:] = stamp.seq
            if self._ranked:
                flat.create_ts[:] = stamp.create_ts_ms
                flat.flags[:] |= HAS_CREATE
            yield SortedRows([flat], np.arange(len(flat), dtype=np.int64))


def _by_rank(sources: list[RowColumns], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Arrange rows of spills, oldest first within a key, by the ranks that their create_ts holds."""
    fields = gather_fields(sources, rows)
    ranks = Ranks(fields.create_ts, (fields.flags & HAS_CREATE) != 0)
    arranged = order_repeats(new_key_mask(sources, rows), ranks)
    return rows if arranged is None else rows[arranged]


def _extent(file: SstFile) -> KeyRange:
    if file.info.first_entry is None or file.info.last_entry is None:
        return ALL_KEYS
    return KeyRange(file.info.first_entry, file.info.last_entry + b"\0")
