"""What a database shows at an instant, past or future, when rows expire and retire and others rewrite its files.

`Model` keeps every version for ever. The real client does not: when it flushes or compacts, it turns expired values
into tombstones and drops expired operands, after which reads at an earlier `now` miss them. `TimeModel` drops them as
the client does (docs/reference/format/rows.md), so it says what any `now` shows, also one before a compaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from tests.support.client import Merge, ScanRow, Write, Written
from tests.support.model import Kind, Model, Version


@dataclass(slots=True)
class TimeModel(Model):
    """The stored versions of every key, oldest first.

    Attributes
    ----------
    retention_ms : of the table
    tick_ms : highest creation time of all that was ever written
    memtable : seqs of the client's rows that no flush of its memtable has rewritten yet
    reaped_ms : the latest instant that a reaper, or a merge of some runs, went by
    touched : keys of which they may have removed versions that an earlier `now` would show
    """

    retention_ms: int | None = None
    tick_ms: int | None = None
    memtable: set[int] = field(default_factory=set)
    reaped_ms: int | None = None
    touched: set[bytes] = field(default_factory=set)

    def write(self, writes: Sequence[Write], written: Written) -> None:
        """Add rows of one commit of ours, or of the client."""
        self.apply(writes, written)
        if writes:
            self.tick_ms = written.create_ts if self.tick_ms is None else max(self.tick_ms, written.create_ts)
        self.touched -= {write.key for write in writes if not isinstance(write, Merge)}

    def write_by_client(self, write: Write, written: Written) -> None:
        """Add a row that is in the client's memtable."""
        self.write([write], written)
        self.memtable.add(written.seq)

    # --- what others do to the files ----------------------------------------------------------------------------------

    def flush(self) -> None:
        """Let the client write its memtable: what had expired at the newest creation time in it is purged."""
        flushed = [
            version for versions in self.versions.values() for version in versions if self._is_in_memtable(version)
        ]
        if flushed:
            tick_ms = max(version.create_ts or 0 for version in flushed)
            self._purge_memtable(tick_ms)
        self.memtable.clear()

    def compact(self) -> None:
        """Merge all files into one run: what had expired at the last tick is purged. The memtable stays above it."""
        assert self.tick_ms is not None
        for key, versions in self.versions.items():
            merged = [version for version in versions if not self._is_in_memtable(version)]
            newer = [version for version in versions if self._is_in_memtable(version)]
            self.versions[key] = [*rewritten(merged, self.tick_ms, is_bottom=True), *newer]

    def drain(self) -> None:
        """Let a commit of ours take the WAL over; nothing is purged."""
        self.memtable.clear()

    def reap(self, now_ms: int) -> set[bytes]:
        """Remove the rows that are retired, and return their keys."""
        assert self.retention_ms is not None
        due_ms = now_ms - self.retention_ms
        shown = {row.key for row in self.visible(now_ms)}
        gone = shown - {row.key for row in self.shown(now_ms)}
        self.touched |= {
            key
            for key, versions in self.versions.items()
            if any(version.create_ts is not None and version.create_ts <= due_ms for version in versions)
        }
        for key in gone:
            self.versions[key].clear()
        self.reaped_ms = now_ms if self.reaped_ms is None else max(now_ms, self.reaped_ms)
        return gone

    def purge(self, now_ms: int) -> None:
        """Let a merge of some of the files remove what has expired or retired, and deletions that hide nothing."""
        self.touched |= {
            key
            for key, versions in self.versions.items()
            if any(version.kind is Kind.DELETE or self._may_go(version, now_ms) for version in versions)
        }
        self.reaped_ms = now_ms if self.reaped_ms is None else max(now_ms, self.reaped_ms)

    def _may_go(self, version: Version, now_ms: int) -> bool:
        due_ms = None if self.retention_ms is None else now_ms - self.retention_ms
        is_retired = due_ms is not None and version.create_ts is not None and version.create_ts <= due_ms
        return version.is_expired(now_ms) or is_retired

    def _is_in_memtable(self, version: Version) -> bool:
        return version.seq in self.memtable

    def _purge_memtable(self, tick_ms: int) -> None:
        for key, versions in self.versions.items():
            chosen = [version for version in versions if self._is_in_memtable(version)]
            older = [version for version in versions if not self._is_in_memtable(version)]
            assert not (older and chosen) or older[-1].seq < chosen[0].seq
            self.versions[key] = [*older, *rewritten(chosen, tick_ms, is_bottom=False)]

    # --- what a read shows --------------------------------------------------------------------------------------------

    def shown(self, now_ms: int) -> list[ScanRow]:
        """The rows that a read shows at `now_ms`."""
        rows = self.visible(now_ms)
        if self.retention_ms is None:
            return rows
        due_ms = now_ms - self.retention_ms
        return [row for row in rows if row.create_ts is None or row.create_ts > due_ms]

    def deleted(self, now_ms: int) -> dict[bytes, int]:
        """The keys that `includeDeleted` shows as deleted, with the seq of their deletion."""
        found = {}
        for key, versions in self.versions.items():
            for version in reversed(versions):
                if version.kind is Kind.MERGE and version.is_expired(now_ms):
                    continue
                if version.kind is Kind.DELETE:
                    found[key] = version.seq
                break
        return found

    def instants(self) -> list[int]:
        """The instants at which something changes, with those right before them."""
        retained = [] if self.retention_ms is None else [0, self.retention_ms]
        found = {0 if self.tick_ms is None else self.tick_ms}
        for version in (version for versions in self.versions.values() for version in versions):
            if version.expire_ts is not None:
                found |= {version.expire_ts}
            if version.create_ts is not None:
                found |= {version.create_ts + after_ms for after_ms in retained}
        return sorted({instant - before for instant in found for before in (0, 1)})

    def is_exact(self, now_ms: int | None) -> Callable[[bytes], bool]:
        """Return whether a key is known to show the same at `now_ms` (None: at every instant, or expired ones too)."""
        loose = self.touched if self.reaped_ms is not None and (now_ms is None or now_ms < self.reaped_ms) else set()
        return lambda key: key not in loose


