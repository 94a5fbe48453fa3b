"""The time by the object store's clock, which all processes of a table share."""

from __future__ import annotations

from slatespark.storage import ObjectStore
from slatespark.table.clock import Clock
from slatespark.table.records.leases import task_mark_path


def fetch_server_time(store: ObjectStore, clock: Clock) -> int:
    """Return the present by the clock of the store, in ms; some stores tell whole seconds.

    Costs three requests: an object is put, looked at and deleted.
    """
    probe = task_mark_path(f"{clock.random_bits(64):016x}", 0)
    store.put(probe, [b"now"])
    try:
        return store.head(probe).modified_ms
    finally:
        store.delete(probe)
