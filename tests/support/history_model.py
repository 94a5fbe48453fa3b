"""What a history table must show: the versions of each key in the order in which they came, each with its time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class HistoryVersion:
    """One version; `value` None is a deletion."""

    ts: int
    value: bytes | None
    expires: int | None = None


Rows: TypeAlias = list[tuple[bytes, bytes]]


@dataclass(slots=True)
class HistoryModel:
    """A history table."""

    versions: dict[bytes, list[HistoryVersion]] = field(default_factory=dict)

    def add(self, key: bytes, version: HistoryVersion) -> None:
        self.versions.setdefault(key, []).append(version)

    def newest_ts(self, key: bytes) -> int | None:
        versions = self.versions.get(key)
        return versions[-1].ts if versions else None

    def as_of(self, instant: int) -> Rows:
        """The rows that a read as of an instant shows, with expiry judged then."""
        shown = []
        for key, versions in sorted(self.versions.items()):
            known = [version for version in versions if version.ts <= instant]
            if known and known[-1].value is not None and not _has_expired(known[-1], instant):
                shown.append((key, known[-1].value))
        return shown

    def trim(self, after: int) -> None:
        """Forget what came later."""
        self.versions = {
            key: kept
            for key, versions in self.versions.items()
            if (kept := [version for version in versions if version.ts <= after])
        }

    def times(self) -> list[int]:
        """All times at which something changes."""
        edges = {
            edge
            for versions in self.versions.values()
            for version in versions
            for edge in (version.ts, version.expires)
            if edge is not None
        }
        return sorted(edges)

    def is_out_of_order(self, rows: Iterable[tuple[bytes, int]]) -> bool:
        """Tell whether any of the rows, as key and time, is older than what its key has."""
        return any((newest := self.newest_ts(key)) is not None and ts < newest for key, ts in rows)


def _has_expired(version: HistoryVersion, instant: int) -> bool:
    return version.expires is not None and version.expires <= instant
