"""What we note beside the client's folders, under `slatespark/`: commits, claims, leases, idempotent writes, as JSON.

The client ignores the folder and its garbage collector leaves it (spec 9, trap 17). Commit records are best effort:
`history` is richer and planning skips more with them, and nothing is wrong without. Every hundred of them are put
together in one object. Each has a checksum, since a scan passes over files, and a reap drops them, by what it says.
Claims tell our own epochs from those of other clients.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

from slatespark.errors import CorruptDataError, SlateError
from slatespark.format.paths import numbered
from slatespark.ranges import KeyRange
from slatespark.storage import ObjectMeta, ObjectStore, run_concurrently
from slatespark.units import MAX_MS

ROOT: Final = "slatespark/"
COMMITS_DIR: Final = f"{ROOT}commits/"
BATCHES_DIR: Final = f"{COMMITS_DIR}batches/"
CLAIMS_DIR: Final = f"{ROOT}claims/"
LEASES_DIR: Final = f"{ROOT}leases/"
TXN_DIR: Final = f"{ROOT}txn/"

BATCH_RECORDS: Final = 100
BATCH_BYTES: Final = 16 << 20  # a batch ends with the record that reaches it; each file takes a few hundred bytes

_CHECKED: Final = {"manifest_id": int, "committed_ms": int, "operation": str, "rows": dict, "files": dict}
_CHECKED_IF_THERE: Final = {
    "engine": str,
    "write_id": str,
    "write_time_ms": int,
    "compactor_epoch": int,
    "removed": list,
    "first_seq": int | None,
    "last_seq": int | None,
}
_CHECKSUM: Final = "checksum"  # of a commit record; those of old releases have none
_JSON: Final = ".json"
_IDS_PER_COMMIT: Final = 2  # a claim, then the version with the rows
_LOOK_EVERY_IDS: Final = 10  # about every fifth commit looks whether a batch is full
_TOGETHER: Final = 32  # requests
_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")  # stores may ignore case
_MAX_NAME: Final = 128  # of a folder; file systems take 255
_WRITE_ID: Final = re.compile(r"[0-9a-f]{16}")
_WORKER_PREFIX: Final = "slatespark-"  # before the write id, in the id of a worker of ours
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
    committed_ms, write_time_ms : wall clock at publication; create_ts of the rows, the latest if they have several
    first_seq, last_seq : sequence numbers it used, [first_seq, last_seq]; None if none
    rows : number of rows by kind
    files : properties of the files it added, by SST id
    removed : ids of the SSTs that the version before showed and this one does not
    compactor_epoch : the value the commit left
    delete_rate : bytes per second at which a reap deleted; None for other operations
    replaced : key intervals of which it left nothing as it was, `[start, end)` in hexadecimal; end None is open
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
    replaced: Sequence[tuple[str, str | None]] = ()


_FetchRecord: TypeAlias = Callable[[ObjectStore, int], CommitRecord | None]


def hex_bounds(keys: KeyRange) -> tuple[str, str | None]:
    """Return a range as commit records hold it."""
    return keys.start.hex(), None if keys.end is None else keys.end.hex()


def _commit_path(manifest_id: int) -> str:
    return f"{COMMITS_DIR}{manifest_id:020d}{_JSON}"


def publish_commit_record(store: ObjectStore, record: CommitRecord) -> None:
    """Note a commit; a failure to do so does not matter: the commit has landed, and an error would say otherwise."""
    with contextlib.suppress(FileExistsError, SlateError):
        store.create(_commit_path(record.manifest_id), _encode(_with_checksum(asdict(record))))
        if record.manifest_id % _LOOK_EVERY_IDS < _IDS_PER_COMMIT:
            batch_commit_records(store)


def fetch_commit_records(
    store: ObjectStore, limit: int | None = None, *, sound_only: bool = False
) -> list[CommitRecord]:
    """Return the newest `limit` commit records, newest first; all without a limit.

    Parameters
    ----------
    sound_only : leave out damaged ones

    Raises
    ------
    CorruptDataError
        When a record is damaged that is in no batch, or not in a sound one.
    """
    fetch = _find_sound if sound_only else fetch_commit_record
    return list(itertools.islice(_records_newest_first(store, fetch, with_late=limit is None), limit))


def fetch_commit_record(store: ObjectStore, manifest_id: int) -> CommitRecord | None:
    """Return the record of one commit; None if there is none."""
    path = _commit_path(manifest_id)
    try:
        return _decode_commit(path, bytes(store.get(path)))
    except FileNotFoundError:
        return None


def _find_sound(store: ObjectStore, manifest_id: int) -> CommitRecord | None:
    with contextlib.suppress(CorruptDataError):
        return fetch_commit_record(store, manifest_id)
    return None


def _records_newest_first(store: ObjectStore, fetch: _FetchRecord, *, with_late: bool) -> Iterator[CommitRecord]:
    """Yield commit records; those that were noted after the batch of their time was made only if it is asked for."""
    batches = _list_numbered(store, BATCHES_DIR)
    newest = max(batches, default=0)
    singles = sorted(_list_numbered(store, COMMITS_DIR, "" if with_late else _commit_path(newest)), reverse=True)
    recent = [number for number in singles if number > newest]
    for at in range(0, len(recent), _TOGETHER):
        yield from _fetch_singles(store, fetch, recent[at : at + _TOGETHER])
    for high, low in itertools.pairwise([*sorted(batches, reverse=True), 0]):
        records = fetch_commit_object(store, batches[high])  # batches of two writers may overlap
        found = {record.manifest_id: record for record in records if low < record.manifest_id <= high}
        late = [number for number in singles if low < number <= high and number not in found]
        found |= {record.manifest_id: record for record in _fetch_singles(store, fetch, late)}
        yield from (found[number] for number in sorted(found, reverse=True))


def _fetch_singles(store: ObjectStore, fetch: _FetchRecord, numbers: Sequence[int]) -> list[CommitRecord]:
    fetches = [partial(fetch, store, number) for number in numbers]
    return [record for record in run_concurrently(fetches, is_remote=store.is_remote) if record is not None]


def _decode_commit(path: str, data: bytes) -> CommitRecord:
    return _commit_of(path, _decode(path, data))


def _with_checksum(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a commit record with the CRC-32 of all else, as it is encoded."""
    rest = {name: value for name, value in content.items() if name != _CHECKSUM}
    return {**rest, _CHECKSUM: zlib.crc32(_encode(rest))}


