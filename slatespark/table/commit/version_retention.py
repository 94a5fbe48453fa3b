"""Keeping the version that a commit replaces readable for a while, by an expiring checkpoint.

A version of slatespark carries a checkpoint on itself, since a client that replaces it adds none. The commit that
replaces it renews that checkpoint in its claim, not with its rows: from the claim on the version is no longer the
newest, and a collector may remove whatever is not pinned. See docs/explanation/how-a-commit-works.md,
docs/reference/format/checkpoints.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final
from uuid import UUID

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.format.manifest import Checkpoint, Manifest
from slatespark.table.checkpoints.store import LAST_S, OWN_NAMES
from slatespark.table.log.manifests import find_manifest, is_known_commit
from slatespark.table.log.versioned_object import Version
from slatespark.table.records.commits import fetch_commit_record
from slatespark.table.records.operations import Operation
from slatespark.table.stores import TableStores
from slatespark.units import WEEK_MS, ms_to_s, s_to_ms

RETAINED_NAMES: Final = f"{OWN_NAMES}version/"  # thinned when there are many
UNDO_NAMES: Final = f"{OWN_NAMES}undo/"  # what a restore or a trim replaced: never thinned
MAX_RETAINED: Final = 1000  # each costs about 85 bytes in every manifest
UNDO_LIFETIME_MS: Final = WEEK_MS  # of the version before a restore, at least
READERS_LIFETIME_MS: Final = 900_000  # of the version before a compaction, as the client keeps it for readers

# Any table keeps the version before for this long: to undo the commit, or for reads of the merged files.
LEAST_KEPT_MS: Final[Mapping[Operation, int]] = MappingProxyType(
    {
        Operation.RESTORE: UNDO_LIFETIME_MS,
        Operation.TRIM: UNDO_LIFETIME_MS,
        Operation.COMPACT: READERS_LIFETIME_MS,
    }
)

_MAX_STEPS: Final = 32  # versions that only changed checkpoints or epochs, back to the one that brought the rows


def is_retained(name: str | None) -> bool:
    """Tell whether this is the name of a checkpoint that a commit made on the version it replaced."""
    return name is not None and name.startswith(RETAINED_NAMES)


def keeps_replaced(point: Checkpoint) -> bool:
    """Tell whether a checkpoint only keeps a version that a commit replaced, and goes by itself."""
    return _goes_by_itself(point) and (point.name or "").startswith((RETAINED_NAMES, UNDO_NAMES))


@dataclass(frozen=True, slots=True)
class Replaced:
    """The version that a commit replaces.

    Attributes
    ----------
    lifetime_ms : how long it is kept; None if it is not
    can_be_undone : whether the commit can be undone; then the claim is kept too, by checkpoints that are never thinned
    limit : largest number of versions kept this way, with earlier ones; None for `MAX_RETAINED`
    """

    version: int
    lifetime_ms: int | None
    can_be_undone: bool = False
    limit: int | None = None

    def keep(
        self,
        claim: Manifest,
        claim_id: int,
        wal_end: int,
        *,
        keeps_claim: bool,
        now_ms: int,
        new_id: Callable[[], UUID],
    ) -> Manifest:
        """Return the claim of a commit with checkpoints on the version that it replaces.

        Parameters
        ----------
        claim, claim_id : the manifest that will claim the epochs
        wal_end : first WAL id that does not exist
        keeps_claim : keep the claim as well, as the version that shows all rows of the WAL; implied by `can_be_undone`
        """
        if self.lifetime_ms is None:
            return replace(claim, checkpoints=retained(claim.checkpoints, (), 0, now_ms, new_id, limit=self.limit))
        keeps_claim |= self.can_be_undone
        versions = (self.version, claim_id) if keeps_claim else (self.version,)
        kept = () if self.can_be_undone else versions
        points = retained(claim.checkpoints, kept, self.lifetime_ms, now_ms, new_id, limit=self.limit)
        if self.can_be_undone:
            points = (*points, *undo_points(versions, max(self.lifetime_ms, UNDO_LIFETIME_MS), now_ms, new_id))
        return replace(
            claim,
            checkpoints=points,
            wal_id_last_seen=max(claim.wal_id_last_seen, wal_end - 1) if keeps_claim else claim.wal_id_last_seen,
        )


def undo_points(
    versions: Sequence[int], lifetime_ms: int, now_ms: int, new_id: Callable[[], UUID]
) -> tuple[Checkpoint, ...]:
    """Return the checkpoints by which a commit can be undone for `lifetime_ms`, however many commits follow."""
    created_s, expires_s = min(ms_to_s(now_ms), LAST_S), _expiry_s(now_ms, lifetime_ms)
    return tuple(Checkpoint(new_id(), each, expires_s, created_s, f"{UNDO_NAMES}{each}") for each in versions)


def _expiry_s(now_ms: int, lifetime_ms: int) -> int:
    return min(-ms_to_s(-(now_ms + lifetime_ms)), LAST_S)


def find_replaced(stores: TableStores, latest: Version[Manifest]) -> int:
    """Return the version that added the rows of the newest one, skipping those that only changed checkpoints or epochs.

    It is the newest one itself if that version is not pinned: a collector may remove it at any moment, and a dangling
    checkpoint would stop all collection (docs/reference/format/checkpoints.md).
    """
    pinned = {point.manifest_id for point in latest.value.checkpoints if point.manifest_id < latest.number}
    if not pinned:
        return latest.number
    number = _first_with_content(stores, latest, pinned)
    return number if number in pinned else latest.number


def is_over(point: Checkpoint, now_ms: int, shown: int) -> bool:
    """Tell whether a checkpoint has expired, and is not that of a version which no commit has replaced yet.

    The commit that replaces it renews that checkpoint, and until then it keeps no file that the table does not need
    itself. So a table that is written more rarely than its `versionRetention` lasts keeps each version as well.

    Parameters
    ----------
    shown : the version that the table shows, as `find_replaced` returns it
    """
    is_expired = 0 < s_to_ms(point.expire_time_s) <= now_ms
    return is_expired and not (is_retained(point.name) and point.manifest_id == shown)


def _first_with_content(stores: TableStores, latest: Version[Manifest], pinned: Collection[int]) -> int:
    number = latest.number
    for _ in range(_MAX_STEPS):
        if number <= 1 or is_known_commit(stores, number):
            return number
        try:
            if fetch_commit_record(stores.main, number) is not None:
                return number
            before = _fetch_before(stores, number, pinned)
        except (CorruptDataError, UnsupportedFormatError):  # nothing of an older version is needed
            return number
        if before is None or _content(before.value) != _content(latest.value):
            return number
        number = before.number
    return number


def _fetch_before(stores: TableStores, number: int, pinned: Collection[int]) -> Version[Manifest] | None:
    """Return the version before another, or the newest pinned one if that was collected; None if there is none."""
    earlier = max((each for each in pinned if each < number), default=number - 1)
    for each in dict.fromkeys((number - 1, earlier)):
        if (found := find_manifest(stores, each)) is not None:
            return Version(each, found)
    return None


def _content(manifest: Manifest) -> tuple[object, ...]:
    wal = manifest.replay_after_wal_id, manifest.wal_id_last_seen
    return manifest.last_l0_seq, wal, manifest.trees()


def retained(
    points: Sequence[Checkpoint],
    versions: Sequence[int],
    lifetime_ms: int,
    now_ms: int,
    new_id: Callable[[], UUID],
    *,
    limit: int | None = None,
) -> tuple[Checkpoint, ...]:
    """Return the checkpoints of a table with `versions` kept, and without expired ones of slatespark, pins included.

    Parameters
    ----------
    lifetime_ms : lifetime of `versions`, from now
    limit : largest number of versions kept this way; beyond it, older ones are thinned out. None for `MAX_RETAINED`
    """
    now_s, expires_s = ms_to_s(now_ms), _expiry_s(now_ms, lifetime_ms)
    others: list[Checkpoint] = []
    own: dict[int, Checkpoint] = {}
    for point in points:
        if not _goes_by_itself(point):
            others.append(point)
        elif point.expire_time_s > now_s:
            if is_retained(point.name):
                own[point.manifest_id] = _longer(own.get(point.manifest_id, point), point)
            else:
                others.append(point)
    for version in versions:
        point = own.get(version) or Checkpoint(new_id(), version, 0, min(now_s, LAST_S), f"{RETAINED_NAMES}{version}")
        own[version] = _longer(point, replace(point, expire_time_s=expires_s))
    return (*others, *_thinned([own[version] for version in sorted(own)], now_s, limit or MAX_RETAINED))


def _longer(point: Checkpoint, other: Checkpoint) -> Checkpoint:
    """Return a checkpoint with the later expiry of two."""
    later_s = max(point.expire_time_s, other.expire_time_s)
    return point if point.expire_time_s == later_s else replace(point, expire_time_s=later_s)


def _goes_by_itself(point: Checkpoint) -> bool:
    """Tell whether a checkpoint of slatespark expires; a user may have refreshed it to last forever."""
    return point.name is not None and point.name.startswith(OWN_NAMES) and point.expire_time_s > 0


def _thinned(points: list[Checkpoint], now_s: int, limit: int) -> list[Checkpoint]:
    """Return at most `limit` checkpoints, oldest first, denser towards the present, and always both ends."""
    while len(points) > max(limit, 2):
        gaps = ((_relative_gap(points, at, now_s), at) for at in range(1, len(points) - 1))
        dropped = min(gaps)[1]
        points = points[:dropped] + points[dropped + 1 :]
    return points


def _relative_gap(points: Sequence[Checkpoint], at: int, now_s: int) -> float:
    """Return how wide the gap would be without a checkpoint, relative to its age."""
    gap_s = points[at + 1].create_time_s - points[at - 1].create_time_s
    return max(0, gap_s) / max(1, now_s - points[at].create_time_s)
