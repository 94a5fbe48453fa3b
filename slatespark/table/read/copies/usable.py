"""Which columnar copies the splits of a read may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

from slatespark.format.ulid import Ulid
from slatespark.ranges import KeyRange
from slatespark.storage import ObjectMeta, run_in_groups
from slatespark.table.read.copies.row_groups import sample_groups
from slatespark.table.read.copies.stored import UNUSABLE, cached_footer, list_copies
from slatespark.table.read.fetch import sample_index
from slatespark.table.read.planning.key_cover import KeyCover
from slatespark.table.read.planning.plan import POINTS_PER_SPLIT, CutPoint, FileSlice, Layer, Split, SstFile
from slatespark.table.read.scan_settings import ScanSettings
from slatespark.table.stores import OWN_ROOT, TableStores


@dataclass(frozen=True, slots=True)
class KnownCopies:
    """The columnar copies that a read may use; listed when the first is asked for.

    Attributes
    ----------
    settings : settings of the read
    is_sought : whether there may be any
    """

    stores: TableStores
    settings: ScanSettings
    is_sought: bool
    _listed: list[Mapping[Ulid, ObjectMeta]] = field(default_factory=list, init=False, repr=False)

    @property
    def objects(self) -> Mapping[Ulid, ObjectMeta]:
        """The copies by the id of their SST."""
        # Not a cached_property: in Python 3.11 its lock is shared by all reads of the process, and this one does I/O.
        if not self._listed:
            usable = self.is_sought and refusal(self.settings) is None
            self._listed.append(list_copies(self.stores.main) if usable else {})
        return self._listed[0]

    def sample(self, files: Sequence[SstFile], spacing_bytes: int) -> list[list[CutPoint]]:
        """Return cut points of each file, about `spacing_bytes` apart: between row groups if it has a copy."""
        copies = self.objects if any(file.root == OWN_ROOT for file in files) else {}
        sample = partial(self._sample, copies, spacing_bytes)
        return [points for _, points in run_in_groups(sample, files, is_remote=self.stores.main.is_remote)]

    def _sample(self, copies: Mapping[Ulid, ObjectMeta], spacing_bytes: int, file: SstFile) -> list[CutPoint]:
        copy = copies.get(file.id) if file.root == OWN_ROOT else None
        if copy is not None:
            points = self._sample_copy(file, copy, spacing_bytes)
            if max(point.stored_bytes for point in points) <= POINTS_PER_SPLIT * spacing_bytes:
                return points
        return sample_index(self.stores, file, spacing_bytes)

    def _sample_copy(self, file: SstFile, copy: ObjectMeta, spacing_bytes: int) -> list[CutPoint]:
        try:
            footer = cached_footer(self.stores.main, copy)
        except UNUSABLE:  # the scan says so
            return [CutPoint(file.info.first_entry or b"", file.data_bytes)]
        return sample_groups(file, footer, self.settings.projection.codec, spacing_bytes)

    def add_to(self, splits: Sequence[Split]) -> tuple[Split, ...]:
        """Return splits with the copies that they may use."""
        return tuple(self._added(split) for split in splits) if self.is_sought else tuple(splits)

    def _added(self, split: Split) -> Split:
        lowest = lowest_slices(split.layers) if split.points is None else []
        found = dict.fromkeys(self.objects[part.file.id] for part in lowest if part.file.id in self.objects)
        return replace(split, copies=tuple(found)) if found else split


def refusal(settings: ScanSettings) -> str | None:
    """Return why no copy can answer a read; None if copies can."""
    shown = settings.visibility
    if settings.validity is not None or shown.all_versions or shown.max_create_ts_ms is not None:
        return "the read shows older versions"
    if shown.include_deleted:
        return "the read shows deletions"
    if settings.ignore_undecodable:
        return "the read skips rows that do not decode"
    return None


def lowest_slices(layers: Sequence[Layer], *, own: bool = True) -> list[FileSlice]:
    """Return the slices of files below which nothing older lies, and which share no key with a neighbour.

    Parameters
    ----------
    own : whether the slices are of the table's own files, which may have copies, or of those of other databases
    """
    found: list[FileSlice] = []
    below = KeyCover()
    for layer in reversed(layers):
        ends = [None, *(_overlap(one, other) for one, other in pairwise(layer.slices)), None]
        for part, (before, behind) in zip(layer.slices, pairwise(ends), strict=True):
            is_wanted = (part.file.root == OWN_ROOT) == own and not layer.is_above_wal
            if is_wanted and not before and not behind and not below.overlaps(part.keys):
                found.append(part)
        for part in layer.slices:
            below.add(part.keys)
    return sorted(found, key=lambda part: part.keys.start)


def _overlap(one: FileSlice, other: FileSlice) -> bool:
    return one.keys.overlaps(other.keys)


def covered_slices(split: Split, wal_meets: Callable[[KeyRange], bool]) -> dict[FileSlice, bool]:
    """Return the lowest slices of a split, and for each whether newer rows may lie above it.

    Parameters
    ----------
    wal_meets : whether the WAL may have rows with keys of a range
    """
    lowest = lowest_slices(split.layers)
    chosen = set(lowest)
    above = KeyCover(part.keys for layer in split.layers for part in layer.slices if part not in chosen)
    return {part: above.overlaps(part.keys) or wal_meets(part.keys) for part in lowest}
