"""Whether keys are gone: searches every object of a table that holds rows or names keys, referenced or not.

Rows are in every SST, including unreferenced ones and rows outside the views; in every columnar copy; in the SSTs of
other databases that a version reads; and in every WAL file. Manifests, lists of compactions, commit records and claims
name keys. Objects that cannot be searched are reported. Bloom filters are not used. If the table changes meanwhile it
is listed again, until every object has been searched: a row may move from one file to another. A dry run of the vacuum
says what keeps a copy.

Parts of an unfinished multipart upload to S3 are not objects: no listing shows them, so the proof does not cover them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import ConflictError, CorruptDataError, SnapshotExpiredError, UnsupportedFormatError
from slatespark.format.compactions import decode_compactions
from slatespark.format.info import decode_footer, decode_info_section, footer_range, info_range
from slatespark.format.manifest import Manifest
from slatespark.format.named_keys import first_named, names_in_compactions, names_in_manifest
from slatespark.format.paths import (
    COLUMNS_DIR,
    COMPACTED_DIR,
    COMPACTIONS_DIR,
    COMPACTIONS_EXTENSION,
    MANIFEST_DIR,
    MANIFEST_EXTENSION,
    SST_EXTENSION,
    WAL_DIR,
    copy_id,
    numbered,
    sst_id,
    sst_path,
)
from slatespark.format.ulid import Ulid
from slatespark.kernels.columns import MERGE, TOMBSTONE, RowColumns
from slatespark.ranges import KeyRange, parts_within, point_range
from slatespark.storage import ObjectMeta, run_in_groups
from slatespark.table.clock import Clock
from slatespark.table.columns.keys import keys_of_copy, keys_within
from slatespark.table.commit.wal_place import fetch_state_with_wal
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.gc.absence_report import AbsenceReport, KeyLocation
from slatespark.table.gc.drop_plan import split_own
from slatespark.table.gc.report import KEPT, CollectedFile
from slatespark.table.gc.run import vacuum_table
from slatespark.table.gc.survey import list_unfinished
from slatespark.table.log.manifests import fetch_latest_manifest, find_manifest, manifest_log
from slatespark.table.log.numbered_log import by_number
from slatespark.table.progress import Progress, Step
from slatespark.table.read.fetch import fetch_wal_file
from slatespark.table.read.merge.cursor import FILE_WINDOW_BYTES, layer_windows
from slatespark.table.read.planning.plan import FileSlice, Layer, SstFile
from slatespark.table.read.planning.row_cuts import spans_within
from slatespark.table.records.claims import CLAIMS_DIR
from slatespark.table.records.commit_record import BATCHES_DIR
from slatespark.table.records.json_objects import find_object
from slatespark.table.records.named_keys import find_named
from slatespark.table.stores import OWN_ROOT, TableStores, external_roots, object_context

_ATTEMPTS: Final = 10
_TOGETHER: Final = 8  # objects that are searched at a time, each in windows of `FILE_WINDOW_BYTES`


@dataclass(frozen=True, slots=True)
class _Version:
    """What is needed of a version: its WAL above the trees, as far as it knows, and the smallest key that it names."""

    wal: range
    first_key: bytes | None


@dataclass(frozen=True, slots=True)
class _Named:
    """An object that names keys, and the smallest of them; a manifest with its number as the only version."""

    kind: str
    path: str
    first_key: bytes
    versions: tuple[int, ...] = ()


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

    def add_keys(self, keys: pa.Array) -> None:
        """Count the rows of a columnar copy with these keys."""
        if len(keys):
            self.rows["put"] += len(keys)
            first = keys[0].as_py()  # a file is in key order
            self.first_key = first if self.first_key is None else min(self.first_key, first)


def prove_absent(
    stores: TableStores, clock: Clock, keys: Sequence[KeyRange], *, progress: Progress | None = None
) -> AbsenceReport:
    """Return where the given keys are stored, with or without rows, or that they are gone.

    Parameters
    ----------
    keys : ascending, not overlapping

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
    return _AbsenceSearch(stores, clock, tuple(keys), progress).run()


