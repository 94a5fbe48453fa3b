"""A process does not decode the manifests that it has written: with many files that takes longer than all else."""

from __future__ import annotations

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import decode_manifest
from slatespark.table.log import manifests
from tests.unit.table.layers import new_stores


def test_commits_in_a_row_decode_none_of_their_own_manifests(monkeypatch: pytest.MonkeyPatch) -> None:
    store = SlateStore.create(f"{new_stores().url}-known")
    store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    decoded: list[Manifest] = []

    def counted(data: bytes) -> Manifest:
        decoded.append(decode_manifest(data))
        return decoded[-1]

    monkeypatch.setattr(manifests, "decode_manifest", counted)
    for number in range(5):
        store.write(pa.table({"key": [b"%d" % number], "value": [b"2"]}))
        assert len(store.scan().read_all()) == number + 2
    assert not decoded
    monkeypatch.setattr(manifests, "_known", type(manifests._known)())
    assert len(SlateStore.open(store.url).scan().read_all()) == 6
    assert len(decoded) == 1


def test_few_are_kept() -> None:
    store = SlateStore.create(f"{new_stores().url}-few")
    for number in range(10):
        store.write(pa.table({"key": [b"%d" % number], "value": [b"2"]}))
    assert len(manifests._known) <= manifests._MAX_KNOWN
