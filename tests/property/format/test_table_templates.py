"""Values of a form that was built before are packed: the bytes are those that the builder gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch
from uuid import UUID

import flatbuffers
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatespark.format import table_templates
from slatespark.format.codecs import Compression
from slatespark.format.info import FilterFormat, SstInfo
from slatespark.format.manifest import Checkpoint, Manifest, Segment
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.references import UNBOUNDED, Bound, BoundType, BytesRange, SortedRun, SstHandle, SstMap, SstView
from slatespark.format.table_templates import Form
from slatespark.format.ulid import Ulid

_keys = st.binary(max_size=9)
_bounds = st.just(UNBOUNDED) | st.builds(Bound, st.sampled_from([BoundType.INCLUDED, BoundType.EXCLUDED]), _keys)


class PlainBuilder(flatbuffers.Builder):  # type: ignore[misc]  # it has no types
    """A builder without templates."""

    def put(self, form: Form[Any], value: Any) -> int:
        return form.build(self, value)


_numbers = st.sampled_from([0, 1, 100, 1 << 40, (1 << 64) - 1])
_ids = st.sampled_from([0, 1, 6, 1 << 70, (1 << 128) - 1])


def _handle(number: int, first: bytes, last: bytes | None, size: int, version: int, **others: Any) -> SstHandle:
    info = SstInfo(first, last, index_offset=size, index_len=20, filter_offset=size, filter_len=0)
    return SstHandle(Ulid(number), replace(info, **others), version)


_handles = st.builds(
    _handle,
    _ids,
    _keys,
    st.none() | _keys.map(lambda key: b"\xff" + key),
    _numbers,
    st.sampled_from([1, 2]),
    filter_len=_numbers,
    stats_offset=_numbers,
    stats_len=_numbers,
    compression=st.sampled_from(Compression),
    filter_format=st.sampled_from(FilterFormat),
)
_views = st.builds(
    SstView,
    _ids.map(Ulid),
    _ids.map(Ulid),
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
    _ids.map(lambda number: UUID(int=number)),
    st.integers(1, 3),
    st.sampled_from([0, 1]),
    st.sampled_from([0, 1]),
    st.sampled_from([None, "", "name", "another name"]),
    st.sampled_from([None, 0, 7]),
)
manifests = st.builds(
    Manifest,
    ssts=st.lists(_handles, max_size=6).map(SstMap),
    l0=st.lists(_views, max_size=3).map(tuple),
    compacted=st.lists(_runs, max_size=3).map(tuple),
    checkpoints=st.lists(_checkpoints, max_size=6).map(tuple),
    segments=st.lists(_segments, max_size=2).map(tuple),
)


@given(st.lists(manifests, min_size=1, max_size=6))
def test_packed_values_have_the_same_bytes(written: list[Manifest]) -> None:
    for manifest in written:
        with patch("slatespark.format.manifest_codec.TemplateBuilder", PlainBuilder):
            expected = encode_manifest(manifest)
        assert encode_manifest(manifest) == expected


@pytest.fixture
def no_templates(monkeypatch: pytest.MonkeyPatch) -> dict[object, object]:
    """As in a new process."""
    templates: dict[object, object] = {}
    monkeypatch.setattr(table_templates, "_templates", templates)
    return templates


def _many(count: int) -> Manifest:
    files = [_handle(each, b"k%06d" % each, b"k%06d" % (each + 1), 100 + each, 1) for each in range(1, count + 1)]
    runs = (SortedRun(1, tuple(SstView(Ulid(each), Ulid(each), None) for each in range(1, count + 1))),)
    points = tuple(Checkpoint(UUID(int=each), each, 0, each) for each in range(1, count + 1))
    return Manifest(ssts=SstMap(files), compacted=runs, checkpoints=points)


def test_a_first_manifest_of_many_files_is_hardly_built(no_templates: dict[object, object]) -> None:
    """No table is built twice, however many files and checkpoints differ in numbers and keys."""
    with patch("flatbuffers.Builder.EndObject", autospec=True, side_effect=flatbuffers.Builder.EndObject) as built:
        encode_manifest(_many(2000))
    assert built.call_count < 60


def test_templates_are_few(no_templates: dict[object, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_templates, "MAX_TEMPLATES", 3)
    for length in range(1, 40):
        files = [_handle(each, b"a" * length, b"b", each, 1) for each in range(1, 20)]
        encode_manifest(Manifest(ssts=SstMap(files)))
        assert len(no_templates) <= 3
    assert no_templates


def test_a_large_value_has_no_template(no_templates: dict[object, object]) -> None:
    files = [_handle(each, b"a" * table_templates.MAX_BYTES, b"b", 100, 1) for each in range(1, 20)]
    assert encode_manifest(Manifest(ssts=SstMap(files))) == encode_manifest(Manifest(ssts=SstMap(files)))
    assert not no_templates
