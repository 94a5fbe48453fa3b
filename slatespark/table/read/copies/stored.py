"""Columnar copies as they are stored: which exist, and their checked footers. A damaged copy is as good as none."""

from __future__ import annotations

import logging
from typing import Final

from slatespark.errors import CorruptDataError, SnapshotExpiredError, UnsupportedFormatError
from slatespark.format.columnar_copy import CopyFooter, decode_end, end_range
from slatespark.format.paths import COLUMNS_DIR, copy_id
from slatespark.format.ulid import Ulid
from slatespark.ranges import ByteRange
from slatespark.storage import ObjectMeta
from slatespark.storage.object_store import ObjectStore
from slatespark.table.read.section_cache import SectionCache
from slatespark.table.stores import object_context

# A copy that cannot be used is as good as none; the rows are in the SST.
UNUSABLE: Final = (CorruptDataError, SnapshotExpiredError, UnsupportedFormatError)

FOOTER_CACHE_BYTES: Final = 32 << 20

_END_BYTES: Final = 64 << 10  # fetched at first: most footers are smaller
_CHUNK_BYTES: Final = 600  # memory of the metadata of a column chunk, with statistics

_MAX_WARNED: Final = 10_000

_log = logging.getLogger(__name__)
_warned: set[str] = set()

# By object, with its size and time: a copy may be written anew.
footers: Final = SectionCache[CopyFooter](
    FOOTER_CACHE_BYTES, lambda footer: _CHUNK_BYTES * footer.metadata.num_columns * footer.metadata.num_row_groups
)


def list_copies(store: ObjectStore) -> dict[Ulid, ObjectMeta]:
    """Return the objects of all copies by the id of their SST."""
    found = ((copy_id(meta.path), meta) for meta in store.list(COLUMNS_DIR))
    return {sst_id: meta for sst_id, meta in found if sst_id is not None}


def fetch_footer(store: ObjectStore, meta: ObjectMeta) -> CopyFooter:
    """Return the checked end of a copy.

    Raises
    ------
    CorruptDataError, UnsupportedFormatError
        When it is damaged, or a later release wrote it.
    SnapshotExpiredError
        When it is gone.
    """
    start = max(0, meta.size - _END_BYTES)
    with object_context(store, meta.path):
        tail = memoryview(store.get_range(meta.path, ByteRange(start, meta.size)))
        wanted = end_range(tail, meta.size)
        if wanted.start < start:
            return decode_end(store.get_range(meta.path, wanted))
        return decode_end(tail[wanted.start - start :])


def cached_footer(store: ObjectStore, meta: ObjectMeta) -> CopyFooter:
    """Return the same, fetched once in a process."""
    return footers.get(store, _version(meta), lambda: fetch_footer(store, meta))


def warn_unusable(store: ObjectStore, meta: ObjectMeta, problem: object) -> None:
    """Log why the SST is read instead of a copy, once in a process: many splits may find it."""
    key = f"{store.url} {_version(meta)}"
    if key in _warned:
        return
    if len(_warned) >= _MAX_WARNED:
        _warned.clear()
    _warned.add(key)
    _log.warning("%s The SST is read instead.", problem)


def _version(meta: ObjectMeta) -> str:
    return f"{meta.path} {meta.size} {meta.modified_ms}"
