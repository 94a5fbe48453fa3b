"""Between which versions a change feed lies: options -> the state before the first change, and the last state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from slatespark.errors import HistoryTrimmedError, InvalidRequestError, OptionError
from slatespark.options import ReadOptions
from slatespark.table.clock import Clock, present_of_read
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.read.versions.kept_versions import KeptVersions
from slatespark.table.read.versions.time_travel import Timeline
from slatespark.table.records.commit_record import CLIENT_EPOCH, CommitRecord
from slatespark.table.records.commits import fetch_records_between
from slatespark.table.snapshot import pin_version
from slatespark.table.stores import TableStores

NOTHING: Final = 0  # the version before the first: no rows
FIRST_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class FeedBounds:
    """The states that a change feed lies between.

    Attributes
    ----------
    before : the version whose state the changes start from; `NOTHING` before the first version
    after : the version whose state they lead to
    committed_ms : when that one was committed
    """

    before: int
    after: int
    committed_ms: int


def resolve_start(stores: TableStores, options: ReadOptions, clock: Clock) -> int:
    """Return the version whose state the changes of a stream start from; raises as `resolve_bounds`."""
    if not options.has_start:
        return NOTHING
    return _Search(stores, KeptVersions(stores), clock).before(options)


def resolve_bounds(stores: TableStores, options: ReadOptions, clock: Clock) -> FeedBounds:
    """Return the bounds that the options of a change feed ask for.

    Raises
    ------
    InvalidRequestError
        When a version does not exist yet.
    OptionError
        When an instant lies in the future, the start after the end, or there is no start.
    HistoryTrimmedError
        When a version was collected.
    """
    options.refuse_for_batch()
    kept = KeptVersions(stores)
    search = _Search(stores, kept, clock)
    before, after = search.before(options), search.after(options)
    if before > after:
        raise OptionError(
            f"The changes start after version {before}, and end with version {after}.",
            todo="Give a start before the end.",
        )
    return FeedBounds(before, after, search.committed_ms(after))


@dataclass(frozen=True, slots=True)
class _Search:
    stores: TableStores
    kept: KeptVersions
    clock: Clock

    def before(self, options: ReadOptions) -> int:
        """Return the version whose state the changes start from."""
        if options.starting_timestamp_ms is not None:
            return self._of_time(options.starting_timestamp_ms, is_reached=not options.includes_start, or_nothing=True)
        assert options.starting_version is not None  # the options were checked
        return self._of_version("startingVersion", options.starting_version, is_reached=not options.includes_start)

    def after(self, options: ReadOptions) -> int:
        """Return the version whose state the changes lead to."""
        if options.ending_timestamp_ms is not None:
            return self._of_time(options.ending_timestamp_ms, is_reached=options.includes_end)
        if options.ending_version is not None:
            return self._of_version("endingVersion", options.ending_version, is_reached=options.includes_end)
        return self.kept.latest

    def committed_ms(self, version: int) -> int:
        """Return when a version was committed; its commit record tells, if it has one, without a look at any other."""
        record = self._record(version)
        return self.kept.time_ms(version) if record is None else record.committed_ms

    def _record(self, version: int) -> CommitRecord | None:
        return fetch_records_between(self.stores.main, version, version).get(version)

    def _of_version(self, name: str, version: int, *, is_reached: bool) -> int:
        """Return a version that exists and shows the state with, or before, the changes of a version."""
        number = version if is_reached else version - 1
        if number > self.kept.latest:
            raise InvalidRequestError(
                f"{self.stores.url}: {name} {version} does not exist yet.",
                todo=f"The newest version is {self.kept.latest}.",
            )
        if number == NOTHING or number in self.kept.numbers:
            return number
        if not is_reached and self._shows_state_before(version - 2, version):
            return version - 2
        later = [each for each in self.kept.numbers if each > number]
        raise HistoryTrimmedError(
            f"{self.stores.url}: version {number}, which the changes of {name}={version} are compared with, "
            "does not exist any more.",
            why="It was collected.",
            todo=f"The next version that exists is {later[0]}: it can be compared with later ones by "
            f"startingVersion={later[0]}, startingBoundInclusive=false. To keep versions, set the table property "
            "versionRetention, or make checkpoints.",
        )

    def _shows_state_before(self, number: int, version: int) -> bool:
        """Tell whether a version that exists shows the state before a slatespark commit, whose claim was collected.

        It does if no sequence number was used between the two: a claim only counts rows of the WAL, which have some.
        """
        record = self._record(version)
        if record is None or record.compactor_epoch == CLIENT_EPOCH or number not in self.kept.numbers:
            return False
        first = record.first_taken_seq
        last = self.kept.manifest(version).last_l0_seq if first is None else first - 1
        return pin_version(self.stores, number, self.kept.manifest(number)).max_seq == last

    def _of_time(self, time_ms: int, *, is_reached: bool, or_nothing: bool = False) -> int:
        """Return the version that shows the table with, or before, what was committed at an instant."""
        definition = resolve_definition(self.stores, self.kept.manifest(self.kept.latest))
        timeline = Timeline(self.stores, self.kept, definition.has_own_time)
        timeline.refuse_future(time_ms, present_of_read(self.clock))
        wanted_ms = time_ms if is_reached else time_ms - 1
        if or_nothing and (created_ms := self._created_ms(timeline)) is not None and wanted_ms < created_ms:
            return NOTHING
        return timeline.find(wanted_ms)

    def _created_ms(self, timeline: Timeline) -> int | None:
        """Return the time of the first version; None if nobody knows it any more."""
        if self.kept.numbers[0] == FIRST_VERSION:
            return timeline.time_ms(FIRST_VERSION)
        record = None if timeline.own_time else self._record(FIRST_VERSION)
        return None if record is None else record.committed_ms
