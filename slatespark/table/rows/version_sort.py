"""Rows of one task with times of their own -> one sorted sequence with all versions of a key, in bounded memory.

As in `sort_spill`, rows are sorted a buffer at a time, and these chunks follow each other for as long as their keys
come in order. The versions of the last key wait for the next chunk, which may have more of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slatespark.kernels import key_lengths, new_key_mask, sort_rows, take_rows, value_lengths
from slatespark.table.read.fold import Fold, row_at
from slatespark.table.read.plan import Layer
from slatespark.table.rows.encoder import RowEncoder, Stamp
from slatespark.table.rows.sort_spill import ROW_OVERHEAD_BYTES, collect_lots
from slatespark.table.rows.sorted_rows import SortedRows
from slatespark.table.rows.version_spill import VersionSpill
from slatespark.table.rows.versions import Versions, arrange_versions, joined, number_versions, whole
from slatespark.table.stores import TableStores


class VersionSorter:
    """The rows of one task with a time each; of those of one key and time the last wins, or `sequenceColumn` says.

    To be used, and made, as `TaskSorter`.
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
        self._first_seq, self._fold, self._buffer_bytes = stamp.seq, fold, buffer_bytes
        self._chunks = (
            _sort_chunk(held, encoder, stamp, fold, is_last=is_last)
            for held, is_last in collect_lots(batches, buffer_bytes)
        )
        self._waiting: list[Versions] = []  # what did not come in order, and the key before it

    @property
    def is_done(self) -> bool:
        """Whether `ascending` has yielded all rows."""
        return not self._waiting

    def ascending(self) -> Iterator[SortedRows]:
        """Yield rows by key, newest first, for as long as keys come in order; raises as `TaskSorter.ascending`."""
        held: Versions | None = None  # of the last key so far
        for chunk in self._chunks:
            rest = chunk.versions
            if held is None and chunk.is_last:
                yield self._numbered(rest)
                return
            if not chunk.came_sorted or (held is not None and _key(rest, 0) < _key(held, 0)):
                self._waiting = [rest] if held is None else [held, rest]
                return
            if held is not None and _key(rest, 0) == _key(held, 0):
                more, rest = _split(rest, _end_of_first_key(rest))
                held = _join(held, more, self._fold)
                if _memory_of(held) > self._buffer_bytes:
                    self._waiting = [part for part in (held, rest) if len(part.rows)]
                    return
                if not len(rest.rows):
                    continue
            if held is not None:
                yield self._numbered(held)
            done, last = _split(rest, _start_of_last_key(rest))
            yield self._numbered(done)
            held = whole(take_rows(last.sources, last.rows))
        if held is not None:
            yield self._numbered(held)

    def merged(self, below: tuple[TableStores, Layer] | None) -> Iterator[SortedRows]:
        """Yield all rows of the task by key, newest first; parameters as for `TaskSorter.merged`."""
        with tempfile.TemporaryDirectory(prefix="slatespark-spill-") as folder:
            spill = VersionSpill(folder)
            while self._waiting:
                spill.add(self._waiting.pop(0))
            for chunk in self._chunks:
                spill.add(chunk.versions)
            yield from spill.merge(self._first_seq, self._fold, self._buffer_bytes, below)

    def _numbered(self, versions: Versions) -> SortedRows:
        number_versions(versions, self._first_seq)
        return SortedRows(versions.sources, versions.rows, is_scattered=True)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Rows that were in memory together."""

    versions: Versions
    came_sorted: bool
    is_last: bool


def _sort_chunk(
    held: list[pa.RecordBatch], encoder: RowEncoder, stamp: Stamp, fold: Fold | None, *, is_last: bool
) -> _Chunk:
    encoded = encoder.encode(pa.Table.from_batches(held), stamp)
    order = sort_rows(encoded.rows)
    ranks = None if encoded.ranks is None else encoded.ranks.take(order)
    versions = arrange_versions([encoded.rows], order, ranks, fold if ranks is None else None)
    came_sorted = ranks is None and bool((np.diff(order) == 1).all())
    return _Chunk(versions, came_sorted, is_last)


def _join(held: Versions, more: Versions, fold: Fold | None) -> Versions:
    """Return the versions of one key, of which some came later than the others."""
    parts = [take_rows(part.sources, part.rows[::-1]) for part in (held, more)]
    flat = joined(parts)
    versions = arrange_versions([flat], np.arange(len(flat), dtype=np.int64), None, fold)
    return whole(take_rows(versions.sources, versions.rows))


def _key(versions: Versions, row: int) -> bytes:
    return row_at(versions.sources, int(versions.rows[row])).key


def _split(versions: Versions, at: int) -> tuple[Versions, Versions]:
    return Versions(versions.sources, versions.rows[:at]), Versions(versions.sources, versions.rows[at:])


def _end_of_first_key(versions: Versions) -> int:
    starts = np.flatnonzero(new_key_mask(versions.sources, versions.rows))
    return int(starts[1]) if len(starts) > 1 else len(versions.rows)


def _start_of_last_key(versions: Versions) -> int:
    return int(np.flatnonzero(new_key_mask(versions.sources, versions.rows))[-1])


def _memory_of(versions: Versions) -> int:
    used = key_lengths(versions.sources, versions.rows) + value_lengths(versions.sources, versions.rows)
    return int(used.sum()) + ROW_OVERHEAD_BYTES * len(used)
