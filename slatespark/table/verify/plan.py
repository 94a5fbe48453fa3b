"""Manifests -> the files to verify, and the faults of the manifests themselves. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from slatespark.table.read.planning.plan import Layer, SstFile, plan_layers
from slatespark.units import s_to_ms

# Rules for a published manifest. A restored state may hold older L0 files than the state before it.
RULES_AT_REST: Final = tuple(rule for rule in RULES if rule is not new_l0_is_not_older_than_the_watermark)


@dataclass(frozen=True, slots=True)
class VerifiedVersion:
    """One verified version.

    Attributes
    ----------
    number, manifest : the version
    layers : newest first
    is_needed : it is the newest one, or pinned by a checkpoint, so all of its files must exist. Files of other versions
        may have been garbage-collected
    """

    number: int
    manifest: Manifest
    layers: tuple[Layer, ...]
    is_needed: bool

    def files(self) -> set[SstFile]:
        """Return the SSTs that the version references."""
        return {part.file for layer in self.layers for part in layer.slices}

    def wal_ids(self) -> range:
        """Return the WAL files that hold rows above the trees according to the manifest."""
        return range(self.manifest.replay_after_wal_id + 1, self.manifest.wal_id_last_seen + 1)

    def wal_end(self, present: Iterable[int]) -> int:
        """Return the end of the WAL that a reader of the newest state replays."""
        there = set(present)
        end = self.manifest.replay_after_wal_id + 1
        while end in there:
            end += 1
        return max(end, self.manifest.wal_id_last_seen + 1)


@dataclass(frozen=True, slots=True)
class FileTask:
    """An SST to read once for all versions that reference it.

    Attributes
    ----------
    file : as the newest of these versions describes it
    shown_in : their numbers, ascending
    is_needed : whether it must exist
    """

    file: SstFile
    shown_in: tuple[int, ...]
    is_needed: bool


def pinned_numbers(newest: Manifest, now_ms: int) -> dict[int, str]:
    """Return the manifest ids pinned by live checkpoints of the newest manifest, each with a checkpoint's name."""
    live = (point for point in newest.checkpoints if not point.expire_time_s or s_to_ms(point.expire_time_s) > now_ms)
    return {point.manifest_id: point.name or str(point.id) for point in live}


def make_version(number: int, manifest: Manifest, roots: Mapping[Ulid, str], *, is_needed: bool) -> VerifiedVersion:
    """Return a version with its layers; `roots` maps SSTs of a clone to the databases that own them."""
    return VerifiedVersion(number, manifest, plan_layers(manifest, dict(roots)), is_needed)


def plan_files(versions: Sequence[VerifiedVersion]) -> tuple[FileTask, ...]:
    """Return every SST of the versions (given ascending), newest first, each once."""
    by_place: dict[tuple[str, Ulid], list[tuple[VerifiedVersion, SstFile]]] = {}
    for version in versions:
        for file in sorted(version.files(), key=lambda item: item.id):
            by_place.setdefault((file.root, file.id), []).append((version, file))
    tasks = [
        FileTask(
            file=shown[-1][1],
            shown_in=tuple(version.number for version, _ in shown),
            is_needed=any(version.is_needed for version, _ in shown),
        )
        for shown in by_place.values()
    ]
    return tuple(sorted(tasks, key=lambda task: task.file.id, reverse=True))


def find_broken_rules(number: int, manifest: Manifest, before: Manifest | None) -> Iterator[str]:
    """Yield the broken rules of a manifest; `before` is the previous version, if known."""
    change = ManifestChange(manifest, before, number, None)
    for rule in RULES_AT_REST:
        # Ids that L0 already repeated are a fault too, though a commit may leave them.
        problem = rule(replace(change, current=None) if rule is l0_view_ids_are_unique else change)
        if problem is not None:
            yield f"Rule {rule.__name__}: {problem}."


def find_rewritten_entries(versions: Sequence[VerifiedVersion]) -> Iterator[tuple[int, str]]:
    """Yield (manifest id, fact) if versions, given ascending, describe an immutable SST differently."""
    known: dict[tuple[str, Ulid], tuple[int, SstFile]] = {}
    for version in versions:
        for file in version.files():
            number, first = known.setdefault((file.root, file.id), (version.number, file))
            if first != file:
                yield version.number, f"Its description of SST {file.id} differs from that in manifest {number}."


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
