"""How many files of a layer an operation uses."""

from __future__ import annotations

from collections.abc import Iterable, Set

from slatespark.table.explain.explanation import LayerUse
from slatespark.table.read.planning.layers import distinct_files
from slatespark.table.read.planning.plan import Layer, SstFile


def layer_use(name: str, layers: Iterable[Layer], used: Set[SstFile]) -> LayerUse:
    """Return how many files of some layers are among those used; a file counts once.

    Parameters
    ----------
    name : how the layers are called together
    used : files that the operation reads, at least in part
    """
    files = frozenset(distinct_files(layers))
    return LayerUse(name, len(files), len(files & used))