def _commit_of(path: str, content: Mapping[str, Any]) -> CommitRecord:
    try:
        is_sound = _CHECKSUM not in content or content == _with_checksum(content)
    except RecursionError:  # one that could just be decoded
        is_sound = False
    if not is_sound:
        raise CorruptDataError(f"commit record does not match its checksum {content[_CHECKSUM]!r}.", path=path)
    for name, kind in (
        ("manifest_id", int),
        ("committed_ms", int),
        ("operation", str),
        ("rows", dict),
        ("files", dict),
    ):
        if not isinstance(content.get(name), kind):
            raise CorruptDataError(f"commit record lacks {name!r}, or it is no {kind.__name__}.", path=path)
    for name, one_of in _CHECKED_IF_THERE.items():
        if name in content and not isinstance(content[name], one_of):
            raise CorruptDataError(f"commit record has {name} = {content[name]!r}.", path=path)
    try:
        known = {name: content[name] for name in CommitRecord.__slots__ if name in content}
        replaced = tuple(tuple(bounds) for bounds in content.get("replaced", ()))
        return CommitRecord(**{**known, "removed": tuple(content.get("removed", ())), "replaced": replaced})
    except TypeError as exc:  # one that has no default
        raise CorruptDataError(f"commit record lacks {exc}.", path=path) from exc


# --- batches of commit records --------------------------------------------------------------------------------------


def batch_commit_records(store: ObjectStore) -> None:
    """Put commit records together, a hundred at a time, so that thousands of commits are read in a few requests.

    The single ones stay; so nothing is lost with a batch. Two writers may do this at the same time: the first one to
    name a batch wins, and a record that is in two of them is the same in both.
    """
    newest = max(_list_numbered(store, BATCHES_DIR), default=0)
    waiting = sorted(_list_numbered(store, COMMITS_DIR, _commit_path(newest)).items())
    while (chunk := _full_batch(waiting)) is not None:
        waiting = waiting[len(chunk) :]
        contents = run_concurrently(
            [partial(_get_sound, store, meta.path) for _, meta in chunk], is_remote=store.is_remote
        )
        data = _encode({"commits": [content for content in contents if content is not None]})
        store.create(f"{BATCHES_DIR}{chunk[-1][0]:020d}{_JSON}", data)


def _full_batch(waiting: Sequence[tuple[int, ObjectMeta]]) -> Sequence[tuple[int, ObjectMeta]] | None:
    """Return the first of the records as far as they fill a batch; None if they do not."""
    for count, size in enumerate(itertools.accumulate(meta.size for _, meta in waiting), 1):
        if count == BATCH_RECORDS or size >= BATCH_BYTES:
            return waiting[:count]
    return None


