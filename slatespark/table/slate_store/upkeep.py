"""Upkeep: compaction, the reaper, vacuum, verification, proof of absence."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from slatespark.options import WriteOptions
from slatespark.options.values import (
    parse_min_age,
    refuse_misspelt,
)
from slatespark.table.gc.report import VacuumReport
from slatespark.table.gc.run import vacuum_table
from slatespark.table.retention.reap_report import ReapReport
from slatespark.table.retention.reap_run import reap_table
from slatespark.table.retention.reaper import ReapLimits
from slatespark.table.verify.findings import VerifyReport
from slatespark.table.verify.run import verify_table
from slatespark.units import parse_time_ms

if TYPE_CHECKING:
    from slatespark.table.compaction.filter import CompactionFilter
    from slatespark.table.compaction.report import CompactionReport
    from slatespark.table.compaction.run import Progress, Runner
    from slatespark.table.gc.absence import AbsenceReport
from slatespark.table.slate_store.base import OpenTable


class Upkeep(OpenTable):
    """Upkeep: compaction, the reaper, vacuum, verification, proof of absence."""

    def compact(
        self,
        full: bool = False,
        where: str | None = None,
        filters: Sequence[CompactionFilter] = (),
        now: int | str | datetime | None = None,
        *,
        l0Only: bool = False,
        due: bool = False,
        dryRun: bool = False,
        minCompactionSources: int = 4,
        maxCompactionSources: int = 8,
        includeSizeThreshold: float = 4.0,
        progress: Progress | None = None,
        runner: Runner | None = None,
        **options: Any,
    ) -> CompactionReport:
        """Merge layers of the table into sorted runs, and return what was done; of what reads show, nothing changes.

        Without anything chosen it merges what the size-tiered scheduler of a SlateDB client would, until that would
        rest: four or more neighbours of similar size at a time, each merge a commit of its own.

        Parameters
        ----------
        full : merge everything into one run
        where : merge everything in intervals of keys: comparisons on leading key columns, joined by `AND`, `=` or `IN`
            on all but the last of them; of a raw table give `startKey`, `endKey` or `keyPrefix` instead
        filters : asked about every version that would be kept, one after the other; if nothing is merged, none is asked
        now : the instant at which expiry and retention are judged; by default a minute before the clock's, or the last
            clock tick if that is later; with `clock=custom` the tick
        l0Only : merge all L0 views into a run, and no run
        due : rewrite files that may hold expired rows and are older than the table's `periodicCompactionInterval`
        dryRun : only return what would be merged; of several merges the first one
        minCompactionSources, maxCompactionSources : how many layers a size-tiered merge has
        includeSizeThreshold : how many times as large as the smallest newer one a run may be to be merged with it
        progress : is told how far it is: step, bytes done, bytes in all
        runner : merges ranges of keys, and returns what became of them; by default on threads of this process
        options : of the write options `compression`, `blockSize`, `sstSize`, `bloomBitsPerKey`, `writeBuffer`,
            `mergeOperator`, `ifClientActive`, and those that name keys

        Raises
        ------
        OptionError
            When an option is wrong, `now` is of the future, or operands are stored that nobody says how to fold, or the
            option says it otherwise than the table.
        InvalidRequestError
            When a filter fails, or answers with something else than decisions; nothing was changed.
        CommitConflictError
            When what was merged was changed meanwhile, or a SlateDB client is at work.
        """
        # With all that merges, which most uses of a table do without.
        from slatespark.table.compaction.options import parse_compaction
        from slatespark.table.compaction.plan import SizeTiers
        from slatespark.table.compaction.run import compact_table

        return compact_table(
            self._stores,
            self._clock,
            full=full,
            where=where,
            l0_only=l0Only,
            due=due,
            filters=filters,
            now_ms=None if now is None else parse_time_ms(now, name="now"),
            options=parse_compaction(self._common, options),
            tiers=SizeTiers.parse(minCompactionSources, maxCompactionSources, includeSizeThreshold),
            runner=runner,
            progress=progress,
            dry_run=dryRun,
        )

    def reap(
        self,
        maxBatchRows: int | None = None,
        maxBatchBytes: int | str | None = None,
        now: int | str | datetime | None = None,
        **options: Any,
    ) -> ReapReport:
        """Delete the rows that are past the table's `retention`, and return what was done.

        It takes as many commits as it needs, of which each leaves the table whole.

        Parameters
        ----------
        maxBatchRows, maxBatchBytes : bounds of what one commit deletes by tombstones, and of what it reads and rewrites
        now : the instant at which retention is judged; by default a minute before the clock's, or the last clock tick
            if that is later; with `clock=custom` the tick
        options : write options, such as `ifClientActive`

        Raises
        ------
        OptionError
            When an option is wrong, or `now` is of the future.
        CommitConflictError
            When others kept committing, or a SlateDB client is at work.
        """
        refuse_misspelt(options, ("maxBatchRows", "maxBatchBytes", "now"))
        limits = ReapLimits.parse(maxBatchRows, maxBatchBytes)
        return reap_table(
            self._stores,
            self._clock,
            now_ms=None if now is None else parse_time_ms(now, name="now"),
            max_batch_rows=limits.batch_rows,
            max_batch_bytes=limits.batch_bytes,
            options=WriteOptions.parse({**self._common, **options}),
        )

    def vacuum(
        self, minAge: str | timedelta = "24h", *, dryRun: bool = False, fences: bool = False, force: bool = False
    ) -> VacuumReport:
        """Delete the objects that nobody needs any more, and return what went, what stayed, and why.

        What a version, a checkpoint, a clone or a job needs stays. The present is not changed, but versions go that no
        checkpoint keeps, and checkpoints that have expired.

        Parameters
        ----------
        minAge : nothing younger goes, and every version stays that was the newest one at some moment since
        dryRun : only say what would go
        fences : WAL fences go too, which keep writers out that were shut out and do not know it yet; only where no
            client has been asleep for longer than `minAge`
        force : allow a `minAge` below an hour: running reads, writes and clones may lose files that they need

        Raises
        ------
        OptionError
            When `minAge` is not a duration with a unit, or is below an hour without `force`.
        InvalidRequestError
            When the WAL is elsewhere, or what `walPath` leads to belongs to another database.
        CommitConflictError
            When others kept changing the manifest.
        UnavailableError
            When the store stopped answering; the next vacuum goes on from there.
        """
        min_age_ms = parse_min_age(minAge, is_forced=force or dryRun)
        return vacuum_table(self._stores, self._clock, min_age_ms=min_age_ms, dry_run=dryRun, fences=fences)

    def proveAbsent(self, *key: Any, where: str | None = None, **options: Any) -> AbsenceReport:
        """Return where rows of a key, or of an interval of keys, are still stored, or that they are gone.

        Every object that holds rows is looked through: what no version shows, what views hide and what deletions hide,
        too. Rows of the keys that are deletions count as well, since they name the key. Parts of unfinished multipart
        uploads to S3 are not covered: no listing shows them.

        Parameters
        ----------
        key : a value for each key column; of a raw table the key as bytes
        where : instead of a key, comparisons on leading key columns, as for `deleteRange`
        options : `startKey`, `endKey` or `keyPrefix` of a raw table

        Raises
        ------
        OptionError
            When not exactly one of these is given.
        InvalidRequestError
            When the WAL is kept elsewhere; nothing is proven then.
        CorruptDataError
            When an object cannot be read; nothing is proven then.
        ConflictError
            When the table changed faster than it could be looked through.
        """
        from slatespark.table.gc.absence import keys_to_prove, prove_absent

        given = WriteOptions.parse({**self._common, **options})
        return prove_absent(self._stores, keys_to_prove(self._stores, key, where, given))

    def verify(self, *, allVersions: bool = False) -> VerifyReport:
        """Read every byte of the newest version, or of all versions that exist, and return what is wrong."""
        return verify_table(self._stores, self._clock, all_versions=allVersions)
