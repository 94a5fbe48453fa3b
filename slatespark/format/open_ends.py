"""Ends of views in a run whose last key is unknown: clients up to 0.10 did not note it.

The files of a run follow one another, so such a view ends where the next one starts; the two may share that key. The
client bounds it in the same way: `slatedb: src/db_state.rs`. Source: `docs/reference/format/sst.md`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from slatespark.format.manifest import Manifest
from slatespark.format.references import UNBOUNDED, Bound, BoundType, BytesRange, SortedRun, SstMap, SstView


def close_open_ends(manifest: Manifest) -> Manifest:
    """Return the manifest with an end for every view of a run that another one follows.

    So one run's views never overlap, neither for reads nor for cuts. What is written back then states the ends.
    """
    if all(handle.info.last_entry is not None for handle in manifest.ssts.values()):
        return manifest
    ssts = manifest.ssts
    return manifest.with_runs(
        {tree.prefix: [_closed_run(run, ssts) for run in tree.compacted] for tree in manifest.trees()}
    )


def _closed_run(run: SortedRun, ssts: SstMap) -> SortedRun:
    closed = tuple(_closed(view, after, ssts) for view, after in pairwise(run.views))
    return SortedRun(run.id, (*closed, *run.views[-1:]))


def _closed(view: SstView, after: SstView, ssts: SstMap) -> SstView:
    keys, end = view.key_range(ssts[view.sst_id]), after.key_range(ssts[after.sst_id]).start
    if keys.end is not None or end < keys.start:  # views out of order stay as they are: a rule finds them
        return view
    start = UNBOUNDED if view.visible_range is None else view.visible_range.start
    return replace(view, visible_range=BytesRange(start, Bound(BoundType.INCLUDED, end)))
