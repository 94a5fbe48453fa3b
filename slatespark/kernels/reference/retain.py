"""The versions of each key that a compaction keeps. Semantics: `slatespark.kernels.retain_versions`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels.columns import (
    DROPPED,
    GROUP_HEAD,
    GROUP_REST,
    HAS_CREATE,
    HAS_EXPIRE,
    MERGE,
    PLAIN,
    TO_TOMBSTONE,
    TOMBSTONE,
    Retention,
)
from slatespark.kernels.lifetimes import reached
from slatespark.kernels.results import Fields, Retained


@dataclass(slots=True)
class _Outcome:
    """The result for consecutive versions: one version, or operands that fold together and their base.

    Attributes
    ----------
    rows : newest first
    kind : kind of the result: 0 for a put, TOMBSTONE or MERGE
    live : number of rows that are not tombstones
    retired : past retention
    above_floor : created after the floor
    kept : not dropped
    to_tombstone : becomes a tombstone
    """

    rows: range
    kind: int
    live: int
    retired: bool
    above_floor: bool
    kept: bool = True
    to_tombstone: bool = False

    @property
    def is_tombstone(self) -> bool:
        return self.to_tombstone or self.kind == TOMBSTONE


def retain_versions(fields: Fields, first: NDArray[np.bool_], retention: Retention) -> Retained:
    """See `slatespark.kernels.retain_versions`."""
    marks = np.full(len(first), DROPPED, np.uint8)
    outdated = 0
    for start, end in pairwise([*np.flatnonzero(first).tolist(), len(first)]):
        versions = _Key(fields, retention, start, end)
        outcomes, expired = versions.decide()
        retired = _drop_retired(outcomes, retention) if retention.retired_ms is not None else 0
        if retention.drops_tombstones:
            _drop_tombstones(outcomes)
        outdated += expired + retired
        for each in outcomes:
            if each.kept:
                marks[each.rows[0]] = TO_TOMBSTONE if each.to_tombstone else GROUP_HEAD if len(each.rows) > 1 else PLAIN
                marks[each.rows[1:]] = DROPPED if each.to_tombstone else GROUP_REST
    return Retained(marks, outdated)


@dataclass(slots=True)
class _Key:
    """The versions of a key, newest first: rows [start, end) of the fields."""

    fields: Fields
    retention: Retention
    start: int
    end: int

    def decide(self) -> tuple[list[_Outcome], int]:
        """Return the outcomes of versions that are not hidden, newest first, and the number of expired rows."""
        found: list[_Outcome] = []
        hidden, expired = False, 0
        for rows in self._groups():
            protected = self._is_protected(rows[0])
            if hidden and not protected:
                continue
            kind = self._kind(rows[0])
            if kind == MERGE and self._kind(rows[-1]) != MERGE:
                kind = 0  # folded onto the base
            live = sum(self._kind(row) != TOMBSTONE for row in rows)
            outcome = _Outcome(rows, kind, live, all(map(self._is_past_retention, rows)), self._is_above_floor(rows[0]))
            if self._is_expired(rows[0]):
                expired += live
                outcome.to_tombstone, outcome.live, outcome.retired = True, 0, self._is_past_retention(rows[0])
                if kind == MERGE:
                    continue
            hidden = hidden or (kind != MERGE and not protected)
            found.append(outcome)
        return found, expired

    def _groups(self) -> Iterator[range]:
        """Yield the rows that fold to one: operands with the same expiry and their base."""
        row = self.start
        while row < self.end:
            reach = row + 1
            if self._kind(row) == MERGE and not self._is_protected(row):
                while reach < self.end and self._folds(row, reach):
                    reach += 1
                    if self._kind(reach - 1) != MERGE:
                        break
            yield range(row, reach)
            row = reach

    def _folds(self, row: int, older: int) -> bool:
        return self._expiry(row) == self._expiry(older) and not self._is_protected(older)

    def _kind(self, row: int) -> int:
        return int(self.fields.flags[row]) & (MERGE | TOMBSTONE)

    def _create_ts(self, row: int) -> int | None:
        return int(self.fields.create_ts[row]) if self.fields.flags[row] & HAS_CREATE else None

    def _expiry(self, row: int) -> int | None:
        return int(self.fields.expire_ts[row]) if self.fields.flags[row] & HAS_EXPIRE else None

    def _is_above_floor(self, row: int) -> bool:
        created, floor_ms = self._create_ts(row), self.retention.floor_ms
        return created is not None and floor_ms is not None and created > floor_ms

    def _is_protected(self, row: int) -> bool:
        return int(self.fields.seqs[row]) > self.retention.min_seq or self._is_above_floor(row)

    def _is_expired(self, row: int) -> bool:
        flags, expire_ts, now_ms = int(self.fields.flags[row]), int(self.fields.expire_ts[row]), self.retention.now_ms
        return now_ms is not None and reached(flags, HAS_EXPIRE, expire_ts, now_ms) and not self._is_above_floor(row)

    def _is_past_retention(self, row: int) -> bool:
        flags, create_ts, limit_ms = (
            int(self.fields.flags[row]),
            int(self.fields.create_ts[row]),
            self.retention.retired_ms,
        )
        return limit_ms is not None and reached(flags, HAS_CREATE, create_ts, limit_ms)


def _drop_retired(outcomes: list[_Outcome], retention: Retention) -> int:
    """Drop what is past retention; returns the number of dropped rows."""
    bases = (number for number, each in enumerate(outcomes) if each.kind != MERGE or each.to_tombstone)
    reach = next(bases, len(outcomes)) + 1
    group, rest = outcomes[:reach], outcomes[reach:]
    if not all(each.retired for each in rest):
        return 0
    dropped = outcomes if all(each.retired for each in group) else rest
    retired = sum(each.live for each in dropped)
    for number, each in enumerate(reversed(dropped)):
        each.kept = number == 0 and not retention.drops_tombstones
        each.to_tombstone = each.kind != TOMBSTONE
    return retired


def _drop_tombstones(outcomes: list[_Outcome]) -> None:
    for each in reversed(outcomes):
        if not each.kept:
            continue
        if not each.is_tombstone or each.above_floor:
            return
        each.kept = False
