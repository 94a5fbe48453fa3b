"""Idempotent writes: the outcome of each pair of `txnAppId` and `txnVersion`."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import asdict, dataclass
from typing import Final

from slatespark.errors import CorruptDataError, SlateError
from slatespark.storage import ObjectStore
from slatespark.table.records.json_objects import JSON_SUFFIX, ROOT, check_types, encode_json, find_json, list_numbered

TXN_DIR: Final = f"{ROOT}txn/"
_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")  # stores may ignore case


_MAX_NAME: Final = 128  # of a folder; file systems take 255


@dataclass(frozen=True, slots=True)
class TxnRecord:
    """The outcome of a committed idempotent write.

    Attributes
    ----------
    app, version : the pair that identifies it
    manifest_id : the published version; without rows, the newest version then
    committed_ms : wall clock at the commit
    """

    app: str
    version: int
    manifest_id: int
    write_id: str
    committed_ms: int


def folder_name(app: str) -> str:
    """Return an application's name as part of a path; a digest replaces a long one."""
    name = "".join(chr(byte) if byte in _PLAIN else f"={byte:02x}" for byte in app.encode())
    if len(name) > _MAX_NAME:
        return f"=={hashlib.sha256(app.encode()).hexdigest()}"  # no encoded name begins with ==
    return name


def txn_path(app: str, version: int) -> str:
    """Return the path of the record of an idempotent write."""
    return f"{_folder(app)}{version:020d}{JSON_SUFFIX}"


def list_txn_versions(store: ObjectStore, app: str, *, least: int = 0) -> list[int]:
    """Return the versions of an application that have records, from `least` on."""
    start_after = txn_path(app, least - 1) if least else ""
    return sorted(list_numbered(store, _folder(app), start_after))


def delete_txn_records(store: ObjectStore, app: str, below: int) -> None:
    """Delete the records of the versions of an application below `below`; one that fails is deleted the next time."""
    with contextlib.suppress(SlateError):
        versions = list_txn_versions(store, app)
        store.delete_many([txn_path(app, version) for version in versions if version < below])


def _folder(app: str) -> str:
    return f"{TXN_DIR}{folder_name(app)}/"


def publish_txn_record(store: ObjectStore, record: TxnRecord) -> None:
    """Record that an idempotent write was committed; an existing record stays."""
    with contextlib.suppress(FileExistsError):
        store.create(txn_path(record.app, record.version), encode_json(asdict(record)))


def fetch_txn_record(store: ObjectStore, app: str, version: int) -> TxnRecord | None:
    """Return the record of an idempotent write; None if there is none. Raises `CorruptDataError` for a damaged one."""
    path = txn_path(app, version)
    content = find_json(store, path)
    if content is None:
        return None
    kinds = {"app": str, "version": int, "manifest_id": int, "write_id": str, "committed_ms": int}
    check_types(content, kinds, "record of a write", path)
    record = TxnRecord(**{name: content[name] for name in kinds})
    if (record.app, record.version) != (app, version):
        raise CorruptDataError(f"record of a write is of {record.app!r}, {record.version}.", path=path)
    return record
