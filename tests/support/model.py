"""A SlateDB database as a dictionary: the truth that files and scans are compared with.

It keeps every version for ever, while a flush or a compaction may fold and drop versions. Both show the same rows as
long as `now` is not before the newest creation time: what the client purges had expired by then anyway.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tests.support.client import Delete, Merge, Put, ScanRow, Ttl, Write, Written


class Kind(Enum):
    """What a version does to its key."""

    PUT = "put"
    DELETE = "delete"
    MERGE = "merge"


@dataclass(frozen=True, slots=True)
class Version:
    """One version of one key."""

    seq: int
    kind: Kind
    value: bytes
    create_ts: int | None  # ms
    expire_ts: int | None  # ms; never on a delete

    def is_expired(self, now_ms: int | None) -> bool:
        """Whether it is past its time at `now_ms`; nothing is when that is None."""
        return now_ms is not None and self.expire_ts is not None and self.expire_ts <= now_ms


@dataclass(slots=True)
class Model:
    """The versions of every key, by sequence number."""

    default_ttl_ms: int | None = None
    versions: defaultdict[bytes, list[Version]] = field(default_factory=lambda: defaultdict(list))

    def apply(self, writes: Iterable[Write], written: Written) -> None:
        """Add the writes of one batch, as the client numbered and dated them.

        Within a batch a put or delete drops what the batch did to its key before; operands append to it.
        """
        folded: dict[bytes, list[Write]] = {}
        for write in writes:
            earlier = folded.get(write.key, []) if isinstance(write, Merge) else []
            folded[write.key] = [*earlier, write]
        for key, parts in folded.items():
            self.insert(key, self._version(parts, written))

    def insert(self, key: bytes, version: Version) -> None:
        """Add a version where its sequence number belongs; one with the same number is replaced."""
        versions = self.versions[key]
        place = bisect_left(versions, version.seq, key=lambda each: each.seq)
        has_same = place < len(versions) and versions[place].seq == version.seq
        versions[place : place + has_same] = [version]

    def visible(
        self, now_ms: int | None, *, include_expired: bool = False, max_seq: int | None = None
    ) -> list[ScanRow]:
        """The rows a scan shows, by key.

        Parameters
        ----------
        now_ms : the instant at which expiry is judged
        include_expired : show what is expired too, as the real client does; `now_ms` has no effect then
        max_seq : ignore what was written later
        """
        judged_at = None if include_expired else now_ms
        rows = []
        for key in sorted(self.versions):
            versions = [version for version in self.versions[key] if max_seq is None or version.seq <= max_seq]
            live = _live_group(versions, judged_at)
            if live:
                rows.append(_fold(key, live))
        return rows

    def keys_with_expiry_by(self, now_ms: int) -> set[bytes]:
        """The keys of which the client may have purged something by then: `include_expired` is not certain there."""
        return {key for key, versions in self.versions.items() if any(each.is_expired(now_ms) for each in versions)}

    def keys_under_later_deletes(self) -> set[bytes]:
        """The keys with an operand over a delete that was created after it, as a load beside a client may leave them.

        The client counts the time of the delete, we don't.
        """
        return {key for key, versions in self.versions.items() if _is_under_later_delete(versions)}

    @property
    def last_seq(self) -> int:
        """The highest sequence number, 0 for nothing."""
        return max((versions[-1].seq for versions in self.versions.values() if versions), default=0)

    def _version(self, parts: Sequence[Write], written: Written) -> Version:
        value = b"".join(_payload(part) for part in parts)
        expire_ts = self._expire_ts(parts[-1], written)
        if all(isinstance(part, Merge) for part in parts):
            return Version(written.seq, Kind.MERGE, value, written.create_ts, expire_ts)
        if isinstance(parts[-1], Delete):
            return Version(written.seq, Kind.DELETE, b"", written.create_ts, None)
        return Version(written.seq, Kind.PUT, value, written.create_ts, expire_ts)

    def _expire_ts(self, write: Write, written: Written) -> int | None:
        if isinstance(write, Delete):
            return None
        ttl = Ttl(after_ms=self.default_ttl_ms) if write.ttl is None else write.ttl
        return written.create_ts + ttl.after_ms if ttl.after_ms is not None else ttl.at_ms


def _live_group(versions: Sequence[Version], now_ms: int | None) -> list[Version]:
    """The versions that make up the visible row, newest first: live operands, then the live put below them, if any."""
    group = []
    for version in reversed(versions):
        if version.kind is Kind.MERGE:
            if not version.is_expired(now_ms):
                group.append(version)
            continue
        if version.kind is Kind.PUT and not version.is_expired(now_ms):
            group.append(version)
        break  # an expired put hides what is below, as a tombstone does
    return group


def _is_under_later_delete(versions: Sequence[Version]) -> bool:
    deleted_ts: int | None = None
    for version in versions:
        if version.kind is not Kind.MERGE:
            deleted_ts = version.create_ts if version.kind is Kind.DELETE else None
        elif deleted_ts is not None and version.create_ts is not None and version.create_ts < deleted_ts:
            return True
    return False


def _fold(key: bytes, group: Sequence[Version]) -> ScanRow:
    """Newest sequence number, latest creation, earliest expiry; values oldest to newest."""
    value = b"".join(version.value for version in reversed(group))
    created = [version.create_ts for version in group if version.create_ts is not None]
    expiring = [version.expire_ts for version in group if version.expire_ts is not None]
    return ScanRow(key, value, group[0].seq, max(created, default=None), min(expiring, default=None))


def _payload(write: Write) -> bytes:
    match write:
        case Put(_, value, _):
            return value
        case Merge(_, operand, _):
            return operand
        case Delete():
            return b""
