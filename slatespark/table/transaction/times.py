"""The time of a transaction's rows: provisional until the commit, then above all that it has read."""

from __future__ import annotations

from dataclasses import dataclass

from slatespark.errors import OptionError
from slatespark.table.commit.job import WriteJob
from slatespark.table.commit.write_time import check_timestamp
from slatespark.table.read.versions.read_point import ReadPoint
from slatespark.table.snapshot import TableState
from slatespark.table.stores import TableStores
from slatespark.units import MIN_MS, time_text


@dataclass(frozen=True, slots=True)
class CommitTimes:
    """The choice of the time of a transaction's rows.

    Attributes
    ----------
    read_ms : the instant that it reads as of; None for the newest state
    reached : the newest state at the commit
    now_ms : the present by the local clock
    """

    point: ReadPoint
    read_ms: int | None
    reached: TableState
    now_ms: int

    def resolve_commit_ms(
        self, stores: TableStores, given_ms: int | None, job: WriteJob, *, moves: bool, writes: bool
    ) -> int:
        """Return the time of a commit.

        Parameters
        ----------
        job : job with the time that the rows have now
        moves : whether the rows are few enough to be rewritten with the present time
        writes : whether there are any rows

        Raises
        ------
        OptionError
            When the table needs a given timestamp; or it is not above everything that the transaction has read.
        ClockRegressionError
            When it is before the last tick of a plain table, or in the future.
        """
        if given_ms is not None:
            return self._checked(stores, given_ms)
        return self._chosen(stores, job.create_ts_ms, moves=moves, writes=writes)

    def _chosen(self, stores: TableStores, written_ms: int, *, moves: bool, writes: bool) -> int:
        definition = self.point.definition
        if definition.has_own_time and writes:
            raise OptionError(
                f"{stores.url} has clock=custom, and no timestamp is given.", todo="Give commit a timestamp."
            )
        wanted_ms = self.now_ms if moves or definition.has_history else written_ms
        return max(wanted_ms, self.reached.tick_ms, MIN_MS if self._seen_ms is None else self._seen_ms + 1)

    def _checked(self, stores: TableStores, given_ms: int) -> int:
        definition, seen_ms = self.point.definition, self._seen_ms
        if seen_ms is not None and given_ms <= seen_ms:
            how = "may have read rows of" if self.read_ms is None else "reads as of"
            raise _not_above(given_ms, f"it {how} {time_text(seen_ms)}")
        present_ms = None if definition.has_own_time else self.now_ms
        check_timestamp(stores, given_ms, MIN_MS if definition.has_history else self.reached.tick_ms, present_ms)
        return given_ms

    @property
    def _seen_ms(self) -> int | None:
        """The latest time it may have read, below the time of its rows; None if only sequence numbers order them."""
        if self.read_ms is not None:
            return self.read_ms
        snapshot = self.point.snapshot
        return snapshot.tick_ms if self.point.definition.has_history and snapshot.max_seq else None


def provisional_ms(job: WriteJob, point: ReadPoint) -> int:
    """Return the time of rows until the commit sets it: one that the reads of their transaction accept."""
    snapshot = point.snapshot
    if snapshot.as_of_ts_ms is not None:
        return snapshot.as_of_ts_ms
    if point.definition.has_own_time:
        return snapshot.tick_ms if snapshot.tick_ms > MIN_MS else 0
    return job.create_ts_ms


def _not_above(given_ms: int, fact: str) -> OptionError:
    return OptionError(
        f"timestamp: {time_text(given_ms)} is not above all that the transaction has read: {fact}.",
        why="Its rows would appear older than the reads that they depend on.",
        todo="Give a later timestamp, or begin with an earlier readTimestamp.",
    )
