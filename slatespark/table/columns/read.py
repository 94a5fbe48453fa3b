"""Columnar copies as they are stored, every byte checked. A damaged copy is as good as none."""

from __future__ import annotations

from typing import Final

from slatespark.format.columnar_copy import CopyFooter, OpenCopy, decode_end, end_range, open_copy
from slatespark.format.paths import copy_path
from slatespark.format.ulid import Ulid
from slatespark.ranges import ByteRange
from slatespark.storage import ObjectMeta
from slatespark.storage.object_store import ObjectStore
from slatespark.table.columns.write import CopyRule, copy_projection
from slatespark.table.read.plan import SstFile
from slatespark.table.stores import object_context

_END_BYTES: Final = 64 << 10  # fetched at first: most footers are smaller
_TAIL_BYTES: Final = 8


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


def fetch_copy(store: ObjectStore, sst_id: Ulid) -> OpenCopy:
    """Return a copy of which every byte was checked; raises as `fetch_footer`."""
    path = copy_path(sst_id)
    with object_context(store, path):
        return open_copy(store.get(path))


def serves(footer: CopyFooter, file: SstFile, rule: CopyRule) -> bool:
    """Tell whether a copy is of this SST, with today's columns and those that the rule asks for."""
    if not footer.label.is_of(file.id, file.info):
        return False
    found = footer.schema
    wanted = copy_projection(rule.codec, any_flags=0, with_seq=rule.with_seq).schema
    return all(item.name in found.names and found.field(item.name).type == item.type for item in wanted)
