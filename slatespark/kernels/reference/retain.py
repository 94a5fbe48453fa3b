"""Which versions of each key a compaction keeps. Semantics: `slatespark.kernels.retain_versions`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels.columns import (
    BURIED,
    GONE,
    GROUP_HEAD,
    GROUP_REST,
    HAS_CREATE,
    HAS_EXPIRE,
    MERGE,
    PLAIN,
    TOMBSTONE,
    Retention,
)
from slatespark.kernels.lifetimes import reached
from slatespark.kernels.results import Fields, Retained


@dataclass(slots=True)
class _Stored:
    """What becomes of versions that follow each other: one version, or operands that fold together, and their base.

    Attributes
    ----------
    rows : newest first
    kind : of the result: PUT is 0, or TOMBSTONE or MERGE
    live : how many of the rows are no tombstones
    due : past retention
    newer : created after the floor
    stays : whether it is kept
    buried : whether it becomes a tombstone
    """

    rows: range
    kind: int
    live: int
    due: bool
    newer: bool
    stays: bool = True
    buried: bool = False

    @property
    def is_tombstone(self) -> bool:
        return self.buried or self.kind == TOMBSTONE


def retain_versions(fields: Fields, first: NDArray[np.bool_], retention: Retention) -> Retained:
    """See `slatespark.kernels.retain_versions`."""
    marks = np.full(len(first), GONE, np.uint8)
    outdated = 0
    for start, end in pairwise([*np.flatnonzero(first).tolist(), len(first)]):
        versions = _Key(fields, retention, start, end)
        stored, expired = versions.decided()
        retired = _retire(stored, retention) if retention.retired_ms is not None else 0
        if retention.drops_tombstones:
            _drop_tombstones(stored)
        outdated += expired + retired
        for each in stored:
            if each.stays:
                marks[each.rows[0]] = BURIED if each.buried else GROUP_HEAD if len(each.rows) > 1 else PLAIN
                marks[each.rows[1:]] = GONE if each.buried else GROUP_REST
    return Retained(marks, outdated)


@dataclass(slots=True)
class _Key:
    """The versions of a key, newest first: rows [start, end) of the fields."""

    fields: Fields
    retention: Retention
    start: int
    end: int

    def decided(self) -> tuple[list[_Stored], int]:
        """Return what stays of hidden and expired versions, newest first, and how many had expired."""
        found: list[_Stored] = []
        settled, expired = False, 0
        for rows in self._groups():
            needed = self._is_needed(rows[0])
            if settled and not needed:
                continue
            kind = self._kind(rows[0])
            if kind == MERGE and self._kind(rows[-1]) != MERGE:
                kind = 0  # the operands have found their base
            live = sum(self._kind(row) != TOMBSTONE for row in rows)
            stored = _Stored(rows, kind, live, all(map(self._is_due, rows)), self._is_newer(rows[0]))
            if self._is_expired(rows[0]):
                expired += live
                stored.buried, stored.live, stored.due = True, 0, self._is_due(rows[0])
                if kind == MERGE:
                    continue
            settled = settled or (kind != MERGE and not needed)
            found.append(stored)
        return found, expired

    def _groups(self) -> Iterator[range]:
        """Yield the rows that become one: operands that may fold, and the base that they may fold onto."""
        row = self.start
        while row < self.end:
            reach = row + 1
            if self._kind(row) == MERGE and not self._is_needed(row):
                while reach < self.end and self._folds(row, reach):
                    reach += 1
                    if self._kind(reach - 1) != MERGE:
                        break
            yield range(row, reach)
            row = reach

    def _folds(self, row: int, older: int) -> bool:
        return self._expiry(row) == self._expiry(older) and not self._is_needed(older)

    def _kind(self, row: int) -> int:
        return int(self.fields.flags[row]) & (MERGE | TOMBSTONE)

    def _create_ts(self, row: int) -> int | None:
        return int(self.fields.create_ts[row]) if self.fields.flags[row] & HAS_CREATE else None

    def _expiry(self, row: int) -> int | None:
        return int(self.fields.expire_ts[row]) if self.fields.flags[row] & HAS_EXPIRE else None

    def _is_newer(self, row: int) -> bool:
        created, floor_ms = self._create_ts(row), self.retention.floor_ms
        return created is not None and floor_ms is not None and created > floor_ms

    def _is_needed(self, row: int) -> bool:
        return int(self.fields.seqs[row]) > self.retention.min_seq or self._is_newer(row)

    def _is_expired(self, row: int) -> bool:
        flags, expire_ts, now_ms = int(self.fields.flags[row]), int(self.fields.expire_ts[row]), self.retention.now_ms
        return now_ms is not None and reached(flags, HAS_EXPIRE, expire_ts, now_ms) and not self._is_newer(row)

    def _is_due(self, row: int) -> bool:
        flags, create_ts, limit_ms = (
            int(self.fields.flags[row]),
            int(self.fields.create_ts[row]),
            self.retention.retired_ms,
        )
        return limit_ms is not None and reached(flags, HAS_CREATE, create_ts, limit_ms)


def _retire(stored: list[_Stored], retention: Retention) -> int:
    """Let go what is past retention, and return how many rows that were."""
    reach = next((number + 1 for number, each in enumerate(stored) if each.kind != MERGE or each.buried), len(stored))
    group, rest = stored[:reach], stored[reach:]
    goes = [] if not all(each.due for each in rest) else stored if all(each.due for each in group) else rest
    retired = sum(each.live for each in goes)
    for number, each in enumerate(reversed(goes)):
        each.stays = number == 0 and not retention.drops_tombstones
        each.buried = each.kind != TOMBSTONE
    return retired


def _drop_tombstones(stored: list[_Stored]) -> None:
    for each in reversed(stored):
        if not each.stays:
            continue
        if not each.is_tombstone or each.newer:
            return
        each.stays = False
