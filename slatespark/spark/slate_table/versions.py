"""TableVersions: the methods of `SlateTable` about versions, checkpoints and the past."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slatespark.display.progress import AskedProgress
from slatespark.options.keywords import Duration, Instant
from slatespark.spark.frames import facts
from slatespark.spark.local_times import taking_local_times
from slatespark.spark.slate_table.base import OpenTable
from slatespark.table.checkpoints.store import CheckpointFacts
from slatespark.table.inspection.resolution import Resolution
from slatespark.table.inspection.sequences import SequenceMatch
from slatespark.table.progress import Step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class TableVersions(OpenTable):
    """Versions, checkpoints and the past of a table; `SlateTable` inherits them."""

    def history(self, limit: int | None = None) -> DataFrame:
        """Return the newest versions, newest first: what committed them, when, and how many rows.

        Parameters
        ----------
        limit : how many at most; by default all that exist

        Raises
        ------
        OptionError
            When `limit` is not a number from 0 on.
        """
        return facts.history_frame(self._frames.spark, self._store.history(limit))

    @taking_local_times
    def resolve(self, **readOptions: Any) -> Resolution:
        """Return the state that a read with these options sees: version, sequence number, time, and their origin.

        Parameters
        ----------
        readOptions : read options

        Raises
        ------
        HistoryTrimmedError
            When that point in the past can no longer be read exactly.
        """
        return self._store.resolve(**readOptions)

    def sequences(self) -> DataFrame:
        """Return the points of the sequence tracker, oldest first: when each sequence number was reached."""
        return facts.sequences_frame(self._frames.spark, self._store.sequences())

    def seqToTimestamp(self, seq: int, *, round: str = "down") -> SequenceMatch | None:  # noqa: A002  # the client says so
        """Return when a sequence number was reached, by the sequence tracker; None if it has no point on that side.

        Parameters
        ----------
        seq : a sequence number
        round : take the nearest point at or below it (`down`), or at or above it (`up`)

        Raises
        ------
        OptionError
            When `seq` is not a number, or `round` is invalid.
        """
        return self._store.seqToTimestamp(seq, round=round)

    @taking_local_times
    def timestampToSeq(self, timestamp: Instant, *, round: str = "down") -> SequenceMatch | None:  # noqa: A002  # the client says so
        """Return the sequence number reached at an instant, by the sequence tracker; None if it has no point there.

        Parameters
        ----------
        timestamp : ms since the epoch, ISO text or a datetime
        round : take the nearest point at or before it (`down`), or at or after it (`up`)

        Raises
        ------
        OptionError
            When `timestamp` is not an instant, or `round` is invalid.
        """
        return self._store.timestampToSeq(timestamp, round=round)

    def checkpoints(self) -> DataFrame:
        """Return the checkpoints, including those that commits set for `versionRetention`."""
        return facts.checkpoints_frame(self._frames.spark, self._store.checkpoints())

    def createCheckpoint(
        self, name: str | None = None, lifetime: Duration | None = None, version: int | None = None
    ) -> CheckpointFacts:
        """Protect a version from garbage collection, and return its checkpoint.

        Parameters
        ----------
        name : a unique name; reads take it, or the id, in the option `checkpoint`
        lifetime : a duration such as `7d`; forever by default
        version : a manifest id; by default the newest state, WAL included

        Raises
        ------
        InvalidRequestError
            When the name is taken, or the version does not exist yet.
        SnapshotExpiredError
            When the version, or a file of it, was collected.
        """
        return self._store.createCheckpoint(name, lifetime, version)

    def refreshCheckpoint(self, idOrName: str, lifetime: Duration | None = None) -> CheckpointFacts:
        """Let a checkpoint last for `lifetime` from now, and return it.

        Parameters
        ----------
        idOrName : the id or name of the checkpoint
        lifetime : a duration such as `7d`; forever by default

        Raises
        ------
        InvalidRequestError
            When no checkpoint has this id or name; it may have expired.
        """
        return self._store.refreshCheckpoint(idOrName, lifetime)

    def deleteCheckpoint(self, idOrName: str) -> None:
        """Delete a checkpoint: objects that it alone kept can be garbage-collected.

        Parameters
        ----------
        idOrName : the id or name of the checkpoint

        Raises
        ------
        InvalidRequestError
            When no checkpoint has this id or name; it may have expired.
        """
        self._store.deleteCheckpoint(idOrName)

    @taking_local_times
    def restoreToVersion(self, version: int, *, progress: AskedProgress = "auto", **writeOptions: Any) -> int:
        """Make the state of an earlier version the newest one, and return the new version.

        Later writes are hidden, not lost: restoring the version just below the new one undoes it; see
        `SlateStore.restoreToVersion`.

        Parameters
        ----------
        version : a manifest id, as in `history()`
        progress : the progress bar; see `SlateTable.write`
        writeOptions : options of the commit, and how files are written; see `SlateStore.restoreToVersion`

        Raises
        ------
        HistoryTrimmedError
            When the version, or a file of it, was collected.
        CommitConflictError
            When another process commits at the same time.
        """
        return self._store.restoreToVersion(version, progress=progress, **writeOptions)

    @taking_local_times
    def restoreToTimestamp(self, timestamp: Instant, *, progress: AskedProgress = "auto", **writeOptions: Any) -> int:
        """Restore the newest version that was committed at or before an instant, and return the new version.

        Parameters
        ----------
        timestamp : ms since the epoch, ISO text or a datetime
        progress : the progress bar; see `SlateTable.write`
        writeOptions : options of the commit, and how files are written; see `SlateStore.restoreToVersion`

        Raises
        ------
        OptionError
            When the instant is in the future.
        HistoryTrimmedError
            When that version was collected, or the table did not exist yet.
        """
        return self._store.restoreToTimestamp(timestamp, progress=progress, **writeOptions)

    @taking_local_times
    def setHistoryFloor(self, ts: Instant) -> None:
        """Give up the past of a history table below an instant: reads as of earlier times fail from now on.

        Compactions may drop what only these reads need; see `SlateStore.setHistoryFloor`.

        Parameters
        ----------
        ts : ms since the epoch, ISO text or a datetime; not below the present floor

        Raises
        ------
        InvalidRequestError
            When the table has no history, or the floor would fall.
        OptionError
            When the instant is in the future.
        """
        self._store.setHistoryFloor(ts)

    @taking_local_times
    def trimHistory(self, after: Instant, *, progress: AskedProgress = "auto", **writeOptions: Any) -> int:
        """Remove row versions of a history table after an instant, by a Spark job; see `SlateStore.trimHistory`.

        Each view of a file that may hold later versions is a task.

        Parameters
        ----------
        after : ms since the epoch, ISO text or a datetime; later row versions are removed
        progress : the progress bar; see `SlateTable.write`
        writeOptions : options of the commit, and how files are written; see `SlateStore.trimHistory`

        Raises
        ------
        InvalidRequestError
            When the table has no history.
        HistoryTrimmedError
            When the instant is below the history floor.
        CommitConflictError
            When another commit came first, or a SlateDB client is active.
        """
        with self._running("trim", progress, Step.REMOVING) as call:
            return self._store.trimHistory(after, runner=call.tasks(), progress=call.progress, **writeOptions)
