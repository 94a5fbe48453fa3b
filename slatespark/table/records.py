"""What we note beside the client's folders, under `slatespark/`: commits, claims and leases, as JSON.

The client ignores the folder and its garbage collector leaves it (spec 9, trap 17). Commit records are best effort:
`history` is richer with them, and nothing is wrong without. Claims tell our own epochs from those of other clients.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from slatespark.errors import CorruptDataError, SlateError
from slatespark.storage.object_store import ObjectStore
from slatespark.units import MAX_MS

ROOT: Final = "slatespark/"
COMMITS_DIR: Final = f"{ROOT}commits/"
CLAIMS_DIR: Final = f"{ROOT}claims/"
LEASES_DIR: Final = f"{ROOT}leases/"

_WRITE_ID: Final = re.compile(r"[0-9a-f]{16}")
LEASE_LIFETIME_MS: Final = 86_400_000  # longer than a job may reasonably take; a crashed one is forgotten after it


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """What one commit of ours did.

    Attributes
    ----------
    manifest_id : the version it published
    operation : `write`, `overwrite`, `create`, ...
    write_id : of the job
    engine : who committed
    committed_ms, write_time_ms : wall clock at publication; create_ts of the rows
    first_seq, last_seq : sequence numbers it used, [first_seq, last_seq]; None if none
    rows : number of rows by kind
    files : properties of the files it added, by SST id
    removed : ids of the SSTs that the version before showed and this one does not
    compactor_epoch : the value the commit left
    delete_rate : bytes per second at which a reap deleted; None for other operations
    """

    manifest_id: int
    operation: str
    write_id: str
    engine: str
    committed_ms: int
    write_time_ms: int
    first_seq: int | None
    last_seq: int | None
    rows: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    removed: Sequence[str] = ()
    compactor_epoch: int = 0
    delete_rate: int | None = None


def _commit_path(manifest_id: int) -> str:
    return f"{COMMITS_DIR}{manifest_id:020d}.json"


def publish_commit_record(store: ObjectStore, record: CommitRecord) -> None:
    """Note a commit; a failure to do so does not matter: the commit has landed, and an error would say otherwise."""
    with contextlib.suppress(FileExistsError, SlateError):
        store.create(_commit_path(record.manifest_id), _encode(asdict(record)))


def fetch_commit_records(store: ObjectStore, limit: int | None = None) -> list[CommitRecord]:
    """Return the newest `limit` commit records, newest first; all without a limit."""
    paths = sorted((meta.path for meta in store.list(COMMITS_DIR) if meta.path.endswith(".json")), reverse=True)
    records = []
    for path in paths[:limit]:
        with contextlib.suppress(FileNotFoundError):
            records.append(_decode_commit(path, bytes(store.get(path))))
    return records


def fetch_commit_record(store: ObjectStore, manifest_id: int) -> CommitRecord | None:
    """Return the record of one commit; None if there is none."""
    path = _commit_path(manifest_id)
    try:
        return _decode_commit(path, bytes(store.get(path)))
    except FileNotFoundError:
        return None


def _decode_commit(path: str, data: bytes) -> CommitRecord:
    content = _decode(path, data)
    for name, kind in (("committed_ms", int), ("operation", str), ("rows", dict), ("files", dict)):
        if not isinstance(content.get(name), kind):
            raise CorruptDataError(f"commit record lacks {name!r}, or it is no {kind.__name__}.", path=path)
    try:
        known = {name: content[name] for name in CommitRecord.__slots__ if name in content}
        return CommitRecord(**{**known, "removed": tuple(content.get("removed", ()))})
    except TypeError as exc:  # one that has no default
        raise CorruptDataError(f"commit record lacks {exc}.", path=path) from exc


# --- claims ---------------------------------------------------------------------------------------------------------


def manifest_digest(data: bytes) -> str:
    """Return the SHA-256 by which a claim names the manifest it announces."""
    return hashlib.sha256(data).hexdigest()


def publish_claim(store: ObjectStore, manifest_id: int, write_id: str, attempt: int, data: bytes) -> None:
    """Announce, before it is created, the manifest by which we are about to claim epochs."""
    path = f"{CLAIMS_DIR}{manifest_id:020d}-{write_id}-{attempt}.json"
    store.put(path, [_encode({"manifest_id": manifest_id, "sha256": manifest_digest(data)})])


def fetch_claimed_digests(store: ObjectStore, manifest_id: int) -> frozenset[str]:
    """Return the digests announced for one manifest id."""
    stem = f"{CLAIMS_DIR}{manifest_id:020d}-"
    digests = []
    for meta in store.list(CLAIMS_DIR, f"{CLAIMS_DIR}{manifest_id:020d}"):
        if not meta.path.startswith(stem):
            break
        with contextlib.suppress(FileNotFoundError):
            digests.append(str(_decode(meta.path, bytes(store.get(meta.path))).get("sha256")))
    return frozenset(digests)


def fetch_claimed_ids(store: ObjectStore) -> frozenset[int]:
    """Return the manifest ids that claims were announced for, of which each may have gone to somebody faster."""
    names = (meta.path.removeprefix(CLAIMS_DIR).partition("-")[0] for meta in store.list(CLAIMS_DIR))
    return frozenset(int(name) for name in names if name.isascii() and name.isdigit())


# --- leases ---------------------------------------------------------------------------------------------------------


def lease_path(write_id: str) -> str:
    """Return the path of a job's lease."""
    return f"{LEASES_DIR}{write_id}.json"


def task_mark_path(write_id: str, task: int) -> str:
    """Return the path of the mark that a task leaves while it uploads, where a rate is divided among tasks."""
    return f"{LEASES_DIR}{write_id}-{task}"


def list_task_marks(store: ObjectStore, write_id: str) -> list[str]:
    """Return the paths of the marks of a job's tasks."""
    stem = f"{LEASES_DIR}{write_id}-"
    listed = (meta.path for meta in store.list(LEASES_DIR, f"{LEASES_DIR}{write_id}"))
    return list(itertools.takewhile(lambda path: path.startswith(stem), listed))


def publish_lease(store: ObjectStore, write_id: str, now_ms: int) -> None:
    """Mark that a job uploads files which its commit may still publish."""
    expires_ms = min(now_ms + LEASE_LIFETIME_MS, MAX_MS)
    content = {"write_id": write_id, "created_ms": now_ms, "expires_ms": expires_ms}
    store.create(lease_path(write_id), _encode(content))


def has_lease(store: ObjectStore, write_id: str, now_ms: int) -> bool:
    """Tell whether a job may still publish: its lease exists and has not expired."""
    if not _WRITE_ID.fullmatch(write_id):  # from a definition, so from anybody
        return False
    path = lease_path(write_id)
    try:
        expires_ms = _decode(path, bytes(store.get(path))).get("expires_ms")
    except FileNotFoundError:
        return False
    if not isinstance(expires_ms, int):
        raise CorruptDataError(f"lease ends at {expires_ms!r}.", path=path)
    return now_ms < expires_ms


def delete_lease(store: ObjectStore, write_id: str) -> None:
    """Take the mark away; one that stays expires."""
    with contextlib.suppress(SlateError):
        store.delete(lease_path(write_id))


def _encode(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _decode(path: str, data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except ValueError as exc:
        raise CorruptDataError(f"record is no JSON: {exc}.", path=path) from exc
    if not isinstance(content, dict):
        raise CorruptDataError("record is no JSON object.", path=path)
    return content


def merge_counts(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of counts by name."""
    names = {name for part in parts for name in part}
    return {name: sum(part.get(name, 0) for part in parts) for name in sorted(names)}
