"""Tables of a vector are verified all at once, or one by one: the outcome is the same, for damaged buffers too."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch
from uuid import UUID

from hypothesis import example, given
from hypothesis import strategies as st

from slatespark.errors import CorruptDataError
from slatespark.format import verifier
from slatespark.format.info import SstInfo
from slatespark.format.manifest import Checkpoint, Manifest
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.references import Bound, BoundType, BytesRange, SortedRun, SstHandle, SstMap, SstView
from slatespark.format.schemas import MANIFEST_V2
from slatespark.format.ulid import Ulid
from slatespark.format.verifier import verify

MANY = 1 << 30


def _manifest(count: int) -> bytes:
    info = SstInfo(b"a", b"b", index_offset=100, index_len=20, filter_offset=100, filter_len=0)
    points = [
        Checkpoint(UUID(int=each), each, each % 2, 1, f"é{each}" if each % 3 else None) for each in range(1, count + 1)
    ]
    files = [SstHandle(Ulid(each), info, 1 + each % 2) for each in range(1, count + 1)]
    shown = BytesRange(Bound(BoundType.INCLUDED, b"a"), Bound(BoundType.EXCLUDED, b"b"))
    views = tuple(SstView(file.id, file.id, shown if file.id.value % 3 else None) for file in files)
    manifest = Manifest(ssts=SstMap(files), l0=views[:2], compacted=(SortedRun(1, views[2:]),))
    return encode_manifest(replace(manifest, checkpoints=tuple(points)))[2:]


BUFFER = _manifest(9)


def _outcome(data: bytes, at_once: int) -> tuple[bool, frozenset[str]]:
    with patch.object(verifier, "MANY", at_once):
        try:
            return True, verify(data, MANIFEST_V2, what="it")
        except CorruptDataError:
            return False, frozenset()


@given(st.lists(st.tuples(st.integers(0, len(BUFFER) - 1), st.integers(0, 255)), max_size=3))
@example([])
def test_damage(changes: list[tuple[int, int]]) -> None:
    data = bytearray(BUFFER)
    for at, octet in changes:
        data[at] = octet
    assert _outcome(bytes(data), 1) == _outcome(bytes(data), MANY)


def test_every_byte() -> None:
    """Each byte of one manifest, as a small number, a large one, and one that points back."""
    outcomes = set()
    for at in range(len(BUFFER)):
        for octet in (0, 1, 127, 255):
            data = BUFFER[:at] + bytes([octet]) + BUFFER[at + 1 :]
            found = _outcome(data, 1)
            assert found == _outcome(data, MANY), (at, octet)
            outcomes.add(found[0])
    assert outcomes == {True, False}


def test_the_apparent_size_is_the_same() -> None:
    """The limit is that of the client, so both ways count alike."""
    for limit in range(len(BUFFER) // 2, 3 * len(BUFFER), 16):
        with patch.object(verifier, "MAX_APPARENT_BYTES", limit):
            assert _outcome(BUFFER, 1) == _outcome(BUFFER, MANY), limit
    with patch.object(verifier, "MAX_TABLES", 20):
        assert _outcome(BUFFER, 1) == _outcome(BUFFER, MANY) == (False, frozenset())
