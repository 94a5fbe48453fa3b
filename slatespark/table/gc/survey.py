"""Inputs of a collection: the objects of a table, and the jobs that may still publish some of them.

The order of reads makes it sound. SSTs are listed first. A job that uploaded one before that had already put a lease or
an entry in `.compactions`. So either it is found when these are read next, or the job has ended, and its files are in
the manifests, which are read last. Files uploaded later are not in the listing.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from slatespark.errors import CorruptDataError
from slatespark.format.compactions import Compaction, Compactions, CompactionStatus
from slatespark.format.paths import COLUMNS_DIR, COMPACTED_DIR, COMPACTIONS_DIR, TABLE_FOLDERS, WAL_DIR
from slatespark.storage import ObjectMeta, ObjectStore, run_ahead, run_concurrently
from slatespark.table.commit.active_jobs import HEARTBEAT_FRESH_MS, is_own_job, runs_here
from slatespark.table.commit.hold import working_jobs
from slatespark.table.commit.own_names import is_in_own_folder, is_own
from slatespark.table.gc.plan import LiveLease, Needs, Reason, Verdict
from slatespark.table.log.compactions import create_compactions, fetch_compactions
from slatespark.table.log.versioned_object import RaceLostError, Version
from slatespark.table.records.claims import CLAIMS_DIR, announced_version
from slatespark.table.records.commit_batches import fetch_commit_object, list_batches_by_size
from slatespark.table.records.commit_record import COMMITS_DIR
from slatespark.table.records.json_objects import JSON_SUFFIX, WRITE_ID_CHARS, list_numbered
from slatespark.table.records.leases import LEASE_LIFETIME_MS, LEASES_DIR, fetch_lease
from slatespark.table.records.workers import worker_path
from slatespark.table.stores import TableStores

_ATTEMPTS: Final = 4
_FRACTION_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class Leases:
    """The leases of a table, with verdicts.

    Attributes
    ----------
    live : leases of jobs that may still publish
    verdicts : verdicts on the lease objects, including marks of tasks
    """

    live: tuple[LiveLease, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def since_ms(self) -> int | None:
        """When the oldest running job began; None without any."""
        return min((0 if lease.created_ms is None else lease.created_ms for lease in self.live), default=None)

    @property
    def until_ms(self) -> int | None:
        """When the last lease of a running job ends; None without any."""
        return max((lease.expires_ms for lease in self.live), default=None)


def survey_leases(stores: TableStores, now_ms: int) -> Leases:
    """Return the running jobs. An unreadable lease counts for the lifetime of a lease after it was put."""
    listed = stores.main.list(LEASES_DIR)
    own = [meta for meta in listed if meta.path.endswith(JSON_SUFFIX)]
    fetches = [partial(_judge_lease, stores, meta, now_ms) for meta in own]
    found = [item for item in run_concurrently(fetches, is_remote=stores.main.is_remote) if item is not None]
    live = tuple(lease for lease, _ in found if lease is not None)
    ids = {lease.write_id for lease in live}
    marks = [_judge_mark(meta, ids) for meta in listed if not meta.path.endswith(JSON_SUFFIX)]
    return Leases(live, (*marks, *(verdict for _, verdict in found)))


def _judge_lease(stores: TableStores, meta: ObjectMeta, now_ms: int) -> tuple[LiveLease | None, Verdict] | None:
    created_ms: int | None = None
    name = meta.path.removeprefix(LEASES_DIR).removesuffix(JSON_SUFFIX)
    try:
        lease = fetch_lease(stores.main, meta.path)
        if lease is None:
            return None
        expires_ms, created_ms = lease.expires_ms, lease.created_ms
    except CorruptDataError:
        expires_ms = meta.modified_ms + LEASE_LIFETIME_MS
    if now_ms < expires_ms:
        kept = Verdict(meta, goes=False, reason="its job is running", until_ms=expires_ms)
        return LiveLease(name, created_ms, expires_ms), kept
    return None, Verdict(meta, goes=True, reason="it has expired: its job was too slow, or was killed")


def _judge_mark(meta: ObjectMeta, live: set[str]) -> Verdict:
    name = meta.path.removeprefix(LEASES_DIR)
    if name[WRITE_ID_CHARS : WRITE_ID_CHARS + 1] != "-":
        return Verdict(meta, goes=False, reason="not the mark of a job")
    if name[:WRITE_ID_CHARS] in live:
        return Verdict(meta, goes=False, reason="its job is running")
    return Verdict(meta, goes=True, reason="its job has ended")


def delete_unchanged(store: ObjectStore, meta: ObjectMeta) -> None:
    """Delete an object, unless it was renewed or replaced since it was listed."""
    with contextlib.suppress(FileNotFoundError):
        found = store.head(meta.path)
        # A listing may have fractions of a second that the object's own metadata lacks.
        if found.size == meta.size and abs(found.modified_ms - meta.modified_ms) < _FRACTION_MS:
            store.delete(meta.path)


# --- compactions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListedJobs:
    """Listed compactions: active ones, and abandoned ones."""

    active: tuple[Compaction, ...]
    dead: tuple[Compaction, ...]


def survey_jobs(stores: TableStores, now_ms: int, min_age_ms: int) -> tuple[Version[Compactions], ListedJobs]:
    """Return the newest list of compactions, and those in it; without holds, which have no outputs.

    A compaction of slatespark is dead if its job has ended, another client's if its worker sent no heartbeat for
    `min_age_ms`. Finished jobs that wait for their commit, and jobs that were not started yet, are active.
    """
    listed = fetch_compactions(stores)
    jobs = list(working_jobs(listed.value))
    dead = tuple(job for job in jobs if _is_dead(stores, job, now_ms, min_age_ms))
    return listed, ListedJobs(tuple(job for job in jobs if job not in dead), dead)


def _is_dead(stores: TableStores, job: Compaction, now_ms: int, min_age_ms: int) -> bool:
    if job.worker is None or job.status is not CompactionStatus.RUNNING:
        return False
    if is_own_job(stores, job):
        return not runs_here(stores, job, now_ms)
    return now_ms - job.worker.last_heartbeat_ms >= max(HEARTBEAT_FRESH_MS, min_age_ms)


def drop_dead_jobs(stores: TableStores, present_ms: Callable[[], int], min_age_ms: int) -> ListedJobs:
    """Remove dead compactions from the list, and return all; those that could not be removed count as active.

    A worker that resumes finds its job gone and stops. A coordinator commits only jobs listed as finished, and none of
    those is removed; so no client has to be fenced.

    Parameters
    ----------
    present_ms : tells the time, before each look at the list: a job reports while the vacuum runs
    """
    for _ in range(_ATTEMPTS):
        (number, listed), jobs = survey_jobs(stores, present_ms(), min_age_ms)
        if not jobs.dead:
            return jobs
        left = tuple(job for job in listed.jobs if job not in jobs.dead)
        with contextlib.suppress(RaceLostError):
            create_compactions(stores, Version(number + 1, replace(listed, jobs=left)))
            return jobs
    return ListedJobs((*jobs.active, *jobs.dead), ())


# --- records --------------------------------------------------------------------------------------------------------


def list_own(store: ObjectStore, folder: str) -> list[ObjectMeta]:
    """Return the table's own objects in one of its folders."""
    return [meta for meta in store.list(folder) if is_own(meta.path)]


