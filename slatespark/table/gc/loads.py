"""Loads that were handed to a live client: a vacuum records what became of them before it deletes what tells it.

The order of reads makes it sound. The records are listed before the compactions: a job is listed before its load is
recorded. The compactions are read before the versions: a coordinator writes the list after the version. So a load whose
jobs have ended, and that no version shows, is not committed any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from slatespark.errors import CorruptDataError, UnavailableError
from slatespark.format.ulid import Ulid
from slatespark.storage import ObjectMeta
from slatespark.table.clock import Clock
from slatespark.table.commit.handed_loads import find_commit_of, has_sources_of, is_recorded, publish_load_commit
from slatespark.table.cooperation.job_list import JobList
from slatespark.table.cooperation.outcome import withdraw
from slatespark.table.gc.plan import Verdict, is_younger
from slatespark.table.gc.survey import ListedJobs
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.records.handed_loads import HandedLoad, fetch_handed_load
from slatespark.table.records.idempotent_writes import fetch_txn_record
from slatespark.table.stores import TableStores


@dataclass(frozen=True, slots=True)
class Loads:
    """The recorded loads of a table.

    Attributes
    ----------
    base : a later version may show a load whose fate is open; None without any
    jobs : the compactions, without those that were taken back
    """

    verdicts: tuple[Verdict, ...]
    base: int | None
    jobs: ListedJobs


@dataclass(slots=True)
class LoadResolution:
    """Records the commits of loads whose fate is known, and takes back those that cannot be committed any more.

    Attributes
    ----------
    now_ms, min_age_ms : the instant of the vacuum, and the minimum age of records whose load nobody can tell about
    bases : base versions of the loads whose fate is open
    withdrawn : jobs that were taken back
    """

    stores: TableStores
    clock: Clock
    jobs: ListedJobs
    now_ms: int
    min_age_ms: int
    dry_run: bool
    bases: list[int] = field(default_factory=list)
    withdrawn: set[Ulid] = field(default_factory=set)

    def run(self, listed: Iterable[ObjectMeta]) -> Loads:
        """Resolve recorded loads.

        Parameters
        ----------
        listed : records, from before `jobs` were read
        """
        verdicts = tuple(self._verdicts(listed))
        left = tuple(job for job in self.jobs.active if job.id not in self.withdrawn)
        return Loads(verdicts, min(self.bases, default=None), replace(self.jobs, active=left))

    def _verdicts(self, listed: Iterable[ObjectMeta]) -> Iterator[Verdict]:
        for meta in listed:
            try:
                load = fetch_handed_load(self.stores.main, meta.path)
            except CorruptDataError as exc:
                yield Verdict(meta, goes=False, reason=f"it cannot be read: {exc}")
                continue
            if load is not None:
                yield self._judge(meta, load)

    def _judge(self, meta: ObjectMeta, load: HandedLoad) -> Verdict:
        active = {job.id for job in self.jobs.active} & {Ulid.parse(part.job_id) for part in load.parts}
        if active and has_sources_of(fetch_latest_manifest(self.stores).value, load):
            self.bases.append(load.base)
            return Verdict(meta, goes=False, reason="a client may still commit it")
        # Sources that are gone never come back: from here on no version can commit it that is not there by now.
        try:
            number = find_commit_of(self.stores, load)
        except UnavailableError as exc:
            is_old = not is_younger(meta.modified_ms, self.min_age_ms, self.now_ms)
            if not active and is_old and self._needs_no_answer(load):
                return Verdict(meta, goes=True, reason="its jobs have ended, and nothing depends on its outcome")
            return Verdict(meta, goes=False, reason=exc.args[0])
        if number is not None:
            return self._record(meta, load, number)
        if not active:
            return Verdict(meta, goes=True, reason="its jobs have ended, and no version shows it")
        jobs = JobList(self.stores, self.clock)
        for job_id in () if self.dry_run else active:
            withdraw(jobs, job_id)
        self.withdrawn |= active
        return Verdict(meta, goes=True, reason="what it was merged with is gone, so no client can commit it")

    def _needs_no_answer(self, load: HandedLoad) -> bool:
        """Tell whether a repeated write asks for no outcome, or finds it elsewhere."""
        if load.app is None or load.version is None:
            return True
        return fetch_txn_record(self.stores.main, load.app, load.version) is not None

    def _record(self, meta: ObjectMeta, load: HandedLoad, number: int) -> Verdict:
        if not self.dry_run:
            record = publish_load_commit(self.stores, load, number, self.now_ms)
            if not is_recorded(self.stores, record):  # nor where the version has the record of another write
                return Verdict(meta, goes=False, reason=f"version {number} committed it, and has no record of it")
        return Verdict(meta, goes=True, reason=f"version {number} committed it, as its record says")
