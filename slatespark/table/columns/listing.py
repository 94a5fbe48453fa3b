"""Which columnar copies exist."""

from __future__ import annotations

from slatespark.format.paths import COLUMNS_DIR, copy_id
from slatespark.format.ulid import Ulid
from slatespark.storage import ObjectMeta
from slatespark.storage.object_store import ObjectStore


def list_copies(store: ObjectStore) -> dict[Ulid, ObjectMeta]:
    """Return the objects of all copies by the id of their SST."""
    found = ((copy_id(meta.path), meta) for meta in store.list(COLUMNS_DIR))
    return {sst_id: meta for sst_id, meta in found if sst_id is not None}
