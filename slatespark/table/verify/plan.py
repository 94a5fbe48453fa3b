"""Manifests -> what a verification has to read, and what is wrong with the manifests themselves. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from slatespark.format.compactions import Compactions
from slatespark.format.invariants import RULES, ManifestChange, new_l0_is_not_older_than_the_watermark
from slatespark.format.manifest import Manifest
from slatespark.format.ulid import Ulid
from slatespark.table.read.plan import Layer, SstFile, plan_layers
from slatespark.units import s_to_ms

# What a published manifest has to keep. A restored state  may hold older L0 files than the one before it.
RULES_AT_REST: Final = tuple(rule for rule in RULES if rule is not new_l0_is_not_older_than_the_watermark)


@dataclass(frozen=True, slots=True)
class Version:
    """One manifest that is verified.

    Attributes
    ----------
    number, manifest : the version
    layers : newest first
    is_needed : it is the newest one, or a checkpoint pins it: whatever it needs has to be there. Of other versions the
        collector may have taken files.
    """

    number: int
    manifest: Manifest
    layers: tuple[Layer, ...]
    is_needed: bool

    def files(self) -> set[SstFile]:
        """Return the SSTs that the version shows."""
        return {part.file for layer in self.layers for part in layer.slices}

    def wal_ids(self) -> range:
        """Return the WAL files that the manifest knows to hold rows above its trees."""
        return range(self.manifest.replay_after_wal_id + 1, self.manifest.wal_id_last_seen + 1)

    def wal_end(self, present: Iterable[int]) -> int:
        """Return the first id behind the tail that a reader of the newest state replays."""
        there = set(present)
        end = self.manifest.replay_after_wal_id + 1
        while end in there:
            end += 1
        return max(end, self.manifest.wal_id_last_seen + 1)


@dataclass(frozen=True, slots=True)
class FileTask:
    """An SST to read, once, for all versions that show it.

    Attributes
    ----------
    file : as the newest of these versions describes it
    shown_in : their numbers, ascending
    is_needed : whether it has to be there
    """

    file: SstFile
    shown_in: tuple[int, ...]
    is_needed: bool


def pinned_numbers(newest: Manifest, now_ms: int) -> dict[int, str]:
    """Return the manifest ids that live checkpoints of the newest manifest pin, each with a checkpoint's name."""
    live = (point for point in newest.checkpoints if not point.expire_time_s or s_to_ms(point.expire_time_s) > now_ms)
    return {point.manifest_id: point.name or str(point.id) for point in live}


def make_version(number: int, manifest: Manifest, roots: Mapping[Ulid, str], *, is_needed: bool) -> Version:
    """Return a version with its layers; `roots` says whose the SSTs of clones are."""
    return Version(number, manifest, plan_layers(manifest, dict(roots)), is_needed)


def plan_files(versions: Sequence[Version]) -> tuple[FileTask, ...]:
    """Return every SST of the versions (given ascending), newest first, each once."""
    by_place: dict[tuple[str, Ulid], list[tuple[Version, SstFile]]] = {}
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
    """Yield what is wrong with a manifest, rule by rule; `before` is the version below it, where it is at hand."""
    change = ManifestChange(manifest, before, number, None)
    for rule in RULES_AT_REST:
        problem = rule(change)
        if problem is not None:
            yield f"Rule {rule.__name__}: {problem}."


def find_rewritten_entries(versions: Sequence[Version]) -> Iterator[tuple[int, str]]:
    """Yield (manifest id, fact) where versions describe one immutable SST differently; `versions` ascend."""
    known: dict[tuple[str, Ulid], tuple[int, SstFile]] = {}
    for version in versions:
        for file in version.files():
            number, first = known.setdefault((file.root, file.id), (version.number, file))
            if first != file:
                yield version.number, f"SST {file.id} is described otherwise than in manifest {number}."


def find_compaction_faults(compactions: Compactions, newest: Manifest) -> Iterator[str]:
    """Yield what is wrong with the compactor's state beside the newest manifest."""
    if compactions.compactor_epoch > newest.compactor_epoch:
        yield (
            f"Its compactor epoch is {compactions.compactor_epoch}, above {newest.compactor_epoch} of the manifest: a "
            "client with a compactor fails as fenced."
        )


def find_wal_gaps(wanted: range, present: Iterable[int]) -> list[range]:
    """Return the stretches of WAL ids that a version needs and that do not exist.

    A damaged manifest may ask for 2^64 of them, so that nothing here counts one by one.
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


def find_stray_wal(newest: Version, present: Iterable[int]) -> list[int]:
    """Return the WAL ids beyond a gap: replay never reaches them, and they fence the writer that does."""
    there = set(present)
    return sorted(number for number in there if number >= newest.wal_end(there))
