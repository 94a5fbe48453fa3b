"""ReadPoint: one snapshot for many reads, of a transaction under the rows that it has written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from slatespark.errors import OptionError
from slatespark.options import ReadOptions
from slatespark.options.fields import Call, option_keys
from slatespark.options.values import STORAGE_PREFIX, normalize_name
from slatespark.table.clock import Clock
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.read.planning.plan import Layer
from slatespark.table.read.versions.floor import present_ms
from slatespark.table.snapshot import Snapshot
from slatespark.table.stores import TableStores

_PLACES: Final = ("path", "walPath", "clock")
_POINTS: Final = tuple(
    key for key in option_keys(ReadOptions) if key not in {*option_keys(ReadOptions, Call.TRANSACTION_READ), *_PLACES}
)


class Point(Protocol):
    """What decides the snapshot of a read, if its options do not."""

    @property
    def own(self) -> tuple[Layer, ...]:
        """Layers of rows of the reader's own, newest first."""

    def resolve(self, options: ReadOptions) -> tuple[Snapshot, TableDefinition]:
        """Return the snapshot and definition that a read with these options sees."""


@dataclass(frozen=True, slots=True)
class ReadPoint:
    """A snapshot, and rows of the reader's own that others do not see.

    Attributes
    ----------
    snapshot : snapshot of the table
    definition : definition of the table at that time
    own : layers of the rows written since, newest first; named `OWN_WRITES`
    own_seq : their highest sequence number, above all of the snapshot; 0 where there are none
    """

    snapshot: Snapshot
    definition: TableDefinition
    own: tuple[Layer, ...] = ()
    own_seq: int = 0

    def resolve(self, options: ReadOptions) -> tuple[Snapshot, TableDefinition]:
        """Return the snapshot and definition that a read with these options sees."""
        snapshot = replace(self.snapshot, max_seq=max(self.snapshot.max_seq, self.own_seq))
        if options.now_ms is not None:
            snapshot = replace(snapshot, now_ms=options.now_ms)
        return snapshot, self.definition


class KeptPoint:
    """The newest state, kept for some time after it was read.

    Parameters
    ----------
    lifetime_ms : how long it is kept; it goes at once when these stores create a version, so that a program sees what
        it has written
    fetch : returns the newest snapshot and definition
    """

    def __init__(
        self,
        stores: TableStores,
        clock: Clock,
        lifetime_ms: int,
        fetch: Callable[[], tuple[Snapshot, TableDefinition]],
    ) -> None:
        self._stores, self._clock, self._lifetime_ms, self._fetch = stores, clock, lifetime_ms, fetch
        self._kept: tuple[int, int, ReadPoint] | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_kept": None}  # another process reads the newest state itself

    def forget(self) -> None:
        """Let the next read look for the newest state."""
        self._kept = None

    def current(self) -> ReadPoint:
        """Return the point, with the present as the instant at which expiry is evaluated."""
        now_ms, kept = self._clock.now_ms(), self._kept
        if kept is None or not 0 <= now_ms - kept[0] < self._lifetime_ms or kept[1] != self._stores.heads.creations:
            creations = self._stores.heads.creations
            kept = self._kept = now_ms, creations, ReadPoint(*self._fetch())
        snapshot, definition = kept[2].snapshot, kept[2].definition
        return ReadPoint(replace(snapshot, now_ms=present_ms(definition, snapshot.tick_ms, self._clock)), definition)


def refuse_another_point(given: Mapping[str, Any], reader: str, todo: str) -> None:
    """Refuse options of a read that name another read point, or another table; raises `OptionError`.

    Parameters
    ----------
    given : options by name; None stands for one that is not given
    reader : what has the read point: the subject of the message
    todo : what to do with an option that chooses a version
    """
    for name, value in given.items():
        if value is None:
            continue
        if normalize_name(name) in map(normalize_name, _PLACES) or name.lower().startswith(STORAGE_PREFIX):
            raise OptionError(
                f"{name}: {reader} reads the table that it began with, by its clock.",
                todo="Read otherwise through a store of its own.",
            )
        if normalize_name(name) in map(normalize_name, _POINTS):
            raise OptionError(f"{name}: {reader} has one read point.", todo=todo)