@dataclass(slots=True)
class _AbsenceSearch:
    """A search. Of each version it holds little: there may be thousands, of thousands of files.

    Attributes
    ----------
    counts : rows of the keys, by root and path of the object
    latest : the newest manifest; set before anything is searched
    versions : that exist, by number
    readers : numbers of versions by the SST that they read, also of versions that were collected meanwhile
    borrowed : SSTs of other databases, by root and path
    damaged : copies that cannot be searched
    codec : of the keys, at least as new as the listed copies; known once one was searched
    """

    stores: TableStores
    clock: Clock
    keys: tuple[KeyRange, ...]
    progress: Progress | None = None
    counts: dict[tuple[str, str], _AbsenceCount] = field(default_factory=dict)
    latest: Manifest = field(default_factory=Manifest)
    versions: dict[int, _Version] = field(default_factory=dict)
    readers: defaultdict[Ulid, list[int]] = field(default_factory=lambda: defaultdict(list))
    borrowed: dict[tuple[str, str], SstFile] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)
    codec: RowCodec | None = None

    def run(self) -> AbsenceReport:
        is_remote = self.stores.main.is_remote
        for _ in range(_ATTEMPTS):
            unread = {f"{store.url}/{meta.path}" for store, metas in list_unfinished(self.stores) for meta in metas}
            latest_id = self._read_versions()
            own, others = self._listed()
            unread |= set(others)
            self.codec = None  # key columns may have been widened since the last listing
            found: dict[tuple[str, str], ObjectMeta | SstFile] = {(OWN_ROOT, meta.path): meta for meta in own}
            found |= {place: file for place, file in self.borrowed.items() if self._readers(file.id)}
            fresh = [(place, target) for place, target in found.items() if place not in self.counts]
            self.counts = {place: count for place, count in self.counts.items() if place in found}
            counted = run_in_groups(self._count, [target for _, target in fresh], is_remote=is_remote, size=_TOGETHER)
            for done, ((place, _), (_, count)) in enumerate(zip(fresh, counted, strict=True), 1):
                self.counts[place] = count
                if self.progress is not None:
                    self.progress(Step.SEARCHING, done, len(fresh))
            if fresh:
                continue
            unread |= {f"{self.stores.main.url}/{path}" for path in self.damaged if (OWN_ROOT, path) in found}
            named = [*self._named_in_manifests(), *self._named_in_compactions(), *self._named_in_records(unread)]
            if latest_id == fetch_latest_manifest(self.stores)[0]:
                return self._report(latest_id, named, sorted(unread))
        raise ConflictError(f"{self.stores.url} changes faster than it can be searched.", todo="Try again.")

    def _listed(self) -> tuple[list[ObjectMeta], list[str]]:
        """Return the objects of the table that hold rows, and the URLs of others in their folders, which may."""
        main, wal = self.stores.main, self.stores.wal
        own: list[ObjectMeta] = []
        others: list[str] = []
        for store, folder in ((main, COMPACTED_DIR), (wal, WAL_DIR), (main, COLUMNS_DIR)):
            listed = split_own(store.list(folder))
            own += (meta for meta in listed.own if meta.size or folder != WAL_DIR)  # else a fence
            others += (f"{store.url}/{meta.path}" for meta in listed.foreign if meta.size)
        if wal.url != main.url:  # WAL files beside the table are not part of its WAL
            others += (f"{main.url}/{meta.path}" for meta in main.list(WAL_DIR) if meta.size)
        return own, others

    def _read_versions(self) -> int:
        """Read the manifests that exist, and return the number of the newest one."""
        numbers = by_number(self.stores.main.list(MANIFEST_DIR), MANIFEST_EXTENSION).keys()
        latest_id, self.latest, _ = fetch_state_with_wal(self.stores)
        self.versions = {number: found for number, found in self.versions.items() if number in {*numbers, latest_id}}
        missing = sorted(numbers - self.versions.keys() - {latest_id})
        fetched = run_in_groups(partial(find_manifest, self.stores), missing, is_remote=self.stores.main.is_remote)
        for number, manifest in fetched:
            if manifest is not None:
                self._add(number, manifest)
        if latest_id not in self.versions:
            self._add(latest_id, self.latest)
        return latest_id

    def _add(self, number: int, manifest: Manifest) -> None:
        wal = range(manifest.replay_after_wal_id + 1, manifest.wal_id_last_seen + 1)
        self.versions[number] = _Version(wal, first_named(names_in_manifest(manifest), self.keys))
        for ulid in manifest.ssts:
            self.readers[ulid].append(number)
        for ulid, root in external_roots(self.stores, manifest).items():
            if ulid in manifest.ssts:
                self.borrowed[root, sst_path(ulid)] = SstFile.of(manifest.ssts[ulid], root)

    def _readers(self, ulid: Ulid | None) -> list[int]:
        """Return which of the versions read an SST, ascending."""
        return [] if ulid is None else sorted(self.versions.keys() & self.readers.get(ulid, ()))

    # --- rows -------------------------------------------------------------------------------------------------------

    def _count(self, target: ObjectMeta | SstFile) -> _AbsenceCount:
        count = _AbsenceCount()
        try:
            if isinstance(target, SstFile):
                self._count_sst(target, count)
            elif target.path.startswith(COLUMNS_DIR):
                self._count_copy(target.path, count)
            elif (number := numbered(target.path, SST_EXTENSION)) is not None and target.path.startswith(WAL_DIR):
                self._count_wal(number, count)
            else:
                self._count_sst(self._file(target), count)
        except (FileNotFoundError, SnapshotExpiredError):  # collected meanwhile: the next listing shows its successor
            return _AbsenceCount()
        return count

    def _file(self, meta: ObjectMeta) -> SstFile:
        """Return an SST of the table from its own info, since it may be in no manifest."""
        store, ulid = self.stores.main, sst_id(meta.path)
        assert ulid is not None  # `_listed` sorts out other names
        with object_context(store, meta.path):
            footer = decode_footer(store.get_range(meta.path, footer_range(meta.size)))
            info = decode_info_section(store.get_range(meta.path, info_range(footer, meta.size)))
        return SstFile(OWN_ROOT, ulid, info, footer.version)

    def _count_sst(self, file: SstFile, count: _AbsenceCount) -> None:
        parts = tuple(FileSlice(file, keys) for keys in parts_within(self.keys, file.handle.key_range()))
        for window in layer_windows(self.stores, Layer("file", parts), FILE_WINDOW_BYTES):
            count.add(window.rows, window.low, window.high)

    def _count_copy(self, path: str, count: _AbsenceCount) -> None:
        """Count the rows of a columnar copy, whether or not its SST still exists."""
        if self.codec is None:
            self.codec = resolve_definition(self.stores, self.latest).codec()
        ulid = copy_id(path)
        assert ulid is not None  # `_listed` sorts out other names
        self.damaged.discard(path)
        single = {keys for keys in self.keys if keys == point_range(keys.start)}
        ranges = [keys for keys in self.keys if keys not in single]
        points = pa.array([keys.start for keys in single], pa.large_binary())
        try:
            for found in keys_of_copy(self.stores.main, ulid, self.codec):
                count.add_keys(found.filter(pc.is_in(found, value_set=points)))
                for keys in ranges:
                    count.add_keys(keys_within(found, keys))
        except (CorruptDataError, UnsupportedFormatError):
            self.damaged.add(path)

    def _count_wal(self, number: int, count: _AbsenceCount) -> None:
        rows = fetch_wal_file(self.stores, number)
        if rows is not None:
            for low, high in spans_within(rows, 0, len(rows), self.keys):
                count.add(rows, low, high)

    # --- names --------------------------------------------------------------------------------------------------------

    def _named_in_manifests(self) -> Iterator[_Named]:
        log = manifest_log(self.stores)
        for number, version in sorted(self.versions.items()):
            if version.first_key is not None:
                yield _Named("manifest", log.path(number), version.first_key, (number,))

    def _named_in_compactions(self) -> Iterator[_Named]:
        main = self.stores.main
        listed = [meta.path for meta in by_number(main.list(COMPACTIONS_DIR), COMPACTIONS_EXTENSION).values()]
        for path, data in run_in_groups(partial(find_object, main), listed, is_remote=main.is_remote):
            if data is not None:
                with object_context(main, path):
                    first = first_named(names_in_compactions(decode_compactions(data)), self.keys)
                if first is not None:
                    yield _Named("compactions", path, first)

    def _named_in_records(self, unread: set[str]) -> Iterator[_Named]:
        """Yield what records name, and add damaged ones to `unread`."""
        for path, key in find_named(self.stores.main, self.keys):
            if key is None:
                unread.add(f"{self.stores.main.url}/{path}")
            else:
                yield _Named("claim" if path.startswith(CLAIMS_DIR) else "commit record", path, key)

    # --- references -------------------------------------------------------------------------------------------------

    def _report(self, latest_id: int, named: Sequence[_Named], unread: Sequence[str]) -> AbsenceReport:
        found = [self._location(place, count, latest_id) for place, count in self.counts.items() if count.rows]
        found += [self._name_location(each, latest_id) for each in named]
        return AbsenceReport(
            url=self.stores.url,
            version=latest_id,
            versions=tuple(sorted(self.versions)),
            gone=not found and not unread,
            found=tuple(self._with_reasons(sorted(found, key=lambda location: location.url))),
            unread=tuple(unread),
            objects=len(self.counts),
        )

    def _location(self, place: tuple[str, str], count: _AbsenceCount, latest_id: int) -> KeyLocation:
        root, path = place
        is_wal = root == OWN_ROOT and path.startswith(WAL_DIR)
        store = self.stores.wal if is_wal else self.stores.at(root)
        versions = self._versions_with(path, latest_id)
        assert count.first_key is not None  # it has rows
        return KeyLocation(
            url=f"{store.url}/{path}",
            kind="wal" if is_wal else "columns" if path.startswith(COLUMNS_DIR) else "sst",
            versions=versions,
            checkpoints=self._checkpoints(versions),
            is_current=latest_id in versions,
            rows=dict(count.rows),
            first_key=count.first_key,
            newest_seq=count.newest_seq,
        )

    def _name_location(self, named: _Named, latest_id: int) -> KeyLocation:
        return KeyLocation(
            url=f"{self.stores.main.url}/{named.path}",
            kind=named.kind,
            versions=named.versions,
            checkpoints=self._checkpoints(named.versions),
            is_current=latest_id in named.versions,
            rows={},
            first_key=named.first_key,
        )

    def _checkpoints(self, versions: Sequence[int]) -> tuple[str, ...]:
        points = self.latest.checkpoints
        return tuple(point.name or str(point.id) for point in points if point.manifest_id in versions)

    def _with_reasons(self, found: Sequence[KeyLocation]) -> Iterator[KeyLocation]:
        """Yield the locations with what a vacuum that minds no age would do, and why."""
        if not found:
            return
        files = vacuum_table(self.stores, self.clock, min_age_ms=0, dry_run=True).files
        log = manifest_log(self.stores)
        verdicts = {file.path: file for file in files}
        for location in found:
            own = location.url.removeprefix(f"{(self.stores.wal if location.kind == 'wal' else self.stores.main).url}/")
            readers = [verdicts[path] for number in location.versions if (path := log.path(number)) in verdicts]
            # What another database owns stays for this table as long as a version reads it.
            longest = max(readers, key=_kept_until, default=None)
            verdict = verdicts.get(own, longest)
            if verdict is None and own.startswith(BATCHES_DIR):  # no vacuum looks at those that readers use
                yield replace(location, reason="it holds the records of many commits")
            elif verdict is None:  # deleted meanwhile
                yield replace(location, is_kept=False, reason="it was deleted meanwhile")
            else:
                is_kept, until_ms = verdict.action == KEPT, verdict.until_ms
                yield replace(location, is_kept=is_kept, reason=verdict.reason, until_ms=until_ms)

    def _versions_with(self, path: str, latest_id: int) -> tuple[int, ...]:
        """Return the versions that read an object, ascending."""
        if not path.startswith(WAL_DIR):
            return tuple(self._readers(copy_id(path) if path.startswith(COLUMNS_DIR) else sst_id(path)))
        wal_id = numbered(path, SST_EXTENSION)
        assert wal_id is not None  # `_listed` sorts out other names
        return tuple(
            number
            for number, version in sorted(self.versions.items())
            if version.wal.start <= wal_id and (number == latest_id or wal_id < version.wal.stop)
        )


def _kept_until(file: CollectedFile) -> tuple[bool, float]:
    """Order objects by how long they are kept, those that are not kept first."""
    return file.action == KEPT, math.inf if file.until_ms is None else file.until_ms
