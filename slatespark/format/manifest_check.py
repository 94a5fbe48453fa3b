"""Rules for every readable manifest: the client's checks on open, and slatespark's own on sorted runs.

Rules for *new* manifests only are in `invariants`. Source: `docs/reference/format/manifest.md`,
`docs/reference/format/segments.md`.
"""

from __future__ import annotations

from itertools import pairwise

from slatespark.errors import CorruptDataError
from slatespark.format.manifest import Manifest, Segment
from slatespark.format.references import BoundType, SstHandle, SstView


def check_readable(manifest: Manifest) -> None:
    """Raise `CorruptDataError` for a manifest that is not consistent in itself."""
    for view in manifest.views():
        handle = manifest.ssts.get(view.sst_id)
        if handle is None:
            raise CorruptDataError(f"View {view.id} references SST {view.sst_id}, which the manifest does not list.")
        check_visible_range(view, handle)
    for tree in manifest.trees():
        _check_run_order(tree)
    ids = manifest.run_ids()
    if len(set(ids)) != len(ids):
        raise CorruptDataError(f"The manifest has {len(ids)} sorted runs, but only {len(set(ids))} distinct run ids.")
    _check_prefixes(manifest.segments)


def check_visible_range(view: SstView, handle: SstHandle) -> None:
    """Raise `CorruptDataError` for a view that makes the client panic: an excluded start, or no key of the SST."""
    shown = view.visible_range
    if shown is None:
        return
    if shown.start.kind is BoundType.EXCLUDED:
        raise CorruptDataError(f"View {view.id} of SST {view.sst_id} has an excluded start, expected an included one.")
    if view.key_range(handle).is_empty():
        raise CorruptDataError(f"View {view.id} of SST {view.sst_id} has a range without any key of the SST.")


def _check_run_order(tree: Segment) -> None:
    for newer, older in pairwise(tree.compacted):
        if newer.id <= older.id:
            raise CorruptDataError(
                f"Sorted run {older.id} follows run {newer.id}, expected descending ids.",
                why="Reads would return older rows.",
            )


def _check_prefixes(segments: tuple[Segment, ...]) -> None:
    for segment in segments:
        if not segment.prefix:
            raise CorruptDataError("A segment has an empty prefix.")
    for one, other in pairwise(segments):
        if one.prefix >= other.prefix or other.prefix.startswith(one.prefix):
            raise CorruptDataError(
                f"Segment {other.prefix.hex()} follows {one.prefix.hex()}, expected ascending prefixes "
                "of which none is a prefix of another."
            )
