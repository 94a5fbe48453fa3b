"""JobList: the list of jobs of one database, as far as this process has read it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from slatespark.format.compactions import Compaction, Compactions
from slatespark.format.ulid import Ulid
from slatespark.table.clock import Clock
from slatespark.table.cooperation.job_rules import find_job
from slatespark.table.log.compactions import edit_compactions, fetch_compactions, fetch_compactions_since
from slatespark.table.log.versioned_object import Version
from slatespark.table.records.server_time import fetch_server_time
from slatespark.table.stores import TableStores

SKEW_MS: Final = 2_000  # smaller differences of clocks do not matter; some stores tell whole seconds
RELIST_MS: Final = 60_000  # after this time without news the folder is listed: the database may have been replaced
REMEASURE_MS: Final = 600_000


@dataclass(slots=True)
class JobList:
    """The list of jobs of one database. Threads may share it.

    A poll without news costs no listing: the next version is asked for by name.
    """

    stores: TableStores
    clock: Clock
    _known: Version[Compactions] | None = None
    _listed_ms: int = 0
    _ahead_ms: int = 0
    _measured_ms: int | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def refresh(self) -> Version[Compactions]:
        """Return the newest version; number 0 and no jobs if no coordinator has ever run."""
        with self._lock:
            now_ms = self.clock.now_ms()
            known = self._known
            if known is None or not known.number or abs(now_ms - self._listed_ms) > RELIST_MS:
                known, self._listed_ms = fetch_compactions(self.stores), now_ms
            elif (later := fetch_compactions_since(self.stores, known)) is not known:
                known, self._listed_ms = later, now_ms
            self._known = known
            return known

    @property
    def known(self) -> Compactions:
        """The version that was read last; costs no request."""
        return Compactions(compactor_epoch=0) if self._known is None else self._known.value

    def find(self, job_id: Ulid) -> Compaction | None:
        """Return a job of the newest version; None if it is not listed."""
        return find_job(self.refresh().value, job_id)

    def edit(
        self,
        change: Callable[[Compactions], Compactions | None],
        *,
        is_done: Callable[[Compactions], bool] | None = None,
    ) -> Version[Compactions]:
        """Publish the result of `change` for the newest version, if absent, and return the version in force.

        Everything that `change` leaves alone stays as it is, epoch and fields of other jobs included.

        Parameters
        ----------
        change : None if there is nothing to change; called again after a lost race
        is_done : tells whether a list already has the change

        Raises
        ------
        UnsupportedFormatError
            When the list has fields that would be erased.
        CommitConflictError
            When too many races were lost.
        """
        with self._lock:
            self._known = edit_compactions(self.stores, self.clock, change, fetch=self.refresh, is_done=is_done)
            return self._known

    def heartbeat_ms(self) -> int:
        """Return the time of a heartbeat: the present by the server's clock, if the local one is far from it.

        With a clock that is behind, the coordinator would take every job away from us; with one that is ahead, it would
        wait long for a worker that has died.
        """
        with self._lock:
            now_ms = self.clock.now_ms()
            if self._measured_ms is None or abs(now_ms - self._measured_ms) > REMEASURE_MS:
                ahead_ms = fetch_server_time(self.stores.main, self.clock) - self.clock.now_ms()
                self._ahead_ms = ahead_ms if abs(ahead_ms) > SKEW_MS else 0
                self._measured_ms = now_ms
            return self.clock.now_ms() + self._ahead_ms
