"""Files that wait long for their commit get new ids, lest a client's collector, which goes by these, takes them."""

from __future__ import annotations

from collections.abc import Iterable

from slatespark.errors import SnapshotExpiredError
from slatespark.format.paths import sst_path
from slatespark.table.clock import Clock, new_ulid
from slatespark.table.stores import TableStores
from slatespark.table.write.sst_upload import NewFile


def keep_young(stores: TableStores, clock: Clock, files: Iterable[NewFile], gc_min_age_ms: int) -> tuple[NewFile, ...]:
    """Return files, those past half the age at which collectors remove them as copies under new ids.

    Raises
    ------
    SnapshotExpiredError
        When one was collected already.
    """
    now_ms = clock.now_ms()
    oldest_ms = now_ms - gc_min_age_ms // 2

    def fresh(file: NewFile) -> NewFile:
        if file.handle.id.timestamp_ms >= oldest_ms:
            return file
        renamed = file.renamed(new_ulid(clock, now_ms))
        try:
            stores.main.copy(sst_path(file.handle.id), sst_path(renamed.handle.id))
        except FileNotFoundError as exc:
            raise SnapshotExpiredError(
                f"{stores.main.url}/{sst_path(file.handle.id)} is gone.",
                why="A garbage collector removed a file of this write before its commit.",
                todo="Write again, with gcMinAge at most the age at which the collector removes files.",
            ) from exc
        return renamed

    return tuple(fresh(file) for file in files)
