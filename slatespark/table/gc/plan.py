"""Garbage collection decisions: listings and versions in, a verdict with a reason on every object out. Pure.

Objects stay if a kept version, a running job or another client may need them. All ages are judged at one instant. See
docs/reference/format/garbage-collection.md, docs/explanation/how-a-compaction-works.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from slatespark.format.compactions import Compaction, CompactionStatus
from slatespark.format.paths import COMPACTIONS_EXTENSION, SST_EXTENSION, copy_id, numbered, sst_id
from slatespark.format.ulid import Ulid
from slatespark.storage import ObjectMeta
from slatespark.table.log.numbered_log import by_number
from slatespark.units import HOUR_MS, duration_to_text, ms_to_text

# A client's own collector keeps younger files by default: the client may be about to publish them.
CLIENT_MIN_AGE_MS: Final = 300_000
_SKEW_MS: Final = 600_000  # between the clock of a job and that of the store
UNFINISHED_MIN_AGE_MS: Final = HOUR_MS  # writing a file takes less

FOREIGN: Final = "not an object of a SlateDB database"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something is kept.

    Attributes
    ----------
    until_ms : when that ends by itself; None if it does not, or nobody knows when
    """

    text: str
    until_ms: int | None = None

    @property
    def lasts(self) -> float:
        """The end, for comparison: what does not end by itself lasts longest."""
        return math.inf if self.until_ms is None else self.until_ms


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about an object.

    Attributes
    ----------
    goes : whether it is deleted
    until_ms : when the reason for keeping it ends by itself; None if it does not, or nobody knows when
    """

    meta: ObjectMeta
    goes: bool
    reason: str
    until_ms: int | None = None

    @classmethod
    def on(cls, meta: ObjectMeta, kept: Reason | None, gone: str) -> Verdict:
        """Return the verdict on an object, by the reason for keeping it; without one it goes, since `gone`."""
        if kept is None:
            return cls(meta, goes=True, reason=gone)
        return cls(meta, goes=False, reason=kept.text, until_ms=kept.until_ms)


@dataclass(frozen=True, slots=True)
class KeptVersion:
    """A kept version, and the WAL files that it references.

    Attributes
    ----------
    why : the reason for keeping it
    wal_after, wal_last : it references the WAL files (wal_after, wal_last]
    """

    number: int
    why: Reason
    wal_after: int
    wal_last: int


@dataclass(frozen=True, slots=True)
class LiveLease:
    """A job that may still publish any file uploaded since it began; `created_ms` is None if unknown."""

    write_id: str
    created_ms: int | None
    expires_ms: int


@dataclass(frozen=True, slots=True)
class Needs:
    """All references to objects, at a moment after which no old object can become referenced again.

    Attributes
    ----------
    now_ms, min_age_ms : the instant of the collection, and the minimum age of deleted objects
    replay_after : WAL id after which the newest version replays
    versions : the kept ones, ascending
    shown_by : the kept version that references each SST for longest, including SSTs of other databases
    unknown : why the references of some kept version are unknown; None if all are known
    leases : running jobs of slatespark
    jobs : active compactions
    client_since_ms : time of the oldest file that a client may be about to flush; None if no client can publish
    takes_fences : whether WAL fences are deleted like other WAL files
    """

    now_ms: int
    min_age_ms: int
    replay_after: int
    versions: tuple[KeptVersion, ...]
    shown_by: Mapping[Ulid, KeptVersion] = field(default_factory=dict)
    unknown: str | None = None
    leases: tuple[LiveLease, ...] = ()
    jobs: tuple[Compaction, ...] = ()
    client_since_ms: int | None = None
    takes_fences: bool = False

    def is_young(self, time_ms: int) -> bool:
        """Tell whether an object of that time is too young to be deleted."""
        return is_younger(time_ms, self.min_age_ms, self.now_ms)

    def young_reason(self, time_ms: int) -> Reason | None:
        """Return the reason for keeping an object of that time if it is young."""
        if not self.is_young(time_ms):
            return None
        return Reason(f"younger than {duration_to_text(self.min_age_ms)}", time_ms + self.min_age_ms)


def is_younger(time_ms: int, min_age_ms: int, now_ms: int) -> bool:
    """Tell whether an object is younger than a minimum age; none is younger than 0, whatever the store's clock says."""
    return min_age_ms > 0 and now_ms - time_ms < min_age_ms


# --- versions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlannedVersions:
    """The kept versions.

    Attributes
    ----------
    kept : reasons by number, ascending
    recent_from : versions from this one on were the newest at some moment within the minimum age, so reads of them may
        still be running
    """

    kept: Mapping[int, Reason]
    recent_from: int


