"""Whether keys are gone: searches every object of a table that holds rows, referenced or not.

That is every SST, including unreferenced ones and rows outside the views; the SSTs of other databases that a version
reads; and every WAL file. Objects that cannot be searched are reported. Bloom filters are not used. If the table
changes meanwhile it is listed again, until every object has been searched: a row may move from one file to another.

Parts of an unfinished multipart upload to S3 are not objects: no listing shows them, so the proof does not cover them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from slatespark.errors import ConflictError, OptionError, SnapshotExpiredError
from slatespark.format.info import decode_footer, decode_info_section, footer_range, info_range
from slatespark.format.manifest import Manifest, SstHandle
from slatespark.format.paths import (
    COMPACTED_DIR,
    MANIFEST_DIR,
    MANIFEST_EXTENSION,
    SST_EXTENSION,
    WAL_DIR,
    numbered,
    sst_id,
    sst_path,
)
from slatespark.format.ulid import Ulid
from slatespark.format.wal import decode_wal
from slatespark.kernels import lower_bound, sort_rows, take_rows
from slatespark.kernels.columns import MERGE, TOMBSTONE, RowColumns
from slatespark.options import WriteOptions
from slatespark.ranges import KeyRange, point_range
from slatespark.storage import ObjectMeta
from slatespark.table.commit.wal_place import fetch_state_with_wal
from slatespark.table.definition.versions import resolve_codec
from slatespark.table.gc.survey import list_unfinished
from slatespark.table.log.manifests import fetch_latest_manifest, fetch_manifest
from slatespark.table.read.cursor import layer_windows
from slatespark.table.read.plan import FileSlice, Layer, SstFile
from slatespark.table.stores import OWN_ROOT, TableStores, external_roots, object_context
from slatespark.table.write.range_replace import named_ranges

WINDOW_BYTES: Final = 4 << 20
_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class KeyLocation:
    """An object that holds rows of the keys.

    Attributes
    ----------
    url : of the object
    versions : that reference the file, ascending; none if it is unreferenced, so that a vacuum deletes it
    checkpoints : that pin one of these versions: name, or id
    is_current : whether the newest version is one of them; its rows may be hidden even so
    rows : number of row versions, by `put`, `delete` and `merge`
    first_key : the smallest of the keys that it holds
    newest_seq : highest sequence number of these rows
    """

    url: str
    versions: tuple[int, ...]
    checkpoints: tuple[str, ...]
    is_current: bool
    rows: Mapping[str, int]
    first_key: bytes
    newest_seq: int


@dataclass(frozen=True, slots=True)
class AbsenceReport:
    """Whether keys are gone from a table.

    Attributes
    ----------
    version : the newest one
    versions : all that exist
    gone : no object holds a row of the keys, and nothing is unread
    found : objects that hold rows of the keys
    unread : partial objects of killed or running writers, which a vacuum deletes once they are old; and objects with
        foreign names in the folders of SSTs and WAL files
    objects : number searched
    """

    url: str
    version: int
    versions: tuple[int, ...]
    gone: bool
    found: tuple[KeyLocation, ...]
    unread: tuple[str, ...]
    objects: int


@dataclass(slots=True)
class _AbsenceCount:
    """Rows of the keys in one object."""

    rows: Counter[str] = field(default_factory=Counter)
    first_key: bytes | None = None
    newest_seq: int = 0

    def add(self, rows: RowColumns, low: int, high: int) -> None:
        if low >= high:
            return
        flags = rows.flags[low:high]
        deletes, merges = int(((flags & TOMBSTONE) != 0).sum()), int(((flags & MERGE) != 0).sum())
        counts = {"put": high - low - deletes - merges, "delete": deletes, "merge": merges}
        self.rows.update({kind: count for kind, count in counts.items() if count})
        self.first_key = rows.key(low) if self.first_key is None else min(self.first_key, rows.key(low))
        self.newest_seq = max(self.newest_seq, int(rows.seqs[low:high].max()))


def keys_to_prove(
    stores: TableStores, key: Sequence[Any], where: str | None, options: WriteOptions
) -> tuple[KeyRange, ...]:
    """Return the keys to search for.

    Parameters
    ----------
    key : a value for each key column; empty if a range is given
    where : a condition on leading key columns
    options : `startKey`, `endKey` or `keyPrefix` of a raw table

    Raises
    ------
    OptionError
        When not exactly one of these is given.
    """
    codec = resolve_codec(stores, fetch_latest_manifest(stores)[1])
    ranges = named_ranges(where, options, codec)
    if (ranges is None) != bool(key):
        raise OptionError(
            "proveAbsent: a key and a range are both given." if key else "proveAbsent: no key is given.",
            todo="Give the values of a key, or a range by where.",
        )
    return (point_range(codec.encode_key(key)),) if ranges is None else ranges


def prove_absent(stores: TableStores, keys: Sequence[KeyRange]) -> AbsenceReport:
    """Return where rows with the given keys are stored, or that they are gone.

    Raises
    ------
    CorruptDataError, UnsupportedFormatError
        When an object cannot be read: nothing is proven then.
    InvalidRequestError
        When the WAL is kept elsewhere.
    TableNotFoundError
        When there is no table, or a database whose files it reads was not found.
    ConflictError
        When the table changed faster than it could be searched.
    """
    return _AbsenceSearch(stores, keys).run()


@dataclass(slots=True)
class _AbsenceSearch:
    stores: TableStores
    keys: Sequence[KeyRange]
    counts: dict[tuple[str, str], _AbsenceCount] = field(default_factory=dict)  # by root and path
    manifests: dict[int, Manifest] = field(default_factory=dict)

    def run(self) -> AbsenceReport:
        for _ in range(_ATTEMPTS):
            unread = set(self._unfinished())
            latest_id = self._look_at_versions()
            ssts, wal = self.stores.main.list(COMPACTED_DIR), self.stores.wal.list(WAL_DIR)
            found = list(self._objects(ssts, wal))
            unread |= set(self._others(ssts, wal))
            there = {place for place, _ in found}
            fresh = [(place, target) for place, target in found if place not in self.counts]
            self.counts = {place: count for place, count in self.counts.items() if place in there}
            for place, target in fresh:
                self.counts[place] = self._count(place, target)
            if not fresh and latest_id == fetch_latest_manifest(self.stores)[0]:
                return self._report(latest_id, sorted(unread))
        raise ConflictError(f"{self.stores.url} changes faster than it can be searched.", todo="Try again.")

    def _unfinished(self) -> Iterator[str]:
        for root, meta in list_unfinished(self.stores):
            yield f"{(self.stores.wal if root else self.stores.main).url}/{meta.path}"

    def _others(self, ssts: Sequence[ObjectMeta], wal: Sequence[ObjectMeta]) -> Iterator[str]:
        """Yield the other objects that may hold rows."""
        main, apart = self.stores.main, self.stores.wal
        found = [(main, meta) for meta in ssts if sst_id(meta.path) is None]
        found += [(apart, meta) for meta in wal if numbered(meta.path, SST_EXTENSION) is None]
        if apart.url != main.url:  # WAL files beside the table are not part of its WAL
            found += [(main, meta) for meta in main.list(WAL_DIR)]
        yield from (f"{store.url}/{meta.path}" for store, meta in found if meta.size)

    def _look_at_versions(self) -> int:
        """Read the manifests that exist, and return the number of the newest one."""
        listed = self.stores.main.list(MANIFEST_DIR)
        numbers = {number for meta in listed if (number := numbered(meta.path, MANIFEST_EXTENSION)) is not None}
        latest_id, latest, _ = fetch_state_with_wal(self.stores)
        known, self.manifests = self.manifests, {latest_id: latest}
        for number in numbers - {latest_id}:
            try:
                self.manifests[number] = known.get(number) or fetch_manifest(self.stores, number)
            except SnapshotExpiredError:  # garbage-collected meanwhile
                continue
        return latest_id

    def _objects(
        self, ssts: Sequence[ObjectMeta], wal: Sequence[ObjectMeta]
    ) -> Iterator[tuple[tuple[str, str], ObjectMeta | SstFile]]:
        """Yield every object that holds rows; SSTs of other databases as the manifests describe them."""
        for meta in ssts:
            if sst_id(meta.path) is not None:
                yield (OWN_ROOT, meta.path), meta
        for meta in wal:
            if numbered(meta.path, SST_EXTENSION) is not None and meta.size:  # else a fence
                yield (OWN_ROOT, meta.path), meta
        borrowed = {}
        for manifest in self.manifests.values():
            for ulid, root in external_roots(self.stores, manifest).items():
                if ulid in manifest.ssts:
                    handle = manifest.ssts[ulid]
                    borrowed[root, sst_path(ulid)] = SstFile(root, ulid, handle.info, handle.format_version)
        yield from borrowed.items()

    # --- rows -------------------------------------------------------------------------------------------------------

    def _count(self, place: tuple[str, str], target: ObjectMeta | SstFile) -> _AbsenceCount:
        count = _AbsenceCount()
        try:
            if isinstance(target, SstFile):
                self._count_sst(target, count)
            elif target.path.startswith(WAL_DIR):
                self._count_wal(target, count)
            else:
                self._count_sst(self._file(target), count)
        except FileNotFoundError:  # garbage-collected meanwhile: the next listing shows its replacement
            return _AbsenceCount()
        return count

    def _file(self, meta: ObjectMeta) -> SstFile:
        """Return an SST of the table from its own info, since it may be in no manifest."""
        store, ulid = self.stores.main, sst_id(meta.path)
        assert ulid is not None  # `_objects` skips other names
        with object_context(store, meta.path):
            footer = decode_footer(store.get_range(meta.path, footer_range(meta.size)))
            info = decode_info_section(store.get_range(meta.path, info_range(footer, meta.size)))
        return SstFile(OWN_ROOT, ulid, info, footer.version)

    def _count_sst(self, file: SstFile, count: _AbsenceCount) -> None:
        whole = SstHandle(file.id, file.info, file.format_version).key_range()
        for keys in self.keys:
            wanted = keys.intersect(whole)
            if not wanted.is_empty():
                for window in layer_windows(self.stores, Layer("file", (FileSlice(file, wanted),)), WINDOW_BYTES):
                    count.add(window.rows, window.low, window.high)

    def _count_wal(self, meta: ObjectMeta, count: _AbsenceCount) -> None:
        with object_context(self.stores.wal, meta.path):
            rows = decode_wal(bytes(self.stores.wal.get(meta.path)))
        ordered = take_rows([rows], sort_rows(rows))
        for keys in self.keys:
            low = lower_bound(ordered, keys.start, 0, len(ordered))
            high = len(ordered) if keys.end is None else lower_bound(ordered, keys.end, low, len(ordered))
            count.add(ordered, low, high)

    # --- references -------------------------------------------------------------------------------------------------

    def _report(self, latest_id: int, unread: Sequence[str]) -> AbsenceReport:
        found = [self._location(place, count, latest_id) for place, count in self.counts.items() if count.rows]
        return AbsenceReport(
            url=self.stores.url,
            version=latest_id,
            versions=tuple(sorted(self.manifests)),
            gone=not found and not unread,
            found=tuple(sorted(found, key=lambda location: location.url)),
            unread=tuple(unread),
            objects=len(self.counts),
        )

    def _location(self, place: tuple[str, str], count: _AbsenceCount, latest_id: int) -> KeyLocation:
        root, path = place
        is_wal = root == OWN_ROOT and path.startswith(WAL_DIR)
        store = self.stores.wal if is_wal else self.stores.at(root)
        versions = tuple(number for number in sorted(self.manifests) if self._references(number, path, latest_id))
        assert count.first_key is not None  # it has rows
        return KeyLocation(
            url=f"{store.url}/{path}",
            versions=versions,
            checkpoints=tuple(
                point.name or str(point.id)
                for point in self.manifests[latest_id].checkpoints
                if point.manifest_id in versions
            ),
            is_current=latest_id in versions,
            rows=dict(count.rows),
            first_key=count.first_key,
            newest_seq=count.newest_seq,
        )

    def _references(self, number: int, path: str, latest_id: int) -> bool:
        manifest = self.manifests[number]
        if path.startswith(WAL_DIR):
            wal_id = numbered(path, SST_EXTENSION)
            assert wal_id is not None  # `_objects` skips other names
            return manifest.replay_after_wal_id < wal_id and (
                number == latest_id or wal_id <= manifest.wal_id_last_seen
            )
        ulid: Ulid | None = sst_id(path)
        return ulid in manifest.ssts
