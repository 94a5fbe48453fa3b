"""Snapshot -> layers -> splits: which files, cut to which keys, each read partition merges. Pure.

A *layer* is one search step of the client: one L0 view, or the views of one sorted run. Layers are listed
newest first; for any key, every version in a newer layer has a higher sequence number than those in an older one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Final, TypeAlias

from slatespark.format.info import SstInfo
from slatespark.format.manifest import Manifest
from slatespark.format.paths import sst_path
from slatespark.format.references import SortedRun, SstHandle, SstView
from slatespark.format.ulid import Ulid
from slatespark.ranges import KeyRange, key_after
from slatespark.storage import ObjectMeta
from slatespark.table.read.planning.wal_share import WalShare
from slatespark.table.stores import OWN_ROOT

MAX_SAMPLED_INDEXES = 64
POINTS_PER_SPLIT = 16  # how finely an index is sampled: a split is off its target by about 1/16
MAX_POINTS = 1 << 14  # of all files, but for those that the line above asks for: many splits need no finer ones
POINT_BYTES = 4096  # the client's block size, which the lookup of one key reads
EVEN_COUNTS: Final = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)  # of more splits the last ones matter little
OWN_WRITES: Final = "own writes"  # layers with the rows of the transaction, which are the newest


@dataclass(frozen=True, slots=True)
class SstFile:
    """One SST as the manifest describes it, and the database that owns it.

    Attributes
    ----------
    root : `OWN_ROOT`, or the URL of another database (clones)
    id, info, format_version : as in the manifest, which is authoritative (docs/reference/format/sst.md)
    """

    root: str
    id: Ulid
    info: SstInfo
    format_version: int

    @classmethod
    def of(cls, handle: SstHandle, root: str = OWN_ROOT) -> SstFile:
        """Return the SST that a manifest names, of the database with this root."""
        return cls(root, handle.id, handle.info, handle.format_version)

    @property
    def handle(self) -> SstHandle:
        """The SST as a manifest names it."""
        return SstHandle(self.id, self.info, self.format_version)

    @property
    def path(self) -> str:
        """Path below the root."""
        return sst_path(self.id)

    @property
    def data_bytes(self) -> int:
        """Stored size of the data blocks."""
        return self.info.data_bytes

    def whole(self) -> FileSlice:
        """Return all of it."""
        return FileSlice(self, self.info.key_range())


@dataclass(frozen=True, slots=True)
class FileSlice:
    """The part of a file that a layer shows."""

    file: SstFile
    keys: KeyRange

    @property
    def is_whole(self) -> bool:
        """Whether it certainly shows every row of its file."""
        of_file = self.file.info.key_range()
        return self.keys.intersect(of_file) == of_file


@dataclass(frozen=True, slots=True)
class Layer:
    """File slices in key order, not overlapping but for a shared boundary key (newer versions first).

    Attributes
    ----------
    name : `L0` or `run 7`, for people; or `OWN_WRITES`
    slices : ascending
    """

    name: str
    slices: tuple[FileSlice, ...]

    @property
    def is_above_wal(self) -> bool:
        """Whether its rows are newer than those of the WAL, as only those of a transaction under way are."""
        return self.name == OWN_WRITES


@dataclass(frozen=True, slots=True)
class Split:
    """One read partition: the layers that meet its keys, cut to them.

    Attributes
    ----------
    keys : all of its keys lie in here
    layers : newest first
    ranges : the parts of `keys` that are read, ascending and apart from each other; empty for all of it
    points : the keys that are read, ascending; None for all in the ranges. Layers are cut to `keys` only
    wal : rows of the WAL; None where they are still to be decoded
    copies : columnar copies that may be read instead of files
    """

    keys: KeyRange
    layers: tuple[Layer, ...]
    ranges: tuple[KeyRange, ...] = ()
    points: tuple[bytes, ...] | None = None
    wal: WalShare | None = None
    copies: tuple[ObjectMeta, ...] = ()


@dataclass(frozen=True, slots=True)
class CutPoint:
    """`stored_bytes` of a file lie from `key` on, up to the file's next point."""

    key: bytes
    stored_bytes: int


