"""OwnRows: the uploaded rows of a commit, which move above those of the commits that come first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from slatespark.options import WriteOptions
from slatespark.table.clock import Clock
from slatespark.table.commit.job import WriteJob, check_seq
from slatespark.table.commit.rebase import check_rewritable, rebase_outputs
from slatespark.table.commit.row_times import RowTimes
from slatespark.table.commit.write_time import check_not_ahead, check_not_set_back, check_timestamp
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.stores import TableStores
from slatespark.units import MIN_MS, time_text

Outputs: TypeAlias = tuple[tuple[NewFile, ...], ...]  # files per task, in key order; a later task is newer


@dataclass(slots=True)
class OwnRows:
    """The rows of a commit in progress.

    Attributes
    ----------
    outputs : their files; rewritten when they have to move
    base_seq, create_ts_ms : base of their sequence numbers, and their time
    times : whether they have times of their own
    moved_ms : how long the longest rewriting took
    """

    stores: TableStores
    clock: Clock
    job: WriteJob
    options: WriteOptions
    outputs: Outputs
    base_seq: int
    create_ts_ms: int
    times: RowTimes
    moved_ms: int = 0

    @classmethod
    def of(
        cls,
        stores: TableStores,
        clock: Clock,
        job: WriteJob,
        options: WriteOptions,
        outputs: Iterable[tuple[NewFile, ...]],
    ) -> OwnRows:
        """Return the rows as their job planned them."""
        times = job.times.joined(RowTimes.of_options(options))
        return cls(stores, clock, job, options, tuple(outputs), job.base_seq, job.create_ts_ms, times)

    @property
    def files(self) -> list[NewFile]:
        """All files, task by task."""
        return [file for files in self.outputs for file in files]

    @property
    def newest_ms(self) -> int:
        """The latest create_ts."""
        if not self.times.per_row:
            return self.create_ts_ms
        times = [file.properties.max_create_ts for file in self.files]
        return max((time for time in times if time is not None), default=self.create_ts_ms)

    @property
    def present_ms(self) -> int | None:
        """The present by the local clock; None if the table has its own time."""
        return None if self.job.definition.has_own_time else self.clock.now_ms()

    def check_newest_time(self) -> None:
        """Refuse rows with their own times that are in the future."""
        if self.times.per_row and any(self.outputs):
            newest_ms = self.newest_ms
            given = f"{self.stores.url}: the newest time of the rows is {time_text(newest_ms)}"
            check_not_ahead(given, newest_ms, self.present_ms)

    def check_clock(self, merged: Iterable[NewFile] = ()) -> None:
        """Refuse rows and files that are in the future, as the clock was set back; `merged` are files of the edit."""
        times = [file.handle.id.timestamp_ms for file in (*self.files, *merged)]
        if self.files and not self.job.definition.has_own_time:
            times.append(self.newest_ms)
        if times:
            check_not_set_back(self.stores, max(times), self.clock.now_ms())

    def move_above(self, reached_seq: int, tick_ms: int, *, is_rehearsal: bool = False) -> bool:
        """Move the rows above those that were committed or drained since the write was planned.

        Returns whether files were written anew.

        Parameters
        ----------
        is_rehearsal : only raise what that would raise

        Raises
        ------
        ClockRegressionError
            When the rows have a given time, and other rows are later.
        CommitConflictError
            When more than `commitRewriteLimit` would be rewritten.
        InvalidRequestError
            When the sequence numbers are used up.
        """
        if self.options.timestamp_ms is not None and any(self.outputs):
            floor_ms = MIN_MS if self.job.definition.has_history else tick_ms
            check_timestamp(self.stores, self.create_ts_ms, floor_ms, self.present_ms)
        by_seq = max(0, reached_seq - self.base_seq)
        check_seq(max([reached_seq + 1, *(file.properties.max_seq + by_seq for file in self.files)]))
        by_ms = 0 if self.times.fixed else max(0, tick_ms - self.create_ts_ms)
        moves = bool(by_seq or by_ms) and any(self.outputs)
        if moves and is_rehearsal:
            check_rewritable(self.stores, self.outputs, self.options)
            return False
        if moves:
            self._rewrite(by_seq, by_ms)
        self.base_seq, self.create_ts_ms = self.base_seq + by_seq, self.create_ts_ms + by_ms
        return moves

    def _rewrite(self, by_seq: int, by_ms: int) -> None:
        began_ms = self.clock.now_ms()
        self.outputs = rebase_outputs(
            self.stores, self.outputs, self.options, self.clock, by_seq=by_seq, by_ms=by_ms, planned_ms=began_ms
        )
        self.moved_ms = max(self.moved_ms, self.clock.now_ms() - began_ms)
