"""Manifests -> the files to verify, and the faults of the manifests themselves. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from slatespark.format.compactions import Compactions
from slatespark.format.invariants import (
    RULES,
    ManifestChange,
    l0_view_ids_are_unique,
    new_l0_is_not_older_than_the_watermark,
)
from slatespark.format.manifest import Manifest
from slatespark.format.ulid import Ulid
from slatespark.table.read.planning.plan import FileSlice, Layer, SstFile, keep_slices, plan_layers
from slatespark.table.verify.layers import Pair, overlapping_pairs
from slatespark.units import s_to_ms

# Rules for a published manifest. A restored state may hold older L0 files than the state before it.
RULES_AT_REST: Final = tuple(rule for rule in RULES if rule is not new_l0_is_not_older_than_the_watermark)


@dataclass(frozen=True, slots=True)
class VerifiedVersion:
    """What is kept of a verified version: there may be thousands.

    Attributes
    ----------
    number : number of the version
    last_l0_seq, replay_after_wal_id, wal_id_last_seen : as in its manifest
    is_needed : it is the newest one, or pinned by a checkpoint, so all of its files must exist. Files of other versions
        may have been garbage-collected
    """

    number: int
    last_l0_seq: int
    replay_after_wal_id: int
    wal_id_last_seen: int
    is_needed: bool

    @classmethod
    def of(cls, number: int, manifest: Manifest, *, is_needed: bool) -> VerifiedVersion:
        """Return what is kept of a version."""
        wal = manifest.replay_after_wal_id, manifest.wal_id_last_seen
        return cls(number, manifest.last_l0_seq, *wal, is_needed)

    def wal_ids(self) -> range:
        """Return the WAL files that hold rows above the trees according to the manifest."""
        return range(self.replay_after_wal_id + 1, self.wal_id_last_seen + 1)

    def wal_end(self, present: Iterable[int]) -> int:
        """Return the end of the WAL that a reader of the newest state replays."""
        there = set(present)
        end = self.replay_after_wal_id + 1
        while end in there:
            end += 1
        return max(end, self.wal_id_last_seen + 1)


@dataclass(slots=True)
class FileTask:
    """An SST to read once for all versions that reference it.

    Attributes
    ----------
    file : as the newest of these versions describes it
    first : the first of these versions, and how it describes the file
    spans : their places among all versions, ascending and apart
    is_needed : whether the file must exist
    """

    file: SstFile
    first: tuple[int, SstFile]
    spans: list[range]
    is_needed: bool = False

    def add(self, place: int, file: SstFile, *, is_needed: bool) -> None:
        """Add the version at a place, behind all others."""
        if self.spans and self.spans[-1].stop == place:
            self.spans[-1] = range(self.spans[-1].start, place + 1)
        else:
            self.spans.append(range(place, place + 1))
        self.file, self.is_needed = file, self.is_needed or is_needed


@dataclass(frozen=True, slots=True)
class LayerOverlap:
    """Slices of different layers that share keys, and that no later version has above each other.

    Attributes
    ----------
    number : the last version with them
    pairs : the slices, newer first
    layers : the layers of that version, with these slices alone
    """

    number: int
    pairs: frozenset[Pair]
    layers: tuple[Layer, ...]


@dataclass(slots=True)
class VersionSurvey:
    """What the versions of a table reference; memory grows with what differs between them, not with all they list.

    Attributes
    ----------
    versions : ascending; the last one is the newest
    manifest, layers : of the newest
    overlaps : ascending by version, without those of the newest
    """

    versions: list[VerifiedVersion] = field(default_factory=list)
    manifest: Manifest = field(default_factory=Manifest)
    layers: tuple[Layer, ...] = ()
    overlaps: list[LayerOverlap] = field(default_factory=list)
    _files: dict[tuple[str, Ulid], FileTask] = field(default_factory=dict)
    _pairs: frozenset[Pair] = frozenset()
    _slices: dict[FileSlice, FileSlice] = field(default_factory=dict)

    @property
    def newest(self) -> VerifiedVersion:
        """The newest version; requires that there is one."""
        return self.versions[-1]

    def add(
        self,
        number: int,
        manifest: Manifest,
        roots: Mapping[Ulid, str],
        *,
        is_needed: bool,
        before: Manifest | None = None,
    ) -> Iterator[str]:
        """Add a version, newer than all others, and yield the faults of its manifest.

        Parameters
        ----------
        roots : owners of the SSTs of a clone that other databases own
        is_needed : as in `VerifiedVersion`
        before : the version right before, if it is known and was not added
        """
        if self.versions and self.newest.number == number - 1:
            before = self.manifest
        yield from find_broken_rules(number, manifest, before)
        layers = tuple(
            replace(layer, slices=tuple(self._slices.setdefault(part, part) for part in layer.slices))
            for layer in plan_layers(manifest, dict(roots))
        )
        yield from self._add_files(number, layers, is_needed=is_needed)
        pairs = overlapping_pairs(layers) if layers != self.layers else self._pairs
        if gone := self._pairs - pairs:
            self.overlaps.append(self._overlap(gone))
        self.versions.append(VerifiedVersion.of(number, manifest, is_needed=is_needed))
        self.manifest, self.layers, self._pairs = manifest, layers, pairs

    def _add_files(self, number: int, layers: Iterable[Layer], *, is_needed: bool) -> Iterator[str]:
        for file in sorted({part.file for layer in layers for part in layer.slices}, key=lambda item: item.id):
            task = self._files.setdefault((file.root, file.id), FileTask(file, (number, file), []))
            task.add(len(self.versions), file, is_needed=is_needed)
            earlier, first = task.first
            if first != file:
                yield f"Its description of SST {file.id} differs from that in manifest {earlier}."

    def _overlap(self, pairs: frozenset[Pair]) -> LayerOverlap:
        wanted = {part for pair in pairs for part in pair}
        return LayerOverlap(self.newest.number, pairs, keep_slices(self.layers, wanted.__contains__))

    def latest_overlaps(self) -> Iterator[LayerOverlap]:
        """Yield all overlaps, those of the newest version first."""
        yield self._overlap(self._pairs)
        yield from reversed(self.overlaps)

    def files(self) -> list[FileTask]:
        """Return every SST, newest first, each once."""
        return sorted(self._files.values(), key=lambda task: task.file.id, reverse=True)


def pinned_numbers(newest: Manifest, now_ms: int) -> dict[int, str]:
    """Return the manifest ids pinned by live checkpoints of the newest manifest, each with a checkpoint's name."""
    live = (point for point in newest.checkpoints if not point.expire_time_s or s_to_ms(point.expire_time_s) > now_ms)
    return {point.manifest_id: point.name or str(point.id) for point in live}


