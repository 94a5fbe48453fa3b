"""Resolving a checkpoint by its id or name."""

from __future__ import annotations

from slatespark.errors import InvalidRequestError
from slatespark.format.manifest import Checkpoint, Manifest

_KNOWN_SHOWN = 10  # checkpoints in a message


def resolve_checkpoint(url: str, manifest: Manifest, name: str) -> Checkpoint:
    """Return the checkpoint with this id or name; raises `InvalidRequestError` when there is none, or several."""
    hits = [point for point in manifest.checkpoints if name in (str(point.id), point.name)]
    if not hits:
        known = [point.name or str(point.id) for point in manifest.checkpoints]
        shown = ", ".join(known[-_KNOWN_SHOWN:]) + (" and others" if len(known) > _KNOWN_SHOWN else "") or "none"
        raise InvalidRequestError(  # the manifest does not tell an expired checkpoint from one that never existed
            f"{url}: there is no checkpoint {name!r}.",
            why="It never existed, or it has expired or was deleted.",
            todo=f"Known checkpoints: {shown}.",
        )
    if len({point.manifest_id for point in hits}) > 1:
        raise InvalidRequestError(
            f"{url}: {len(hits)} checkpoints are named {name!r}.", todo="Give the id of the one you mean."
        )
    return hits[0]
