"""Rows of one task -> one sorted sequence with one version per key, in memory that a buffer bounds.

Rows are sorted a buffer at a time. As long as they come in order, as in a sorted load, these chunks follow each other
as they are. From the first row on that does not, all are spilled to local disk and merged.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.format.row import RowKind
from slatespark.kernels import new_key_mask, sort_rows, take_rows
from slatespark.kernels.columns import RowColumns
from slatespark.table.read.fold import Fold, row_at
from slatespark.table.read.plan import Layer
from slatespark.table.rows.encoder import RowEncoder, Stamp
from slatespark.table.rows.sequence import Ranks, order_repeats
from slatespark.table.rows.sorted_rows import SortedRows, one_version_per_key
from slatespark.table.rows.spill_area import SpillArea
from slatespark.table.stores import TableStores

ROW_OVERHEAD_BYTES = 80  # what a row costs besides key and value: offsets, seq, times, flags, its place in the order


class TaskSorter:
    """The rows of one task; the last row of a key wins, or `sequenceColumn` says.

    First take `ascending`; if `is_done` then, that was all. Else `merged` yields all rows, these once more included.

    Parameters
    ----------
    batches : of the schema that the encoder was planned for
    encoder : makes rows of them
    stamp : seq and times of every row
    fold : joins several operands of one key, None if not given
    buffer_bytes : bounds the rows held in memory; the disk used is bounded by the data of the task
    """

    def __init__(
        self,
        batches: Iterable[pa.RecordBatch],
        encoder: RowEncoder,
        stamp: Stamp,
        fold: Fold | None,
        *,
        buffer_bytes: int,
    ) -> None:
        self._stamp, self._fold, self._buffer_bytes = stamp, fold, buffer_bytes
        self._chunks = _sorted_chunks(batches, encoder, stamp, fold, buffer_bytes)
        self._waiting: list[_Chunk] = []  # what did not come in order, and the row before it

    @property
    def is_done(self) -> bool:
        """Whether `ascending` has yielded all rows."""
        return not self._waiting

    def ascending(self) -> Iterator[SortedRows]:
        """Yield rows in key order, one version per key, for as long as they come so.

        Raises
        ------
        SchemaError
            When a row cannot be stored.
        InvalidRequestError
            When several operands of one key meet and no operator is given.
        """
        held: _Chunk | None = None  # the last row so far
        for chunk in self._chunks:
            if held is None and chunk.is_last:
                yield chunk.piece()
                return
            follows = _follows(held, chunk)
            if follows is None:
                self._waiting = [chunk] if held is None else [held, chunk]
                return
            if held is not None and follows:
                yield held.piece()
            yield chunk.part(slice(None, -1)).piece()
            held = chunk.last_row()
        if held is not None:
            yield held.piece()

    def merged(self, below: tuple[TableStores, Layer] | None) -> Iterator[SortedRows]:
        """Yield all rows of the task in key order, one version per key; raises as `ascending`.

        Parameters
        ----------
        below : what became of the rows that `ascending` yielded, and where it lies; None if there were none
        """
        with tempfile.TemporaryDirectory(prefix="slatespark-spill-") as folder:
            spills = SpillArea(folder, self._stamp.seq)
            while self._waiting:
                spills.add(*self._waiting.pop(0).parts())
            for chunk in self._chunks:
                spills.add(*chunk.parts())
            yield from spills.merge(self._stamp, self._fold, self._buffer_bytes, below)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Rows that were in memory together, in key order, one version per key."""

    sources: Sequence[RowColumns]
    rows: NDArray[np.int64]
    ranks: Ranks | None  # of these rows
    came_sorted: bool
    is_last: bool

    def parts(self) -> tuple[Sequence[RowColumns], NDArray[np.int64], Ranks | None]:
        return self.sources, self.rows, self.ranks

    def part(self, which: slice) -> _Chunk:
        return replace(self, rows=self.rows[which])

    def last_row(self) -> _Chunk:
        """Return a copy, so that the others need not stay in memory."""
        return replace(self, sources=[take_rows(self.sources, self.rows[-1:])], rows=np.zeros(1, np.int64))

    def piece(self) -> SortedRows:
        """Return the rows to be written; what came in order, each key once, is in one piece already."""
        in_place = len(self.sources) == 1 and bool((np.diff(self.rows) == 1).all())
        return SortedRows(self.sources, self.rows, is_scattered=not in_place)


def _follows(held: _Chunk | None, chunk: _Chunk) -> bool | None:
    """Tell whether a chunk can simply follow the row before it; False if it replaces that row, None if it cannot."""
    if not chunk.came_sorted or chunk.ranks is not None:
        return None
    if held is None:
        return True
    last, first = row_at(held.sources, int(held.rows[-1])), row_at(chunk.sources, int(chunk.rows[0]))
    if last.key < first.key:
        return True
    # A sorted load has the rows of one key next to each other, and a chunk may end among them.
    return False if last.key == first.key and first.kind is not RowKind.MERGE else None


def _sorted_chunks(
    batches: Iterable[pa.RecordBatch], encoder: RowEncoder, stamp: Stamp, fold: Fold | None, buffer_bytes: int
) -> Iterator[_Chunk]:
    """Collect batches up to `writeBuffer` and sort each lot."""
    for held, is_last in collect_lots(batches, buffer_bytes):
        yield _sort_chunk(held, encoder, stamp, fold, is_last=is_last)


def collect_lots(batches: Iterable[pa.RecordBatch], buffer_bytes: int) -> Iterator[tuple[list[pa.RecordBatch], bool]]:
    """Yield as many batches as fit the buffer together, and whether they are the last ones."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        for piece in _pieces(batch, buffer_bytes):
            size = _memory_of(piece)
            if held and held_bytes + size > buffer_bytes:
                yield held, False
                held, held_bytes = [], 0
            held.append(piece)
            held_bytes += size
    if held:
        yield held, True


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
    came_sorted = bool((np.diff(order) == 1).all())
    if encoded.ranks is None:
        return _Chunk(*one_version_per_key([encoded.rows], order, fold), None, came_sorted, is_last)
    arranged = order_repeats(new_key_mask([encoded.rows], order), encoded.ranks.take(order))
    sources, rows = one_version_per_key([encoded.rows], order if arranged is None else order[arranged], None)
    return _Chunk(sources, rows, encoded.ranks.take(rows), came_sorted, is_last)
