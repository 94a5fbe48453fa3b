"""Properties of the files of a version, from slatespark's commit records, so that planning needs no request per file.

Best effort: a file of another client has none here, nor one whose record is missing, damaged, of a newer release, or
from before records had checksums.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from slatespark.errors import CorruptDataError, SlateError
from slatespark.format.manifest import Manifest
from slatespark.format.properties import VERSION, SstProperties
from slatespark.format.references import SstHandle
from slatespark.format.ulid import Ulid
from slatespark.storage import ObjectMeta, run_ahead, run_concurrently, run_in_groups
from slatespark.storage.object_store import ObjectStore
from slatespark.table.log.manifests import newest_seen
from slatespark.table.read.section_cache import SectionCache
from slatespark.table.records.commit_batches import fetch_commit_object, list_commit_objects
from slatespark.table.records.commit_record import commit_path
from slatespark.table.stores import TableStores

_Properties: TypeAlias = Mapping[tuple[Ulid, int], SstProperties]  # by id and size
Listing: TypeAlias = Callable[[], list[ObjectMeta]]  # waits for what was listed

CACHE_BYTES: Final = 32 << 20
MAX_COMMIT_RECORDS: Final = 1000  # that an inspection looks through
MAX_HELD: Final = 1 << 14  # files whose properties are held: 13 MB
STORED_BYTES: Final = "stored_bytes"  # of the file without its footer; in a record beside the properties

_FILE_BYTES: Final = 800  # memory of one entry
_REQUESTS_PER_FILE: Final = 2  # cost of asking the file itself
_MIN_REQUESTS: Final = 8
_MAX_NEW_VERSIONS: Final = 16  # of which the records are asked for by name; a commit makes two versions


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """The entry of a file in a commit record.

    Attributes
    ----------
    stored_bytes : size by which the record is known to be of this file
    """

    properties: SstProperties
    stored_bytes: int

    def describes(self, handle: SstHandle) -> bool:
        """Tell whether this can be of the file that a manifest lists: records are objects that anybody may put."""
        return self.stored_bytes == handle.info.sections_end


# By object, with its size and time: a table that was removed and made again has others under the same names.
recorded_files: Final = SectionCache[Mapping[str, RecordedFile]](CACHE_BYTES, lambda found: _FILE_BYTES * len(found))


def record_file(handle: SstHandle, properties: SstProperties) -> dict[str, Any]:
    """Return the entry of a file for a commit record."""
    return {**properties.to_json(), STORED_BYTES: handle.info.sections_end}


def begin_listing(stores: TableStores) -> Listing:
    """Start to list the objects that hold commit records, for `file_properties`; unless files are known already.

    A record that is published meanwhile may be missed: its files have no properties then.
    """
    is_ahead = stores.main.is_remote and not stores.heads.described
    return run_ahead(partial(list_commit_objects, stores.main), is_remote=is_ahead)


def file_properties(
    stores: TableStores, manifest: Manifest, *, limit: int | None = None, listing: Listing | None = None
) -> Mapping[Ulid, SstProperties]:
    """Return the properties of files of a version, as far as slatespark's commit records have them.

    Costs two listings and, once in a process, a request per hundred commits and some twenty more. Nothing for files of
    which all are held; and one request for each new version if a few came since.

    Parameters
    ----------
    limit : largest number of these requests, newest commits first; by default no more than asking the files would cost
    listing : what `begin_listing` returned
    """
    foreign = {sst_id for database in manifest.external_dbs for sst_id in database.sst_ids}
    own = [handle for sst_id, handle in manifest.ssts.items() if sst_id not in foreign]
    newest = newest_seen(stores)
    found = recorded_properties(stores, own, limit=limit, listing=listing)
    stores.heads.described = max(stores.heads.described, newest) if len(found) == len(own) else 0
    return found


def recorded_properties(
    stores: TableStores, files: Iterable[SstHandle], *, limit: int | None = None, listing: Listing | None = None
) -> Mapping[Ulid, SstProperties]:
    """Return the same for some files of this table, of any version; other parameters as there."""
    handles = {str(handle.id): handle for handle in files}
    # An id is never given to another file, and what was recorded of a file does not change.
    held, wanted = stores.heads.properties, {(handle.id, handle.info.sections_end) for handle in handles.values()}
    if not wanted <= held.keys():
        held = {**held, **_described(handles, _fetch_new(stores))}
    if not wanted <= held.keys():
        if limit is None:
            limit = max(_MIN_REQUESTS, _REQUESTS_PER_FILE * len(handles))
        found = _described(handles, find_recorded(stores, set(handles), limit=limit, listing=listing))
        if not wanted <= found.keys():
            return {sst_id: properties for (sst_id, _), properties in found.items()}
        held = {**held, **found}
    if len(wanted) <= MAX_HELD:  # all that is held is kept, if possible: reads may turn to another version and back
        stores.heads.properties = held if len(held) <= MAX_HELD else {key: held[key] for key in wanted}
    return {sst_id: held[sst_id, size] for sst_id, size in wanted}


def hold_own(stores: TableStores, files: Iterable[tuple[SstHandle, SstProperties]]) -> None:
    """Hold the properties of files that this process has committed, so that its next read asks for no record."""
    held = {**stores.heads.properties, **{(handle.id, handle.info.sections_end): known for handle, known in files}}
    if stores.heads.described and len(held) <= MAX_HELD:
        stores.heads.properties = held


def _described(handles: Mapping[str, SstHandle], recorded: Mapping[str, RecordedFile]) -> _Properties:
    """Return the properties of the files that entries of records are of."""
    return {
        (handle.id, handle.info.sections_end): recorded[name].properties
        for name, handle in handles.items()
        if name in recorded and recorded[name].describes(handle)
    }


def _fetch_new(stores: TableStores) -> dict[str, RecordedFile]:
    """Return the entries of the records of a few versions that came since all files were known, without a listing."""
    described, newest = stores.heads.described, newest_seen(stores)
    found: dict[str, RecordedFile] = {}
    if described and newest - described <= _MAX_NEW_VERSIONS:
        paths = map(commit_path, range(described + 1, newest + 1))
        fetches = [partial(_recorded, stores.main, path) for path in paths]
        with contextlib.suppress(SlateError):  # an unreachable object counts as no information
            for recorded in run_concurrently(fetches, is_remote=stores.main.is_remote):
                found.update(recorded)
    return found


def find_recorded(
    stores: TableStores, wanted: Set[str], *, limit: int, listing: Listing | None = None
) -> dict[str, RecordedFile]:
    """Return the entries of files in slatespark's commit records, by id; the newest entry counts.

    Parameters
    ----------
    limit : largest number of objects that are read, newest first: single records, then batches
    listing : what `begin_listing` returned
    """
    found: dict[str, RecordedFile] = {}
    listed = listing or partial(list_commit_objects, stores.main)
    with contextlib.suppress(SlateError):  # an unreachable object counts as no information
        objects = listed()[:limit] if wanted else []
        for _, recorded in run_in_groups(partial(_fetch, stores.main), objects, is_remote=stores.main.is_remote):
            for name in wanted & recorded.keys():
                found.setdefault(name, recorded[name])
            if len(found) == len(wanted):  # the next group is not begun
                break
    return found


def _fetch(store: ObjectStore, meta: ObjectMeta) -> Mapping[str, RecordedFile]:
    version = f"{meta.path} {meta.size} {meta.modified_ms}"
    return recorded_files.get(store, version, lambda: _recorded(store, meta.path))


def _recorded(store: ObjectStore, path: str) -> Mapping[str, RecordedFile]:
    found: dict[str, RecordedFile] = {}
    for record in fetch_commit_object(store, path, checked_only=True):
        for name, header in record.files.items():
            recorded = _recorded_file(header)
            if recorded is not None:
                found[name] = recorded
    return found


def _recorded_file(header: object) -> RecordedFile | None:
    """Return an entry of a record; None if it is damaged, contradicts itself, or is of another release."""
    if not isinstance(header, dict) or header.get("version") != VERSION:
        return None
    stored_bytes = header.get(STORED_BYTES)
    if not isinstance(stored_bytes, int):
        return None
    try:
        properties = SstProperties.from_json(header)
    except CorruptDataError:
        return None
    return RecordedFile(properties, stored_bytes) if properties.is_consistent() else None