def list_claims(stores: TableStores) -> dict[str, tuple[int, ObjectMeta]]:
    """Return the claims by path, with the number of the manifest that each announces."""
    found = {}
    for meta in stores.main.list(CLAIMS_DIR):
        number = announced_version(meta.path)
        if number is not None:
            found[meta.path] = number, meta
    return found


def list_workers(stores: TableStores) -> list[ObjectMeta]:
    """Return the records that identify workers of slatespark's compactions."""
    prefix = worker_path("").removesuffix(JSON_SUFFIX)
    return [meta for meta in stores.main.list(CLAIMS_DIR) if meta.path.startswith(prefix)]


def judge_workers(workers: Collection[ObjectMeta], jobs: ListedJobs, leases: Leases, needs: Needs) -> list[Verdict]:
    """Return a verdict on each worker record; they were listed before the leases and the compactions."""
    listed = {job.worker.worker_id for job in jobs.active if job.worker is not None}
    known = {worker_path(worker_id) for worker_id in listed}
    verdicts = []
    for meta in workers:
        is_running = meta.path in known or any(lease.write_id in meta.path for lease in leases.live)
        kept = Reason("its compaction is running") if is_running else needs.young_reason(meta.modified_ms)
        verdicts.append(Verdict.on(meta, kept, "its compaction is no longer listed"))
    return verdicts


