"""TaskSorter: the rows of one task -> one sequence in file order, in memory that a buffer bounds.

Rows are sorted one buffer at a time. As long as keys come in order, as in a sorted load, these chunks follow each other
as they are. The rows of a chunk's last key wait for the next chunk, which may have more of them. From the first chunk
on that does not come in order, all rows are spilled to local disk and merged. Where there are several threads, chunks
are sorted, and spilled, several at a time, and key ranges are merged so; each thread has a buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, count
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from slatespark.format.row import Row, RowKind
from slatespark.kernels import key_lengths, new_key_mask, sort_rows, take_rows, value_lengths
from slatespark.storage import scratch_folder
from slatespark.table.read.merge.merge_function import MergeFunction, row_at
from slatespark.table.read.planning.plan import Layer
from slatespark.table.rows.batches import ROW_OVERHEAD_BYTES, group_batches
from slatespark.table.rows.encoder import RowEncoder, Stamp
from slatespark.table.rows.sorted_rows import SortedRows
from slatespark.table.rows.spill import Spill
from slatespark.table.rows.versions import Versions, arrange_versions, joined, number_versions
from slatespark.table.stores import TableStores
from slatespark.table.tasks import ONE_THREAD, ThreadRunner

_Group: TypeAlias = tuple[list[pa.RecordBatch], bool]  # rows that fit into memory, and whether they are the last


class TaskSorter:
    """The rows of one task, one version for each key and time.

    Rows have the time of the write, so that a key has one version, unless the encoder gives each row its own time. Of
    rows of one key and time the last one wins, or `sequenceColumn` decides.

    First take `ascending`. If `is_done` then, it has yielded all rows. Else `spilled` gives all rows, including those.
    Or take `chunks`, whose pieces may have keys in common.

    Parameters
    ----------
    batches : of the schema that the encoder was planned for
    encoder : turns them into rows
    stamp : seq and times of every row
    fold : joins several operands of one key, None if not given
    buffer_bytes : bounds the rows that each thread holds; the disk used is bounded by the data of the task
    threads : sort, spill and merge

    Attributes
    ----------
    has_remainders : whether a row's own time has lost parts of a millisecond so far
    """

    def __init__(
        self,
        batches: Iterable[pa.RecordBatch],
        encoder: RowEncoder,
        stamp: Stamp,
        fold: MergeFunction | None,
        *,
        buffer_bytes: int,
        threads: ThreadRunner = ONE_THREAD,
    ) -> None:
        self._encoder, self._stamp, self._fold = encoder, stamp, fold
        self._buffer_bytes, self._threads = buffer_bytes, threads
        self._by_time, self._check = encoder.has_times, encoder.distinct_times
        self.has_remainders = False
        self._groups = group_batches(batches, buffer_bytes)
        self._spills = False
        self._sorted = threads.ahead(self._sort, self._to_sort())
        self._chunks: Iterator[_Chunk] = self._sorted
        self._waiting: list[Versions] = []  # the chunk that did not come in order, and the key before it

    @property
    def is_done(self) -> bool:
        """Whether `ascending` has yielded all rows."""
        return not self._waiting

    def ascending(self) -> Iterator[SortedRows]:
        """Yield rows in file order, for as long as their keys come in order.

        Raises
        ------
        SchemaError
            When a row cannot be stored.
        InvalidRequestError
            When several operands of one key and time meet and no operator is given, or when versions of a key are less
            than a millisecond apart and no column decides.
        """
        held: Versions | None = None  # of the last key so far
        for chunk in self._chunks:
            rest = chunk.versions
            if held is None and chunk.is_last:
                yield self._piece(rest)
                return
            if not chunk.came_sorted or (held is not None and not self._may_follow(held, rest)):
                self._waiting = [rest] if held is None else [held, rest]
                return
            if held is not None and _first_row(rest).key == _first_row(held).key:
                held, rest = self._join(held, rest)
                if held is not None and _memory_of(held) > self._buffer_bytes:
                    self._waiting = [part for part in (held, rest) if len(part.rows)]
                    return
                if not len(rest.rows):
                    continue
            if held is not None:
                yield self._piece(held)
            done, last = rest.split(_start_of_last_key(rest) if self._by_time else len(rest.rows) - 1)
            yield self._piece(done)
            held = last.copy()
        if held is not None:
            yield self._piece(held)

    def close(self) -> None:
        """End the threads that sort ahead."""
        self._sorted.close()

    def starts_sorted(self) -> bool:
        """Tell whether keys come in order so far, and more rows follow. Call it first."""
        first = next(self._chunks, None)
        if first is None:
            return False
        self._chunks = chain([first], self._chunks)
        return first.came_sorted and not first.is_last

    def chunks(self) -> Iterator[SortedRows]:
        """Yield rows a buffer at a time, each in file order, with each key once; raises as `ascending`.

        Of rows of one key in several chunks the last one wins. Take this instead of `ascending`; `spilled` gives what
        is left.

        Requires: neither a sequence column nor times decide.
        """
        for chunk in self._chunks:
            yield self._piece(chunk.versions)

    @contextmanager
    def spilled(self, below: tuple[TableStores, Sequence[Layer]] | None) -> Iterator[list[Iterator[SortedRows]]]:
        """Give all rows of the task in parts, which threads may take at a time: the first one has the lowest keys.

        Each part is in file order. Raises as `ascending`.

        Parameters
        ----------
        below : where the rows lie that `ascending` or `chunks` yielded, newest first; None if there were none
        """
        with scratch_folder("spill") as folder:
            spill = Spill(folder, by_time=self._by_time)
            self._fill(spill)
            check = self._check if self.has_remainders else None
            spill.join_chunks(self._fold, self._buffer_bytes, check, self._threads)
            parts = spill.parts(self._threads.parallelism)
            yield [spill.merge(self._stamp.seq, self._fold, self._buffer_bytes, below, check, keys) for keys in parts]

    def _fill(self, spill: Spill) -> None:
        """Spill all rows that are left."""
        numbers = count()
        self._spills = True
        while self._waiting:
            spill.add(next(numbers), self._waiting.pop(0))
        for chunk in self._chunks:  # that were sorted ahead
            spill.add(next(numbers), chunk.versions)

        def add(numbered: tuple[int, _Group]) -> None:
            number, group = numbered
            spill.add(number, self._sort(group).versions)

        for _ in self._threads.ahead(add, zip(numbers, self._groups)):  # noqa: B905  # the numbers never end
            pass

    def _to_sort(self) -> Iterator[_Group]:
        """Yield the rows that are sorted in memory: until the first that are spilled."""
        while not self._spills and (group := next(self._groups, None)) is not None:
            yield group

    def _sort(self, group: _Group) -> _Chunk:
        held, is_last = group
        chunk = _sort_chunk(held, self._encoder, self._stamp, self._fold, is_last=is_last)
        if chunk.versions.remainders is not None:
            self.has_remainders = True
        return chunk

    def _may_follow(self, held: Versions, rest: Versions) -> bool:
        """Tell whether a sorted chunk can follow the last key without a spill."""
        last, first = _first_row(held), _first_row(rest)
        if last.key == first.key and not self._by_time:
            return first.kind is not RowKind.MERGE  # an operand needs the row that it folds onto
        return last.key <= first.key

    def _join(self, held: Versions, rest: Versions) -> tuple[Versions | None, Versions]:
        """Return the last key with its versions from the next chunk, and the rest of that chunk."""
        if not self._by_time:
            return None, rest  # its row replaces the one held
        more, rest = rest.split(_end_of_first_key(rest))
        flat = joined([take_rows(part.sources, part.rows[::-1]) for part in (held, more)])
        rows = np.arange(len(flat), dtype=np.int64)
        remainders = None
        if held.remainders is not None or more.remainders is not None:
            remainders = np.concatenate([part.known_remainders()[::-1] for part in (held, more)])
        both = arrange_versions([flat], rows, None, self._fold, by_time=True, remainders=remainders, check=self._check)
        return both.copy(), rest

    def _piece(self, versions: Versions) -> SortedRows:
        """Return rows as they are written."""
        if self._by_time:  # else they have the number of the write already
            number_versions(versions, self._stamp.seq)
        in_place = len(versions.sources) == 1 and bool((np.diff(versions.rows) == 1).all())
        return SortedRows(versions.sources, versions.rows, is_scattered=not in_place)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Rows that were in memory together."""

    versions: Versions
    came_sorted: bool
    is_last: bool


