"""Workers: records of slatespark's compaction jobs in `.compactions`, with the time of their last report."""

from __future__ import annotations

import contextlib
from typing import Final

from slatespark.errors import CorruptDataError, SlateError
from slatespark.storage import ObjectStore
from slatespark.table.records.claims import CLAIMS_DIR
from slatespark.table.records.json_objects import JSON_SUFFIX, WRITE_ID, encode_json, find_json

_WORKER_PREFIX: Final = "slatespark-"  # before the write id, in the id of a slatespark worker


def worker_path(worker_id: str) -> str:
    """Return the path of the record of a slatespark worker."""
    return f"{CLAIMS_DIR}worker-{worker_id}{JSON_SUFFIX}"


def publish_worker(store: ObjectStore, write_id: str, now_ms: int) -> str:
    """Record that a job runs a compaction at `now_ms`, and return its worker id, which marks it as ours."""
    worker_id = f"{_WORKER_PREFIX}{write_id}"
    content = {"worker_id": worker_id, "write_id": write_id, "reported_ms": now_ms}
    store.put(worker_path(worker_id), [encode_json(content)])
    return worker_id


def delete_worker(store: ObjectStore, worker_id: str) -> None:
    """Delete the record of a worker whose compaction is no longer listed."""
    with contextlib.suppress(SlateError):
        store.delete(worker_path(worker_id))


def find_worker(store: ObjectStore, worker_id: str) -> str | None:
    """Return the write id of a slatespark worker; None if it has no record, so that it belongs to another client."""
    write_id = worker_id.removeprefix(_WORKER_PREFIX)
    if worker_id == write_id or not WRITE_ID.fullmatch(write_id):  # untrusted: it comes from `.compactions`
        return None
    try:
        store.head(worker_path(worker_id))
    except FileNotFoundError:
        return None
    return write_id


def fetch_worker_report(store: ObjectStore, worker_id: str) -> int | None:
    """Return when a slatespark worker last reported that it runs; None if unknown, also as its record is damaged."""
    path = worker_path(worker_id)
    with contextlib.suppress(CorruptDataError):  # the next report of a live one writes it again
        reported_ms = (find_json(store, path) or {}).get("reported_ms")
        return reported_ms if type(reported_ms) is int else None
    return None