Sample: TypeAlias = Callable[[Sequence[SstFile], int], list[list[CutPoint]]]  # of files, about so many bytes apart
Measure: TypeAlias = Callable[[Sequence[FileSlice]], list[int]]


def plan_layers(manifest: Manifest, roots: dict[Ulid, str]) -> tuple[Layer, ...]:
    """Return all layers of a manifest, newest first.

    Parameters
    ----------
    manifest : any version
    roots : for SSTs of other databases, the URL of the owner (docs/reference/format/clones.md)
    """
    files = {handle.id: SstFile.of(handle, roots.get(handle.id, OWN_ROOT)) for handle in manifest.ssts.values()}

    def tree(l0: Sequence[SstView], runs: Sequence[SortedRun]) -> Iterable[Layer]:
        for view in l0:
            yield Layer("L0", tuple(slices([view])))
        for run in runs:
            yield Layer(f"run {run.id}", tuple(slices(run.views)))

    def slices(views: Sequence[SstView]) -> Iterable[FileSlice]:
        for view in views:
            yield FileSlice(files[view.sst_id], view.key_range(manifest.ssts[view.sst_id]))

    layers = list(tree(manifest.l0, manifest.compacted))
    # No two trees share a key, so their order does not matter (docs/reference/format/segments.md).
    for segment in manifest.segments:
        layers.extend(tree(segment.l0, segment.compacted))
    return tuple(layers)


def stored_bytes(layers: Iterable[Layer]) -> int:
    """Return the stored bytes of the files of some layers; a file counts as often as it occurs."""
    return sum(part.file.data_bytes for layer in layers for part in layer.slices)


def keep_slices(layers: Iterable[Layer], is_kept: Callable[[FileSlice], bool]) -> tuple[Layer, ...]:
    """Return the layers with those of their slices for which a test is true."""
    kept = (Layer(layer.name, tuple(filter(is_kept, layer.slices))) for layer in layers)
    return tuple(layer for layer in kept if layer.slices)


def cut_layers(layers: Sequence[Layer], keys: KeyRange) -> tuple[Layer, ...]:
    """Return the layers that meet `keys`, cut to it."""
    cut = (Layer(layer.name, cut_slices(layer, keys)) for layer in layers)
    return tuple(layer for layer in cut if layer.slices)


def cut_slices(layer: Layer, keys: KeyRange) -> tuple[FileSlice, ...]:
    """Return the slices of a layer that meet `keys`, cut to it."""
    return tuple(
        FileSlice(part.file, common) for part in layer.slices if not (common := part.keys.intersect(keys)).is_empty()
    )


def cut_to_ranges(layers: Sequence[Layer], ranges: Sequence[KeyRange]) -> tuple[Layer, ...]:
    """Return the layers that meet any of the ranges, with a slice for every range that meets a file.

    Requires: ranges ascending, apart from each other.
    """
    found = []
    starts = [keys.start for keys in ranges]
    for layer in layers:
        parts: list[FileSlice] = []
        for part in layer.slices:
            first, end = _ranges_met(part, starts)
            common = (part.keys.intersect(keys) for keys in ranges[first:end])
            parts.extend(FileSlice(part.file, keys) for keys in common if not keys.is_empty())
        if parts:
            found.append(Layer(layer.name, tuple(parts)))
    return tuple(found)


def partition_layers(layers: Sequence[Layer], ranges: Sequence[KeyRange]) -> list[tuple[Layer, ...]]:
    """Return for each range the layers that meet it, cut to it: `cut_layers` of many ranges, in one pass.

    Requires: ranges ascending, each starting where the one before ends; no slice reaches beyond them.
    """
    found: list[list[Layer]] = [[] for _ in ranges]
    starts = [keys.start for keys in ranges]
    for layer in layers:
        parts: dict[int, list[FileSlice]] = {}
        for part in layer.slices:
            first, end = _ranges_met(part, starts)
            for number in range(first, end):
                inside = part if end - first == 1 else FileSlice(part.file, part.keys.intersect(ranges[number]))
                parts.setdefault(number, []).append(inside)
        for number, slices in parts.items():
            found[number].append(Layer(layer.name, tuple(slices)))
    return [tuple(each) for each in found]


