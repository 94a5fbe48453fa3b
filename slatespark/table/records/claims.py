"""Claims: the digest of the manifest by which we are about to claim epochs, noted before it is created.

They tell our own epochs from those of other clients.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Sequence
from functools import partial
from typing import Final

from slatespark.errors import CorruptDataError
from slatespark.ranges import KeyRange
from slatespark.storage import ObjectStore, run_concurrently
from slatespark.table.records.json_objects import (
    REQUESTS_TOGETHER,
    ROOT,
    decode_json,
    encode_json,
    hex_bounds,
    range_of_hex,
)

CLAIMS_DIR: Final = f"{ROOT}claims/"


def manifest_digest(data: bytes) -> str:
    """Return the SHA-256 by which a claim names the manifest it announces."""
    return hashlib.sha256(data).hexdigest()


def publish_claim(
    store: ObjectStore,
    manifest_id: int,
    write_id: str,
    attempt: int,
    data: bytes,
    *,
    removes: Sequence[KeyRange] = (),
) -> None:
    """Announce, before it is created, the manifest by which we are about to claim epochs.

    Parameters
    ----------
    data : of the manifest
    removes : keys of which the commit is about to take rows away without a newer version of them
    """
    path = f"{CLAIMS_DIR}{manifest_id:020d}-{write_id}-{attempt}.json"
    bounds = [hex_bounds(keys) for keys in removes]
    store.put(path, [encode_json({"manifest_id": manifest_id, "sha256": manifest_digest(data), "removes": bounds})])


def fetch_claimed_digests(store: ObjectStore, manifest_id: int) -> frozenset[str]:
    """Return the digests announced for one manifest id."""
    digests = []
    for path in _list_claims(store, manifest_id, manifest_id):
        with contextlib.suppress(FileNotFoundError):
            digests.append(str(decode_json(path, bytes(store.get(path))).get("sha256")))
    return frozenset(digests)


def fetch_claimed_removals(store: ObjectStore, first_id: int, last_id: int) -> dict[str, tuple[KeyRange, ...]]:
    """Return what commits said, when they announced manifests, of the keys that they were about to take rows away of.

    Parameters
    ----------
    first_id, last_id : of the manifests, both included

    Returns
    -------
    By digest of the manifest; without claims that are damaged, or say nothing of it.
    """
    paths = _list_claims(store, first_id, last_id)
    found: dict[str, tuple[KeyRange, ...]] = {}
    for at in range(0, len(paths), REQUESTS_TOGETHER):
        fetches = [partial(_fetch_removals, store, path) for path in paths[at : at + REQUESTS_TOGETHER]]
        found.update(each for each in run_concurrently(fetches, is_remote=store.is_remote) if each is not None)
    return found


def _fetch_removals(store: ObjectStore, path: str) -> tuple[str, tuple[KeyRange, ...]] | None:
    with contextlib.suppress(FileNotFoundError, CorruptDataError, KeyError, TypeError, ValueError):
        claim = decode_json(path, bytes(store.get(path)))
        return str(claim["sha256"]), tuple(range_of_hex(*bounds) for bounds in claim["removes"])
    return None


def _list_claims(store: ObjectStore, first_id: int, last_id: int) -> list[str]:
    """Return the paths of the claims to manifests [first_id, last_id]."""
    listed = (meta.path for meta in store.list(CLAIMS_DIR, f"{CLAIMS_DIR}{first_id:020d}"))
    return list(itertools.takewhile(lambda path: path < f"{CLAIMS_DIR}{last_id + 1:020d}", listed))
