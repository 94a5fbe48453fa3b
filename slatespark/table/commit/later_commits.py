"""The commits since a version: the files that each added, and the key ranges in which it removed rows.

All versions in between are read, not only the newest one: a compaction drops tombstones and expired rows, so a commit
may have left no row behind. A version that adds rows raises the last sequence number, but for loads that a client
committed for us: their rows have a number from before. What else does not raise it, such as a client's compaction, only
rewrites earlier rows.

Replacements, restores and trims remove rows without a newer version. Only commits of slatespark do that, and their
claims name the key ranges. A version of slatespark is recognised by its nonce (docs/adr/0001). A client does so where
it drains a segment: its tree has no run afterwards; and where it commits a compaction of slatespark with filters, which
is recorded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from slatespark.errors import SnapshotExpiredError
from slatespark.format.manifest import Manifest, Segment
from slatespark.format.manifest_outline import ManifestOutline, decode_outline
from slatespark.format.ulid import Ulid
from slatespark.ranges import ALL_KEYS, KeyRange, merge_ranges, prefix_range
from slatespark.storage import run_in_groups
from slatespark.table.commit.handed_loads import find_load_seq
from slatespark.table.log.manifests import decode_version, manifest_digest, manifest_log
from slatespark.table.log.versioned_object import Version
from slatespark.table.read.planning.plan import FileSlice, SstFile
from slatespark.table.records.claims import fetch_claimed_removals
from slatespark.table.records.filtered_jobs import FilteredJob, fetch_filtered_jobs
from slatespark.table.stores import OWN_ROOT, TableStores, external_roots, object_context

_Removals: TypeAlias = Mapping[str, tuple[KeyRange, ...]]  # by digest of the manifest that announced them


@dataclass(frozen=True, slots=True)
class LaterCommit:
    """A version that added or removed rows.

    Attributes
    ----------
    manifest_id : the version
    added : the files that it added
    removed : key ranges in which it may have removed rows; all keys if that is unknown
    load_seq : for a load that a client committed, the sequence number of its rows; may be below that of a read
    """

    manifest_id: int
    added: tuple[FileSlice, ...]
    removed: tuple[KeyRange, ...]
    load_seq: int | None = None


@dataclass(frozen=True, slots=True)
class _Version:
    """The facts of a version that comparing it with later ones needs."""

    number: int
    epochs: tuple[int, int]
    last_seq: int
    has_nonce: bool
    sst_ids: Set[Ulid]
    digest: str = ""


@dataclass(slots=True)
class _Segments:
    """The segments of the version that was looked at last."""

    manifest: Manifest

    @property
    def may_shrink(self) -> bool:
        return self.manifest.segment_extractor_name is not None

    def drained_by(self, later: Manifest) -> tuple[KeyRange, ...]:
        """Return the keys of the segments that a client's version has lost; it is the last one from then on.

        A version of slatespark tells itself what it may have removed: a compaction that leaves no row of a segment has
        removed nothing that was visible.
        """
        left = {tree.prefix: tree for tree in later.segments}
        found = [
            prefix_range(tree.prefix)
            for tree in self.manifest.segments
            if not tree.is_empty() and is_drained(tree, left.get(tree.prefix))
        ]
        self.manifest = later
        return () if later.nonce else tuple(found)


def is_drained(before: Segment, after: Segment | None) -> bool:
    """Tell whether a client has emptied a tree: a compaction would have put a run in the place of its layers.

    Parameters
    ----------
    after : the same tree of a later version, which may have L0 views of rows that came since; None if it is gone
    """
    return after is None or not (after.compacted or set(before.l0) & set(after.l0))


@dataclass(slots=True)
class _Filters:
    """The compactions of slatespark that may have removed rows, and that a client has committed; read when it is asked.

    A damaged record may be that of any version.
    """

    stores: TableStores
    known: dict[str, FilteredJob]  # by path, from earlier reads
    jobs: list[FilteredJob | None] | None = None  # each was recorded before a version could show it

    def of(self, before: _Version, version: _Version) -> tuple[KeyRange, ...]:
        """Return the keys of which a version may have removed rows in this way."""
        gone = before.sst_ids - version.sst_ids
        if version.has_nonce or not gone:
            return ()
        if self.jobs is None:
            self.jobs = fetch_filtered_jobs(self.stores.main, self.known)
        added = version.sst_ids - before.sst_ids
        if None in self.jobs:
            return (ALL_KEYS,)
        return tuple(job.keys for job in self.jobs if job is not None and job.is_committed_by(added, gone))


def find_later_commits(
    stores: TableStores,
    since: Version[Manifest],
    latest: Version[Manifest],
    filtered_jobs: dict[str, FilteredJob],
) -> Iterator[LaterCommit]:
    """Yield the commits after the version `since`, up to the newest one.

    Parameters
    ----------
    filtered_jobs : records that earlier calls have read, by path; new ones are added

    Raises
    ------
    SnapshotExpiredError
        When a version in between was collected.
    """
    before, now = since.value, latest.value
    if before.last_l0_seq == now.last_l0_seq and before.ssts.keys() == now.ssts.keys():
        return
    versions = [_known(*since)]  # of all but the last one the files are not needed, which may be many
    trees, filters = _Segments(before), _Filters(stores, filtered_jobs)
    removals = fetch_claimed_removals(stores.main, since.number + 1, latest.number)
    for version, decode in _versions_after(stores, since.number, latest):
        load_seq, filtered = _find_load(stores, versions[-1], version), filters.of(versions[-1], version)
        changes = bool(filtered) or load_seq is not None or version.last_seq > versions[-1].last_seq
        if changes or trees.may_shrink:
            manifest = decode()
            drained = trees.drained_by(manifest)
            if changes or drained:
                yield _commit(stores, versions, version, manifest, removals, load_seq, (*drained, *filtered))
        versions[-1] = replace(versions[-1], sst_ids=frozenset())
        versions.append(version)


def _versions_after(
    stores: TableStores, number: int, latest: Version[Manifest]
) -> Iterator[tuple[_Version, Callable[[], Manifest]]]:
    """Yield the versions after one, up to the newest, each with the function that decodes it whole."""
    between = range(number + 1, latest.number)
    for each, found in run_in_groups(manifest_log(stores).get, between, is_remote=stores.main.is_remote):
        data = bytes(found)
        yield _outlined(stores, each, data), partial(decode_version, stores, each, data)
    yield _known(*latest), lambda: latest.value


def _find_load(stores: TableStores, before: _Version, version: _Version) -> int | None:
    """Return the sequence number of the load that a version is the commit of; None if it is none."""
    fresh = version.sst_ids - before.sst_ids
    if version.last_seq > before.last_seq or not fresh:
        return None
    return find_load_seq(stores, version.number, fresh)


def _known(number: int, manifest: Manifest) -> _Version:
    return _Version(number, manifest.epochs, manifest.last_l0_seq, bool(manifest.nonce), manifest.ssts.keys())


def _outlined(stores: TableStores, number: int, data: bytes) -> _Version:
    with object_context(stores.main, manifest_log(stores).path(number)):
        outline: ManifestOutline = decode_outline(data)
    epochs = outline.writer_epoch, outline.compactor_epoch
    return _Version(number, epochs, outline.last_l0_seq, bool(outline.nonce), outline.sst_ids, manifest_digest(data))


def _commit(
    stores: TableStores,
    before: Sequence[_Version],
    version: _Version,
    manifest: Manifest,
    removals: _Removals,
    load_seq: int | None,
    gone: tuple[KeyRange, ...],
) -> LaterCommit:
    """Return what a version changed against the one before it."""
    known = before[-1].sst_ids
    fresh = [handle for sst_id, handle in manifest.ssts.items() if sst_id not in known]
    roots = external_roots(stores, manifest)
    added = tuple(FileSlice(SstFile.of(handle, roots.get(handle.id, OWN_ROOT)), handle.key_range()) for handle in fresh)
    takes_away = version.has_nonce and version.number > 1  # the first version has nothing to remove
    removed = _removed_by(stores, before, version, removals) if takes_away else ()
    return LaterCommit(version.number, added, merge_ranges((*removed, *gone)), load_seq)


def _removed_by(
    stores: TableStores, before: Sequence[_Version], version: _Version, removals: _Removals
) -> tuple[KeyRange, ...]:
    """Return the key ranges in which a version may have removed rows; all keys if its claim record is gone."""
    claim = next((known for known in before if known.epochs == version.epochs), version)
    if claim is before[0]:  # the read was between claim and commit, so the claim is that version or an earlier one
        claim = _fetch_first(stores, claim)
        removals = fetch_claimed_removals(stores.main, claim.number, claim.number)
    return removals.get(claim.digest, (ALL_KEYS,))


def _fetch_first(stores: TableStores, version: _Version) -> _Version:
    """Return the first version with the same epochs that still exists."""
    log, first = manifest_log(stores), version
    with contextlib.suppress(SnapshotExpiredError):
        first = _outlined(stores, version.number, bytes(log.get(version.number)))
        while True:
            earlier = _outlined(stores, first.number - 1, bytes(log.get(first.number - 1)))
            if earlier.epochs != version.epochs:
                break
            first = earlier
    return first
