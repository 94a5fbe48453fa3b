"""The identity of a table: tells it from one that is created later in its place."""

from __future__ import annotations

import contextlib
from typing import Final

from slatespark.errors import CorruptDataError
from slatespark.storage import ObjectStore
from slatespark.table.clock import Clock
from slatespark.table.records.json_objects import ROOT, WRITE_ID, encode_json, find_json

IDENTITY_PATH: Final = f"{ROOT}identity.json"
_BITS: Final = 64


def find_identity(store: ObjectStore) -> str | None:
    """Return the identity of a table; None if it was given none yet."""
    content = find_json(store, IDENTITY_PATH)
    if content is None:
        return None
    found = content.get("id")
    if not isinstance(found, str) or not WRITE_ID.fullmatch(found):
        raise CorruptDataError("The identity of the table is not readable.", path=f"{store.url}/{IDENTITY_PATH}")
    return found


def resolve_identity(store: ObjectStore, clock: Clock) -> str:
    """Return the identity of a table, which gets one if it has none."""
    found = find_identity(store)
    if found is None:
        drawn = f"{clock.random_bits(_BITS):016x}"
        with contextlib.suppress(FileExistsError):
            store.create(IDENTITY_PATH, encode_json({"id": drawn}))
        found = find_identity(store) or drawn
    return found
