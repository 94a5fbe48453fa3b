"""A stream of the changes of a table: where it starts, how far the next batch goes, and what lies in between.

The changes are those from the version where the stream stands to the newest one: together they are one unit, which the
limits of a batch cut into key ranges. The versions at both ends are held until the unit is delivered.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from slatespark.errors import HistoryTrimmedError, InvalidRequestError, SnapshotExpiredError
from slatespark.format.manifest import Manifest
from slatespark.options import ReadOptions
from slatespark.ranges import KeyRange
from slatespark.table.changes.bounds import NOTHING, FeedBounds, resolve_start
from slatespark.table.changes.differences import compare_layers
from slatespark.table.changes.feed import FeedPlan
from slatespark.table.changes.plan import ChangePlan, plan_between, with_tails
from slatespark.table.clock import Clock, SystemClock
from slatespark.table.log.manifests import fetch_latest_manifest, fetch_manifest, list_manifests, may_be_claim
from slatespark.table.log.versioned_object import Version
from slatespark.table.read.arrow import Projection
from slatespark.table.read.planning.layers import fetch_layers
from slatespark.table.read.versions.kept_versions import fetch_commit_time
from slatespark.table.records.identity import find_identity, resolve_identity
from slatespark.table.snapshot import Snapshot, pin_version
from slatespark.table.stores import TableStores
from slatespark.table.streams.checkpoints import StreamCheckpoints
from slatespark.table.streams.limits import LimitedUnit, Limits
from slatespark.table.streams.log_stream import LogStream
from slatespark.table.streams.position import DeliveredPart, Position, name_table, no_batch
from slatespark.table.streams.promised_columns import PromisedColumns
from slatespark.table.streams.throttle import Throttle
from slatespark.table.streams.version_mark import mark_of
from slatespark.units import DAY_MS, duration_to_text

POLL_INTERVAL_MS: Final = 1000
STREAM_RETENTION_MS: Final = DAY_MS

_STATES: Final = 8

_log = logging.getLogger(__name__)


class ChangeStream:
    """One run of a stream. It may be asked for anything at any time: it remembers only what saves work.

    Parameters
    ----------
    clock : clock by which expiry is evaluated
    machine : the clock of the machine, for intervals and checkpoints

    Raises
    ------
    OptionError
        When the options are not those of a stream.
    """

    def __init__(
        self,
        stores: TableStores,
        options: ReadOptions,
        projection: Projection,
        clock: Clock,
        machine: Clock | None = None,
    ) -> None:
        options.refuse_for_stream()
        self._stores, self._options, self._clock = stores, options, clock
        self._projection = projection
        self._columns = PromisedColumns(stores.url, options, projection)
        self._machine = machine or SystemClock()
        self._throttle = Throttle(self._machine, options.poll_interval_ms or POLL_INTERVAL_MS)
        self._retention_ms = options.stream_retention_ms or STREAM_RETENTION_MS
        self._checkpoints = StreamCheckpoints(stores, self._machine, options.stream_id, self._retention_ms)
        self._limits = Limits(
            options.max_rows_per_trigger, options.max_bytes_per_trigger, options.max_files_per_trigger
        )
        self._log = LogStream(stores, options, self._columns, clock, self._throttle, self._limits)
        self._initial: Position | None = None
        self._ends = False
        self._last: Position | None = None  # where the run ends
        self._newest: Position | None = None
        self._logged_table = ""  # the table whose log is read, once it was checked
        self._holds_first = True  # what the first batch of a log begins with; maybe by an earlier run
        self._no_news: tuple[int, Version[Manifest]] | None = None  # a version, and one that shows the same rows
        self._states: dict[int, Position] = {}
        self._manifests: dict[int, Manifest] = {}  # of versions that are held, or were
        self._snapshots: dict[int, Snapshot] = {}
        self._gone: dict[Position, Position] = {}  # positions whose versions were collected, and where to go on
        self._unit: tuple[int, Position] | None = None  # that was found last: the version before, and its end
        self._limited: tuple[int, int, LimitedUnit] | None = None

    @property
    def newest(self) -> Position | None:
        """The newest state that is known without a request; None before the first poll."""
        return self._newest

    @property
    def stream_id(self) -> str:
        """The name of the stream."""
        return self._checkpoints.stream_id

    def initial(self) -> Position:
        """Return where the options say that the stream starts; always the same.

        Raises
        ------
        InvalidRequestError, OptionError
            When the start does not exist yet.
        HistoryTrimmedError
            When it was collected.
        """
        if self._initial is None:
            version = resolve_start(self._stores, self._options, self._clock)
            table = name_table(resolve_identity(self._stores.main, self._machine), self._checkpoints.stream_id)
            self._checkpoints.keep({version} - {NOTHING})
            self._initial = self._state(table, version)
        return self._initial

    def stop_at_newest(self) -> None:
        """Let this run end at the version that is the newest one when it begins."""
        self._ends = True
        self._log.stop_at_newest()

    def next(self, start: Position, *, is_limited: bool) -> Position:
        """Return the end of the batch that starts at a position: that position where nothing is new.

        It looks for a new version at most once in each `pollInterval`. What lies before `start` is kept no longer.

        Parameters
        ----------
        is_limited : whether the limits of the options count

        Raises
        ------
        InvalidRequestError
            When the position is not one of this table, or another query uses the `streamId`.
        HistoryTrimmedError
            When what follows was collected.
        """
        if self._is_logged(start):
            return self._next_logged(start, is_limited=is_limited)
        given, start = start, self._existing(start)
        end = self._end_of_unit(start)
        if end is None:
            return given
        self._checkpoints.renew({*start.versions, *end.versions, *(self._last.versions if self._last else ())})
        if not (is_limited and self._limits.are_given):
            return end
        key = self._limited_unit(start.version, end.version).end_of_batch(_key_of(start))
        return end if key is None else replace(start, part=DeliveredPart(end.version, key), mark=end.mark)

    def _next_logged(self, start: Position, *, is_limited: bool) -> Position:
        if start.table != self._logged_table:
            self._check_table(start)
            self._check_mark(start)
            self._logged_table = start.table
        if start != self._initial and self._holds_first:  # the first batch, which may be repeated until then, is done
            self._checkpoints.resume_as(start.stream_id)
            self._checkpoints.release()
            self._holds_first = False
        try:
            end = self._log.next(start, is_limited=is_limited)
        except InvalidRequestError:
            self._check_table(start)  # says more of a table that was created again
            raise
        self._newest = self._log.position(start)
        if end != start:
            self._check_table(start)
        return end

    def _is_logged(self, start: Position) -> bool:
        """Tell whether the log follows a position, not the rows with which a stream without a start begins."""
        follows = start.version != NOTHING or self._options.has_start
        return self._options.shows_log and follows and start.part is None

    def plan(self, start: Position, end: Position) -> FeedPlan | None:
        """Return the plan of the changes between two positions, by these alone; None where there are none.

        Raises
        ------
        InvalidRequestError
            When they are not of this table, or not of one stream.
        HistoryTrimmedError
            When their versions were collected.
        SchemaError
            When the columns of the table have changed.
        """
        if start == end:
            return None
        start = self._repeated(start, end)
        if self._is_logged(start):
            for position in {start.identity: start, end.identity: end}.values():
                self._check_table(position)
            if end.table != self._logged_table:  # else it comes from this run
                self._check_mark(end)
            return self._log.plan(start, end)
        start, end = self._existing(start), self._existing(end)
        after = _version_behind(start, end)
        if after == start.version:
            return None
        keys = KeyRange(_key_of(start), None if end.part is None else end.part.key)
        return with_tails(self._stores, self._plan(start.version, after, keys))

    # --- units ------------------------------------------------------------------------------------------------------

    def _end_of_unit(self, start: Position) -> Position | None:
        """Return the state that the unit of a position leads to; None if nothing follows yet."""
        within = None if start.part is None else self._state(start.table, start.part.version)
        if self._ends and self._last is None:
            reached = within or start
            self._last = self._find_newer(reached, start.versions) or reached
            if self._options.shows_log:  # which goes on behind these rows, to the end that it has now
                self._log.find_end()
        if within is not None:
            return within
        if self._last is not None:
            return self._last if self._last.version > start.version else None
        if self._unit is not None and self._unit[0] == start.version:
            return self._unit[1]
        if not self._throttle.allows():
            return None
        found = self._find_newer(start, start.versions)
        self._unit = None if found is None else (start.version, found)
        return found

    def _find_newer(self, reached: Position, needed: Collection[int]) -> Position | None:
        """Return the newest state if it differs from the one that was reached, and hold it and the needed versions."""
        found = None
        newest = fetch_latest_manifest(self._stores)
        if self._is_news(reached, newest):
            self._check_table(reached)
            found = self._checkpoints.advance(
                needed, newest, lambda later: later == newest or self._is_news(reached, later)
            )
        if found is not None:
            self._manifests[found.number] = found.value
        self._newest = reached if found is None else self._state(reached.table, found.number)
        if found is None:
            self._checkpoints.renew(needed)
            return None
        return self._newest

    def _is_news(self, reached: Position, newest: Version[Manifest]) -> bool:
        """Tell whether the newest version may show other rows than a state: checkpoints, for example, change none."""
        self._checkpoints.check(newest.value)
        if reached.version == NOTHING and self._options.shows_log:
            return True  # without rows, too: the log begins behind a version, and the WAL may have writes by now
        if newest.number < reached.version:
            self._check_table(reached)
            raise _restored(self._stores.url, reached)
        if newest.number == reached.version or self._no_news == (reached.version, newest):
            return False
        before = () if reached.version == NOTHING else fetch_layers(self._stores, self._manifest(reached.version))
        differences = compare_layers(before, fetch_layers(self._stores, newest.value))
        is_news = bool(differences.old_only or differences.new_only)
        if not is_news and not may_be_claim(newest.value):  # else its commit is about to follow
            is_news = self._last_seq(newest) != reached.seq
        if not is_news:
            self._no_news = reached.version, newest
        return is_news

    def _last_seq(self, newest: Version[Manifest]) -> int:
        """Return the last sequence number of the newest version; 0 where a later one has replaced it meanwhile."""
        try:
            return pin_version(self._stores, newest.number, newest.value).max_seq
        except (SnapshotExpiredError, InvalidRequestError):  # files of its WAL were collected
            if fetch_latest_manifest(self._stores).number == newest.number:
                raise
            return 0

    def _limited_unit(self, before: int, after: int) -> LimitedUnit:
        if self._limited is None or self._limited[:2] != (before, after):

            def plan_of(keys: KeyRange, split_bytes: int | None) -> ChangePlan:
                return self._plan(before, after, keys, split_bytes)

            self._limited = before, after, LimitedUnit(self._stores, plan_of, self._limits)
        return self._limited[2]

    def _plan(self, before: int, after: int, keys: KeyRange, split_bytes: int | None = None) -> ChangePlan:
        options = self._options if split_bytes is None else replace(self._options, split_bytes=split_bytes)
        bounds = FeedBounds(before, after, fetch_commit_time(self._stores, after))
        with self._columns.kept():
            plan = plan_between(
                self._stores,
                options,
                self._clock,
                bounds,
                projection=self._projection,
                keys=keys,
                held={
                    number: self._snapshots[number]
                    for number in self._checkpoints.versions
                    if number in self._snapshots
                },
            )
        self._columns.check(plan.settings.projection.codec)
        return plan

    # --- positions --------------------------------------------------------------------------------------------------

    def _state(self, table: str, version: int) -> Position:
        """Return the position at the state of a version that exists."""
        if version == NOTHING:
            return Position(table, NOTHING, 0, 0)
        if version not in self._states:
            manifest = self._manifest(version)
            snapshot = pin_version(self._stores, version, manifest)
            last_wal = max(manifest.wal_id_last_seen, manifest.replay_after_wal_id)
            mark = mark_of(Version(version, manifest))
            self._states[version] = Position(table, version, snapshot.max_seq, last_wal, None, mark)
            self._snapshots[version] = snapshot
            for known in (self._states, self._snapshots, self._manifests):
                while len(known) > _STATES:
                    known.pop(next(iter(known)))
        return self._states[version]

    def _manifest(self, version: int) -> Manifest:
        """Return the manifest of a version, which never changes: held, it is read once."""
        if version not in self._checkpoints.versions:
            return fetch_manifest(self._stores, version)
        if version not in self._manifests:
            self._manifests[version] = fetch_manifest(self._stores, version)
        return self._manifests[version]

    def _repeated(self, start: Position, end: Position) -> Position:
        """Return where a batch starts, in the name of the run that planned it first.

        Spark stores no start of the first batch. It asks each run for one until that batch is done, and a run draws a
        name for its stream.
        """
        if start.stream_id == end.stream_id or start.identity != end.identity:
            return start
        if replace(start, table=end.table) != replace(self.initial(), table=end.table):
            return start
        self._checkpoints.resume_as(end.stream_id)
        self._states.clear()  # which name the stream
        self._initial = replace(start, table=end.table)
        return self._initial

    def _existing(self, position: Position) -> Position:
        """Return a position whose versions exist and are held: the one given, or one behind what was lost."""
        self._checkpoints.resume_as(position.stream_id)
        position = self._gone.get(position, position)
        missing = position.versions - set(self._checkpoints.versions)
        if not missing:
            return position
        self._check_table(position)
        newest = fetch_latest_manifest(self._stores).number
        if max(missing) > newest:
            raise _restored(self._stores.url, position)
        try:
            self._checkpoints.keep(missing)
            state = self._state(position.table, position.version)
        except HistoryTrimmedError as exc:
            behind = self._behind(position, newest, exc)
            self._gone[position] = behind
            return behind
        self._check_mark(position)
        if (state.seq, state.wal) != (position.seq, position.wal):
            refusal = _restored if position.mark is None else _of_log
            raise refusal(self._stores.url, position)
        return position

    def _behind(self, position: Position, newest: int, cause: HistoryTrimmedError) -> Position:
        """Return where a stream goes on whose versions were collected; raises `HistoryTrimmedError` if it may not."""
        lost = max(position.versions)
        url = self._stores.url
        if self._options.fail_on_data_loss is not False:
            raise HistoryTrimmedError(
                f"{url}: version {min(position.versions)}, from which the stream goes on, does not exist any more.",
                why=f"It was collected: versions are kept for streamRetention "
                f"({duration_to_text(self._retention_ms)}) after a stream stopped, or until another query takes its "
                "streamId, or its checkpoints are deleted.",
                todo="Start a query with a new checkpoint location, which begins with all rows of the table; or set "
                "failOnDataLoss=false to leave out what changed until the next version that exists.",
            ) from cause
        for version in [number for number in list_manifests(self._stores) if number >= lost] or [newest]:
            try:
                self._checkpoints.keep({version})
                found = self._state(position.table, version)
            except HistoryTrimmedError:
                continue
            _log.warning("%s: the changes between versions %d and %d are lost.", url, position.version, version)
            return found
        raise cause

    def _check_table(self, position: Position) -> None:
        """Raise `InvalidRequestError` for a position of another table, `TableNotFoundError` where there is none."""
        found = find_identity(self._stores.main)
        if found is None:
            fetch_latest_manifest(self._stores)  # says that there is no table
        if found != position.identity:
            raise InvalidRequestError(
                f"{self._stores.url} is not the table that the stream has read so far.",
                why="The checkpoint location belongs to another table, or the table was dropped and created again.",
                todo="Start the query with a new checkpoint location.",
            )

    def _check_mark(self, position: Position) -> None:
        """Raise `InvalidRequestError` where the table has another version of the number that a position is marked with.

        If that version was collected, nothing is known of it.
        """
        mark = position.mark
        if mark is None:
            return
        try:
            found = mark_of(Version(mark.version, self._manifest(mark.version)))
        except SnapshotExpiredError:
            return
        # A writer that lost a race long ago may have left a version of that number, after a collector took ours.
        if found != mark and mark.version in list_manifests(self._stores):
            raise _restored(self._stores.url, position)


def _key_of(position: Position) -> bytes:
    return b"" if position.part is None else position.part.key


def _version_behind(start: Position, end: Position) -> int:
    """Return the version to which the unit that two positions lie in leads; raises `InvalidRequestError`."""
    after = end.version if end.part is None else end.part.version
    is_one = (end.part is None or end.version == start.version) and (start.part is None or start.part.version == after)
    if not is_one or start.table != end.table or start.version > after:
        raise no_batch(start.version, after)
    return after


def _restored(url: str, position: Position) -> InvalidRequestError:
    return InvalidRequestError(
        f"{url}: the stream has read version {max(position.versions)} with sequence number {position.seq}, "
        "which the table does not have.",
        why="An older copy of the table was put in its place.",
        todo="Start the query with a new checkpoint location, which begins with all rows of the table.",
    )


def _of_log(url: str, position: Position) -> InvalidRequestError:
    """Return the error for a position between two versions, which only a stream of the log can reach."""
    return InvalidRequestError(
        f"{url}: with changes=log, the stream has read past version {max(position.versions)}, up to sequence number "
        f"{position.seq}.",
        why="changes=net goes from version to version, so it cannot continue in between.",
        todo="Give changes=log again, or start the query with a new checkpoint location, which begins with all rows of "
        "the table.",
    )
