"""The time by the object store's clock, which all processes of a table share."""

from __future__ import annotations

import contextlib
from typing import Final

from slatespark.errors import SlateError, UnavailableError
from slatespark.storage import ObjectStore
from slatespark.table.clock import Clock
from slatespark.table.records.leases import task_mark_path

_ATTEMPTS: Final = 5


def fetch_server_time(store: ObjectStore, clock: Clock) -> int:
    """Return the present by the clock of the store, in ms; some stores tell whole seconds.

    Costs three requests: an object is put, looked at and deleted.
    """
    for _ in range(_ATTEMPTS):
        probe = task_mark_path(f"{clock.random_bits(64):016x}", 0)
        store.put(probe, [b"now"])
        try:
            return store.head(probe).modified_ms
        except FileNotFoundError:
            continue  # a vacuum took it for what a dead job left
        finally:
            with contextlib.suppress(SlateError):  # a vacuum deletes what stays behind
                store.delete(probe)
    raise UnavailableError(
        f"{store.url}: the time of the store is not known.",
        why=f"{_ATTEMPTS} objects that should tell it were deleted at once.",
        todo="Retry later.",
    )
