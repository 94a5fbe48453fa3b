"""The part of a stream of kind `log` behind its first rows: from one position of the log to another."""

from __future__ import annotations

from slatespark.errors import InvalidRequestError
from slatespark.options import ReadOptions
from slatespark.table.changes.log.cut import cut_log
from slatespark.table.changes.log.plan import LogPlan, fetch_log_plan
from slatespark.table.changes.log.positions import LogPosition, LogTail, refuse_backwards
from slatespark.table.clock import Clock
from slatespark.table.stores import TableStores
from slatespark.table.streams.limits import Limits
from slatespark.table.streams.position import Position, no_batch
from slatespark.table.streams.promised_columns import PromisedColumns
from slatespark.table.streams.throttle import Throttle
from slatespark.table.streams.version_mark import mark_of


class LogStream:
    """Follows the log of a table. It holds no version: what a batch repeats must be in the WAL and in kept versions.

    Parameters
    ----------
    throttle : allows to look for new writes
    """

    def __init__(
        self,
        stores: TableStores,
        options: ReadOptions,
        columns: PromisedColumns,
        clock: Clock,
        throttle: Throttle,
        limits: Limits,
    ) -> None:
        self._stores, self._options, self._columns, self._clock = stores, options, columns, clock
        self._throttle, self._limits = throttle, limits
        self._tail = LogTail(stores)
        self._seen: LogPosition | None = None
        self._ends = False
        self._silent: LogPosition | None = None  # an end without a write before it

    def stop_at_newest(self) -> None:
        """Look for no writes behind those that there are at the first poll."""
        self._ends = True

    def find_end(self) -> None:
        """Look where the log ends now, before anything of it is read."""
        self._seen = self._tail.poll()

    def next(self, start: Position, *, is_limited: bool) -> Position:
        """Return the end of the batch that starts at a position: that position where nothing is new."""
        reached = _logged(start)
        if self._seen is None or (not self._ends and not _is_behind(reached, self._seen) and self._throttle.allows()):
            self._seen = self._tail.poll()
            refuse_backwards(self._stores, reached, self._seen)
        end = self._seen
        if end == self._silent or not (_is_behind(reached, end) or end.version > reached.version):
            return start
        plan = self.plan(start, self._position(start, end))
        if not plan.splits and (end.seq, end.wal) == (reached.seq, reached.wal):
            self._silent = end
            return start
        if is_limited and self._limits.are_given:
            end = cut_log(self._stores, plan, max_bytes=self._limits.size_bytes, max_rows=self._limits.rows)
        return self._position(start, end)

    def plan(self, start: Position, end: Position) -> LogPlan:
        """Return the plan of the writes between two positions.

        Raises
        ------
        HistoryTrimmedError, InvalidRequestError, CorruptDataError, UnsupportedFormatError
            As `fetch_log_plan`.
        SchemaError
            When the columns of the table have changed.
        """
        if start.part is not None or end.part is not None:
            raise InvalidRequestError(
                f"{self._stores.url}: the offset is of a stream of kind net.",
                todo="Start the query with a new checkpoint location, or with changes=net.",
            )
        if start.version > end.version:
            raise no_batch(start.version, end.version)
        given = _logged(start), _logged(end)
        promised = self._columns.projection
        with self._columns.kept():
            plan = fetch_log_plan(self._stores, self._options, self._clock, *given, projection=promised)
        self._columns.check(plan.settings.projection.codec)
        return plan

    def position(self, start: Position) -> Position:
        """Return the end of the log as it is known."""
        return start if self._seen is None else self._position(start, self._seen)

    def _position(self, start: Position, end: LogPosition) -> Position:
        """Return the position of a batch that ends at a place in the log; it costs no request to mark it.

        Where a limit ends it, the version there was not read: then the mark is that of the start.
        """
        newest, mark = self._tail.version, start.mark
        if newest is not None and newest.number == end.version:
            mark = mark_of(newest)
        return Position(start.table, end.version, end.seq, end.wal, None, mark)


def _is_behind(reached: LogPosition, end: LogPosition) -> bool:
    """Tell whether there may be writes between two positions in the WAL, or of commits."""
    return (reached.seq, reached.wal) < (end.seq, end.wal)


def _logged(position: Position) -> LogPosition:
    return LogPosition(position.version, position.seq, position.wal)