def plan_versions(
    listed: Mapping[int, int],
    latest_id: int,
    pins: Mapping[int, Reason],
    *,
    now_ms: int,
    min_age_ms: int,
    busy_ms: int | None = None,
    busy_until_ms: int | None = None,
    proof: int | None = None,
    handed: int | None = None,
) -> PlannedVersions:
    """Decide which versions are kept.

    A writer that finds its version behind the boundary considers it lost, and commits again. So the boundary must not
    pass a version that a running job may just have committed.

    Parameters
    ----------
    listed : when each manifest was stored, by number
    pins : reasons of the versions that checkpoints pin
    busy_ms, busy_until_ms : when the oldest running job of slatespark began, and when the last lease ends; None without
        any
    proof : manifests from this one on prove that other clients dropped nothing of a history table; None if no proof is
        needed
    handed : later manifests than this one may tell whether a client committed a load; None without any
    """
    numbers = sorted(listed)
    young = [number for number in numbers if is_younger(listed[number], min_age_ms, now_ms)]
    # The version before the first young one was the newest until then.
    recent_from = numbers[max(0, bisect_left(numbers, young[0]) - 1)] if young else latest_id
    busy = [number for number in numbers if busy_ms is not None and listed[number] >= busy_ms - _SKEW_MS]
    busy_from = busy[0] if busy else latest_id
    kept: dict[int, Reason] = {}
    for number, successor in zip(numbers, [*numbers[1:], None], strict=True):
        if number >= latest_id or successor is None:
            kept[number] = Reason("the newest version")
        elif number in pins:
            kept[number] = pins[number]
        elif number >= recent_from:
            until_ms = listed[successor] + min_age_ms
            kept[number] = Reason(f"the newest version within the last {duration_to_text(min_age_ms)}", until_ms)
        elif number >= busy_from:
            kept[number] = Reason("a running job may just have committed it", busy_until_ms)
        elif handed is not None and number > handed:
            kept[number] = Reason("it tells whether a client has committed a load that it was handed")
        elif proof is not None and number >= proof:
            kept[number] = Reason("it proves that no other client dropped rows of the table's history")
    return PlannedVersions(kept, min(recent_from, latest_id))


# --- SSTs -----------------------------------------------------------------------------------------------------------


def judge_copies(listed: Iterable[ObjectMeta], needs: Needs) -> Iterator[Verdict]:
    """Yield a verdict on each object in `slatespark/columns/`: a columnar copy stays as long as its SST."""
    return judge_ssts(listed, needs, id_of=copy_id)


def judge_ssts(
    listed: Iterable[ObjectMeta], needs: Needs, id_of: Callable[[str], Ulid | None] = sst_id
) -> Iterator[Verdict]:
    """Yield a verdict on each object in `compacted/`.

    Parameters
    ----------
    id_of : path -> id of the SST
    """
    named = {ulid: job for job in needs.jobs for ulid in outputs_of(job)}
    for meta in listed:
        ulid = id_of(meta.path)
        if ulid is None:
            yield Verdict(meta, goes=False, reason=FOREIGN)
        elif (version := needs.shown_by.get(ulid)) is not None:
            yield Verdict.on(meta, _needed_by(version), "")
        elif ulid in named:
            yield Verdict(meta, goes=False, reason=f"it is an output of compaction {named[ulid].id}")
        else:
            reason = _reason_to_spare(max(ulid.timestamp_ms, meta.modified_ms), ulid, needs)
            yield Verdict.on(meta, reason, "no version that is kept needs it")


def _needed_by(version: KeptVersion) -> Reason:
    return Reason(f"version {version.number} needs it: {version.why.text}", version.why.until_ms)


def _reason_to_spare(made_ms: int, ulid: Ulid, needs: Needs) -> Reason | None:
    """Return why an unreferenced SST is kept; None if it can be deleted."""
    if needs.unknown is not None:
        return Reason(needs.unknown)
    jobs = (lease for lease in needs.leases if lease.created_ms is None or made_ms >= lease.created_ms)
    if (lease := max(jobs, key=lambda lease: lease.expires_ms, default=None)) is not None:
        return Reason(f"job {lease.write_id} is running and may publish it", lease.expires_ms)
    for job in needs.jobs:
        if job.status is CompactionStatus.RUNNING and made_ms >= job.id.timestamp_ms:
            return Reason(f"compaction {job.id} is running and may publish it")
    may_be_flushed = needs.client_since_ms is not None and ulid.timestamp_ms >= needs.client_since_ms
    if may_be_flushed and needs.now_ms - made_ms < CLIENT_MIN_AGE_MS:
        return Reason("a SlateDB client may be about to publish it", made_ms + CLIENT_MIN_AGE_MS)
    return needs.young_reason(made_ms)


def outputs_of(job: Compaction) -> Iterator[Ulid]:
    """Yield the listed outputs of a compaction."""
    yield from (handle.id for handle in job.output_ssts)
    if job.context is not None:
        yield from (handle.id for part in job.context.subcompactions for handle in part.output_ssts)


# --- the WAL --------------------------------------------------------------------------------------------------------


def judge_wal(listed: Iterable[ObjectMeta], needs: Needs) -> Iterator[Verdict]:
    """Yield a verdict on each object in `wal/`: there may be half a million fences, and thousands of versions."""
    readers = [version for version in reversed(needs.versions) if version.wal_after < version.wal_last]
    first = min((version.wal_after for version in readers), default=0)
    for meta in listed:
        number = numbered(meta.path, SST_EXTENSION)
        among = readers if number is not None and number > first else ()
        reason = Reason(FOREIGN) if number is None else _reason_to_keep_wal(number, meta, among, needs)
        yield Verdict.on(meta, reason, "its rows are in SSTs of every version that is kept")


