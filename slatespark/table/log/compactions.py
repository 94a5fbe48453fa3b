"""The chain of compactions files: the jobs that the coordinator and its workers know."""

from __future__ import annotations

from slatespark.format.compactions import (
    Compactions,
    decode_compactions,
)
from slatespark.format.paths import (
    COMPACTIONS_DIR,
    COMPACTIONS_EXTENSION,
    compactions_path,
)
from slatespark.table.log.numbered_log import NumberedLog
from slatespark.table.stores import TableStores, object_context


def compactions_log(stores: TableStores) -> NumberedLog:
    """Return the chain of compactions files."""
    return NumberedLog(stores.main, COMPACTIONS_DIR, COMPACTIONS_EXTENSION, compactions_path, "compactions")


def fetch_compactions(stores: TableStores) -> tuple[int, Compactions]:
    """Return id and content of the newest compactions file; (0, none) if there is no such file."""
    log = compactions_log(stores)
    found = log.latest()
    if found is None:
        return 0, Compactions(compactor_epoch=0, jobs=())
    with object_context(stores.main, log.path(found[0])):
        return found[0], decode_compactions(bytes(found[1]))
