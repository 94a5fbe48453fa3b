"""What holds for every manifest and for every deletion, whoever did it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise
from uuid import UUID

from slatespark.format.manifest import Manifest
from slatespark.format.paths import sst_path
from slatespark.ranges import key_after
from slatespark.storage.object_store import ObjectStore
from tests.simulation.model import ModelError


def check_successor(before: Manifest, after: Manifest, store: ObjectStore) -> None:
    """Check a manifest against the one before it; raises `ModelError`."""
    for name in ("writer_epoch", "compactor_epoch", "replay_after_wal_id", "wal_id_last_seen", "last_l0_seq"):
        if getattr(after, name) < getattr(before, name):
            raise ModelError(f"{name} falls from {getattr(before, name)} to {getattr(after, name)}")
    if after.last_l0_clock_tick < before.last_l0_clock_tick:
        raise ModelError(f"the clock tick falls from {before.last_l0_clock_tick} to {after.last_l0_clock_tick}")
    l0_ids = [view.id for view in after.l0]
    if len(set(l0_ids)) < len(l0_ids) or after.last_compacted_l0_sst_view_id in l0_ids:
        raise ModelError(f"L0 has the views {l0_ids}, the marker is {after.last_compacted_l0_sst_view_id}")
    _check_runs(after)
    present = {meta.path for meta in store.list("compacted/")}
    for sst_id in after.ssts:
        if sst_path(sst_id) not in present:
            raise ModelError(f"SST {sst_id} of the new manifest does not exist")


def _check_runs(after: Manifest) -> None:
    runs = [run.id for run in after.compacted]
    if runs != sorted(set(runs), reverse=True):
        raise ModelError(f"sorted runs {runs} do not descend")
    for run in after.compacted:
        ranges = [view.key_range(after.ssts[view.sst_id]) for view in run.views]
        for left, right in pairwise(ranges):
            # One key may be on both sides: its newer versions first.
            if left.end is None or left.end > key_after(right.start):
                raise ModelError(f"files of sorted run {run.id} overlap: {left}, {right}")


def late_checkpoints(before: Manifest, after: Manifest, dead_up_to: int) -> set[UUID]:
    """Return the new checkpoints of versions that a collector had declared dead: whoever made them withdraws them."""
    pinned = {point.manifest_id for point in before.checkpoints}
    new = {point.id: point.manifest_id for point in after.checkpoints if point not in before.checkpoints}
    return {point_id for point_id, number in new.items() if number <= dead_up_to and number not in pinned}


def check_deletion(path: str, newest: int, manifests: Mapping[int, Manifest], late: Collection[UUID]) -> None:
    """Check that nobody needs what was deleted; raises `ModelError`.

    Parameters
    ----------
    late : checkpoints that keep nothing, see `late_checkpoints`
    """
    kept = {newest, *(point.manifest_id for point in manifests[newest].checkpoints if point.id not in late)}
    for number in sorted(kept & manifests.keys()):
        manifest = manifests[number]
        needed = {f"manifest/{number:020}.manifest", *map(sst_path, manifest.ssts)}
        if path in needed:
            raise ModelError(f"{path} was deleted, but version {number} is kept and needs it")
        folder, _, name = path.partition("/")
        if folder == "wal" and number == newest and int(name.partition(".")[0]) > manifest.replay_after_wal_id:
            raise ModelError(f"{path} was deleted, but is replayed")
