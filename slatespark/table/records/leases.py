"""Leases: expiring marks of jobs whose uploaded files may still be published."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from typing import Final

from slatespark.errors import SlateError
from slatespark.storage import ObjectStore
from slatespark.table.records.json_objects import JSON_SUFFIX, ROOT, WRITE_ID, check_types, encode_json, find_json
from slatespark.units import DAY_MS, MAX_MS

LEASES_DIR: Final = f"{ROOT}leases/"
LEASE_LIFETIME_MS: Final = DAY_MS  # longer than any reasonable job; afterwards a job counts as crashed


def lease_path(write_id: str) -> str:
    """Return the path of a job's lease."""
    return f"{LEASES_DIR}{write_id}{JSON_SUFFIX}"


def task_mark_path(write_id: str, task: int) -> str:
    """Return the path of the mark of an uploading task, by which tasks share a rate limit."""
    return f"{LEASES_DIR}{write_id}-{task}"


def list_task_marks(store: ObjectStore, write_id: str) -> list[str]:
    """Return the paths of the marks of a job's tasks."""
    stem = f"{LEASES_DIR}{write_id}-"
    listed = (meta.path for meta in store.list(LEASES_DIR, f"{LEASES_DIR}{write_id}"))
    return list(itertools.takewhile(lambda path: path.startswith(stem), listed))


def publish_lease(store: ObjectStore, write_id: str, now_ms: int) -> None:
    """Publish the lease of a job, whose uploaded files its commit may still publish."""
    store.create(lease_path(write_id), _lease(write_id, now_ms, now_ms))


def renew_lease(store: ObjectStore, write_id: str, created_ms: int, now_ms: int) -> None:
    """Extend a lease to a full lifetime from now; it still covers all uploads since its creation."""
    store.put(lease_path(write_id), [_lease(write_id, created_ms, now_ms)])


def _lease(write_id: str, created_ms: int, now_ms: int) -> bytes:
    expires_ms = min(now_ms + LEASE_LIFETIME_MS, MAX_MS)
    return encode_json({"write_id": write_id, "created_ms": created_ms, "expires_ms": expires_ms})


def has_lease(store: ObjectStore, write_id: str, now_ms: int) -> bool:
    """Tell whether a job may still publish: its lease exists and has not expired."""
    if not WRITE_ID.fullmatch(write_id):  # untrusted: it comes from a definition
        return False
    lease = fetch_lease(store, lease_path(write_id))
    return lease is not None and now_ms < lease.expires_ms


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease of a job: files uploaded since `created_ms` may belong to it, until it expires at `expires_ms`."""

    write_id: str
    created_ms: int
    expires_ms: int


def fetch_lease(store: ObjectStore, path: str) -> Lease | None:
    """Return a lease; None if it is gone. Raises `CorruptDataError` for a damaged one."""
    content = find_json(store, path)
    if content is None:
        return None
    check_types(content, {"write_id": str, "created_ms": int, "expires_ms": int}, "lease", path)
    return Lease(content["write_id"], content["created_ms"], content["expires_ms"])


def delete_lease(store: ObjectStore, write_id: str) -> None:
    """Delete a lease; if that fails, it expires."""
    with contextlib.suppress(SlateError):
        store.delete(lease_path(write_id))
