"""Detecting a SlateDB client that was active since a write was planned: `ifClientActive=fail` refuses it."""

from __future__ import annotations

from dataclasses import dataclass

from slatespark.errors import CommitConflictError, SnapshotExpiredError
from slatespark.format.compactions import Compactions
from slatespark.format.envelope import refuse_unknown_fields
from slatespark.format.manifest import Manifest
from slatespark.storage import run_in_groups
from slatespark.table.commit.active_jobs import has_fresh_heartbeat, is_own_job
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.manifests import decode_version, manifest_digest, manifest_log
from slatespark.table.log.versioned_object import Version
from slatespark.table.records.claims import fetch_digests_between, find_claim
from slatespark.table.records.commits import is_own_commit
from slatespark.table.snapshot import newest_wal_sizes
from slatespark.table.stores import TableStores


@dataclass(frozen=True, slots=True)
class Baseline:
    """The state of the database when a write was planned.

    Attributes
    ----------
    manifest_id : newest version; 0 if there was no table
    writer_epoch, compactor_epoch, last_l0_seq : of that version
    wal_end : first WAL id that did not exist
    """

    manifest_id: int
    writer_epoch: int
    compactor_epoch: int
    last_l0_seq: int
    wal_end: int

    @classmethod
    def of(cls, manifest_id: int, manifest: Manifest, wal_end: int) -> Baseline:
        """Return the state at a version."""
        return cls(manifest_id, manifest.writer_epoch, manifest.compactor_epoch, manifest.last_l0_seq, wal_end)

    @property
    def epochs(self) -> tuple[int, int]:
        """The epochs of the writer and of the compactor."""
        return self.writer_epoch, self.compactor_epoch

    def advanced(self, version: Version[Manifest]) -> Baseline:
        """Return the state at a later version, of which it is known that no other client was active before it."""
        return Baseline.of(*version, max(self.wal_end, version.value.replay_after_wal_id + 1))


def refuse_foreign_client(stores: TableStores, latest: Version[Manifest], baseline: Baseline, *, now_ms: int) -> None:
    """Refuse to commit when a SlateDB client was active since the write was planned, or compacts at present.

    Raises
    ------
    CommitConflictError
        As `refuse_foreign_writer` and `refuse_foreign_job`.
    """
    refuse_foreign_writer(stores, latest, baseline)
    refuse_foreign_job(stores, now_ms=now_ms)


def refuse_foreign_writer(stores: TableStores, latest: Version[Manifest], baseline: Baseline) -> None:
    """Refuse to commit when a SlateDB client has written since the write was planned.

    Parameters
    ----------
    latest : the newest version
    baseline : the state that the write was planned on

    Raises
    ------
    CommitConflictError
        When another client raised an epoch, or when rows were added to WAL or L0 under the same epochs.
    """
    if (epoch := _find_foreign_epoch(stores, latest, baseline)) is not None:
        raise _client_active(stores, f"a SlateDB client claimed {epoch} during the write")
    manifest = latest.value
    # Under epochs that a job of ours claimed, only that job writes; and only jobs of ours create tables with rows.
    unclaimed = baseline.manifest_id > 0 and manifest.epochs == baseline.epochs
    moved = unclaimed and manifest.last_l0_seq != baseline.last_l0_seq
    flushed = moved and not are_epochs_ours(stores, latest)
    first_new = max(baseline.wal_end, manifest.replay_after_wal_id + 1)
    if flushed or any(size for number, size in newest_wal_sizes(stores, latest).items() if number >= first_new):
        raise _client_active(
            stores, f"the SlateDB client with writer epoch {manifest.writer_epoch} wrote during the write"
        )