def _ranges_met(part: FileSlice, starts: Sequence[bytes]) -> tuple[int, int]:
    """Return which of the ranges that start there, [first, end), a slice may meet."""
    first = max(0, bisect_right(starts, part.keys.start) - 1)
    return first, len(starts) if part.keys.end is None else bisect_left(starts, part.keys.end)


def plan_ranges(
    layers: Sequence[Layer],
    ranges: Sequence[KeyRange],
    *,
    target_bytes: int,
    sample: Sample,
    measure: Measure,
) -> tuple[Split, ...]:
    """Cut several key ranges into splits of about `target_bytes`: large ranges are cut, small ones joined.

    Parameters
    ----------
    layers, target_bytes, sample : as for `plan_splits`
    ranges : ascending, apart from each other, none empty
    measure : slices -> stored bytes of each; called for slices of the largest files only
    """
    if not ranges:
        return ()
    if len(ranges) == 1:
        return plan_splits(layers, ranges[0], target_bytes=target_bytes, sample=sample, evenly=True)
    splits: list[Split] = []
    waiting: list[KeyRange] = []
    filled = 0
    cut = cut_to_ranges(layers, ranges)  # once: there may be thousands of files, and as many ranges
    for keys, size in zip(ranges, _range_sizes(cut, ranges, measure), strict=True):
        if waiting and filled + size > target_bytes:
            splits.append(_joined_split(cut, waiting))
            waiting, filled = [], 0
        if size > target_bytes:
            inside = _whole_slices(cut, keys)
            splits.extend(plan_splits(inside, keys, target_bytes=target_bytes, sample=sample, evenly=True))
        else:
            waiting.append(keys)
            filled += size
    if waiting:
        splits.append(_joined_split(cut, waiting))
    return tuple(splits)


def _joined_split(cut: Sequence[Layer], ranges: Sequence[KeyRange]) -> Split:
    several = tuple(ranges) if len(ranges) > 1 else ()
    keys = KeyRange(ranges[0].start, ranges[-1].end)
    return Split(keys, _whole_slices(cut, keys), several)


def _whole_slices(layers: Sequence[Layer], keys: KeyRange) -> tuple[Layer, ...]:
    """Return the layers with their slices in a range. Requires: no slice reaches beyond it."""
    found = []
    for layer in layers:
        first = bisect_left(layer.slices, keys.start, key=_start_of)
        end = len(layer.slices) if keys.end is None else bisect_left(layer.slices, keys.end, first, key=_start_of)
        if first < end:
            found.append(Layer(layer.name, layer.slices[first:end]))
    return tuple(found)


def _start_of(part: FileSlice) -> bytes:
    return part.keys.start


def _range_sizes(cut: Sequence[Layer], ranges: Sequence[KeyRange], measure: Measure) -> list[int]:
    """Return about how many stored bytes each range has; slices that are not measured count as the average."""
    starts = [keys.start for keys in ranges]
    slices = (part for layer in cut for part in layer.slices)
    parts = [(bisect_right(starts, part.keys.start) - 1, part) for part in slices]
    files = {part.file.id: part.file for _, part in parts}
    largest = sorted(files.values(), key=lambda file: (-file.data_bytes, file.id.value))[:MAX_SAMPLED_INDEXES]
    measured = {file.id for file in largest}
    found = [(at, part) for at, part in parts if part.file.id in measured]
    known = list(zip((at for at, _ in found), measure([part for _, part in found]), strict=True))
    average = sum(size for _, size in known) // max(1, len(known))
    sizes = [0] * len(ranges)
    for at, size in known:
        sizes[at] += size
    for at, part in parts:
        if part.file.id not in measured:
            sizes[at] += min(average, part.file.data_bytes)
    return sizes


