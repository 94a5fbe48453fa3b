"""The change feed of either kind: how two versions differ, or every write between two positions of the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import pyarrow as pa

from slatespark.options import ReadOptions
from slatespark.table.changes.log.plan import LogPlan, LogSettings, LogSplit, fetch_log
from slatespark.table.changes.log.scan import scan_log
from slatespark.table.changes.plan import ChangePlan, ChangeSettings, ChangeSplit, fetch_change_plan
from slatespark.table.changes.scan import scan_changes
from slatespark.table.clock import Clock
from slatespark.table.read.arrow import Projection
from slatespark.table.stores import TableStores

FeedPlan: TypeAlias = ChangePlan | LogPlan
FeedSplit: TypeAlias = ChangeSplit | LogSplit
FeedSettings: TypeAlias = ChangeSettings | LogSettings


def fetch_feed_plan(
    stores: TableStores, options: ReadOptions, clock: Clock, *, projection: Projection | None = None
) -> FeedPlan:
    """Return the plan of the change feed that the options ask for.

    Parameters
    ----------
    options : options with `readChangeFeed`
    projection : the columns that were promised, if not those of the options

    Raises
    ------
    InvalidRequestError, HistoryTrimmedError, CorruptDataError, UnsupportedFormatError
    """
    fetch = fetch_log if options.shows_log else fetch_change_plan
    return fetch(stores, options, clock, projection=projection)


def scan_feed(stores: TableStores, split: FeedSplit, settings: FeedSettings) -> Iterator[pa.RecordBatch]:
    """Yield the changes of one split; raises as `scan_changes` and `scan_log`."""
    if isinstance(split, LogSplit):
        assert isinstance(settings, LogSettings)  # of the same plan
        return scan_log(stores, split, settings)
    assert isinstance(settings, ChangeSettings)
    return scan_changes(stores, split, settings)


def run_feed(stores: TableStores, plan: FeedPlan) -> Iterator[pa.RecordBatch]:
    """Yield all changes of a plan, in its order."""
    for split in plan.splits:
        yield from scan_feed(stores, split, plan.settings)


def open_feed(stores: TableStores, plan: FeedPlan) -> pa.RecordBatchReader:
    """Return the changes of a plan as batches, in its order."""
    return pa.RecordBatchReader.from_batches(plan.settings.projection.schema, run_feed(stores, plan))
