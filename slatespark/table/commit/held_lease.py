"""HeldLease: the lease of a job that may take longer than a lease lasts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from slatespark.table.clock import Clock
from slatespark.table.commit.expiring_ids import LEASE_MARGIN_MS, is_lease_valid
from slatespark.table.commit.job import draw_write_id
from slatespark.table.records.leases import LEASE_LIFETIME_MS, delete_lease, publish_lease, renew_lease
from slatespark.table.stores import TableStores

_RENEWALS: Final = 4  # in a lifetime


@dataclass(slots=True)
class HeldLease:
    """A lease that is renewed in time, unless the process is suspended.

    Attributes
    ----------
    created_ms : files uploaded since then may belong to the job
    renewed_ms : when it was published or last renewed
    lapses : how often collectors may have seen it expired, and so may have begun to delete the job's files
    """

    stores: TableStores
    clock: Clock
    write_id: str
    created_ms: int
    renewed_ms: int
    lapses: int = 0

    @classmethod
    def publish(cls, stores: TableStores, clock: Clock) -> Self:
        """Publish the lease of a new job."""
        write_id, now_ms = draw_write_id(clock), clock.now_ms()
        publish_lease(stores.main, write_id, now_ms)
        return cls(stores, clock, write_id, now_ms, now_ms)

    def renew(self) -> None:
        """Renew the lease if a part of its lifetime has passed."""
        now_ms = self.clock.now_ms()
        if now_ms - self.renewed_ms <= LEASE_LIFETIME_MS // _RENEWALS:
            return
        # Counted before the renewal: one whose answer is lost may have landed, and the next look finds a valid lease.
        self.lapses += self._has_lapsed(now_ms)
        renew_lease(self.stores.main, self.write_id, self.created_ms, now_ms)
        self.renewed_ms = now_ms

    def _has_lapsed(self, now_ms: int) -> bool:
        """Tell whether collectors may have seen the lease expired since it was last renewed."""
        is_old = now_ms - self.renewed_ms >= LEASE_LIFETIME_MS - LEASE_MARGIN_MS
        return is_old or not is_lease_valid(self.stores, self.write_id, now_ms)

    def release(self) -> None:
        """End the lease; if that fails, it expires."""
        delete_lease(self.stores.main, self.write_id)
