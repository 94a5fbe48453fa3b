"""The layers of a manifest with the owners of their files."""

from __future__ import annotations

from collections.abc import Iterable

from slatespark.format.manifest import Manifest
from slatespark.format.references import SstView
from slatespark.table.read.planning.plan import FileSlice, Layer, SstFile, plan_layers
from slatespark.table.stores import OWN_ROOT, TableStores, external_roots


def fetch_layers(stores: TableStores, manifest: Manifest) -> tuple[Layer, ...]:
    """Return the layers of a manifest, newest first, with the databases that own files of it."""
    return plan_layers(manifest, external_roots(stores, manifest))


def view_slices(stores: TableStores, manifest: Manifest) -> dict[SstView, FileSlice]:
    """Return the part of a file that each view of a manifest shows."""
    roots = external_roots(stores, manifest)
    found = {}
    for view in manifest.views():
        handle = manifest.ssts[view.sst_id]
        file = SstFile.of(handle, roots.get(handle.id, OWN_ROOT))
        found[view] = FileSlice(file, view.key_range(handle))
    return found


def distinct_files(layers: Iterable[Layer]) -> list[SstFile]:
    """Return every file once, in the order of the layers."""
    return list(dict.fromkeys(part.file for layer in layers for part in layer.slices))
