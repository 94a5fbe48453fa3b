"""FilterStage: applies compaction filters to the versions that a compaction would keep.

It runs after the decision which versions stay, and before they are written. Filters are not called about versions that
an open snapshot or an as-of read needs (`filter_plan`), so nothing that they remove can be missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import InvalidRequestError
from slatespark.kernels import gather_fields, gather_keys, key_lengths, new_key_mask, take_rows, value_lengths
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, RowColumns, packed_rows
from slatespark.kernels.lifetimes import below_group
from slatespark.table.compaction.filter import CompactionFilter
from slatespark.table.compaction.filter_decisions import Action, CheckedDecisions, call_filter
from slatespark.table.read.arrow import (
    MAX_BATCH_BYTES,
    MAX_BATCH_ROWS,
    METADATA_TYPES,
    Projection,
    decode_columns,
    make_batch,
)
from slatespark.table.rows.sorted_rows import SortedRows

MAX_KEY_BYTES: Final = 256 << 20  # of all versions of one key: a filter sees them together


@dataclass(slots=True)
class FilterTally:
    """The number of versions that filters dropped, turned into tombstones, and replaced."""

    dropped: int = 0
    tombstones: int = 0
    replaced: int = 0


@dataclass(frozen=True, slots=True)
class FilterStage:
    """The filters of a compaction; picklable if they are.

    Attributes
    ----------
    filters : called in this order; each sees the result of the one before
    table : its URL, for messages
    drops_tombstones : nothing older than the sources holds any of their keys
    """

    filters: tuple[CompactionFilter, ...]
    codec: RowCodec
    table: str
    drops_tombstones: bool

    def apply(self, pieces: Iterable[SortedRows], tally: FilterTally) -> Iterator[SortedRows]:
        """Yield the rows after all filters, in the same order.

        Parameters
        ----------
        pieces : keys ascending, newest version first; a key may continue in the next piece

        Raises
        ------
        InvalidRequestError
            When a filter fails, or does not return decisions.
        CorruptDataError
            When a row cannot be decoded into the columns of the table.
        """
        for piece in _whole_keys(pieces, self.table):
            for batch in _batches(piece):
                kept = self._filter(batch, tally)
                if len(kept.rows):
                    yield kept

    def _filter(self, piece: SortedRows, tally: FilterTally) -> SortedRows:
        tombstones_before = tally.tombstones
        for chosen in self.filters:
            if not len(piece.rows):
                break
            decided = call_filter(chosen, self._show(piece), piece, self.codec, self.table)
            piece = _changed(piece, decided, self.codec, tally)
        return piece if tally.tombstones == tombstones_before else self._without_hidden(piece)

    def _show(self, piece: SortedRows) -> pa.RecordBatch:
        """Return versions as a read of all versions shows them."""
        own = self.codec.schema.names
        names = (*own, *(name for name in METADATA_TYPES if name not in own))
        projection = Projection(names, shows_deletes=True, codec=self.codec)
        return make_batch(decode_columns(piece.sources, piece.rows, names, projection, self.table), projection)

    def _without_hidden(self, piece: SortedRows) -> SortedRows:
        """Drop versions hidden by new tombstones, and tombstones with nothing older below."""
        if not len(piece.rows):
            return piece
        flags = gather_fields(piece.sources, piece.rows).flags
        kept = ~below_group(new_key_mask(piece.sources, piece.rows), (flags & MERGE) != 0)
        if self.drops_tombstones:
            kept &= (flags & TOMBSTONE) == 0
        return replace(piece, rows=piece.rows[kept])


def _changed(piece: SortedRows, decided: CheckedDecisions, codec: RowCodec, tally: FilterTally) -> SortedRows:
    """Return versions changed as the filter decided."""
    actions = decided.actions
    if (actions == Action.KEEP).all():
        return piece
    touched = (actions == Action.TOMBSTONE) | (actions == Action.REPLACE)
    tally.dropped += int((actions == Action.DROP).sum())
    tally.tombstones += int((actions == Action.TOMBSTONE).sum())
    tally.replaced += int((actions == Action.REPLACE).sum())
    rows, sources = piece.rows.copy(), list(piece.sources)
    if touched.any():
        made = _rewritten(take_rows(piece.sources, piece.rows[touched]), decided, touched, codec)
        rows[touched] = packed_rows(len(sources), len(made))
        sources.append(made)
    return SortedRows(sources, rows[actions != Action.DROP], piece.is_scattered)


def _rewritten(rows: RowColumns, decided: CheckedDecisions, touched: NDArray[np.bool_], codec: RowCodec) -> RowColumns:
    """Return copies of versions as tombstones, or with other values and expiries."""
    deleted = decided.actions[touched] == Action.TOMBSTONE
    flags, expire_ts, lengths = rows.flags.copy(), rows.expire_ts.copy(), rows.value_lengths.copy()
    starts, data = rows.value_starts.copy(), rows.value_bytes
    flags[deleted] = (flags[deleted] & HAS_CREATE) | TOMBSTONE
    expire_ts[deleted], lengths[deleted] = 0, 0
    if decided.expiries is not None:
        given, expires = decided.expiries.expire_ts[touched][~deleted], decided.expiries.expires[touched][~deleted]
        flags[~deleted] = np.where(expires, flags[~deleted] | HAS_EXPIRE, flags[~deleted] & ~np.uint8(HAS_EXPIRE))
        expire_ts[~deleted] = given
    if decided.values is not None:
        encoded, offsets = codec.encode_values(decided.values)
        starts[~deleted], lengths[~deleted] = len(data) + offsets[:-1], np.diff(offsets)
        data = np.concatenate([data, encoded])
    return replace(rows, flags=flags, expire_ts=expire_ts, value_bytes=data, value_starts=starts, value_lengths=lengths)


# --- pieces ---------------------------------------------------------------------------------------------------------


def _whole_keys(pieces: Iterable[SortedRows], table: str) -> Iterator[SortedRows]:
    """Yield the same rows in pieces that end at key boundaries."""
    waiting: SortedRows | None = None
    for piece in pieces:
        if not len(piece.rows):
            continue
        if waiting is None or not _goes_on(waiting, piece):
            if waiting is not None:
                yield waiting
            waiting = piece
            continue
        last = int(np.flatnonzero(new_key_mask(waiting.sources, waiting.rows))[-1])
        if last:
            yield replace(waiting, rows=waiting.rows[:last])
        begun = take_rows(waiting.sources, waiting.rows[last:])
        _check_size(begun, table)
        carried = packed_rows(len(piece.sources), len(begun))
        waiting = SortedRows([*piece.sources, begun], np.concatenate([carried, piece.rows]))
    if waiting is not None:
        yield waiting


def _goes_on(before: SortedRows, after: SortedRows) -> bool:
    """Tell whether the last key of a piece is the first key of the next."""
    last = gather_keys(before.sources, before.rows[-1:])[1]
    return last.tobytes() == gather_keys(after.sources, after.rows[:1])[1].tobytes()


def _check_size(rows: RowColumns, table: str) -> None:
    size = int(rows.key_offsets[-1]) + int(rows.value_lengths.sum())
    if size > MAX_KEY_BYTES:
        raise InvalidRequestError(
            f"{table}: the versions of key {rows.key(0).hex()} take more than {MAX_KEY_BYTES >> 20} MiB.",
            why="A filter sees all versions of a key together.",
            todo="Compact without filters.",
        )


def _batches(piece: SortedRows) -> Iterator[SortedRows]:
    """Yield a piece in parts of about `MAX_BATCH_ROWS` and `MAX_BATCH_BYTES`, cut between keys."""
    rows = piece.rows
    edges = np.append(np.flatnonzero(new_key_mask(piece.sources, rows)), len(rows))
    reach = np.cumsum(key_lengths(piece.sources, rows) + value_lengths(piece.sources, rows))
    start = 0
    while start < len(rows):
        before = int(reach[start - 1]) if start else 0
        fits = min(int(np.searchsorted(reach, before + MAX_BATCH_BYTES, side="right")), start + MAX_BATCH_ROWS)
        end = int(edges[np.searchsorted(edges, fits, side="right") - 1])
        if end <= start:  # a single key that is larger
            end = int(edges[np.searchsorted(edges, start, side="right")])
        yield SortedRows(piece.sources, rows[start:end], piece.is_scattered)
        start = end