def find_broken_rules(number: int, manifest: Manifest, before: Manifest | None) -> Iterator[str]:
    """Yield the broken rules of a manifest; `before` is the previous version, if known."""
    change = ManifestChange(manifest, before, number, None)
    for rule in RULES_AT_REST:
        # Ids that L0 already repeated are a fault too, though a commit may leave them.
        problem = rule(replace(change, current=None) if rule is l0_view_ids_are_unique else change)
        if problem is not None:
            yield f"Rule {rule.__name__}: {problem}."


def find_compaction_faults(compactions: Compactions, newest: Manifest) -> Iterator[str]:
    """Yield the faults of the compactor's state compared with the newest manifest."""
    if compactions.compactor_epoch > newest.compactor_epoch:
        yield (
            f"Its compactor epoch is {compactions.compactor_epoch}, above {newest.compactor_epoch} in the manifest: a "
            "client's compactor would fail as fenced."
        )


def find_wal_gaps(wanted: range, present: Iterable[int]) -> list[range]:
    """Return the ranges of WAL ids that a version needs and that do not exist.

    A damaged manifest may need 2^64 of them, so nothing here iterates over ids.
    """
    gaps = []
    start = wanted.start
    for number in sorted(item for item in present if item in wanted):
        if start < number:
            gaps.append(range(start, number))
        start = number + 1
    if start < wanted.stop:
        gaps.append(range(start, wanted.stop))
    return gaps


def find_stray_wal(newest: VerifiedVersion, present: Iterable[int]) -> list[int]:
    """Return the WAL ids beyond a gap: replay never reaches them, and a writer that gets there is fenced."""
    there = set(present)
    return sorted(number for number in there if number >= newest.wal_end(there))