def _get_sound(store: ObjectStore, path: str) -> dict[str, Any] | None:
    """Return the content of a record; None if it is damaged, or gone."""
    try:
        content = _decode(path, bytes(store.get(path)))
        _commit_of(path, content)
    except (FileNotFoundError, CorruptDataError):
        return None
    return content


def list_commit_objects(store: ObjectStore) -> list[ObjectMeta]:
    """Return the objects that hold our commit records, newest first: single ones above the newest batch, then batches.

    They never change. A record that was noted after the batch of its time was made is in none of them.
    """
    batches = _list_numbered(store, BATCHES_DIR)
    singles = _list_numbered(store, COMMITS_DIR, _commit_path(max(batches, default=0)))
    return [found[number] for found in (singles, batches) for number in sorted(found, reverse=True)]


def fetch_commit_object(store: ObjectStore, meta: ObjectMeta, *, checked_only: bool = False) -> list[CommitRecord]:
    """Return the sound records of one of `list_commit_objects`, oldest first; of a damaged object none.

    Parameters
    ----------
    checked_only : leave out those of old releases, which have no checksum
    """
    with contextlib.suppress(FileNotFoundError, CorruptDataError):
        content = _decode(meta.path, bytes(store.get(meta.path)))
        parts = content.get("commits") if meta.path.startswith(BATCHES_DIR) else [content]
        return list(_sound_commits(meta.path, parts, checked_only))
    return []


def _sound_commits(path: str, parts: Any, checked_only: bool) -> Iterator[CommitRecord]:
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and (_CHECKSUM in part or not checked_only):
            with contextlib.suppress(CorruptDataError):
                yield _commit_of(path, part)


def _list_numbered(store: ObjectStore, folder: str, start_after: str = "") -> dict[int, ObjectMeta]:
    """Return the records of a folder by the number in their name."""
    found = ((numbered(meta.path, _JSON[1:]), meta) for meta in store.list(folder, start_after))
    return {number: meta for number, meta in found if number is not None}


# --- claims ---------------------------------------------------------------------------------------------------------


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
    store.put(path, [_encode({"manifest_id": manifest_id, "sha256": manifest_digest(data), "removes": bounds})])


def fetch_claimed_digests(store: ObjectStore, manifest_id: int) -> frozenset[str]:
    """Return the digests announced for one manifest id."""
    digests = []
    for path in _list_claims(store, manifest_id, manifest_id):
        with contextlib.suppress(FileNotFoundError):
            digests.append(str(_decode(path, bytes(store.get(path))).get("sha256")))
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
    for at in range(0, len(paths), _TOGETHER):
        fetches = [partial(_fetch_removals, store, path) for path in paths[at : at + _TOGETHER]]
        found.update(each for each in run_concurrently(fetches, is_remote=store.is_remote) if each is not None)
    return found


def _fetch_removals(store: ObjectStore, path: str) -> tuple[str, tuple[KeyRange, ...]] | None:
    with contextlib.suppress(FileNotFoundError, CorruptDataError, KeyError, TypeError, ValueError):
        claim = _decode(path, bytes(store.get(path)))
        return str(claim["sha256"]), tuple(_range_of(*bounds) for bounds in claim["removes"])
    return None


def _range_of(start: str, end: str | None) -> KeyRange:
    return KeyRange(bytes.fromhex(start), None if end is None else bytes.fromhex(end))


def _list_claims(store: ObjectStore, first_id: int, last_id: int) -> list[str]:
    """Return the paths of the claims to manifests [first_id, last_id]."""
    listed = (meta.path for meta in store.list(CLAIMS_DIR, f"{CLAIMS_DIR}{first_id:020d}"))
    return list(itertools.takewhile(lambda path: path < f"{CLAIMS_DIR}{last_id + 1:020d}", listed))


# --- workers --------------------------------------------------------------------------------------------------------


def worker_path(worker_id: str) -> str:
    """Return the path of the record of a worker of ours."""
    return f"{CLAIMS_DIR}worker-{worker_id}.json"


def publish_worker(store: ObjectStore, write_id: str, now_ms: int) -> str:
    """Note that a job runs a compaction at `now_ms`, and return the id of its worker, which tells that it is ours."""
    worker_id = f"{_WORKER_PREFIX}{write_id}"
    content = {"worker_id": worker_id, "write_id": write_id, "reported_ms": now_ms}
    store.put(worker_path(worker_id), [_encode(content)])
    return worker_id


def delete_worker(store: ObjectStore, worker_id: str) -> None:
    """Take the record of a worker away whose compaction is not listed any more."""
    with contextlib.suppress(SlateError):
        store.delete(worker_path(worker_id))