def refuse_foreign_job(stores: TableStores, *, now_ms: int, jobs: Compactions | None = None) -> None:
    """Refuse while another client's compaction with a fresh heartbeat runs; raises `CommitConflictError`.

    Parameters
    ----------
    jobs : the newest list of compactions; by default it is fetched
    """
    compactions = fetch_compactions(stores).value if jobs is None else jobs
    refuse_unknown_jobs(stores, compactions)
    for job in compactions.active_jobs():
        if not has_fresh_heartbeat(job, now_ms) or is_own_job(stores, job):
            continue
        # The record that marks a job as ours is deleted after the job has left the list: so look at the list again.
        if job.id in {active.id for active in fetch_compactions(stores)[1].active_jobs()}:
            raise _client_active(stores, f"a compaction under compactor epoch {compactions.compactor_epoch} is running")


def refuse_unknown_jobs(stores: TableStores, compactions: Compactions) -> None:
    """Refuse a list of compactions that cannot be written again; raises `UnsupportedFormatError`."""
    refuse_unknown_fields(compactions.unknown_fields, f"{stores.url}: the list of compactions")


def _client_active(stores: TableStores, fact: str) -> CommitConflictError:
    return CommitConflictError(
        f"{stores.url}: {fact}.",
        why="Committing would fence that client.",
        todo="Set ifClientActive=cooperate to let the client commit upserts and deletes of keys itself, write again "
        "when it is closed, or set ifClientActive=fence.",
    )


def _find_foreign_epoch(stores: TableStores, latest: Version[Manifest], baseline: Baseline) -> str | None:
    """Return the first epoch raised since the baseline without a claim of ours."""
    known = baseline.epochs
    if known == latest.value.epochs or _raised_by_claims(stores, latest, baseline):
        return None
    log = manifest_log(stores)
    for number in range(baseline.manifest_id + 1, latest.number + 1):
        try:
            data = bytes(log.get(number))
            epochs = decode_version(stores, number, data).epochs
            is_foreign = epochs != known and find_claim(stores.main, number, data) is None
            if is_foreign:
                log.get(number)  # a vacuum deletes a claim right after its manifest: was it still there?
        except SnapshotExpiredError:  # collected, so its author is unknown
            if are_epochs_ours(stores, latest):  # a client that raised it is fenced by now
                return None
            return f"writer epoch {latest.value.writer_epoch}, perhaps,"
        if is_foreign:
            return f"writer epoch {epochs[0]}" if epochs[0] != known[0] else f"compactor epoch {epochs[1]}"
        known = epochs
    return None


def _raised_by_claims(stores: TableStores, latest: Version[Manifest], baseline: Baseline) -> bool:
    """Tell whether there are as many claims of ours as the epochs were raised since; each raises both by one."""
    raised = {now - then for now, then in zip(latest.value.epochs, baseline.epochs, strict=True)}
    claims = fetch_digests_between(stores.main, baseline.manifest_id + 1, latest.number)
    if len(raised) > 1 or sum(raised) > len(claims):
        return False
    log = manifest_log(stores)

    def fetch_digest(number: int) -> str:
        return manifest_digest(bytes(log.get(number)))

    try:
        digests = run_in_groups(fetch_digest, list(claims), is_remote=stores.main.is_remote)
        ours = sum(digest in claims[number] for number, digest in digests)
    except SnapshotExpiredError:
        return False
    return raised == {ours}


def are_epochs_ours(stores: TableStores, latest: Version[Manifest]) -> bool:
    """Tell whether a claim of ours raised the epochs to their present values.

    The claim itself says so, or the commit that followed it: a vacuum may have deleted the claim.
    """
    log, epochs = manifest_log(stores), latest.value.epochs
    for number in range(latest.number, 0, -1):
        try:
            data = bytes(log.get(number))
        except SnapshotExpiredError:
            return False
        manifest = decode_version(stores, number, data)
        if manifest.epochs != epochs:
            return False
        if is_own_commit(stores.main, number, manifest) or find_claim(stores.main, number, data) is not None:
            return True
    return False


def is_claim(stores: TableStores, manifest_id: int) -> bool:
    """Tell whether a manifest is the claim of a job of ours, whose commit is still to come."""
    return find_claim(stores.main, manifest_id, bytes(manifest_log(stores).get(manifest_id))) is not None
