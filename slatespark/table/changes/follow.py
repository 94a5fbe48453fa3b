"""Following a change feed: plan after plan, each from where the one before ended."""

from __future__ import annotations

from slatespark.options import ReadOptions
from slatespark.table.changes.bounds import FeedBounds, resolve_bounds
from slatespark.table.changes.feed import FeedPlan
from slatespark.table.changes.log.plan import fetch_log_plan
from slatespark.table.changes.log.positions import LogPosition, LogTail, position_of
from slatespark.table.changes.plan import plan_between, with_tails
from slatespark.table.clock import Clock
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.versions.kept_versions import fetch_commit_time
from slatespark.table.stores import TableStores


class FeedFollower:
    """Follows the changes of a table.

    Parameters
    ----------
    stores, clock : the stores and the clock of the table
    options : options with `readChangeFeed`, a start, and no end

    Raises
    ------
    InvalidRequestError, OptionError, HistoryTrimmedError
        As the feed.
    """

    def __init__(self, stores: TableStores, options: ReadOptions, clock: Clock) -> None:
        self._stores, self._options, self._clock = stores, options, clock
        before = resolve_bounds(stores, options, clock).before
        self._version = before
        self._position: LogPosition | None = position_of(stores, before) if options.shows_log else None
        self._tail = LogTail(stores)

    def poll(self) -> FeedPlan | None:
        """Return the plan of the changes since the last one; None if nothing was committed since.

        Raises
        ------
        HistoryTrimmedError
            When a version, or a write, was collected before it was returned.
        """
        return self._poll_net() if self._position is None else self._poll_log(self._position)

    def _poll_log(self, start: LogPosition) -> FeedPlan | None:
        end = self._tail.poll()
        if end == start:
            return None
        plan = fetch_log_plan(self._stores, self._options, self._clock, start, end)
        self._position = end  # not before: after an error the next poll plans the same writes again
        return plan

    def _poll_net(self) -> FeedPlan | None:
        known, newest = self._version, fetch_latest_manifest(self._stores).number
        if newest == known:
            return None
        bounds = FeedBounds(known, newest, fetch_commit_time(self._stores, newest))
        plan = with_tails(self._stores, plan_between(self._stores, self._options, self._clock, bounds))
        self._version = newest
        return plan