def batched_numbers(stores: TableStores, batches: Mapping[int, ObjectMeta], wanted: Collection[int]) -> set[int]:
    """Return which of some commit records have a sound copy in the large batch that readers use.

    That is the first batch that ends with the record or after it: batches may overlap.

    Parameters
    ----------
    batches : the large ones, by the version they end with
    """
    found: set[int] = set()
    for low, high in itertools.pairwise([0, *sorted(batches)]):
        if any(low < number <= high for number in wanted):
            records = fetch_commit_object(stores.main, batches[high].path)
            found |= {record.manifest_id for record in records if low < record.manifest_id <= high}
    return found


def list_unfinished(stores: TableStores) -> list[tuple[ObjectStore, list[ObjectMeta]]]:
    """Return partial objects of the table's killed or running writers, by the store that contains them."""
    places = [(stores.main, TABLE_FOLDERS), *([(stores.wal, (WAL_DIR,))] if stores.wal_is_apart else [])]
    # Listings reach into tables that lie below the folders.
    return [
        (store, [meta for folder in folders for meta in store.list_unfinished(folder) if is_in_own_folder(meta.path)])
        for store, folders in places
    ]


@dataclass(frozen=True, slots=True)
class ListedObjects:
    """Objects that were listed before the leases and the compactions were read.

    Attributes
    ----------
    unfinished : partial objects, by the store that contains them
    workers : their records; a job that leaves one has put its lease before
    """

    unfinished: Sequence[tuple[ObjectStore, Sequence[ObjectMeta]]]
    copies: Sequence[ObjectMeta]
    ssts: Sequence[ObjectMeta]
    wal: Sequence[ObjectMeta]
    workers: Sequence[ObjectMeta]

    @classmethod
    def of(cls, stores: TableStores) -> ListedObjects:
        """List the objects of a table, all at once: no verdict asks whether an object of another kind is listed."""
        listings: list[Callable[[], Sequence[ObjectMeta]]] = [
            partial(stores.main.list, COLUMNS_DIR),
            partial(stores.main.list, COMPACTED_DIR),
            partial(stores.wal.list, WAL_DIR),
            partial(list_workers, stores),
        ]
        unfinished = list_unfinished(stores)
        copies, ssts, wal, workers = run_concurrently(listings, is_remote=stores.main.is_remote)
        return cls(unfinished, copies, ssts, wal, workers)


@dataclass(frozen=True, slots=True)
class ListedRecords:
    """Objects that tell of jobs and commits, listed once it is known which versions stay.

    Attributes
    ----------
    compactions : the files of the list of compactions
    claims : by path, with the number of the manifest that each announces
    commits : single commit records by version
    batches, small_batches : of commit records, by the version they end with
    """

    compactions: Sequence[ObjectMeta]
    claims: Mapping[str, tuple[int, ObjectMeta]]
    commits: Mapping[int, ObjectMeta]
    batches: Mapping[int, ObjectMeta]
    small_batches: Mapping[int, ObjectMeta]

    @classmethod
    def of(cls, stores: TableStores) -> ListedRecords:
        """List the records of a table, all at once."""
        is_remote = stores.main.is_remote
        batches = run_ahead(partial(list_batches_by_size, stores.main), is_remote=is_remote)
        claims = run_ahead(partial(list_claims, stores), is_remote=is_remote)
        commits = run_ahead(partial(list_numbered, stores.main, COMMITS_DIR), is_remote=is_remote)
        return cls(stores.main.list(COMPACTIONS_DIR), claims(), commits(), *batches())
