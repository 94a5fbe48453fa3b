"""Reads as of a time or of a sequence number: the snapshot that they see.

On plain tables a time means a version. Tables with `history=true` keep every version of a row with the user's
timestamp, so there the newest state is read, without the row versions that were created later. Where a version of the
table is chosen too, that one is read, with what it knew of the time.
"""

from __future__ import annotations

from dataclasses import replace

from slatespark.errors import HistoryTrimmedError, OptionError
from slatespark.options import ReadOptions
from slatespark.table.clock import Clock, present_of_read
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import DefinitionFetch, resolve_definition
from slatespark.table.read.versions.as_of_seq import find_seq
from slatespark.table.read.versions.floor import find_later_beginning, history_floor, judged_definition
from slatespark.table.read.versions.kept_versions import KeptVersions
from slatespark.table.read.versions.time_travel import Timeline
from slatespark.table.snapshot import Snapshot, fetch_newest_state, make_snapshot, pin_version
from slatespark.table.stores import TableStores
from slatespark.units import time_text


def resolve_as_of(stores: TableStores, options: ReadOptions, clock: Clock, fetch: DefinitionFetch) -> Snapshot:
    """Return the snapshot of a read with one of `timestampAsOf` and `seqAsOf`.

    Parameters
    ----------
    fetch : of the definition

    Raises
    ------
    OptionError
        When the time or the number is of the future.
    HistoryTrimmedError
        When it can no longer be answered exactly, or lies before the table's beginning.
    """
    present_ms = present_of_read(clock)  # first: later commits count as future
    kept = KeptVersions(stores, fetch.begin)
    definition = fetch.resolve(kept.newest).value
    if options.seq_as_of is not None:
        return _as_of_seq(stores, kept, definition, options.seq_as_of, options.now_ms, clock)
    assert options.timestamp_as_of_ms is not None
    time_ms = options.timestamp_as_of_ms
    timeline = Timeline(stores, kept, definition.has_own_time)
    if definition.has_history:
        found = _as_of_row_time(stores, options, clock)
        timeline.refuse_future(time_ms, present_ms, found.tick_ms)  # rows of the WAL are seen too
        return found
    timeline.refuse_future(time_ms, present_ms)
    number = timeline.find(time_ms)
    found = pin_version(stores, number, kept.manifest(number), options.now_ms)
    # A tick ahead of the instant comes from a clock that was: by it, a client purged rows, and reads judged them.
    return found if options.now_ms is not None else replace(found, now_ms=max(time_ms, found.tick_ms))


def known_then(
    stores: TableStores, chosen: Snapshot, options: ReadOptions, clock: Clock, fetch: DefinitionFetch
) -> Snapshot:
    """Return what a version of a history table knew of an instant, judged by its own bounds of the past.

    Parameters
    ----------
    chosen : the snapshot of the version
    options : options with `timestampAsOf`
    fetch : of the definition

    Raises
    ------
    OptionError
        When the table has no history, or the time is of the future.
    HistoryTrimmedError
        When the version does not have all row versions of that time, or had no row then.
    """
    time_ms = options.timestamp_as_of_ms
    assert time_ms is not None  # the caller's condition
    definition = fetch.resolve(chosen.version).value
    if not definition.has_history:
        raise OptionError(
            f"timestampAsOf and {options.version_choices[0]} are both given, but {stores.url} is not a history table.",
            why="Its rows have no times of their own: an instant means a version there.",
            todo="Give one of them.",
        )
    kept = KeptVersions(stores)
    tick_ms = max(chosen.tick_ms, kept.manifest(kept.latest).last_l0_clock_tick)
    Timeline(stores, kept, definition.has_own_time).refuse_future(time_ms, present_of_read(clock), tick_ms)
    return _bounded(stores, chosen, judged_definition(definition, options, chosen, clock), options)


def _as_of_seq(
    stores: TableStores,
    kept: KeptVersions,
    definition: TableDefinition,
    seq: int,
    now_ms: int | None,
    clock: Clock,
) -> Snapshot:
    """Return the snapshot of the rows up to a sequence number; `now` is that of a read of the newest ones."""
    newest = make_snapshot(*fetch_newest_state(stores), now_ms, clock)
    if now_ms is None:
        now_ms = newest.tick_ms if definition.has_own_time else newest.now_ms
    number, manifest, wal = find_seq(stores, kept, newest, seq)
    return replace(make_snapshot(number, manifest, wal, now_ms), max_seq=seq)


def _as_of_row_time(stores: TableStores, options: ReadOptions, clock: Clock) -> Snapshot:
    """Return the snapshot of a history table's row versions created up to the time of the options."""
    newest = make_snapshot(*fetch_newest_state(stores), options.now_ms, clock)
    # After the snapshot: a floor is published before versions go.
    definition = judged_definition(resolve_definition(stores, newest.manifest), options, newest, clock)
    return _bounded(stores, newest, definition, options)


def _bounded(stores: TableStores, snapshot: Snapshot, definition: TableDefinition, options: ReadOptions) -> Snapshot:
    """Return the row versions of a snapshot created up to the time of the options.

    Parameters
    ----------
    definition : definition with the bounds of the past by which the read is judged
    """
    time_ms = options.timestamp_as_of_ms
    assert time_ms is not None  # the caller's condition
    _refuse_lost(stores, snapshot, definition, time_ms)
    return replace(snapshot, as_of_ts_ms=time_ms, now_ms=time_ms if options.now_ms is None else options.now_ms)


def _refuse_lost(stores: TableStores, snapshot: Snapshot, definition: TableDefinition, time_ms: int) -> None:
    """Refuse an instant of which a history table may not have all row versions any more; as `_bounded`."""
    floor_ms = history_floor(stores, snapshot.manifest, definition)
    if floor_ms is not None and time_ms < floor_ms:
        raise HistoryTrimmedError(
            f"{stores.url}: the row versions of {time_text(time_ms)} are no longer complete.",
            why="They lie below the history floor, or another client's compaction may have dropped some.",
            todo=f"The earliest time that can be answered is {time_text(floor_ms)}.",
        )
    if floor_ms is not None:  # above it, nothing is an answer too
        return
    first_ms = find_later_beginning(stores, snapshot, time_ms)
    if first_ms is not None:
        raise HistoryTrimmedError(
            f"{stores.url}: there was no row at {time_text(time_ms)}.",
            todo=f"The earliest time that can be answered is {time_text(first_ms)}, that of the first row version.",
        )
