"""TableUpkeep: the methods of `SlateTable` that show, merge, clean and check what a table stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from slatespark.display.progress import AskedProgress
from slatespark.errors import InvalidRequestError
from slatespark.options.defaults import MIN_AGE
from slatespark.options.flags import parsing_flags
from slatespark.options.keywords import Instant
from slatespark.spark.frame_columns import quoted, resolve_columns
from slatespark.spark.frames import facts
from slatespark.spark.frames.timeline import timeline_frame
from slatespark.spark.jobs.range_merges import SparkRunner, check_filters_travel
from slatespark.spark.local_times import local_key, local_keys, taking_local_times
from slatespark.spark.slate_table.arguments import Prices
from slatespark.spark.slate_table.base import OpenTable
from slatespark.spark.slate_table.optimize import SlateOptimizeBuilder
from slatespark.spark.type_mapping import without_lengths
from slatespark.table.compaction.filter import CompactionFilter
from slatespark.table.compaction.report import CompactionReport
from slatespark.table.gc.report import VacuumReport
from slatespark.table.progress import Step
from slatespark.table.retention.reap_report import ReapReport
from slatespark.table.verify.findings import VerifyReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from slatespark.slate_store.explanation import Explanation
    from slatespark.table.gc.absence_report import AbsenceReport


class TableUpkeep(OpenTable):
    """Files, upkeep and pictures of a table; `SlateTable` inherits them."""

    def files(self) -> DataFrame:
        """Return the files of the newest version, layer by layer, newest first."""
        return facts.files_frame(self._frames.spark, self._store.files(countRows=True))

    def runs(self) -> DataFrame:
        """Return the layers of the newest version, L0 views and sorted runs, newest first."""
        return facts.runs_frame(self._frames.spark, self._store.runs())

    @taking_local_times
    def timeline(self, version: int | None = None, **readOptions: Any) -> DataFrame:
        """Return which files are visible or overshadowed in each key interval, and since when.

        Parameters
        ----------
        version : a manifest id; by default the newest one
        readOptions : read options that choose a version another way

        Raises
        ------
        OptionError, HistoryTrimmedError
            When an option is wrong, or the version was collected.
        """
        return timeline_frame(self._frames.spark, self._store.timeline(version, **readOptions))

    @taking_local_times
    def expiry(self, per: str | None = None, **readOptions: Any) -> DataFrame:
        """Return what expires when: rows and stored bytes by hour or day, already expired, and never.

        Parameters
        ----------
        per : `hour` or `day`; by default hours if everything expires within three days, else days
        readOptions : read options that choose a version, and `now`

        Raises
        ------
        OptionError
            When `per` is neither, or an option would leave rows out.
        """
        return facts.expiry_frame(self._frames.spark, self._store.expiry(per, **readOptions))

    @taking_local_times
    def compact(
        self,
        full: bool = False,
        where: str | None = None,
        filters: Sequence[CompactionFilter] = (),
        now: Instant | None = None,
        *,
        progress: AskedProgress = "auto",
        **options: Any,
    ) -> CompactionReport:
        """Merge layers into sorted runs by a Spark job, one task per key range; see `SlateStore.compact`.

        Parameters
        ----------
        full : merge everything into one run
        where : merge everything in key ranges
        filters : decide about every version that would be kept, if anything is merged; they travel to the executors
        now : the instant at which expiry and retention are evaluated
        progress : the progress bar; see `SlateTable.write`
        options : further arguments of `SlateStore.compact`, and write options

        Raises
        ------
        InvalidRequestError
            When a filter cannot be pickled, fails, or does not return decisions; nothing was changed.
        CommitConflictError
            When the merged layers changed meanwhile, or a SlateDB client is active.

        Examples
        --------
        >>> table = SlateTable.forPath(spark, f"{path}/stock")
        >>> [job.kind for job in table.compact(full=True, dryRun=True).jobs]
        ['full']
        """
        check_filters_travel(filters)
        with self._running("compact", progress, Step.MERGING) as call:
            runner = SparkRunner(call.spark, self._frames.clock, progress=call.progress)
            return self._store.compact(full, where, filters, now, runner=runner, progress=call.progress, **options)

    @taking_local_times
    def reap(
        self,
        maxBatchRows: int | None = None,
        maxBatchBytes: int | str | None = None,
        now: Instant | None = None,
        *,
        progress: AskedProgress = "auto",
        **writeOptions: Any,
    ) -> ReapReport:
        """Delete the rows that are past the table's `retention`, and return a report.

        Files of which most rows are due are rewritten by Spark jobs, a view in each task. The driver searches the other
        files, and deletes their due rows by tombstones.

        Parameters
        ----------
        maxBatchRows, maxBatchBytes : limits of one commit: rows deleted by tombstones, bytes read and rewritten. By
            default, rewrites have these limits for each four tasks that Spark runs at a time
        now : the instant at which retention is evaluated; by default a minute before the system clock, or the last
            clock tick if that is later; with `clock=custom` the tick
        progress : the progress bar; see `SlateTable.write`
        writeOptions : write options, such as `ifClientActive`

        Raises
        ------
        CommitConflictError
            When other writers won every retry, or a SlateDB client is active.
        """
        with self._running("reap", progress, Step.REAPING) as call:
            return self._store.reap(
                maxBatchRows, maxBatchBytes, now, runner=call.tasks(), progress=call.progress, **writeOptions
            )

    def vacuum(
        self,
        minAge: str | timedelta = MIN_AGE,
        *,
        dryRun: bool = False,
        fences: bool = False,
        force: bool = False,
        progress: AskedProgress = "auto",
    ) -> VacuumReport:
        """Delete unreferenced objects, without a Spark job, and return what was deleted or kept, and why.

        Parameters
        ----------
        minAge : nothing younger is deleted, and every version that was the newest at some time since then is kept;
            `24h` by default
        dryRun : only report what would be deleted
        fences : delete WAL fences too; see `SlateStore.vacuum`
        force : allow a `minAge` below an hour; see `SlateStore.vacuum`
        progress : the progress bar; see `SlateTable.write`

        Raises
        ------
        OptionError
            When `minAge` is not a duration with a unit, or is below an hour without `force`.
        CommitConflictError
            When other clients kept changing the manifest.
        UnavailableError
            When the store stopped answering; the next vacuum continues.
        """
        return self._store.vacuum(minAge, dryRun=dryRun, fences=fences, force=force, progress=progress)

    @taking_local_times
    @parsing_flags  # here too, as a wrong flag is refused before the keys are collected
    def erase(
        self,
        *key: Any,
        where: str | None = None,
        keys: Any = None,
        releaseVersions: bool = False,
        progress: AskedProgress = "auto",
        **options: Any,
    ) -> AbsenceReport:
        """Erase a key, several keys or a key range at every version, and return what still holds a copy.

        The files that hold the keys are rewritten by a Spark job, a view in each task. The driver finds them, deletes
        what they replace, and proves that the keys are gone; see `SlateStore.erase`.

        Parameters
        ----------
        key : a value for each key column
        where : instead of a key, a condition on leading key columns, as for `deleteRange`
        keys : instead of a key, a DataFrame with the key columns, which is collected, or what `SlateStore.erase` takes
        releaseVersions : give up replaced versions that hold copies
        progress : the progress bar; see `SlateTable.write`
        options : those of `SlateStore.erase`

        Raises
        ------
        SchemaError
            When the DataFrame lacks a key column.
        CommitConflictError, TransactionConflictError
            When a SlateDB client is active, or other commits kept writing the keys; nothing was changed.
        """
        with self._running("erase keys of", progress, Step.ERASING) as call:
            return self._store.erase(
                *local_key(key, self._frames.codec),
                where=where,
                keys=self._collected(keys),
                releaseVersions=releaseVersions,
                runner=call.tasks(),
                progress=call.progress,
                **options,
            )

    @taking_local_times
    def proveAbsent(
        self,
        *key: Any,
        where: str | None = None,
        keys: Any = None,
        progress: AskedProgress = "auto",
        **options: Any,
    ) -> AbsenceReport:
        """Return where a key, several keys or a key range are still stored, or that none are left.

        Searches every object that holds rows or names keys, without a Spark job; see `SlateStore.proveAbsent`.

        Parameters
        ----------
        key, where, keys : as for `erase`
        progress : the progress bar; see `SlateTable.write`
        options : `startKey`, `endKey` or `keyPrefix` of a raw table

        Raises
        ------
        OptionError
            When not exactly one of these is given.
        InvalidRequestError, CorruptDataError
            When the WAL is in another store, or an object cannot be read; then nothing is proven.
        ConflictError
            When the table changed faster than it could be searched.
        """
        with self._running("search keys in", progress, Step.SEARCHING) as call:
            return self._store.proveAbsent(
                *local_key(key, self._frames.codec),
                where=where,
                keys=self._collected(keys),
                progress=call.progress,
                **options,
            )

    def _collected(self, keys: Any) -> Any:
        """Return the key columns of a DataFrame as a pyarrow Table, and other keys with their instants."""
        if not callable(getattr(keys, "toArrow", None)):
            return local_keys(keys, self._frames.codec)
        names = resolve_columns(self._frames.key_columns(), keys.columns)
        columns = [F.col(quoted(name)).cast(without_lengths(keys.schema[name].dataType)).alias(name) for name in names]
        return keys.select(columns).toArrow()

    def verify(
        self, *, allVersions: bool = False, parallelism: int | None = None, progress: AskedProgress = "auto"
    ) -> VerifyReport:
        """Read every byte of the newest version, or of all existing versions, and return the findings.

        Parameters
        ----------
        allVersions : check every existing version, not only the newest
        parallelism : threads of the driver that read and check; by default one per processor
        progress : the progress bar; see `SlateTable.write`

        Returns
        -------
        A report; what is damaged is among its `findings`, and raises nothing.

        Raises
        ------
        TableNotFoundError
            When the table has been dropped.
        UnavailableError
            When the store stopped answering.
        """
        return self._store.verify(allVersions=allVersions, parallelism=parallelism, progress=progress)

    @taking_local_times
    @parsing_flags  # as of `erase`
    def explain(
        self, operation: str = "read", *, analyze: bool = False, prices: Prices | None = None, **options: Any
    ) -> Explanation:
        """Return what an operation touches and costs in this process, without a Spark job; see `SlateStore.explain`.

        In a Spark job each worker process also requests the indexes and filters of its files; splits are the same.
        `as_parquet` says of how many files `toDF` has the copies read by Spark's own reader of Parquet, and why it does
        not have those of others; `copies` says the same of slatespark's reader, which has the rest.

        Parameters
        ----------
        operation : `read`, `changes`, `compact`, `vacuum`, `reap` or `erase`
        analyze : run it, for good, and put the measured requests beside the estimated ones
        prices : what 1,000 requests and 10^9 bytes cost, as for `SlateStore.explain`
        options : as of a read, of `changes`, or the arguments of the operation

        Raises
        ------
        OptionError
            When the operation, a price or an option is wrong.
        """
        if operation == "erase":
            options["keys"] = self._collected(options.get("keys"))
        found = self._store.explain(operation, analyze=analyze, prices=prices, **options)
        files = sum(found.copies.values())
        return replace(found, as_parquet=self._frames.explain_parquet(options, files)) if files else found

    # --- as Delta calls it --------------------------------------------------------------------------------------------

    def optimize(self) -> SlateOptimizeBuilder:
        """Return a builder as Delta's: `optimize().executeCompaction()` is `compact()`."""
        return SlateOptimizeBuilder(self.compact)

    @staticmethod
    def forName(spark: SparkSession, name: str) -> NoReturn:
        """Refuse a name in Spark's catalog, which keeps no path of a table in this format.

        Parameters
        ----------
        spark : not used
        name : the name of the table

        Raises
        ------
        InvalidRequestError
            Always; it says how to open the table.
        """
        del spark
        raise InvalidRequestError(
            f"forName({name!r}): Spark's catalog does not keep where a table of this format is.",
            todo="Open it with forPath(spark, path). "
            "For SQL, name the path by a temporary view, and use slatespark.sql.",
        )

    # --- as text and pictures -----------------------------------------------------------------------------------------

    @taking_local_times
    def plotLayers(self, ax: Any = None, **readOptions: Any) -> Any:
        """Return a matplotlib figure of the layers of a version over their keys.

        Parameters
        ----------
        ax : matplotlib axes to draw on; by default a figure of its own
        readOptions : read options that choose a version

        Raises
        ------
        InvalidRequestError
            When matplotlib is not installed.
        """
        return self._store.plotLayers(ax, **readOptions)

    @taking_local_times
    def plotTimeline(self, ax: Any = None, *, version: int | None = None, **readOptions: Any) -> Any:
        """Return a matplotlib figure of the timeline: which file shows the rows of each interval of keys.

        Parameters
        ----------
        ax : matplotlib axes to draw on; by default a figure of its own
        version : a manifest id; by default the newest one
        readOptions : read options that choose a version another way

        Raises
        ------
        InvalidRequestError
            When matplotlib is not installed.
        """
        return self._store.plotTimeline(ax, version=version, **readOptions)

    @taking_local_times
    def plotExpiry(self, ax: Any = None, *, per: str | None = None, **readOptions: Any) -> Any:
        """Return a matplotlib figure of the stored bytes that expire by hour or day.

        Parameters
        ----------
        ax : matplotlib axes to draw on; by default a figure of its own
        per : `hour` or `day`; by default hours if everything expires within three days, else days
        readOptions : read options that choose a version, and `now`

        Raises
        ------
        InvalidRequestError
            When matplotlib is not installed.
        """
        return self._store.plotExpiry(ax, per=per, **readOptions)

    def __str__(self) -> str:
        """Return facts, columns and layers of the newest version as text."""
        return str(self._store)

    def _repr_html_(self) -> str:
        """Return facts, columns and a picture of the layers of the newest version, for notebooks."""
        return self._store._repr_html_()
