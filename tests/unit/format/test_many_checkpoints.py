"""Checkpoints of a manifest that has many: one for each version that is kept."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from slatespark.format import manifest_tables, verifier
from slatespark.format.manifest import Checkpoint, Manifest
from slatespark.format.manifest_codec import decode_manifest, encode_manifest

MANY = 2 * verifier.MANY


def checkpoints(count: int) -> tuple[Checkpoint, ...]:
    """Some with an expiry, most with a name, which differs in length and alphabet."""
    names = (f"slatespark/version/{1 << number % 40}" if number % 3 else None for number in range(count))
    return tuple(
        Checkpoint(UUID(int=(1 << 127) + number), number + 1, 7 * (number % 4), 9, name)
        for number, name in enumerate(names)
    )


@pytest.mark.parametrize("count", [10, MANY], ids=["few", "many"])
def test_what_is_encoded_is_decoded(count: int) -> None:
    points = checkpoints(count)
    for found in (points, (*points[1:], replace(points[0], name="überprüft")), points[:0]):
        manifest = Manifest(checkpoints=found)
        assert decode_manifest(encode_manifest(manifest)) == manifest


@pytest.mark.parametrize("count", [10, MANY], ids=["few", "many"])
def test_an_epoch_is_kept(count: int) -> None:
    first, *others = checkpoints(count)
    manifest = Manifest(checkpoints=(replace(first, metadata_epoch=12), *others))
    assert decode_manifest(encode_manifest(manifest)) == manifest


def test_they_are_not_visited_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    visited = []
    visit = verifier._Walk.table

    def counted(self: verifier._Walk, at: int, table: verifier.Table) -> None:
        visited.append(table.name)
        visit(self, at, table)

    monkeypatch.setattr(verifier._Walk, "table", counted)
    monkeypatch.setattr(manifest_tables, "checkpoint_of", lambda table: visited.append("decoded"))
    manifest = Manifest(checkpoints=checkpoints(MANY))
    assert decode_manifest(encode_manifest(manifest)) == manifest
    assert visited == ["ManifestV2"]