def _sort_chunk(
    held: list[pa.RecordBatch], encoder: RowEncoder, stamp: Stamp, fold: MergeFunction | None, *, is_last: bool
) -> _Chunk:
    encoded = encoder.encode(pa.Table.from_batches(held), stamp)
    order = sort_rows(encoded.rows)
    ranks = None if encoded.ranks is None else encoded.ranks.take(order)
    versions = arrange_versions(
        [encoded.rows],
        order,
        ranks,
        fold if ranks is None else None,
        by_time=encoder.has_times,
        remainders=None if encoded.remainders is None else encoded.remainders[order],
        check=encoder.distinct_times,
    )
    came_sorted = ranks is None and bool((np.diff(order) == 1).all())
    return _Chunk(versions, came_sorted, is_last)


def _first_row(versions: Versions) -> Row:
    return row_at(versions.sources, int(versions.rows[0]))


def _end_of_first_key(versions: Versions) -> int:
    starts = np.flatnonzero(new_key_mask(versions.sources, versions.rows))
    return int(starts[1]) if len(starts) > 1 else len(versions.rows)


def _start_of_last_key(versions: Versions) -> int:
    return int(np.flatnonzero(new_key_mask(versions.sources, versions.rows))[-1])


def _memory_of(versions: Versions) -> int:
    used = key_lengths(versions.sources, versions.rows) + value_lengths(versions.sources, versions.rows)
    return int(used.sum()) + ROW_OVERHEAD_BYTES * len(used)