def _reason_to_keep_wal(number: int, meta: ObjectMeta, readers: Sequence[KeptVersion], needs: Needs) -> Reason | None:
    """Return why a WAL file is kept; `readers` are the versions that may reference it, newest first."""
    if number > needs.replay_after:
        return Reason("its rows may be in no SST yet")
    if number == needs.replay_after:
        return Reason("replay starts after it")
    reading = (version for version in readers if version.wal_after < number <= version.wal_last)
    if (version := max(reading, key=lambda version: version.why.lasts, default=None)) is not None:
        return _needed_by(version)
    if needs.unknown is not None:
        return Reason(needs.unknown)
    if (young := needs.young_reason(meta.modified_ms)) is not None:
        return young
    if meta.size == 0 and not needs.takes_fences:
        return Reason("it is a fence: it stops a fenced writer that has not noticed yet")
    return None


# --- manifests and slatespark's own objects --------------------------------------------------------------------------


def judge_manifests(
    listed: Mapping[int, ObjectMeta], going: Iterable[int], why: Callable[[int], Reason]
) -> Iterator[Verdict]:
    """Yield a verdict on each manifest.

    Parameters
    ----------
    going : numbers that the boundary declares dead
    why : the reason for keeping another one
    """
    dead = set(going)
    for number, meta in listed.items():
        reason = None if number in dead else why(number)
        yield Verdict.on(meta, reason, "newer versions replaced it, and no checkpoint pins it")


def judge_compactions(listed: Sequence[ObjectMeta], needs: Needs) -> list[Verdict]:
    """Return a verdict on each object in `compactions/`."""
    newest = max(by_number(listed, COMPACTIONS_EXTENSION), default=0)
    verdicts = []
    for meta in listed:
        number = numbered(meta.path, COMPACTIONS_EXTENSION)
        if number is None:
            reason: Reason | None = Reason(FOREIGN)
        elif number == newest:
            reason = Reason("the newest state of the compactor")
        else:
            reason = needs.young_reason(meta.modified_ms)
        verdicts.append(Verdict.on(meta, reason, "a newer state replaced it"))
    return verdicts


def judge_unfinished(listed: Iterable[ObjectMeta], needs: Needs) -> Iterator[Verdict]:
    """Yield a verdict on each partial object."""
    for meta in listed:
        until_ms = meta.modified_ms + max(needs.min_age_ms, UNFINISHED_MIN_AGE_MS)
        reason = Reason("it may still be being written", until_ms) if needs.now_ms < until_ms else None
        yield Verdict.on(meta, reason, "its writer was killed")


def judge_claims(
    listed: Mapping[str, tuple[int, ObjectMeta]], kept: Iterable[int], found_id: int, needs: Needs
) -> Iterator[Verdict]:
    """Yield a verdict on each claim: it tells who wrote a manifest, and is deleted after it.

    Parameters
    ----------
    listed : number of the manifest and object, by path
    kept : numbers of the kept manifests
    found_id : the newest one when the collection began; a listing of them may have passed over later ones
    """
    there = set(kept)
    for number, meta in listed.values():
        is_needed = number in there or number > found_id
        reason = Reason(f"it tells who wrote manifest {number}") if is_needed else needs.young_reason(meta.modified_ms)
        yield Verdict.on(meta, reason, f"manifest {number} is gone")


def judge_commits(
    listed: Mapping[int, ObjectMeta], batched: Iterable[int], kept: Iterable[int], needs: Needs
) -> Iterator[Verdict]:
    """Yield a verdict on each single commit record: it is deleted once a batch holds a copy, so no history is lost.

    Parameters
    ----------
    listed : objects by number of the version
    batched : numbers of the records in sound batches
    kept : numbers of the kept manifests
    """
    repeated, there = set(batched), set(kept)
    for number, meta in listed.items():
        if number not in repeated:
            reason: Reason | None = Reason("it is the only record of the commit")
        elif number in there:
            reason = Reason(f"version {number} is kept")
        else:
            reason = needs.young_reason(meta.modified_ms)
        yield Verdict.on(meta, reason, "a batch of records holds it too")


def judge_small_batches(small: Mapping[int, ObjectMeta], newest: int, needs: Needs) -> Iterator[Verdict]:
    """Yield a verdict on each small batch of commit records whose records a large one holds.

    Parameters
    ----------
    small : small batches, by the version they end with
    newest : the version that the newest large batch ends with
    """
    for number, meta in small.items():
        if number <= newest:
            yield Verdict.on(meta, needs.young_reason(meta.modified_ms), "a larger batch holds its records")


def pinned_reason(name: str, expires_ms: int | None) -> Reason:
    """Return the reason for keeping a version that a checkpoint pins."""
    until = "forever" if expires_ms is None else f"until {ms_to_text(expires_ms)}"
    return Reason(f"checkpoint {name} keeps it, {until}", expires_ms)
