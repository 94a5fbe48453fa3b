"""The state that a read with given options sees: version, sequence number, time, and how it is found."""

from __future__ import annotations

from dataclasses import dataclass, replace

from slatespark.format.manifest import NO_TICK
from slatespark.options import ReadOptions
from slatespark.shown import Shown
from slatespark.table.clock import Clock
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.read.reader import resolve_table
from slatespark.table.read.versions.floor import HistoryFloors, find_floors
from slatespark.table.read.versions.kept_versions import KeptVersions
from slatespark.table.read.versions.time_travel import Timeline
from slatespark.table.snapshot import Snapshot
from slatespark.table.stores import TableStores
from slatespark.units import ms_to_text


@dataclass(frozen=True, slots=True, repr=False)
class Resolution(Shown):
    """The state of a table that a read sees.

    Attributes
    ----------
    version : the manifest id it reads
    seq : highest sequence number of the rows it sees
    time_ms : when the version was committed; for a table with a clock of its own, its last clock tick
    as_of_ms : history tables: the read ignores row versions created later; None without such a bound
    now_ms : the instant at which expiry is evaluated
    rounded : whether the version is older than the requested time
    how : how it was found
    history_floors : the stored and the effective one of this version; None for a plain table
    """

    version: int
    seq: int
    time_ms: int
    as_of_ms: int | None
    now_ms: int
    rounded: bool
    how: str
    history_floors: HistoryFloors | None = None

    def __str__(self) -> str:
        """Return a description in one line."""
        bound = "" if self.as_of_ms is None else f", row versions up to {ms_to_text(self.as_of_ms)}"
        floor_ms = None if self.history_floors is None else self.history_floors.effective_ms
        floor = "" if floor_ms is None else _since("; history floor at", floor_ms)
        return (
            f"version {self.version}{_since(' of', self.time_ms)}, sequence numbers up to {self.seq}{bound}, "
            f"{'rounded down' if self.rounded else 'exact'}: {self.how}{_since('; expiry evaluated at', self.now_ms)}"
            f"{floor}"
        )


def _since(what: str, time_ms: int) -> str:
    """Return a phrase with an instant; empty for the tick of a version before the first row."""
    return "" if time_ms == NO_TICK else f"{what} {ms_to_text(time_ms)}"


def resolve_read(stores: TableStores, options: ReadOptions, clock: Clock) -> Resolution:
    """Return the state that a read with these options would see now; raises as that read would."""
    snapshot, definition = resolve_table(stores, options, clock)
    timeline = Timeline(stores, KeptVersions(stores), definition.has_own_time)
    time_ms = timeline.time_ms(snapshot.manifest_id)
    by_version = options.timestamp_as_of_ms is not None and not definition.has_history
    return Resolution(
        version=snapshot.manifest_id,
        seq=snapshot.max_seq,
        time_ms=time_ms,
        as_of_ms=snapshot.as_of_ts_ms,
        now_ms=snapshot.now_ms,
        rounded=by_version and time_ms != options.timestamp_as_of_ms,
        how=_how(options, snapshot, definition),
        history_floors=find_floors(stores, options, clock, snapshot, resolve_definition(stores, snapshot.manifest)),
    )


def _how(options: ReadOptions, snapshot: Snapshot, definition: TableDefinition) -> str:
    if options.timestamp_as_of_ms is not None and options.chooses_version:
        version = _how(replace(options, timestamp_as_of_ms=None), snapshot, definition)
        return f"{version}, each row as of its timestamp"
    if options.version_as_of is not None:
        return "the version asked for"
    if options.checkpoint is not None:
        return f"checkpoint {options.checkpoint}"
    if options.timestamp_as_of_ms is not None:
        if definition.has_history:
            return "the newest state, each row as of its timestamp"
        moment = "with a clock tick" if definition.has_own_time else "committed"
        return f"the newest version {moment} at or before {ms_to_text(options.timestamp_as_of_ms)}"
    if options.seq_as_of is not None:
        reached = snapshot.manifest.last_l0_seq
        if reached == options.seq_as_of:
            return "the version that ends with this sequence number"
        return "a later version without the rows above it" if reached > options.seq_as_of else "a version and its WAL"
    return "the newest state"
