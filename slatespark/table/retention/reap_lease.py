"""ReapLease: keeps collectors off the files that a reap rewrites, from before the first of them until their commit.

The lease of a commit is not enough: files are rewritten before it begins, and after a conflict the next pass uses them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from slatespark.table.clock import Clock
from slatespark.table.commit.expiring_ids import has_lapsed
from slatespark.table.commit.job import draw_write_id
from slatespark.table.records.leases import LEASE_LIFETIME_MS, delete_lease, publish_lease, renew_lease
from slatespark.table.stores import TableStores

_RENEWALS: Final = 4  # of a lease in its lifetime


@dataclass(slots=True)
class ReapLease:
    """The lease of the rewritten files that no manifest shows yet."""

    stores: TableStores
    clock: Clock
    _write_id: str | None = None
    _created_ms: int = 0
    _renewed_ms: int = 0

    def hold(self) -> bool:
        """Publish the lease, or renew it in time; return False if files from before may have been collected."""
        now_ms = self.clock.now_ms()
        if self._write_id is None:
            self._write_id, self._created_ms, self._renewed_ms = draw_write_id(self.clock), now_ms, now_ms
            publish_lease(self.stores.main, self._write_id, now_ms)
            return True
        if now_ms - self._renewed_ms <= LEASE_LIFETIME_MS // _RENEWALS:
            return True
        lapsed = has_lapsed(self.stores, self._write_id, renewed_ms=self._renewed_ms, now_ms=now_ms)
        renew_lease(self.stores.main, self._write_id, self._created_ms, now_ms)
        self._renewed_ms = now_ms
        return not lapsed

    def release(self) -> None:
        """End the lease, if there is one."""
        if self._write_id is not None:
            delete_lease(self.stores.main, self._write_id)
            self._write_id = None
