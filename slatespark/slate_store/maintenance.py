"""Maintenance: the methods of `SlateStore` that merge, clean, erase and check what a table stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from slatespark.display.progress import AskedProgress, showing_progress
from slatespark.options import Call, WriteOptions
from slatespark.options.defaults import (
    INCLUDE_SIZE_THRESHOLD,
    MAX_COMPACTION_SOURCES,
    MIN_AGE,
    MIN_COMPACTION_SOURCES,
)
from slatespark.options.flags import parsing_flags
from slatespark.options.values import parse_columnar, parse_min_age
from slatespark.slate_store.base import OpenTable
from slatespark.table.progress import Step
from slatespark.table.retention.reap_arguments import ReapLimits, parse_reap
from slatespark.table.tasks import THREADS, TaskRunner
from slatespark.units import parse_time_ms

if TYPE_CHECKING:
    from slatespark.ranges import KeyRange
    from slatespark.table.compaction.filter import CompactionFilter
    from slatespark.table.compaction.ranges import Runner
    from slatespark.table.compaction.report import CompactionReport
    from slatespark.table.gc.absence_report import AbsenceReport
    from slatespark.table.gc.report import VacuumReport
    from slatespark.table.retention.reap_report import ReapReport
    from slatespark.table.verify.findings import VerifyReport


class Maintenance(OpenTable):
    """Maintenance: compaction, the reaper, vacuum, verification, erasing, proof of absence."""

    @parsing_flags
    def compact(
        self,
        full: bool = False,
        where: str | None = None,
        filters: Sequence[CompactionFilter] = (),
        now: int | str | datetime | None = None,
        *,
        force: bool = False,
        l0Only: bool = False,
        due: bool = False,
        columnar: bool | str = False,
        dryRun: bool = False,
        minCompactionSources: int = MIN_COMPACTION_SOURCES,
        maxCompactionSources: int = MAX_COMPACTION_SOURCES,
        includeSizeThreshold: float = INCLUDE_SIZE_THRESHOLD,
        progress: AskedProgress = "auto",
        runner: Runner | None = None,
        **options: Any,
    ) -> CompactionReport:
        """Merge layers of the table into sorted runs, and return a report. Reads show the same rows.

        By default it merges the same runs as the size-tiered scheduler of a SlateDB client, until that finds nothing to
        merge: four or more neighbours of similar size at a time, each merge a commit of its own.

        Parameters
        ----------
        full : merge everything into one run; does nothing if the table is one compacted run in which nothing can be
            dropped, unless `filters`, `now` or a file option that changes its files is given
        where : merge everything in key ranges, as `deleteRange` takes them; for a raw table give `startKey`,
            `endKey` or `keyPrefix` instead. Files of which rows were deleted there, now or before, are rewritten, so
            that a vacuum can delete these rows
        filters : decide about every version that would be kept, in this order; not called if nothing is merged
        now : the instant at which expiry and retention are evaluated; by default one minute before the clock, or the
            last clock tick if that is later; with `clock=custom` the tick
        force : whether, with `full`, to rewrite a compacted run too
        l0Only : merge all L0 views into a new run, and no runs
        due : rewrite files that may hold expired rows and are older than the table's `periodicCompactionInterval`
        columnar : write a columnar copy, a Parquet file, beside each SST of the lowest runs that has none, rewriting no
            SST; `seq` stores `_seq` in them, too. The property `columnar` asks for copies of new files only
        dryRun : only return what would be merged; of several merges the first one
        minCompactionSources, maxCompactionSources : bounds of the number of layers in a size-tiered merge, 4 and 8 by
            default
        includeSizeThreshold : how many times as large as the smallest newer source a run may be, 4 by default
        progress : `auto` shows a bar on a terminal or in a notebook once the call has taken a second, False none; or a
            function to call with the step, how much is done, and how much there is in all, 0 if unknown
        runner : merges key ranges and returns the results; by default on threads of this process
        options : the write options `compression`, `blockSize`, `sstSize`, `bloomBitsPerKey`, `writeBuffer`,
            `mergeOperator`, `ifClientActive`, `clientTimeout`, and those that name keys

        Raises
        ------
        OptionError
            When an option is wrong, `now` is in the future, the table holds merge operands and no operator is known, or
            the given operator is not the table's.
        InvalidRequestError
            When a filter fails, or does not return decisions, or `columnar` is given for a history table; nothing was
            changed.
        CommitConflictError
            When the sources changed meanwhile, or a SlateDB client is active.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://merged")
        >>> for value in (b"1", b"2"):
        ...     _ = store.write(pa.table({"key": [b"a"], "value": [value]}))
        >>> len(store.runs())
        2
        >>> report = store.compact(full=True)
        >>> len(store.runs())
        1
        """
        # Imported here: most users of a table never compact it.
        from slatespark.table.compaction.options import given_file_options, parse_compaction
        from slatespark.table.compaction.plan import SizeTiers
        from slatespark.table.compaction.request import CompactionRequest
        from slatespark.table.compaction.run import compact_table

        with showing_progress(progress, Step.MERGING) as listener:
            given = parse_compaction(self._common, self._of_call(options))
            request = CompactionRequest(
                full=full,
                where=where,
                l0_only=l0Only,
                due=due,
                force=force,
                tiers=SizeTiers.parse(minCompactionSources, maxCompactionSources, includeSizeThreshold),
                filters=filters,
                now_ms=None if now is None else parse_time_ms(now, name="now"),
                columnar=parse_columnar(columnar, "columnar"),
                file_options=given_file_options(options),
                dry_run=dryRun,
            )
            return compact_table(self._stores, self._clock, request, given, runner=runner, progress=listener)

    def reap(
        self,
        maxBatchRows: int | None = None,
        maxBatchBytes: int | str | None = None,
        now: int | str | datetime | None = None,
        *,
        runner: TaskRunner | None = None,
        progress: AskedProgress = "auto",
        **options: Any,
    ) -> ReapReport:
        """Delete the rows that are past the table's `retention`, and return a report.

        It takes as many commits as it needs. Each of them leaves the table consistent.

        Parameters
        ----------
        maxBatchRows, maxBatchBytes : bounds of one commit: rows deleted by tombstones, and bytes read and rewritten
        now : the instant at which retention is evaluated; by default one minute before the clock, or the last clock
            tick if that is later; with `clock=custom` the tick
        runner : rewrites files of which most rows are due, each in a task; by default on threads of this process
        progress : the progress bar; see `SlateStore.compact`
        options : options of new files and of the commits, such as `ifClientActive`

        Raises
        ------
        OptionError
            When an option is wrong or would have no effect, or `now` is in the future.
        ConflictError
            When other commits kept conflicting, or a SlateDB client is active.

        Examples
        --------
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://reaped", retention="30d")
        >>> store.reap().rows
        0
        """
        from slatespark.table.retention.reap_run import reap_table

        limits = ReapLimits.parse(maxBatchRows, maxBatchBytes)
        given = parse_reap(self._common, self._of_call(options))
        with showing_progress(progress, Step.REAPING) as listener:
            return reap_table(
                self._stores,
                self._clock,
                now_ms=None if now is None else parse_time_ms(now, name="now"),
                limits=limits,
                options=given,
                runner=runner or THREADS,
                progress=listener,
            )

    @parsing_flags
    def vacuum(
        self,
        minAge: str | timedelta = MIN_AGE,
        *,
        dryRun: bool = False,
        fences: bool = False,
        force: bool = False,
        progress: AskedProgress = "auto",
    ) -> VacuumReport:
        """Delete unreferenced objects, including leftovers of failed table creation. Return a report with reasons.

        Objects of a kept version, a checkpoint, a clone or a running job stay. The newest version does not change.
        Older versions that no checkpoint pins are deleted, and expired checkpoints are released.

        Parameters
        ----------
        minAge : younger objects are kept, and so is every version that was the newest at some moment since; `24h` by
            default
        dryRun : only report what would be deleted
        fences : delete WAL fences too. They stop fenced writers that have not noticed yet, so use this only if no
            client has been suspended for longer than `minAge`
        force : allow a `minAge` below an hour: running reads, writes and clones may lose files that they need
        progress : the progress bar; see `SlateStore.compact`

        Raises
        ------
        OptionError
            When `minAge` is not a duration with a unit, or is below an hour without `force`.
        InvalidRequestError
            When the database keeps its WAL elsewhere and `walPath` was not given, or `walPath` leads to another
            database.
        CommitConflictError
            When other clients kept changing the manifest.
        UnavailableError
            When the store stopped answering; the next vacuum continues.

        Examples
        --------
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://tidy")
        >>> report = store.vacuum("48h", dryRun=True)
        >>> report.collected
        ()
        """
        from slatespark.table.gc.run import vacuum_table

        min_age_ms = parse_min_age(minAge, is_forced=force or dryRun)
        with showing_progress(progress, Step.DELETING) as listener:
            return vacuum_table(
                self._stores,
                self._clock,
                min_age_ms=min_age_ms,
                dry_run=dryRun,
                fences=fences,
                progress=listener,
            )

    @parsing_flags
    def erase(
        self,
        *key: Any,
        where: str | None = None,
        keys: Any = None,
        releaseVersions: bool = False,
        runner: TaskRunner | None = None,
        progress: AskedProgress = "auto",
        **options: Any,
    ) -> AbsenceReport:
        """Erase a key, several keys or a key range at every version, and report what still holds a copy.

        One commit rewrites the files that hold a row of the keys, tombstones and hidden rows included. A vacuum then
        deletes what it replaced, whatever its age: reads of older versions that run meanwhile end with a
        `SnapshotExpiredError`, unless a `pin` protects them. The report is that of `proveAbsent`. Copies that running
        jobs, checkpoints, clones or replaced versions keep are in it, with the time at which they can go; call `erase`
        again then. On a history table all versions of the keys go; those of other keys stay, and so does the floor.

        Parameters
        ----------
        key : a value for each key column; for a raw table the key as bytes
        where : instead of a key, a condition on leading key columns, as for `deleteRange`
        keys : instead of a key, several: rows as for `write` with the key columns, or a list of keys, each a value, or
            a tuple of one for each key column
        releaseVersions : give up replaced versions that hold copies, which `versionRetention`, a compaction or a
            restore would keep for a while. They cannot be read any more
        runner : rewrites the files that hold the keys, each view in a task; by default on threads of this process
        progress : the progress bar; see `SlateStore.compact`
        options : `startKey`, `endKey` or `keyPrefix` of a raw table; of the commit, and how files are written:
            `ifClientActive`, `ifLastSeq`, `compression`, ...

        Raises
        ------
        OptionError
            When not exactly one of `key`, `where`, `keys` and these options is given.
        InvalidRequestError, SchemaError
            When something is not a key of the table; nothing was changed.
        UnsupportedFormatError
            When the database cannot be written; nothing was changed.
        CommitConflictError, TransactionConflictError
            When a SlateDB client is active, or other commits kept writing the keys; nothing was changed.
        CorruptDataError, ConflictError
            When an object cannot be read, or the table changed faster than it could be searched for copies. What was
            erased by then stays erased; the next call searches again. So it is when the store refuses to delete, which
            is an `InvalidRequestError`, too.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://people", "id BIGINT, name STRING", "id")
        >>> version = store.write(pa.table({"id": [1, 2], "name": ["a", "b"]}))
        >>> store.erase(1, releaseVersions=True).gone
        True
        """
        from slatespark.table.gc.erase import erase_keys

        parsed = self._erase_options(options)
        chosen = self._chosen("erase", key, where, keys, parsed)
        with showing_progress(progress, Step.ERASING) as listener:
            return erase_keys(
                self._stores,
                self._clock,
                chosen,
                parsed,
                release_versions=releaseVersions,
                runner=runner or THREADS,
                progress=listener,
            )

    def proveAbsent(
        self,
        *key: Any,
        where: str | None = None,
        keys: Any = None,
        progress: AskedProgress = "auto",
        **options: Any,
    ) -> AbsenceReport:
        """Report where a key, several keys or a key range are still stored, or that they are gone.

        It searches every object that holds rows, including unreferenced files, and rows hidden by views or deletions.
        Tombstones of the keys count as rows, since they contain the key. Objects that name a key without its row count
        too: bounds of views, first and last keys of files, intervals that commits replaced. Parts of unfinished
        multipart uploads to S3 are not covered: no listing shows them.

        Parameters
        ----------
        key, where, keys : as for `erase`
        progress : the progress bar; see `SlateStore.compact`
        options : `startKey`, `endKey` or `keyPrefix` of a raw table

        Raises
        ------
        OptionError
            When not exactly one of these is given.
        InvalidRequestError
            When the WAL is in another store; then nothing is proven.
        CorruptDataError
            When an object cannot be read; then nothing is proven.
        ConflictError
            When the table changed faster than it could be searched.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://searched", "id BIGINT, name STRING", "id")
        >>> version = store.write(pa.table({"id": [1, 2], "name": ["a", "b"]}))
        >>> report = store.erase(1, releaseVersions=True)
        >>> store.proveAbsent(1).gone, store.proveAbsent(2).gone
        (True, False)
        """
        from slatespark.table.gc.absence import prove_absent

        why = "A proof only reads."
        parsed = self._options_of("proveAbsent", Call.ABSENCE, options, why=why, arguments=("where", "keys"))
        chosen = self._chosen("proveAbsent", key, where, keys, parsed)
        with showing_progress(progress, Step.SEARCHING) as listener:
            return prove_absent(self._stores, self._clock, chosen, progress=listener)

    def _erase_options(self, options: Mapping[str, Any]) -> WriteOptions:
        why = "An erasure writes no rows: those that stay keep their times."
        arguments = ("where", "keys", "releaseVersions")
        return self._options_of("erase", Call.ERASE, options, why=why, arguments=arguments)

    def _chosen(
        self, call: str, key: Sequence[Any], where: str | None, keys: Any, options: WriteOptions
    ) -> tuple[KeyRange, ...]:
        from slatespark.table.definition.versions import fetch_codec
        from slatespark.table.write.chosen_keys import choose_keys

        return choose_keys(call, key, where, keys, options, fetch_codec(self._stores))

    @parsing_flags
    def verify(
        self, *, allVersions: bool = False, parallelism: int | None = None, progress: AskedProgress = "auto"
    ) -> VerifyReport:
        """Read every byte of the newest version, or of all existing versions, and return the findings.

        Parameters
        ----------
        allVersions : check every existing version, not only the newest
        parallelism : threads that read and check; by default one per processor
        progress : the progress bar; see `SlateStore.compact`

        Returns
        -------
        A report; what is damaged is among its `findings`, and raises nothing.

        Raises
        ------
        TableNotFoundError
            When the table has been dropped.
        UnavailableError
            When the store stopped answering.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://verified")
        >>> version = store.write(pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"]}))
        >>> store.verify(allVersions=True).findings
        ()
        """
        from slatespark.table.verify.run import verify_table

        with showing_progress(progress, Step.CHECKING) as listener:
            return verify_table(
                self._stores, self._clock, all_versions=allVersions, parallelism=parallelism, progress=listener
            )
