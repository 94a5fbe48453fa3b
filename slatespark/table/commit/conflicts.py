"""Conflict detection: the read set of a commit must be unchanged. See docs/explanation/how-conflicts-are-found.md.

Rows committed after a read have higher sequence numbers than the read reached, whoever wrote them. So a key has changed
if a row of it with a higher number exists or existed: in a file added by a later version, or in the WAL. Older files,
and files that were only rewritten, hold no such row. Rows removed without a newer version count as changes too.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import SnapshotExpiredError, TransactionConflictError
from slatespark.format.manifest import Manifest
from slatespark.format.properties import SstProperties
from slatespark.kernels import new_key_mask
from slatespark.kernels.columns import HAS_CREATE, MERGE, RowColumns
from slatespark.options import WriteOptions
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.table.commit.later_commits import LaterCommit, find_later_commits
from slatespark.table.commit.read_set import ReadSet, name_newest
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.log.manifests import fetch_latest_manifest, fetch_manifest, is_at_rest
from slatespark.table.log.versioned_object import Version
from slatespark.table.read.fetch import fetch_wal_rows
from slatespark.table.read.merge.cursor import layer_windows, window_size
from slatespark.table.read.planning.key_prefixes import name_key
from slatespark.table.read.planning.layers import fetch_layers
from slatespark.table.read.planning.plan import FileSlice, Layer, cut_layers, cut_to_ranges
from slatespark.table.read.points import key_rows
from slatespark.table.read.versions.file_properties import recorded_properties
from slatespark.table.read.versions.floor import history_floor
from slatespark.table.records.filtered_jobs import FilteredJob
from slatespark.table.rows.sst_upload import NewFile, new_layer
from slatespark.table.snapshot import fetch_newest_state
from slatespark.table.stores import TableStores
from slatespark.texts import MAX_NAMED, name_some
from slatespark.units import time_text

_CHUNK_KEYS: Final = 1 << 14  # looked up together


def check_unchanged(
    stores: TableStores,
    reads: ReadSet,
    outputs: Sequence[tuple[NewFile, ...]],
    codec: RowCodec,
    options: WriteOptions,
) -> None:
    """Refuse if the read set of a commit has changed; the commit itself checks again.

    Parameters
    ----------
    outputs : the files of the commit, per task

    Raises
    ------
    TransactionConflictError
        Naming keys.
    """
    files = [file for group in outputs for file in group]
    latest = fetch_latest_manifest(stores)
    ReadCheck(stores, reads, codec, options.write_buffer_bytes).check_newest(latest, files)


@dataclass(slots=True)
class ReadCheck:
    """The check of the read set of a commit. Versions found without conflict are not searched again.

    Attributes
    ----------
    buffer_bytes : memory for stored bytes in flight
    checked : the newest version found without conflict; None before the first check
    filtered_jobs : compactions with filters that earlier checks have read, by path of their records
    """

    stores: TableStores
    reads: ReadSet
    codec: RowCodec
    buffer_bytes: int
    checked: Version[Manifest] | None = None
    filtered_jobs: dict[str, FilteredJob] = field(default_factory=dict)

    def check_newest(self, latest: Version[Manifest], files: Sequence[NewFile]) -> None:
        """Refuse if another commit changed keys of the read set, up to the newest version and its WAL.

        Parameters
        ----------
        latest : the newest version, looked for just now
        files : files of the commit; their keys count too if the read set covers written keys

        Raises
        ------
        TransactionConflictError
            Naming keys.
        """
        self.check_trees(latest, files)
        if is_at_rest(self.stores, latest):
            return
        _, manifest, wal = fetch_newest_state(self.stores)
        above_seq = max(manifest.last_l0_seq, self.reads.read_seq) if self._is_judged_by_seq else manifest.last_l0_seq
        if wal.last_seq > above_seq:
            self.check_rows(fetch_wal_rows(self.stores, wal, above_seq, ALL_KEYS), files)

    def check_rows(self, rows: RowColumns | None, files: Sequence[NewFile]) -> None:
        """Refuse if rows of the WAL, which are sorted, include later versions of keys of the read set."""
        if rows is not None:
            later = list(dict.fromkeys(self._later_keys(rows, 0, len(rows))))
            read = set(self.reads.keys)
            found = (key for key in later if key in read or self.reads.covers(key))
            self._refuse(itertools.chain(found, self._among_written(later, files)))

    def check_later(self, commits: Sequence[LaterCommit], rows: RowColumns | None, files: Sequence[NewFile]) -> None:
        """Refuse if given later commits, or rows of the WAL, changed keys of the read set.

        A check before the commit's own. It does not look for rows that were there at the read.
        """
        self._check_layers(self._open_layers(self._added_by(commits, files), files), files)
        self._check_loads(commits, files)
        self.check_rows(rows, files)

    @property
    def _is_judged_by_seq(self) -> bool:
        return self.reads.read_ts_ms is None

    def check_trees(self, latest: Version[Manifest], files: Sequence[NewFile]) -> None:
        """Refuse as `check_newest` does, up to a version, without its WAL."""
        try:
            self._check_floor(latest.value)
            commits = self._find_commits(latest)
            self._check_layers(self._later_layers(commits, latest.value, files), files)
            self._check_loads(commits, files)
        except SnapshotExpiredError as exc:
            raise self.unknown() from exc
        self.checked = latest

    def _check_layers(self, layers: Sequence[Layer], files: Sequence[NewFile]) -> None:
        if layers:
            in_ranges = self._scan_later(cut_to_ranges(layers, self.reads.ranges))
            among_keys = self._look_up_later(layers, self.reads.keys)
            self._refuse(itertools.chain(in_ranges, among_keys, self._in_written(layers, files)))

    def _check_loads(self, commits: Iterable[LaterCommit], files: Sequence[NewFile]) -> None:
        """Refuse if loads that a client committed changed keys; their rows may have numbers that the read could see."""
        for commit in commits:
            if commit.load_seq is not None and commit.load_seq <= self.reads.read_seq:
                from_there = replace(self, reads=replace(self.reads, read_seq=commit.load_seq - 1))
                from_there._check_layers(from_there._open_layers(commit.added, files), files)

    def _check_floor(self, latest: Manifest) -> None:
        """Refuse if versions later than the read time may be gone, since none is kept below the history floor.

        A compaction takes the floor from the definition first, so a definition fetched after `latest` has its floor.
        """
        if self.reads.read_ts_ms is None:
            return
        floor_ms = history_floor(self.stores, latest, resolve_definition(self.stores, latest))
        if floor_ms is not None and self.reads.read_ts_ms < floor_ms:
            raise self.unknown()

    def _fetch_checked(self, latest_id: int) -> Version[Manifest]:
        """Return the version up to which everything was checked; at first the one that was read."""
        if self.checked is not None:
            return self.checked
        number = self.reads.manifest_id
        if latest_id < number:  # another table has replaced this one
            raise self.unknown()
        found = fetch_manifest(self.stores, number) if number else Manifest()  # 0: there was no table
        self._check_table(found)
        return Version(number, found)

    def _check_table(self, found: Manifest) -> None:
        """Refuse if the version that was read is now one of another table, created in the place of the first."""
        if name_newest(found.newest_sst()) != self.reads.newest_sst:
            raise self._conflict("the table was removed and created again since a read of this commit")

    # --- later rows ---------------------------------------------------------------------------------------------------

    def _find_commits(self, latest: Version[Manifest]) -> list[LaterCommit]:
        """Return the commits since the read that were not checked yet."""
        if latest.number == self.reads.manifest_id:
            self._check_table(latest.value)
            return []
        checked = self._fetch_checked(latest.number)
        return list(find_later_commits(self.stores, checked, latest, self.filtered_jobs))

    def _later_layers(self, commits: Iterable[LaterCommit], latest: Manifest, files: Sequence[NewFile]) -> list[Layer]:
        """Return the files that may hold later versions of keys of the read set."""
        parts = list(self._added_by(commits, files))
        if not self._is_judged_by_seq:  # older files may hold versions of a later time
            parts += (part for layer in fetch_layers(self.stores, latest) for part in layer.slices)
        return self._open_layers(parts, files)

    def _added_by(self, commits: Iterable[LaterCommit], files: Sequence[NewFile]) -> Iterator[FileSlice]:
        """Yield the files that commits added; refuse one that may have removed keys of the read set."""
        for commit in commits:
            self._refuse_removed(commit, files)
            yield from commit.added

    def _open_layers(self, parts: Iterable[FileSlice], files: Sequence[NewFile]) -> list[Layer]:
        """Return those parts of files that may hold later versions of keys of the read set."""
        wanted = [part for part in parts if self._is_wanted(part, files)]
        handles = [part.file.handle for part in wanted]
        known = recorded_properties(self.stores, handles) if wanted else {}
        return [Layer("later", (part,)) for part in wanted if self._may_be_later(known.get(part.file.id))]

    def _is_wanted(self, part: FileSlice, files: Sequence[NewFile]) -> bool:
        """Tell whether a part of a file may have keys of the read set."""
        written = [keys for file in files for keys in self.reads.written_parts(file.keys)]
        at = bisect_left(self.reads.keys, part.keys.start)
        has_key = at < len(self.reads.keys) and part.keys.contains(self.reads.keys[at])
        return has_key or any(keys.overlaps(part.keys) for keys in (*self.reads.ranges, *written))

    def _may_be_later(self, properties: SstProperties | None) -> bool:
        if properties is None:
            return True
        if self.reads.operands_only and not properties.merges:
            return False
        if properties.max_seq > self.reads.read_seq:
            return True
        newest_ms, read_ms = properties.max_create_ts, self.reads.read_ts_ms
        return newest_ms is not None and read_ms is not None and newest_ms >= read_ms

    def _later_keys(self, rows: RowColumns, low: int, high: int) -> Iterator[bytes]:
        """Yield the keys of rows [low, high) that were committed after the read, once for each such row."""
        seqs, read_seq = rows.seqs[low:high], self.reads.read_seq  # -1 where the rows of a load have the number 0
        later = seqs > np.uint64(read_seq) if read_seq >= 0 else np.ones(len(seqs), np.bool_)
        if self.reads.read_ts_ms is not None:
            stamped = (rows.flags[low:high] & HAS_CREATE) != 0
            later |= stamped & (rows.create_ts[low:high] >= self.reads.read_ts_ms)
        if self.reads.operands_only:
            later &= (rows.flags[low:high] & MERGE) != 0
        return (rows.key(low + index) for index in np.flatnonzero(later).tolist())

    def _scan_later(self, layers: Sequence[Layer]) -> Iterator[bytes]:
        """Yield the keys of all later versions that layers show; a key may occur several times."""
        window_bytes = window_size(self.buffer_bytes, 1)
        for layer in layers:
            for window in layer_windows(self.stores, layer, window_bytes):
                yield from self._later_keys(window.rows, window.low, window.high)

    def _look_up_later(self, layers: Sequence[Layer], keys: tuple[bytes, ...]) -> Iterator[bytes]:
        """Yield those of some ascending keys that have later versions in layers."""
        for rows, low, high in key_rows(self.stores, layers, keys, buffer_bytes=self.buffer_bytes):
            yield from self._later_keys(rows, low, high)

    # --- keys of the read set -----------------------------------------------------------------------------------------

    def _in_written(self, layers: Sequence[Layer], files: Sequence[NewFile]) -> Iterator[bytes]:
        """Yield the keys of files of the commit that have later versions; the smaller side is read."""
        for file in files:
            met = cut_to_ranges(layers, self.reads.written_parts(file.keys))
            sizes = {part.file.id: part.file.data_bytes for layer in met for part in layer.slices}
            if sum(sizes.values()) < file.size:
                later = self._scan_later(met)
                while keys := tuple(itertools.islice(later, _CHUNK_KEYS)):
                    yield from self._among_written(keys, [file])
            else:
                whole = cut_layers(layers, file.keys)
                for keys in _key_windows(self.stores, file, self.buffer_bytes):
                    yield from self._look_up_later(whole, tuple(filter(self.reads.covers_write, keys)))

    def _among_written(self, keys: Iterable[bytes], files: Sequence[NewFile]) -> Iterator[bytes]:
        """Yield those of the keys that files of the commit have, and that must be unchanged for it."""
        covered = list(filter(self.reads.covers_write, keys))
        for file in files:
            inside = tuple(sorted({key for key in covered if file.keys.contains(key)}))
            if inside:
                for rows, low, high in key_rows(self.stores, [new_layer(file)], inside, buffer_bytes=self.buffer_bytes):
                    yield from (rows.key(at) for at in range(low, high))

    def _written_within(self, keys: KeyRange, files: Sequence[NewFile]) -> Iterator[bytes]:
        """Yield the keys in a range that files of the commit have, and that must be unchanged for it."""
        parts = self.reads.written_parts(keys)
        for file in files:
            for layer in cut_to_ranges([new_layer(file)], parts):
                for window in layer_windows(self.stores, layer, window_size(self.buffer_bytes, 2)):
                    yield from (window.rows.key(row) for row in range(window.low, window.high))

    # --- errors -------------------------------------------------------------------------------------------------------

    def _refuse(self, keys: Iterator[bytes]) -> None:
        """Raise the conflict with the first few keys, if there are any."""
        found: dict[bytes, None] = {}
        for key in keys:
            found[key] = None
            if len(found) > MAX_NAMED:
                break
        if found:
            named = name_some(name_key(self.codec, key) for key in sorted(found))
            raise self._conflict(f"{named} changed {self._since}")

    def _refuse_removed(self, commit: LaterCommit, files: Sequence[NewFile]) -> None:
        """Raise the conflict if a commit may have removed keys of the read set."""
        fact = f"removed by version {commit.manifest_id}"
        for gone in commit.removed:
            locked = filter(gone.contains, self.reads.keys)
            found = itertools.islice(itertools.chain(locked, self._written_within(gone, files)), MAX_NAMED)
            if named := [name_key(self.codec, key) for key in dict.fromkeys(found)]:
                raise self._conflict(f"{'; '.join(named)} may have been {fact}")
            if any(map(gone.overlaps, self.reads.ranges)):
                raise self._conflict(f"rows in a range of keys that was read may have been {fact}")

    @property
    def _since(self) -> str:
        read_ms = self.reads.read_ts_ms
        if read_ms is None:
            return f"after sequence number {self.reads.read_seq}"
        return f"since the read timestamp {time_text(read_ms)}"

    def unknown(self) -> TransactionConflictError:
        """Return the conflict of a read set of which it is unknown whether it has changed."""
        since = f"after version {self.reads.manifest_id}" if self._is_judged_by_seq else self._since
        return self._conflict(f"the rows committed {since} are no longer known")

    def _conflict(self, fact: str) -> TransactionConflictError:
        return TransactionConflictError(
            f"{self.stores.url}: {fact}.",
            why="This commit depends on an earlier read.",
            todo="Read and write again.",
        )


def _key_windows(stores: TableStores, file: NewFile, buffer_bytes: int) -> Iterator[tuple[bytes, ...]]:
    """Yield the keys of an uploaded file, a window at a time."""
    for window in layer_windows(stores, new_layer(file), window_size(buffer_bytes, 2)):
        rows = window.indices
        first = rows[new_key_mask([window.rows], rows)]
        yield tuple(window.rows.key(row) for row in first.tolist())
