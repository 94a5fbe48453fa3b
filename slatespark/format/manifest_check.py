"""What a manifest must keep to be readable at all: the checks that the client makes on opening, and ours on runs.

Rules that only a *new* manifest must keep are in `invariants`. Source: spec sections 4.1, 4.2, 4.7 and 4.9.
"""

from __future__ import annotations

from itertools import pairwise

from slatespark.errors import CorruptDataError
from slatespark.format.manifest_state import Manifest, Segment
from slatespark.format.references import BoundType, SstHandle, SstView


def check_readable(manifest: Manifest) -> None:
    """Raise `CorruptDataError` for a manifest whose parts do not fit together."""
    for view in manifest.views():
        handle = manifest.ssts.get(view.sst_id)
        if handle is None:
            raise CorruptDataError(f"View {view.id} shows SST {view.sst_id}, which the manifest does not describe.")
        check_visible_range(view, handle)
    for tree in manifest.trees():
        _check_run_order(tree)
    ids = manifest.run_ids()
    if len(set(ids)) != len(ids):
        raise CorruptDataError(f"The manifest has {len(ids)} sorted runs, but only {len(set(ids))} ids of runs.")
    _check_prefixes(manifest.segments)


def check_visible_range(view: SstView, handle: SstHandle) -> None:
    """Raise `CorruptDataError` for a view at which the client stops: an excluded start, or no key of the SST."""
    shown = view.visible_range
    if shown is None:
        return
    if shown.start.kind is BoundType.EXCLUDED:
        raise CorruptDataError(f"View {view.id} of SST {view.sst_id} excludes its start, which nothing may.")
    if view.key_range(handle).is_empty():
        raise CorruptDataError(f"View {view.id} of SST {view.sst_id} shows no key that lies in the SST.")


def _check_run_order(tree: Segment) -> None:
    for newer, older in pairwise(tree.compacted):
        if newer.id <= older.id:
            raise CorruptDataError(
                f"Sorted run {older.id} stands behind run {newer.id}; expected descending ids.",
                why="Reads would prefer older rows.",
            )


def _check_prefixes(segments: tuple[Segment, ...]) -> None:
    for segment in segments:
        if not segment.prefix:
            raise CorruptDataError("A segment has an empty prefix.")
    for one, other in pairwise(segments):
        if one.prefix >= other.prefix or other.prefix.startswith(one.prefix):
            raise CorruptDataError(
                f"Segment {other.prefix.hex()} stands behind {one.prefix.hex()}; expected ascending "
                "prefixes of which none starts another."
            )
