"""Files and views of a manifest are decoded all at once, or one by one: the outcome is the same."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from slatespark.errors import CorruptDataError, SlateError, UnsupportedFormatError
from slatespark.format import wire_columns
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import decode_manifest, encode_manifest
from slatespark.format.manifest_outline import ManifestOutline, decode_outline
from tests.property.format.test_table_templates import manifests

FEW = 1 << 30


def _outcome(data: bytes, at_once: int) -> tuple[Manifest, ManifestOutline] | type[SlateError]:
    with patch.object(wire_columns, "MANY", at_once):
        try:
            return decode_manifest(data), decode_outline(data)
        except (CorruptDataError, UnsupportedFormatError) as exc:
            return type(exc)


@given(manifests, st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=3))
def test_manifests(manifest: Manifest, changes: list[tuple[int, int]]) -> None:
    """With bytes changed, too, as long as the structure is sound."""
    data = bytearray(encode_manifest(manifest))
    for at, octet in changes:
        data[at % len(data)] = octet
    assert _outcome(bytes(data), 1) == _outcome(bytes(data), FEW)
