"""The time of a transaction's rows: until the commit one that its own reads admit, then one above what it has read."""

from __future__ import annotations

from dataclasses import dataclass

from slatespark.errors import OptionError
from slatespark.table.commit.job import WriteJob
from slatespark.table.commit.write_time import check_timestamp
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.read_point import ReadPoint
from slatespark.table.snapshot import fetch_newest_state
from slatespark.table.stores import TableStores
from slatespark.units import MIN_MS, ms_to_text


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a table has come: its newest version, its highest sequence number, and its last clock tick."""

    version: int
    seq: int
    tick_ms: int

    @classmethod
    def of(cls, stores: TableStores) -> Reached:
        """Return it for the newest state, WAL included."""
        version, manifest, wal = fetch_newest_state(stores, *fetch_latest_manifest(stores))
        tick_ms = max(manifest.last_l0_clock_tick, MIN_MS if wal.tick_ms is None else wal.tick_ms)
        return cls(version, max(manifest.last_l0_seq, wal.last_seq), tick_ms)


@dataclass(frozen=True, slots=True)
class CommitTimes:
    """Which times the rows of a transaction may get.

    Attributes
    ----------
    point : what it reads
    read_ms : the instant that it reads as of; None for the newest state
    reached : how far the table has come since
    now_ms : what our clock says
    """

    point: ReadPoint
    read_ms: int | None
    reached: Reached
    now_ms: int

    def choose(self, stores: TableStores, written_ms: int, *, moves: bool, writes: bool) -> int:
        """Return the time of a commit that was given none.

        Parameters
        ----------
        written_ms : the time that the rows have now
        moves : whether they are few enough to be given another one only because time has passed
        writes : whether there are any

        Raises
        ------
        OptionError
            When no clock says it.
        """
        definition = self.point.definition
        if definition.has_own_time and writes:
            raise OptionError(
                f"{stores.url} has clock=custom, and no timestamp is given.", todo="Give commit a timestamp."
            )
        wanted_ms = self.now_ms if moves or definition.has_history else written_ms
        return max(wanted_ms, self.reached.tick_ms, MIN_MS if self._seen_ms is None else self._seen_ms + 1)

    def check(self, stores: TableStores, given_ms: int) -> int:
        """Return the time that a commit was given.

        Raises
        ------
        OptionError
            When it does not lie above what the transaction has read.
        ClockRegressionError
            When it lies before the last tick of a plain table, or in the future.
        """
        definition, seen_ms = self.point.definition, self._seen_ms
        if seen_ms is not None and given_ms <= seen_ms:
            how = "may have read rows of" if self.read_ms is None else "reads as of"
            raise _not_above(given_ms, f"it {how} {ms_to_text(seen_ms)} ({seen_ms})")
        present_ms = None if definition.has_own_time else self.now_ms
        check_timestamp(stores, given_ms, MIN_MS if definition.has_history else self.reached.tick_ms, present_ms)
        return given_ms

    @property
    def _seen_ms(self) -> int | None:
        """The latest time of what it may have read, which its rows come after; None where only numbers tell."""
        if self.read_ms is not None:
            return self.read_ms
        snapshot = self.point.snapshot
        return snapshot.tick_ms if self.point.definition.has_history and snapshot.max_seq else None


def provisional_ms(job: WriteJob, point: ReadPoint) -> int:
    """Return the time of rows until the commit sets it: one that the reads of their transaction admit."""
    snapshot = point.snapshot
    if snapshot.as_of_ts_ms is not None:
        return snapshot.as_of_ts_ms
    if point.definition.has_own_time:
        return snapshot.tick_ms if snapshot.tick_ms > MIN_MS else 0
    return job.create_ts_ms


def _not_above(given_ms: int, fact: str) -> OptionError:
    return OptionError(
        f"timestamp: {ms_to_text(given_ms)} ({given_ms}) is not above what the transaction has read: {fact}.",
        why="Its rows would seem to have been there before the reads that they come from.",
        todo="Give a later timestamp, or begin with an earlier readTimestamp.",
    )
