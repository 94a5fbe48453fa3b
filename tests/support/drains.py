"""What a drain of a segment beside a live client takes away, by the client's own manifests."""

from __future__ import annotations

from typing import Any, Final

from tests.support.client import Location
from tests.support.client_admin import read_manifest
from tests.support.model import Model

FIRST_VERSION: Final = 1


def drained_up_to(location: Location, version: int, prefix: bytes) -> int:
    """Return the number up to which rows of a segment are gone in the version that drained it; later rows stay.

    Requires: no manifest was collected.
    """
    before = read_manifest(location, version - 1)
    left = _l0_of(read_manifest(location, version), prefix)
    number = version - 1
    while left & _l0_of(before, prefix) and number > FIRST_VERSION:  # flushed while the drain was under way
        number -= 1
        before = read_manifest(location, number)
    return int(before.last_l0_seq)


def remove_drained(model: Model, prefix: bytes, seq: int) -> None:
    """Remove the rows of a segment up to a number."""
    for key, versions in model.versions.items():
        if key.startswith(prefix):
            versions[:] = [each for each in versions if each.seq > seq]


def _l0_of(manifest: Any, prefix: bytes) -> set[str]:
    return {str(view.id) for segment in manifest.segments if bytes(segment.prefix) == prefix for view in segment.l0}
