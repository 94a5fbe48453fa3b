"""Manifests that the simulated client and its coordinator publish."""

from __future__ import annotations

from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import encode_manifest
from slatespark.table.log.manifests import manifest_log
from slatespark.table.stores import TableStores


def create_version(stores: TableStores, number: int, manifest: Manifest) -> bool:
    """Create a version; False if somebody else was faster."""
    try:
        manifest_log(stores).create(number, encode_manifest(manifest))
    except FileExistsError:
        return False
    return True
