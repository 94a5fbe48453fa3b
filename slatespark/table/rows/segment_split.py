"""Cutting sorted rows where a segment ends: no file holds keys of two segments."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import replace

from slatespark.format.segments import WHOLE, KeySegments
from slatespark.table.rows.sorted_rows import SortedRows


def split_segments(pieces: Iterable[SortedRows], segments: KeySegments) -> Iterator[tuple[bytes, SortedRows]]:
    """Yield the rows with the prefix of their segment, in the same order.

    The keys of a segment follow each other, so its end is searched for; no other key is looked at.

    Raises
    ------
    InvalidRequestError
        When a key belongs to no segment.
    """
    for piece in pieces:
        if segments == WHOLE:
            yield b"", piece
        else:
            yield from _split(piece, segments)


def _split(piece: SortedRows, segments: KeySegments) -> Iterator[tuple[bytes, SortedRows]]:
    start, count = 0, len(piece.rows)
    while start < count:
        prefix = segments.prefix_of(piece.key(start))
        end = count
        if not piece.key(count - 1).startswith(prefix):
            end = bisect_left(range(count), True, start, key=lambda at: not piece.key(at).startswith(prefix))
        yield prefix, replace(piece, rows=piece.rows[start:end])
        start = end