def plan_points(layers: Sequence[Layer], points: Sequence[bytes], *, target_bytes: int) -> tuple[Split, ...]:
    """Cut the lookup of many keys into splits; each key costs about one block.

    Parameters
    ----------
    layers, target_bytes : as for `plan_splits`
    points : ascending and distinct
    """
    count = max(1, target_bytes // POINT_BYTES)
    splits = []
    for start in range(0, len(points), count):
        part = tuple(points[start : start + count])
        keys = KeyRange(part[0], key_after(part[-1]))
        splits.append(Split(keys, cut_layers(layers, keys), points=part))
    return tuple(splits)


def range_size(stored_bytes: int, *, most_bytes: int, least_bytes: int, parallelism: int) -> int:
    """Return the size of a range, so that all ranges are similar and fill the parallel workers.

    Parameters
    ----------
    stored_bytes : stored size of all ranges
    most_bytes, least_bytes : bounds of a range; a smaller one is not worth a task
    parallelism : how many are merged at a time
    """
    needed = -(-stored_bytes // most_bytes)
    rounds = -(-needed // parallelism)
    count = max(needed, min(rounds * parallelism, stored_bytes // least_bytes))
    return max(1, -(-stored_bytes // max(1, count)))


def plan_splits(
    layers: Sequence[Layer],
    keys: KeyRange,
    *,
    target_bytes: int,
    sample: Sample,
    evenly: bool = False,
) -> tuple[Split, ...]:
    """Cut a key range into splits of about `target_bytes` of stored data.

    Parameters
    ----------
    layers : all layers of the snapshot, newest first
    keys : the range to read
    target_bytes : stored bytes per split; small inputs become one split
    sample : (files, spacing in bytes) -> cut points of each file; called for the largest files only
    evenly : make a few more of them, as `even_bytes` does: where nobody knows how many are read at a time

    Returns
    -------
    Splits in key order that cover `keys`; no key lies in two of them.
    """
    cut = cut_layers(layers, keys)
    files = {part.file.id: part.file for layer in cut for part in layer.slices}
    total_bytes = sum(file.data_bytes for file in files.values())
    if total_bytes <= target_bytes:
        return (Split(keys, cut),)
    if evenly:
        target_bytes = even_bytes(total_bytes, target_bytes)
    spacing = target_bytes // POINTS_PER_SPLIT
    # The points of all layers come together at each key, and so does their inaccuracy.
    finer = max(spacing // max(1, len(cut)), total_bytes // MAX_POINTS)
    points = _sample_files(files, sample, spacing, min(spacing, finer))
    ranges = ranges_of(points, keys, target_bytes)
    return tuple(Split(part, layers) for part, layers in zip(ranges, partition_layers(cut, ranges), strict=True))


def even_bytes(total_bytes: int, target_bytes: int) -> int:
    """Return a size up to the target of which there are as many as the processors of most machines divide.

    So that all processors end at about the same time: of three tasks on two, the last one would run alone.
    """
    wanted = -(-total_bytes // target_bytes)
    count = next((each for each in EVEN_COUNTS if each >= wanted), wanted)
    return -(-total_bytes // count)


def _sample_files(files: dict[Ulid, SstFile], sample: Sample, least_bytes: int, spacing: int) -> list[CutPoint]:
    """Return points of all files; of those that are larger than `least_bytes`, about every `spacing` bytes."""
    largest = sorted(files.values(), key=lambda file: (-file.data_bytes, file.id.value))
    sampled = [file for file in largest[:MAX_SAMPLED_INDEXES] if file.data_bytes > max(1, least_bytes)]
    points = list(chain.from_iterable(sample(sampled, max(1, spacing)) if sampled else ()))
    rest = largest[len(sampled) :]
    return points + [CutPoint(file.info.first_entry or b"", file.data_bytes) for file in rest]


def ranges_of(points: Iterable[CutPoint], keys: KeyRange, target_bytes: int) -> list[KeyRange]:
    """Cut a key range where the stored bytes of the points reach multiples of the target."""
    borders: list[bytes] = []
    filled, full = 0, target_bytes
    previous = keys.start
    for point in sorted(points, key=lambda item: item.key):
        if filled >= full and point.key > previous and keys.contains(point.key):
            borders.append(point.key)
            previous, full = point.key, (filled // target_bytes + 1) * target_bytes
        if point.key >= keys.start:
            filled += point.stored_bytes
    edges = [keys.start, *borders, keys.end]
    return [KeyRange(start or b"", end) for start, end in pairwise(edges)]
