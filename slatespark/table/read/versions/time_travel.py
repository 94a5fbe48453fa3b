"""Which version of a table shows it as it was at an instant.

A version shows the table from its commit to the next one's. If versions between two existing ones were
garbage-collected, only slatespark's commit records tell what was committed in between. Without them, the instant is
refused.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

from slatespark.errors import HistoryTrimmedError, OptionError
from slatespark.format.manifest import Manifest
from slatespark.table.clock import Clock, present_of_read, present_text
from slatespark.table.definition.versions import DefinitionFetch
from slatespark.table.read.versions.kept_versions import KeptVersions
from slatespark.table.read.versions.unnumbered import lost_segment, may_differ
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.snapshot import fetch_wal_tail
from slatespark.table.stores import TableStores
from slatespark.units import time_text

_KEEP: Final = "To keep versions, set the table property versionRetention, or make checkpoints."


def resolve_version(stores: TableStores, time_ms: int, clock: Clock | None = None) -> int:
    """Return the version that shows a table as it was at an instant: the newest one committed at or before it.

    On a table with a clock of its own the instant is one of that clock: a version has the time of its last clock tick.

    Parameters
    ----------
    time_ms : the instant
    clock : clock by which it may not lie in the future; None to take any

    Raises
    ------
    HistoryTrimmedError
        When that version was collected, or there was none yet.
    OptionError
        When the instant lies in the future.
    """
    now_ms = None if clock is None else present_of_read(clock)  # first: later commits count as future
    fetch = DefinitionFetch(stores, reuses=True)
    kept = KeptVersions(stores, fetch.begin)
    own_time = fetch.resolve(kept.newest).value.has_own_time
    timeline = Timeline(stores, kept, own_time)
    if now_ms is not None:
        timeline.refuse_future(time_ms, now_ms)
    return timeline.find(time_ms)


@dataclass(frozen=True, slots=True)
class Timeline:
    """The versions of a table over time.

    Attributes
    ----------
    stores, kept : stores of the table, and its existing versions
    own_time : whether the table has a clock of its own; a version's time is its clock tick then
    """

    stores: TableStores
    kept: KeptVersions
    own_time: bool

    def time_ms(self, number: int) -> int:
        """Return the time of a version that exists."""
        return self.kept.manifest(number).last_l0_clock_tick if self.own_time else self.kept.time_ms(number)

    def refuse_future(self, time_ms: int, now_ms: int, tick_ms: int | None = None) -> None:
        """Raise `OptionError` for an instant that lies in the future.

        Parameters
        ----------
        now_ms : the time of the local clock; ignored on tables with a clock of their own
        tick_ms : last clock tick visible to the read; by default that of the newest version, without its WAL
        """
        if tick_ms is None:
            tick_ms = self.kept.manifest(self.kept.latest).last_l0_clock_tick
        present_ms = tick_ms if self.own_time else max(tick_ms, now_ms)
        if time_ms > present_ms:
            present = present_text(present_ms, own_time=self.own_time)
            raise OptionError(
                f"{self.stores.url}: {time_text(time_ms)} lies in the future; {present}.",
                todo="Give an instant of the past, or none for the newest rows.",
            )

    def find(self, time_ms: int) -> int:
        """Return the version that shows the table as it was at an instant; raises as `resolve_version`."""
        numbers = self.kept.numbers
        position = bisect_right(numbers, time_ms, key=self.time_ms)
        before = numbers[position - 1] if position else None
        if position == len(numbers) or before == numbers[position] - 1:
            assert before is not None  # there is a version at least
            return before
        after = numbers[position]
        if self._has_state_of(after, time_ms):
            return after
        if before is None:
            raise self._too_early(time_ms, after)
        if not self._stands_until(before, after, time_ms):
            raise self._collected(time_ms, before, after)
        return before

    def _has_state_of(self, after: int, time_ms: int) -> bool:
        """Tell whether a version, though later, shows the table as a collected one left it that an instant belongs to.

        It does if no sequence number was used in between, and nothing changed without one. On a table with a clock of
        its own such a version has the same time as the collected one, so it would not be a later one.
        """
        record = self._record_below(after)
        if self.own_time or record is None or record.last_seq is None or self._committed_ms(record) > time_ms:
            return False
        manifest = self.kept.manifest(after)
        if manifest.last_l0_seq != record.last_seq or may_differ(self.stores, record.manifest_id, after):
            return False
        return fetch_wal_tail(self.stores, manifest, manifest.wal_id_last_seen + 1).last_seq <= record.last_seq

    def _stands_until(self, before: int, after: int, time_ms: int) -> bool:
        """Tell whether a version is known to serve an instant between it and the next existing one."""
        earlier, later = self.kept.manifest(before), self.kept.manifest(after)
        reached_seq = earlier.last_l0_seq
        is_same = (later.last_l0_seq, later.wal_id_last_seen) == (reached_seq, earlier.wal_id_last_seen)
        if is_same and not (lost_segment(earlier, later) or may_differ(self.stores, before, after)):
            return True
        following = [number for number in self.kept.records if before < number <= after]
        if not following:
            return False
        record = self.kept.records[min(following)]
        nothing_before = record.manifest_id == before + 1 or record.first_taken_seq == reached_seq + 1
        return nothing_before and self._next_ms(earlier, record) > time_ms

    def _record_below(self, number: int) -> CommitRecord | None:
        below = [known for known in self.kept.records if known < number]
        return self.kept.records[max(below)] if below else None

    def _next_ms(self, before: Manifest, record: CommitRecord) -> int:
        """Return the time of the version of a recorded commit, the first one after another version."""
        if not self.own_time:
            return self._committed_ms(record)
        # Rows may be late, and a commit without any, such as a restore, has no time of its own: neither moves the tick.
        tick_ms = before.last_l0_clock_tick
        return tick_ms if record.last_seq is None else max(tick_ms, record.write_time_ms)

    def _committed_ms(self, record: CommitRecord) -> int:
        """Return when a recorded commit was published, no earlier than any before it, as those of versions."""
        return max(known.committed_ms for number, known in self.kept.records.items() if number <= record.manifest_id)

    # --- refusals -----------------------------------------------------------------------------------------------------

    def _too_early(self, time_ms: int, first: int) -> HistoryTrimmedError:
        since = time_text(self.time_ms(first))
        if first == 1:
            return HistoryTrimmedError(
                f"{self.stores.url}: there was no table at {time_text(time_ms)}.",
                todo=f"The earliest time that can be answered is {since}, that of version 1.",
            )
        return HistoryTrimmedError(
            f"{self.stores.url}: the version of {time_text(time_ms)} does not exist any more.",
            why=f"Versions before {first} were collected.",
            todo=f"The earliest time that can be answered is {since}, that of version {first}. {_KEEP}",
        )

    def _collected(self, time_ms: int, before: int, after: int) -> HistoryTrimmedError:
        return HistoryTrimmedError(
            f"{self.stores.url}: the version of {time_text(time_ms)} does not exist any more.",
            why=f"Versions between {before} and {after} were collected.",
            todo=f"The earliest later time that can be answered is {time_text(self.time_ms(after))}, that of version "
            f"{after}; version {before} shows {time_text(self.time_ms(before))}. {_KEEP}",
        )
