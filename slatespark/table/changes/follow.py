"""Following a change feed: plan after plan, each from where the one before ended."""

from __future__ import annotations

from slatespark.errors import InvalidRequestError
from slatespark.format.manifest import Manifest
from slatespark.options import ReadOptions
from slatespark.table.changes.bounds import NOTHING, FeedBounds, resolve_bounds
from slatespark.table.changes.feed import FeedPlan
from slatespark.table.changes.log.plan import fetch_log_plan
from slatespark.table.changes.log.positions import LogPosition, LogTail, position_of
from slatespark.table.changes.plan import plan_between, with_tails
from slatespark.table.clock import Clock
from slatespark.table.log.manifests import fetch_latest_manifest, fetch_manifest, find_manifest
from slatespark.table.log.versioned_object import Version
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
        self._known = None if before == NOTHING else Version(before, fetch_manifest(stores, before))
        self._position: LogPosition | None = position_of(stores, before) if options.shows_log else None
        self._tail = LogTail(stores)

    def poll(self) -> FeedPlan | None:
        """Return the plan of the changes since the last one; None if nothing was committed since.

        Raises
        ------
        HistoryTrimmedError
            When a version, or a write, was collected before it was returned.
        InvalidRequestError
            When the table was dropped and created again.
        """
        return self._poll_net() if self._position is None else self._poll_log(self._position)

    def _poll_log(self, start: LogPosition) -> FeedPlan | None:
        end = self._tail.poll()
        if end == start:
            return None
        newest = self._tail.version
        self._check_table(newest)
        plan = fetch_log_plan(self._stores, self._options, self._clock, start, end)
        # Not before: after an error the next poll plans the same writes again.
        self._known, self._position = newest, end
        return plan

    def _poll_net(self) -> FeedPlan | None:
        newest = fetch_latest_manifest(self._stores)
        if newest == self._known:
            return None
        self._check_table(newest)
        before = NOTHING if self._known is None else self._known.number
        bounds = FeedBounds(before, newest.number, fetch_commit_time(self._stores, newest.number))
        plan = with_tails(self._stores, plan_between(self._stores, self._options, self._clock, bounds))
        self._known = newest
        return plan

    def _check_table(self, newest: Version[Manifest] | None) -> None:
        """Raise `InvalidRequestError` where the table has another version of the number that was reached before."""
        known = self._known
        if known is None or newest is None:
            return
        found = newest.value if newest.number == known.number else find_manifest(self._stores, known.number)
        if found is not None and found != known.value:
            raise InvalidRequestError(
                f"{self._stores.url} is not the table that was followed up to version {known.number}.",
                why="It was dropped and created again, or an older copy was put in its place.",
                todo="Start again.",
            )