def canonical(versions: Sequence[Version]) -> list[Version]:
    """Return versions without those that none can see at any instant, and operands folded that live as long.

    A flush or a compaction of the client may keep them, for readers or until the WAL is durable.
    """
    return rewritten(versions, None, is_bottom=False)


def rewritten(versions: Sequence[Version], tick_ms: int | None, *, is_bottom: bool) -> list[Version]:
    """Return what a flush or a compaction of the client makes of versions of one key, both oldest first.

    Parameters
    ----------
    tick_ms : what expired at or before it is purged; None for nothing
    is_bottom : whether nothing older lies below
    """
    kept = []
    for version in reversed(_folded(versions)):
        if version.is_expired(tick_ms):
            if version.kind is Kind.MERGE:
                continue
            kept.append(Version(version.seq, Kind.DELETE, b"", version.create_ts, None))
            break
        kept.append(version)
        if version.kind is not Kind.MERGE:
            break
    while is_bottom and kept and kept[-1].kind is Kind.DELETE:
        kept.pop()
    return kept[::-1]


def _folded(versions: Iterable[Version]) -> list[Version]:
    """Fold operands onto what is right below them, if it goes by the same expiry; oldest first."""
    found: list[Version] = []
    for version in versions:
        below = found[-1] if found else None
        if version.kind is not Kind.MERGE or below is None or below.expire_ts != version.expire_ts:
            found.append(version)
            continue
        found[-1] = replace(
            version,
            kind=Kind.MERGE if below.kind is Kind.MERGE else Kind.PUT,
            value=below.value + version.value,
            create_ts=max(below.create_ts or 0, version.create_ts or 0),
        )
    return found
