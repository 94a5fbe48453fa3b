"""Sorted rows are cut where a segment ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatespark.errors import InvalidRequestError
from slatespark.format.row import Row, rows_to_columns
from slatespark.format.segments import WHOLE, KeySegments, SegmentExtractor
from slatespark.kernels.columns import ROW_BITS
from slatespark.options import WriteOptions
from slatespark.table.rows.segment_split import split_segments
from slatespark.table.rows.sorted_rows import SortedRows
from slatespark.table.rows.sst_upload import upload_sorted
from tests.support.fake_clock import FakeClock
from tests.unit.table.layers import new_stores

SLASH = KeySegments((), SegmentExtractor("slash", delimiter=b"/"))


def piece(keys: Sequence[bytes]) -> SortedRows:
    rows = rows_to_columns([Row(key, 1, value=b"v") for key in keys])
    return SortedRows([rows], np.arange(len(keys), dtype=np.int64))


def parts(pieces: Sequence[Sequence[bytes]], segments: KeySegments) -> list[tuple[bytes, list[bytes]]]:
    found = split_segments(map(piece, pieces), segments)
    return [(prefix, [part.key(at) for at in range(len(part.rows))]) for prefix, part in found]


def test_every_segment_is_a_part() -> None:
    assert parts([[b"a/1", b"a/2", b"b/1"], [b"b/2", b"c/"]], SLASH) == [
        (b"a/", [b"a/1", b"a/2"]),
        (b"b/", [b"b/1"]),
        (b"b/", [b"b/2"]),
        (b"c/", [b"c/"]),
    ]


def test_without_segments_pieces_stay() -> None:
    assert parts([[b"a", b"b/1"], []], WHOLE) == [(b"", [b"a", b"b/1"]), (b"", [])]
    assert parts([[]], SLASH) == []


def test_rows_of_several_sources_and_versions_of_a_key() -> None:
    first, second = (rows_to_columns([Row(key, 1, value=b"v") for key in keys]) for keys in ([b"a/1"], [b"a/1", b"b/"]))
    both = SortedRows([first, second], np.array([0, 1 << ROW_BITS, 1 << ROW_BITS | 1], np.int64), is_scattered=True)
    found = list(split_segments([both], SLASH))
    assert [(prefix, len(part.rows), part.is_scattered) for prefix, part in found] == [
        (b"a/", 2, True),
        (b"b/", 1, True),
    ]


@given(st.lists(st.tuples(st.text("ab", max_size=3), st.text("ab/", max_size=2)), max_size=30), st.integers(1, 9))
def test_parts_are_the_groups_of_keys(named: list[tuple[str, str]], size: int) -> None:
    keys = sorted({f"{head}/{tail}".encode() for head, tail in named})
    chunks = [keys[at : at + size] for at in range(0, len(keys), size)]
    found: dict[bytes, list[bytes]] = {}
    for prefix, part in parts(chunks, SLASH):
        found.setdefault(prefix, []).extend(part)
    assert list(found) == sorted(found)
    assert [key for part in found.values() for key in part] == keys
    assert all(key.startswith(prefix) and b"/" not in prefix[:-1] for prefix in found for key in found[prefix])


def test_a_key_without_a_segment_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match=b"b".hex()):
        parts([[b"a/1", b"b"]], SLASH)


def test_no_file_holds_two_segments() -> None:
    stores, clock = new_stores(), FakeClock(1000)
    pieces = [piece([b"a/%02d" % number for number in range(40)]), piece([b"a/99", b"b/1", b"c/1"])]
    options = WriteOptions(path="unused", sst_bytes=400)
    files = upload_sorted(stores.main, pieces, options, clock, 1000, segments=SLASH)
    prefixes = [(file.handle.info.first_entry or b"")[:2] for file in files]
    assert prefixes == [(file.handle.info.last_entry or b"")[:2] for file in files]
    assert prefixes.count(b"a/") > 1
    assert prefixes[-2:] == [b"b/", b"c/"]
