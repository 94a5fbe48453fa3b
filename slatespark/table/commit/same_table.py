"""Whether the table of a commit is still the one that its write was planned on.

Whoever removes a table removes the uploaded files of running writes too, if told not to mind them, or by other tools.
If a table is created again in its place, a commit on top of that would show files that are gone, or take a number above
all of its versions, and so hide them.
"""

from __future__ import annotations

from typing import Final

from slatespark.errors import CommitConflictError
from slatespark.format.manifest import Manifest
from slatespark.table.clock import Clock
from slatespark.table.commit.foreign_clients import Baseline
from slatespark.table.log.manifests import find_manifest
from slatespark.table.log.versioned_object import RaceLostError, Version
from slatespark.table.stores import TableStores

LOOK_AGAIN_AFTER_MS: Final = 5_000  # a table is not removed and created again in less, mostly


def refuse_another_table(stores: TableStores, found: Version[Manifest], baseline: Baseline) -> None:
    """Refuse a newest version that is no later one of the table that a write was planned on; without a request.

    Raises
    ------
    CommitConflictError
        When its number, or one of its epochs, is lower than it was then: they never fall.
    """
    fell = any(now < then for now, then in zip(found.value.epochs, baseline.epochs, strict=True))
    if fell or found.number < baseline.manifest_id:
        raise CommitConflictError(
            f"{stores.url}: the table was removed and created again during the write.",
            why="The files of this write may have been removed with it.",
            todo="Write again.",
        )


def check_still_there(stores: TableStores, clock: Clock, latest: Version[Manifest], seen_ms: int) -> None:
    """Look once more for the version that is about to be claimed, if it was seen long ago.

    Parameters
    ----------
    seen_ms : when it was

    Raises
    ------
    RaceLostError
        When it is gone, or another one is in its place.
    """
    if abs(clock.now_ms() - seen_ms) >= LOOK_AGAIN_AFTER_MS and find_manifest(stores, latest.number) != latest.value:
        raise RaceLostError(f"manifest {latest.number} is gone")
