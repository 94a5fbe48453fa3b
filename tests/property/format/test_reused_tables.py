"""Values that were encoded before are copied into the next manifest: its bytes are those that building anew gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch
from uuid import UUID

import flatbuffers
from hypothesis import given
from hypothesis import strategies as st

from slatespark.format import reused_tables
from slatespark.format.info import SstInfo
from slatespark.format.manifest import (
    Bound,
    BoundType,
    BytesRange,
    Checkpoint,
    Manifest,
    Segment,
    SortedRun,
    SstHandle,
    SstMap,
    SstView,
    encode_manifest,
)
from slatespark.format.ulid import Ulid

_keys = st.binary(max_size=9)
_bounds = st.builds(Bound, st.sampled_from([BoundType.INCLUDED, BoundType.EXCLUDED]), _keys)


class PlainBuilder(flatbuffers.Builder):  # type: ignore[misc]  # it has no types
    """A builder that copies nothing."""

    def put(self, build: Callable[[Any, Any], int], value: Any) -> int:
        return build(self, value)


def _handle(number: int, first: bytes, last: bytes | None, size: int, version: int) -> SstHandle:
    info = SstInfo(first, last, index_offset=size, index_len=20, filter_offset=size, filter_len=0)
    return SstHandle(Ulid(number), info, version)


_handles = st.builds(
    _handle,
    st.integers(1, 6),
    _keys,
    st.none() | _keys.map(lambda key: b"\xff" + key),
    st.sampled_from([0, 100, 1 << 40]),
    st.sampled_from([1, 2]),
)
_views = st.builds(
    SstView,
    st.integers(1, 6).map(Ulid),
    st.integers(1, 6).map(Ulid),
    st.none() | st.builds(BytesRange, _bounds, _bounds),
)
_runs = st.builds(SortedRun, st.integers(0, 9), st.lists(_views, max_size=30).map(tuple))
_segments = st.builds(
    Segment,
    prefix=_keys,
    last_compacted_l0_sst_view_id=st.none(),
    l0=st.lists(_views, max_size=2).map(tuple),
    compacted=st.lists(_runs, max_size=2).map(tuple),
)
_checkpoints = st.builds(
    Checkpoint,
    st.integers(1, 3).map(lambda number: UUID(int=number)),
    st.integers(1, 3),
    st.sampled_from([0, 1]),
    st.sampled_from([0, 1]),
    st.sampled_from([None, "", "name", "another name"]),
    st.sampled_from([None, 0, 7]),
)
_manifests = st.builds(
    Manifest,
    ssts=st.lists(_handles, max_size=6).map(SstMap),
    l0=st.lists(_views, max_size=3).map(tuple),
    compacted=st.lists(_runs, max_size=3).map(tuple),
    checkpoints=st.lists(_checkpoints, max_size=6).map(tuple),
    segments=st.lists(_segments, max_size=2).map(tuple),
)


@given(st.lists(_manifests, min_size=1, max_size=6))
def test_copied_values_have_the_same_bytes(manifests: list[Manifest]) -> None:
    for manifest in manifests:
        with patch("slatespark.format.manifest.ReusingBuilder", PlainBuilder):
            expected = encode_manifest(manifest)
        assert encode_manifest(manifest) == expected


def test_a_manifest_of_very_many_files_is_built_once() -> None:
    """Of two manifests in a row only what differs is built, as long as they are of up to a quarter million files."""
    assert reused_tables.MAX_KEPT >= 2 * 250_000
    count = 9000  # with their views more values than there are files of a large table
    files = [_handle(each, b"a", b"b", 100, 1) for each in range(count)]
    runs = (SortedRun(1, tuple(SstView(Ulid(each), Ulid(each), None) for each in range(count))),)
    manifest = Manifest(ssts=SstMap(files), compacted=runs)
    first = encode_manifest(manifest)
    with patch("flatbuffers.Builder.EndObject", autospec=True, side_effect=flatbuffers.Builder.EndObject) as built:
        assert encode_manifest(manifest) == first
        assert encode_manifest(replace(manifest, nonce=1)) != first
    assert built.call_count < 200


def test_few_values_are_kept() -> None:
    with patch.object(reused_tables, "MAX_KEPT", 3):
        for number in range(20):
            encode_manifest(Manifest(ssts=SstMap([_handle(each, b"a", b"b", number, 1) for each in range(5)])))
            assert len(reused_tables._kept) <= 3 or number == 0


def test_a_large_run_is_not_kept() -> None:
    views = tuple(SstView(Ulid(number), Ulid(number), None) for number in range(1000))
    manifest = Manifest(
        ssts=SstMap([_handle(1, b"a", b"b", 100, 1)]), compacted=(SortedRun(1, views), SortedRun(0, views))
    )
    assert encode_manifest(manifest) == encode_manifest(manifest)
    assert all(len(built.data) <= reused_tables.MAX_BYTES for built in reused_tables._kept.values())
