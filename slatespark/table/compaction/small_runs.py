"""Which runs are small, and how many of them a write leaves before they are merged."""

from __future__ import annotations

from typing import Final

from slatespark.format.manifest import Manifest

SMALL_BYTES: Final = 16 << 20  # a run below this size counts as small
MIN_RUNS: Final = 16  # small runs that trigger a merge
MIN_SERIES: Final = 4  # small runs in a row that are worth a merge
MAX_RUNS: Final = 64  # merged at once: 1 GiB at most


def may_be_many(manifest: Manifest) -> bool:
    """Tell whether a tree has so many layers that its small runs may be merged, whatever their sizes are."""
    return any(len(tree.l0) + len(tree.compacted) >= MIN_RUNS for tree in manifest.trees())
