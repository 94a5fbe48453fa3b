"""Snapshot -> layers -> splits: which files, cut to which keys, each read partition merges. Pure.

A *layer* is what one search step of the client looks at: one L0 view, or the views of one sorted run. Layers are listed
newest first; for any key, every version in a newer layer has a higher sequence number than those in an older one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from slatespark.format.info import SstInfo
from slatespark.format.manifest import Manifest, SortedRun, SstView
from slatespark.format.paths import sst_path
from slatespark.format.ulid import Ulid
from slatespark.ranges import KeyRange
from slatespark.table.stores import OWN_ROOT

MAX_SAMPLED_INDEXES = 64
POINTS_PER_SPLIT = 16  # how finely an index is sampled: a split is off its target by about 1/16 per file


@dataclass(frozen=True, slots=True)
class SstFile:
    """One SST as the manifest describes it, and the database that owns it.

    Attributes
    ----------
    root : `OWN_ROOT`, or the URL of another database (clones)
    id, info, format_version : as in the manifest, which is authoritative (spec 2.1)
    """

    root: str
    id: Ulid
    info: SstInfo
    format_version: int

    @property
    def path(self) -> str:
        """Path below the root."""
        return sst_path(self.id)

    @property
    def data_bytes(self) -> int:
        """Stored size of the data blocks."""
        return self.info.data_bytes


@dataclass(frozen=True, slots=True)
class FileSlice:
    """The part of a file that a layer shows."""

    file: SstFile
    keys: KeyRange


@dataclass(frozen=True, slots=True)
class Layer:
    """File slices in key order, not overlapping but for a shared boundary key (newer versions first).

    Attributes
    ----------
    name : `L0` or `run 7`, for people
    slices : ascending
    """

    name: str
    slices: tuple[FileSlice, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """One read partition: the layers that meet a key range, cut to it."""

    keys: KeyRange
    layers: tuple[Layer, ...]


@dataclass(frozen=True, slots=True)
class CutPoint:
    """`stored_bytes` of a file lie from `key` on, up to the file's next point."""

    key: bytes
    stored_bytes: int


def plan_layers(manifest: Manifest, roots: dict[Ulid, str]) -> tuple[Layer, ...]:
    """Return all layers of a manifest, newest first.

    Parameters
    ----------
    manifest : any version
    roots : for SSTs of other databases, the URL of the owner (spec 4.6)
    """
    files = {
        handle.id: SstFile(roots.get(handle.id, OWN_ROOT), handle.id, handle.info, handle.format_version)
        for handle in manifest.ssts.values()
    }

    def tree(l0: Sequence[SstView], runs: Sequence[SortedRun]) -> Iterable[Layer]:
        for view in l0:
            yield Layer("L0", tuple(slices([view])))
        for run in runs:
            yield Layer(f"run {run.id}", tuple(slices(run.views)))

    def slices(views: Sequence[SstView]) -> Iterable[FileSlice]:
        for view in views:
            yield FileSlice(files[view.sst_id], view.key_range(manifest.ssts[view.sst_id]))

    layers = list(tree(manifest.l0, manifest.compacted))
    for segment in manifest.segments:  # no two trees share a key (spec 4.7), so their order does not matter
        layers.extend(tree(segment.l0, segment.compacted))
    return tuple(layers)


def cut_layers(layers: Sequence[Layer], keys: KeyRange) -> tuple[Layer, ...]:
    """Return the layers that meet `keys`, cut to it."""
    found = []
    for layer in layers:
        parts = tuple(
            FileSlice(part.file, common)
            for part in layer.slices
            if not (common := part.keys.intersect(keys)).is_empty()
        )
        if parts:
            found.append(Layer(layer.name, parts))
    return tuple(found)


def plan_splits(
    layers: Sequence[Layer], keys: KeyRange, *, target_bytes: int, sample: Callable[[SstFile, int], list[CutPoint]]
) -> tuple[Split, ...]:
    """Cut a key range into splits of about `target_bytes` of stored data.

    Parameters
    ----------
    layers : all layers of the snapshot, newest first
    keys : what is to be read
    target_bytes : stored bytes per split; small inputs become one split
    sample : (file, spacing in bytes) -> cut points of the file; called for the largest files only

    Returns
    -------
    Splits in key order that cover `keys`; no key lies in two of them.
    """
    cut = cut_layers(layers, keys)
    files = {part.file.id: part.file for layer in cut for part in layer.slices}
    total_bytes = sum(file.data_bytes for file in files.values())
    if total_bytes <= target_bytes:
        return (Split(keys, cut),)
    borders = _choose_borders(files, keys, target_bytes, sample)
    edges = [keys.start, *borders, keys.end]
    ranges = [KeyRange(start or b"", end) for start, end in pairwise(edges)]
    return tuple(Split(part, cut_layers(cut, part)) for part in ranges)


def _choose_borders(
    files: dict[Ulid, SstFile], keys: KeyRange, target_bytes: int, sample: Callable[[SstFile, int], list[CutPoint]]
) -> list[bytes]:
    """Return the keys, inside `keys`, at which the stored bytes before them reach multiples of the target."""
    largest = sorted(files.values(), key=lambda file: (-file.data_bytes, file.id))
    spacing = max(1, target_bytes // POINTS_PER_SPLIT)
    points: list[CutPoint] = []
    for rank, file in enumerate(largest):
        if rank < MAX_SAMPLED_INDEXES and file.data_bytes > spacing:
            points.extend(sample(file, spacing))
        else:
            points.append(CutPoint(file.info.first_entry or b"", file.data_bytes))
    borders: list[bytes] = []
    filled = 0
    previous = keys.start
    for point in sorted(points, key=lambda item: item.key):
        if filled >= target_bytes and point.key > previous and keys.contains(point.key):
            borders.append(point.key)
            previous, filled = point.key, 0
        if point.key >= keys.start:
            filled += point.stored_bytes
    return borders
