"""What one object of a database holds: a manifest, a `.compactions` file, a WAL file, an SST.

Every checksum and bound is verified on the way; a damaged object is a `CorruptDataError`, never a guess.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from slatespark.encoding.row_codec import RAW_CODEC, RowCodec
from slatespark.errors import InvalidRequestError, SlateError, TableNotFoundError
from slatespark.format.compactions import Compaction, decode_compactions
from slatespark.format.envelope import open_envelope
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import decode_as_stored
from slatespark.format.paths import (
    COLUMNS_DIR,
    COMPACTED_DIR,
    COMPACTIONS_DIR,
    COMPACTIONS_EXTENSION,
    MANIFEST_DIR,
    MANIFEST_EXTENSION,
    SST_EXTENSION,
    WAL_DIR,
    compactions_path,
    copy_id,
    manifest_path,
    numbered,
    sst_id,
    sst_path,
    wal_path,
)
from slatespark.format.references import Bound, BoundType, SstHandle, SstView
from slatespark.options.values import parse_count
from slatespark.shown import Shown
from slatespark.storage.object_store import Buffer, ObjectStore
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.inspection.dump_sst import dump_sst
from slatespark.table.inspection.field_values import field_values
from slatespark.table.log.compactions import compactions_log
from slatespark.table.log.manifests import fetch_latest_manifest, manifest_log
from slatespark.table.log.numbered_log import NumberedLog
from slatespark.table.stores import TableStores, external_roots, object_context

NEWEST: Final = "manifest"  # the object that is shown by default

_FOLDERS: Final[Mapping[str, tuple[str, Callable[[int], str]]]] = {
    MANIFEST_DIR: (MANIFEST_EXTENSION, manifest_path),
    COMPACTIONS_DIR: (COMPACTIONS_EXTENSION, compactions_path),
    WAL_DIR: (SST_EXTENSION, wal_path),
}
_DIGITS: Final = 20  # of the largest number


@dataclass(frozen=True, slots=True, repr=False)
class ObjectDump(Shown):
    """The content of one object.

    Attributes
    ----------
    url : the location of the object
    kind : `manifest`, `compactions`, `wal`, `sst`, `columns` for a columnar copy, or `external sst` for a file of
        `SstWriter`
    size : size in bytes
    content : its fields by name, nested: numbers, text, bytes, dicts and lists. Times have the units of their names
    codec : how keys of the table are encoded, as far as that is known
    """

    url: str
    kind: str
    size: int
    content: Mapping[str, Any]
    codec: RowCodec = RAW_CODEC


def dump_object(stores: TableStores, name: str = NEWEST, *, rows: int = 0) -> ObjectDump:
    """Return what an object of a database holds.

    Parameters
    ----------
    name : its path in the database. For short `manifest` or `compactions` for the newest one, `manifest/5`,
        `compactions/5`, `wal/5`, or the id of an SST, which may be in a database that this one was cloned from. Any
        other path that ends with `.sst` is a file that `SstWriter` wrote
    rows : how many row versions of an SST or WAL file to show, from the first one on

    Raises
    ------
    InvalidRequestError
        When there is no such object, or it can be none.
    CorruptDataError, UnsupportedFormatError
        When it is damaged, or a later release wrote it.
    """
    rows = parse_count(0, sys.maxsize)(rows, "rows")
    newest = _newest_manifest(stores)
    codec = RAW_CODEC if newest is None else _codec(stores, newest)
    path = _path_of(stores, name)
    if path.startswith(MANIFEST_DIR):
        size, version, manifest = _decoded(stores.main, path, decode_as_stored)
        content = {"number": numbered(path, MANIFEST_EXTENSION), "format": version, **_manifest_content(manifest)}
        return ObjectDump(f"{stores.url}/{path}", "manifest", size, content, codec)
    if path.startswith(COMPACTIONS_DIR):
        size, version, listed = _decoded(stores.main, path, decode_compactions)
        content = {
            "number": numbered(path, COMPACTIONS_EXTENSION),
            "format": version,
            "compactor_epoch": listed.compactor_epoch,
            "unknown_fields": sorted(listed.unknown_fields),
            "jobs": [_job_content(job) for job in listed.jobs],
        }
        return ObjectDump(f"{stores.url}/{path}", "compactions", size, content, codec)
    if path.startswith(COLUMNS_DIR):
        return ObjectDump(f"{stores.url}/{path}", "columns", *_copy_content(stores.main, path), codec)
    store = stores.wal if path.startswith(WAL_DIR) else _owner(stores, newest, path)
    ulid = sst_id(path) if path.startswith(COMPACTED_DIR) else None
    listed = None if newest is None or ulid is None else newest.ssts.get(ulid)
    try:
        kind, size, content = dump_sst(store, path, listed, rows=rows)
    except FileNotFoundError as exc:
        raise _missing(f"{store.url}/{path}") from exc
    return ObjectDump(f"{store.url}/{path}", kind, size, content, codec)


# --- names ----------------------------------------------------------------------------------------------------------


def _path_of(stores: TableStores, name: str) -> str:
    """Return the path that a name stands for."""
    if not isinstance(name, str):
        raise InvalidRequestError(f"{name!r} names no object.", todo="Give its path, the id of an SST, or manifest.")
    if name in ("manifest", "compactions"):
        return _newest(stores, manifest_log(stores) if name == "manifest" else compactions_log(stores))
    for folder, (extension, path_of) in _FOLDERS.items():
        if name.startswith(folder):
            text = name.removeprefix(folder)
            number = (
                int(text) if len(text) <= _DIGITS and text.isascii() and text.isdigit() else numbered(name, extension)
            )
            if number is not None and number < 1 << 64:
                return path_of(number)
    if name.startswith(COLUMNS_DIR) and copy_id(name) is not None:
        return name
    ulid = sst_id(f"{name.removeprefix(COMPACTED_DIR).removesuffix('.sst')}.sst")
    if ulid is not None:
        return sst_path(ulid)
    if name.endswith(f".{SST_EXTENSION}") and not name.startswith((*_FOLDERS, COMPACTED_DIR)):
        return name
    raise InvalidRequestError(
        f"{name!r} names no object.",
        todo="Give manifest, manifest/5, compactions, compactions/5, wal/5, the id of an SST, or the path of one.",
    )


def _newest(stores: TableStores, log: NumberedLog) -> str:
    numbers = log.numbers()
    if not numbers and not manifest_log(stores).numbers():
        raise TableNotFoundError(
            f"{stores.url} is not a SlateDB database.",
            why="It has no manifest/ folder with a manifest in it.",
            todo="Check the path.",
        )
    if not numbers:
        raise _missing(f"{log.store.url}/{log.folder}*.{log.extension}")
    return log.path(numbers[-1])


def _missing(url: str) -> InvalidRequestError:
    return InvalidRequestError(f"{url} does not exist.", why="Or it was collected.", todo="Choose another object.")


def _owner(stores: TableStores, newest: Manifest | None, path: str) -> ObjectStore:
    """Return the store of an SST: of the table, or of a database that it was cloned from."""
    ulid = sst_id(path)
    if newest is None or ulid is None or not any(ulid in database.sst_ids for database in newest.external_dbs):
        return stores.main
    return stores.at(external_roots(stores, newest)[ulid])


def _newest_manifest(stores: TableStores) -> Manifest | None:
    """Return the newest manifest; None if there is none, or if it cannot be read."""
    try:
        return fetch_latest_manifest(stores)[1]
    except SlateError:
        return None


def _codec(stores: TableStores, manifest: Manifest) -> RowCodec:
    """Return how keys are encoded; they are shown as bytes where that is not known."""
    try:
        return resolve_definition(stores, manifest).codec()
    except SlateError:
        return RAW_CODEC


# --- content --------------------------------------------------------------------------------------------------------


def _decoded(store: ObjectStore, path: str, decode: Callable[[Buffer], Any]) -> tuple[int, int, Any]:
    """Return size, version of the envelope, and content of an object."""
    try:
        data = store.get(path)
    except FileNotFoundError as exc:
        raise _missing(f"{store.url}/{path}") from exc
    with object_context(store, path):
        found = decode(data)
    return len(data), open_envelope(data, path)[0], found


def _manifest_content(manifest: Manifest) -> dict[str, Any]:
    apart = {"ssts", "l0", "compacted", "segments", "checkpoints", "external_dbs", "sequence_tracker"}
    return {
        **{
            item.name: field_values(getattr(manifest, item.name)) for item in fields(manifest) if item.name not in apart
        },
        "views": [
            {"segment": tree.prefix, "layer": layer, "view": str(view.id), "sst": str(view.sst_id), **_bounds(view)}
            for tree in manifest.trees()
            for layer, views in (("L0", tree.l0), *((f"run {run.id}", run.views) for run in tree.compacted))
            for view in views
        ],
        "markers": [
            {"segment": tree.prefix, "last_compacted_l0_sst_view_id": field_values(tree.last_compacted_l0_sst_view_id)}
            for tree in manifest.segments
        ],
        "empty_runs": [
            {"segment": tree.prefix, "run": run.id}
            for tree in manifest.trees()
            for run in tree.compacted
            if not run.views
        ],
        "ssts": [_handle(handle) for handle in manifest.ssts.values()],
        "checkpoints": field_values(manifest.checkpoints),
        "external_dbs": field_values(manifest.external_dbs),
        "sequence_tracker": [{"seq": seq, "time_s": seconds} for seq, seconds in manifest.sequence_tracker.points],
    }


def _bounds(view: SstView) -> dict[str, Any]:
    """Return the range that a view shows, as stored; null for all of its file."""
    shown = view.visible_range
    if shown is None:
        return {"from": None, "to": None}
    return {"from": _bound(shown.start), "to": _bound(shown.end)}


def _bound(bound: Bound) -> dict[str, Any] | None:
    if bound.kind is BoundType.UNBOUNDED:
        return None
    return {"key": bound.key, "included": bound.kind is BoundType.INCLUDED}


def _copy_content(store: ObjectStore, path: str) -> tuple[int, dict[str, Any]]:
    """Return the size of a columnar copy, and its label, columns and row groups; every byte is checked."""
    from slatespark.table.columns.read import fetch_copy  # few look into one

    ulid = copy_id(path)
    assert ulid is not None  # `_path_of` returns no other names
    try:
        size = store.head(path).size
    except FileNotFoundError as exc:
        raise _missing(f"{store.url}/{path}") from exc
    footer = fetch_copy(store, ulid).footer
    groups = [footer.metadata.row_group(number) for number in range(footer.metadata.num_row_groups)]
    return size, {
        **field_values(footer.label),
        "columns": [{"name": item.name, "type": str(item.type)} for item in footer.schema],
        "row_groups": [{"rows": group.num_rows, "bytes": group.total_byte_size} for group in groups],
    }


def _handle(handle: SstHandle) -> dict[str, Any]:
    return {"id": str(handle.id), "format": handle.format_version, **field_values(handle.info)}


def _job_content(job: Compaction) -> dict[str, Any]:
    spec = {"kind": type(job.spec).__name__.removesuffix("Spec").lower(), **field_values(job.spec)}
    context = job.context
    return {
        "id": str(job.id),
        "status": field_values(job.status),
        **spec,
        "worker": field_values(job.worker),
        "retention_min_seq": None if context is None else context.retention_min_seq,
        "output_ssts": [_handle(handle) for handle in job.output_ssts],
        "subcompactions": [
            {
                "status": part.status,
                "from": _bound(part.keys.start),
                "to": _bound(part.keys.end),
                "output_ssts": [str(handle.id) for handle in part.output_ssts],
            }
            for part in (() if context is None else context.subcompactions)
        ],
    }