def find_worker(store: ObjectStore, worker_id: str) -> str | None:
    """Return the write id of a worker of ours; None if nobody noted one, so that it is another client's."""
    write_id = worker_id.removeprefix(_WORKER_PREFIX)
    if worker_id == write_id or not _WRITE_ID.fullmatch(write_id):  # from `.compactions`, so from anybody
        return None
    try:
        store.head(worker_path(worker_id))
    except FileNotFoundError:
        return None
    return write_id


def fetch_worker_report(store: ObjectStore, worker_id: str) -> int | None:
    """Return when a worker of ours last noted that it runs; None if nobody knows."""
    path = worker_path(worker_id)
    try:
        reported_ms = _decode(path, bytes(store.get(path))).get("reported_ms")
    except FileNotFoundError:
        return None
    return reported_ms if type(reported_ms) is int else None


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
    store.create(lease_path(write_id), _lease(write_id, now_ms, now_ms))


def renew_lease(store: ObjectStore, write_id: str, created_ms: int, now_ms: int) -> None:
    """Let a lease last from now on as long as a new one; it still covers all that was uploaded since it was created."""
    store.put(lease_path(write_id), [_lease(write_id, created_ms, now_ms)])


def _lease(write_id: str, created_ms: int, now_ms: int) -> bytes:
    expires_ms = min(now_ms + LEASE_LIFETIME_MS, MAX_MS)
    return _encode({"write_id": write_id, "created_ms": created_ms, "expires_ms": expires_ms})


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


@dataclass(frozen=True, slots=True)
class Lease:
    """The mark of a job: whatever was uploaded since `created_ms` may be its, until it ends at `expires_ms`."""

    write_id: str
    created_ms: int
    expires_ms: int


def fetch_lease(store: ObjectStore, path: str) -> Lease | None:
    """Return what a lease says; None if it is gone. Raises `CorruptDataError` for a damaged one."""
    try:
        content = _decode(path, bytes(store.get(path)))
    except FileNotFoundError:
        return None
    for name, kind in {"write_id": str, "created_ms": int, "expires_ms": int}.items():
        if type(content.get(name)) is not kind:
            raise CorruptDataError(f"lease has {name} = {content.get(name)!r}.", path=path)
    return Lease(content["write_id"], content["created_ms"], content["expires_ms"])


def delete_lease(store: ObjectStore, write_id: str) -> None:
    """Take the mark away; one that stays expires."""
    with contextlib.suppress(SlateError):
        store.delete(lease_path(write_id))


# --- idempotent writes ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TxnRecord:
    """That an idempotent write was committed.

    Attributes
    ----------
    app, version : the pair that names it
    manifest_id : the version that it published; where it had no rows, the one that it found
    write_id : of the job
    committed_ms : wall clock at the commit
    """

    app: str
    version: int
    manifest_id: int
    write_id: str
    committed_ms: int


def txn_path(app: str, version: int) -> str:
    """Return the path of the record of an idempotent write; of a long name the digest stands for it."""
    name = "".join(chr(byte) if byte in _PLAIN else f"={byte:02x}" for byte in app.encode())
    if len(name) > _MAX_NAME:
        name = f"=={hashlib.sha256(app.encode()).hexdigest()}"  # no name begins so
    return f"{TXN_DIR}{name}/{version:020d}{_JSON}"


def publish_txn_record(store: ObjectStore, record: TxnRecord) -> None:
    """Note that an idempotent write was committed; one that is noted stays as it is."""
    with contextlib.suppress(FileExistsError):
        store.create(txn_path(record.app, record.version), _encode(asdict(record)))


def fetch_txn_record(store: ObjectStore, app: str, version: int) -> TxnRecord | None:
    """Return the record of an idempotent write; None if there is none. Raises `CorruptDataError` for a damaged one."""
    path = txn_path(app, version)
    try:
        content = _decode(path, bytes(store.get(path)))
    except FileNotFoundError:
        return None
    kinds = {"app": str, "version": int, "manifest_id": int, "write_id": str, "committed_ms": int}
    for name, kind in kinds.items():
        if type(content.get(name)) is not kind:
            raise CorruptDataError(f"record of a write has {name} = {content.get(name)!r}.", path=path)
    record = TxnRecord(**{name: content[name] for name in kinds})
    if (record.app, record.version) != (app, version):
        raise CorruptDataError(f"record of a write is of {record.app!r}, {record.version}.", path=path)
    return record


def _encode(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _decode(path: str, data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise CorruptDataError(f"record is no JSON: {exc}.", path=path) from exc
    if not isinstance(content, dict):
        raise CorruptDataError("record is no JSON object.", path=path)
    return content


def merge_counts(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of counts by name."""
    names = {name for part in parts for name in part}
    return {name: sum(part.get(name, 0) for part in parts) for name in sorted(names)}
