"""TableVersions: the methods of `SlateTable` about versions, checkpoints and the past."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slatespark.display.progress import AskedProgress
from slatespark.spark import fact_frames
from slatespark.spark.arguments import Duration, Instant
from slatespark.spark.table_upkeep import TableUpkeep
from slatespark.table.checkpoints.store import CheckpointFacts
from slatespark.table.inspection.resolution import Resolution
from slatespark.table.inspection.sequences import SequenceMatch
from slatespark.table.progress import Step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class TableVersions(TableUpkeep):
    """Versions, checkpoints and the past of a table; `SlateTable` inherits them."""

    def history(self, limit: int | None = None) -> DataFrame:
        """Return the newest `limit` versions, newest first; without a limit all that exist."""
        return fact_frames.history_frame(self._frames.spark, self._store.history(limit))

    def resolve(self, **readOptions: Any) -> Resolution:
        """Return the state that a read with these options sees: version, sequence number, time, and their origin.

        Raises
        ------
        HistoryTrimmedError
            When that point in the past can no longer be read exactly.
        """
        return self._store.resolve(**readOptions)

    def sequences(self) -> DataFrame:
        """Return the points of the sequence tracker, oldest first: when each sequence number was reached."""
        return fact_frames.sequences_frame(self._frames.spark, self._store.sequences())

    def seqToTimestamp(self, seq: int, *, round: str = "down") -> SequenceMatch | None:  # noqa: A002  # the client says so
        """Return the tracker's point for a sequence number, or the nearest `down` or `up`; None if there is none."""
        return self._store.seqToTimestamp(seq, round=round)

    def timestampToSeq(self, timestamp: Instant, *, round: str = "down") -> SequenceMatch | None:  # noqa: A002  # the client says so
        """Return the tracker's point for an instant, or the nearest `down` or `up`; None if there is none."""
        return self._store.timestampToSeq(timestamp, round=round)

    def checkpoints(self) -> DataFrame:
        """Return the checkpoints, including those that commits set for `versionRetention`."""
        return fact_frames.checkpoints_frame(self._frames.spark, self._store.checkpoints())

    def createCheckpoint(
        self, name: str | None = None, lifetime: Duration | None = None, version: int | None = None
    ) -> CheckpointFacts:
        """Protect a version from garbage collection; see `SlateStore.createCheckpoint`."""
        return self._store.createCheckpoint(name, lifetime, version)

    def refreshCheckpoint(self, idOrName: str, lifetime: Duration | None = None) -> CheckpointFacts:
        """Let a checkpoint expire after `lifetime` from now, by default never; see `SlateStore.refreshCheckpoint`."""
        return self._store.refreshCheckpoint(idOrName, lifetime)

    def deleteCheckpoint(self, idOrName: str) -> None:
        """Delete a checkpoint: objects that it alone kept can be garbage-collected."""
        self._store.deleteCheckpoint(idOrName)

    def restoreToVersion(self, version: int, *, progress: AskedProgress = "auto", **writeOptions: Any) -> int:
        """Make the state of an earlier version the newest one; see `SlateStore.restoreToVersion`."""
        return self._store.restoreToVersion(version, progress=progress, **writeOptions)

    def restoreToTimestamp(self, timestamp: Instant, *, progress: AskedProgress = "auto", **writeOptions: Any) -> int:
        """Restore the newest version that was committed at or before an instant."""
        return self._store.restoreToTimestamp(timestamp, progress=progress, **writeOptions)

    def setHistoryFloor(self, ts: Instant) -> None:
        """Give up the past of a history table below an instant; see `SlateStore.setHistoryFloor`."""
        self._store.setHistoryFloor(ts)

    def trimHistory(self, after: Instant, *, progress: AskedProgress = "auto", **writeOptions: Any) -> int:
        """Remove everything a history table learnt after an instant, by a Spark job; see `SlateStore.trimHistory`.

        Each view of a file that may hold later versions is a task.
        """
        with self._running("trim", progress, Step.REMOVING) as call:
            return self._store.trimHistory(after, runner=call.tasks(), progress=call.progress, **writeOptions)
