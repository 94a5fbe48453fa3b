"""Columnar copies as they are stored, every byte checked. A damaged copy is as good as none."""

from __future__ import annotations

from slatespark.format.columnar_copy import CopyFooter, OpenCopy, open_copy
from slatespark.format.paths import copy_path
from slatespark.format.ulid import Ulid
from slatespark.storage.object_store import ObjectStore
from slatespark.table.columns.write import CopyRule, copy_projection
from slatespark.table.read.planning.plan import SstFile
from slatespark.table.stores import object_context


def fetch_copy(store: ObjectStore, sst_id: Ulid) -> OpenCopy:
    """Return a copy of which every byte was checked; raises as `stored_copies.fetch_footer`."""
    path = copy_path(sst_id)
    with object_context(store, path):
        return open_copy(store.get(path))


def is_current_copy(footer: CopyFooter, file: SstFile, rule: CopyRule) -> bool:
    """Tell whether a copy is of this SST, with today's columns and those that the rule asks for."""
    if not footer.label.is_of(file.id, file.info):
        return False
    found = footer.schema
    wanted = copy_projection(rule.codec, any_flags=0, with_seq=rule.with_seq).schema
    return all(item.name in found.names and found.field(item.name).type == item.type for item in wanted)
