"""What a compaction leaves of the versions of a key, step by step; see docs/reference/format/rows.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile

from slatespark.format.row import Row, RowKind
from slatespark.table.compaction.merge import MergeRules


@dataclass(frozen=True)
class Piece:
    """A version, and the stored ones that it was folded from."""

    row: Row
    parts: tuple[Row, ...]

    @property
    def is_operand(self) -> bool:
        return self.row.kind is RowKind.MERGE

    @property
    def is_tombstone(self) -> bool:
        return self.row.kind is RowKind.DELETE

    def buried(self) -> Piece:
        newest = self.parts[0]
        return Piece(Row(newest.key, newest.seq, RowKind.DELETE, create_ts_ms=newest.create_ts_ms), self.parts[:1])


def compacted(layers: Iterable[Sequence[Row]], rules: MergeRules) -> list[Row]:
    """Return what stays of the rows of some layers, newest layer first, by key and newest first; operands append."""
    rows = sorted((row for layer in layers for row in layer), key=lambda row: (row.key, -row.seq))
    return [row for _, versions in groupby(rows, lambda row: row.key) for row in of_key(list(versions), rules)]


def of_key(versions: list[Row], rules: MergeRules) -> list[Row]:
    """Return what stays of the versions of a key, newest first."""
    if rules.has_history and rules.floor_ms is None:
        return versions
    pieces = list(_visible(_expired(_folded(versions, rules), rules), rules))
    if rules.retired_ms is not None and not rules.has_history:
        pieces = _retired(pieces, rules)
    while rules.drops_tombstones and pieces and pieces[-1].is_tombstone and not _is_newer(pieces[-1].row, rules):
        pieces.pop()
    return [piece.row for piece in pieces]


def _is_newer(row: Row, rules: MergeRules) -> bool:
    return rules.floor_ms is not None and row.create_ts_ms is not None and row.create_ts_ms > rules.floor_ms


def _is_needed(row: Row, rules: MergeRules) -> bool:
    return row.seq > rules.min_seq or _is_newer(row, rules)


def _folded(versions: Sequence[Row], rules: MergeRules) -> Iterator[Piece]:
    """Fold operands that expire alike with each other, and onto a base right below them that does, too."""
    at = 0
    while at < len(versions):
        head = versions[at]
        if head.kind is not RowKind.MERGE or _is_needed(head, rules):
            yield Piece(head, (head,))
            at += 1
            continue
        operands, base = _group(versions[at:], rules)
        group = (*operands, *base)
        at += len(group)
        if len(group) == 1:
            yield Piece(head, group)
            continue
        created = [row.create_ts_ms for row in group if row.create_ts_ms is not None and row.kind is not RowKind.DELETE]
        folded = replace(
            head,
            kind=RowKind.PUT if base else RowKind.MERGE,
            value=b"".join(row.value for row in reversed(group)),
            create_ts_ms=max(created, default=None),
        )
        yield Piece(folded, group)


def _group(versions: Sequence[Row], rules: MergeRules) -> tuple[list[Row], list[Row]]:
    """Return the operands that the first one folds with, and their base, or none."""
    expires = versions[0].expire_ts_ms
    alike = list(takewhile(lambda row: row.expire_ts_ms == expires and not _is_needed(row, rules), versions))
    operands = list(takewhile(lambda row: row.kind is RowKind.MERGE, alike))
    return operands, alike[len(operands) : len(operands) + 1]


def _expired(pieces: Iterable[Piece], rules: MergeRules) -> Iterator[Piece]:
    now_ms = rules.now_ms if rules.floor_ms is None or rules.now_ms is None else min(rules.now_ms, rules.floor_ms)
    for piece in pieces:
        expires = piece.row.expire_ts_ms
        if expires is None or now_ms is None or expires > now_ms or _is_newer(piece.row, rules):
            yield piece
        elif not piece.is_operand:
            yield piece.buried()


def _visible(pieces: Iterable[Piece], rules: MergeRules) -> Iterator[Piece]:
    """Leave out what the newest version that nobody needs hides."""
    settled = False
    for piece in pieces:
        needed = _is_needed(piece.row, rules)
        if needed or not settled:
            yield piece
        settled = settled or (not needed and not piece.is_operand)


def _retired(pieces: list[Piece], rules: MergeRules) -> list[Piece]:
    group = list(takewhile(lambda piece: piece.is_operand, pieces))
    group = pieces[: len(group) + 1]
    rest = pieces[len(group) :]
    if not _all_due(rest, rules):
        return pieces
    kept, gone = ([], pieces) if _all_due(group, rules) else (group, rest)
    if gone and not rules.drops_tombstones:
        oldest = gone[-1]
        kept = [*kept, oldest if oldest.is_tombstone else oldest.buried()]
    return kept


def _all_due(pieces: Sequence[Piece], rules: MergeRules) -> bool:
    created = [row.create_ts_ms for piece in pieces for row in piece.parts]
    return all(create_ts is not None and create_ts <= (rules.retired_ms or 0) for create_ts in created)
