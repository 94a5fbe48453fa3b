"""CutViews: views show only keys outside intervals. Keys are letters; a file is named by its number."""

from __future__ import annotations

import pytest

from slatespark.format.codecs import Compression
from slatespark.format.info import SstInfo
from slatespark.format.manifest import Manifest
from slatespark.format.references import BytesRange, SortedRun, SstHandle, SstMap, SstView
from slatespark.format.ulid import make_ulid
from slatespark.ranges import ALL_KEYS, KeyRange, complement_ranges
from slatespark.table.commit.tree_edit import DROP_TREES, KEEP_TREES, CutViews

CREATED_MS = 1_700_000_000_000


def handle(number: int, first: bytes, last: bytes | None) -> SstHandle:
    info = SstInfo(
        first_entry=first,
        last_entry=last,
        index_offset=100,
        index_len=10,
        filter_offset=0,
        filter_len=0,
        compression=Compression.NONE,
    )
    return SstHandle(make_ulid(CREATED_MS + number, number), info)


def view(file: SstHandle, start: bytes = b"", end: bytes | None = None, *, number: int = 0) -> SstView:
    view_id = make_ulid(file.id.timestamp_ms, file.id.low + 1000 * number)
    return SstView(view_id, file.id, BytesRange.of(KeyRange(start, end)) if start or end is not None else None)


def manifest(files: list[SstHandle], *runs: list[SstView]) -> Manifest:
    numbered = (SortedRun(len(runs) - at, tuple(views)) for at, views in enumerate(runs))
    return Manifest(ssts=SstMap(files), compacted=tuple(numbered))


def cut(base: Manifest, *keys: tuple[bytes, bytes | None], seed: int = 7) -> Manifest:
    return CutViews(tuple(KeyRange(*bounds) for bounds in keys), seed).apply(base)


def shown(cut_manifest: Manifest) -> list[list[tuple[bytes, bytes | None]]]:
    """Return the visible keys, run by run."""
    found = []
    for run in cut_manifest.compacted:
        spans = [item.key_range(cut_manifest.ssts[item.sst_id]) for item in run.views]
        found.append([(keys.start, keys.end) for keys in spans])
    return found


B_TO_Y = handle(1, b"b", b"y")


@pytest.mark.parametrize(
    ("start", "end", "left"),
    [
        pytest.param(b"f", b"k", [(b"b", b"f"), (b"k", b"y\0")], id="a hole"),
        pytest.param(b"", b"k", [(b"k", b"y\0")], id="the left"),
        pytest.param(b"k", None, [(b"b", b"k")], id="the right"),
        pytest.param(b"b", b"c", [(b"c", b"y\0")], id="from the first key"),
        pytest.param(b"b", b"b\0", [(b"b\0", b"y\0")], id="the first key"),
        pytest.param(b"y", b"y\0", [(b"b", b"y")], id="the last key"),
        pytest.param(b"y", b"z", [(b"b", b"y")], id="the last key and what follows"),
        pytest.param(b"a", b"y", [(b"y", b"y\0")], id="all but the last key"),
        pytest.param(b"b\0", None, [(b"b", b"b\0")], id="all but the first key"),
    ],
)
def test_a_view_is_cut_to_the_keys_outside(start: bytes, end: bytes | None, left: list[tuple[bytes, bytes]]) -> None:
    after = cut(manifest([B_TO_Y], [view(B_TO_Y)]), (start, end))
    assert shown(after) == [left]


@pytest.mark.parametrize("bounds", [(b"a", b"z"), (b"b", b"y\0"), (b"", None)])
def test_a_covered_view_and_an_empty_run_are_dropped(bounds: tuple[bytes, bytes | None]) -> None:
    other = handle(2, b"zz", b"zzz")
    base = manifest([B_TO_Y, other], [view(B_TO_Y)], [view(other)])
    assert shown(cut(base, bounds)) == ([[(b"zz", b"zzz\0")]] if bounds[1] is not None else [])


@pytest.mark.parametrize("bounds", [(b"", b"b"), (b"y\0", None), (b"z", b"zz"), (b"", b"a")])
def test_a_view_beside_the_interval_stays_the_same_view(bounds: tuple[bytes, bytes | None]) -> None:
    base = manifest([B_TO_Y], [view(B_TO_Y)])
    assert cut(base, bounds) == base


def test_a_cut_view_is_cut_within_its_visible_range() -> None:
    base = manifest([B_TO_Y], [view(B_TO_Y, b"d", b"p")])
    assert shown(cut(base, (b"f", b"k"))) == [[(b"d", b"f"), (b"k", b"p")]]
    assert shown(cut(base, (b"a", b"e"))) == [[(b"e", b"p")]]
    assert cut(base, (b"a", b"d")) == base, "it did not show these keys"
    assert cut(base, (b"p", b"z")) == base


def test_several_intervals_leave_several_views_of_one_file() -> None:
    base = manifest([B_TO_Y], [view(B_TO_Y)])
    after = cut(base, (b"c", b"d"), (b"d", b"e"), (b"m", b"n"), (b"x", None))
    assert shown(after) == [[(b"b", b"c"), (b"e", b"m"), (b"n", b"x")]]


def test_a_file_without_a_known_last_key_is_open_at_the_end() -> None:
    old = handle(1, b"b", None)
    assert shown(cut(manifest([old], [view(old)]), (b"f", b"k"))) == [[(b"b", b"f"), (b"k", None)]]


def test_new_views_have_new_ids_with_the_time_of_their_file() -> None:
    base = manifest([B_TO_Y], [view(B_TO_Y, b"c", b"h"), view(B_TO_Y, b"h", b"x", number=1)])
    after = cut(base, (b"d", b"e"), (b"k", b"l"))
    ids = [item.id for item in after.views()]
    assert len(set(ids)) == len(ids) == 4
    assert {item.timestamp_ms for item in ids} == {B_TO_Y.id.timestamp_ms}
    assert not set(ids) & {item.id for item in base.views()}
    assert after == cut(base, (b"d", b"e"), (b"k", b"l")), "the same seed makes the same views"
    assert ids != [item.id for item in cut(base, (b"d", b"e"), (b"k", b"l"), seed=8).views()]


def test_bounds_on_disk_are_included_then_excluded() -> None:
    left, right = cut(manifest([B_TO_Y], [view(B_TO_Y)]), (b"f", b"k")).compacted[0].views
    assert left.visible_range == BytesRange.of(KeyRange(b"", b"f"))
    assert right.visible_range == BytesRange.of(KeyRange(b"k"))


def test_ranges_that_an_edit_replaces() -> None:
    keys = (KeyRange(b"a", b"b"), KeyRange(b"c"))
    assert CutViews(keys, 0).replaced == keys
    assert DROP_TREES.replaced == (ALL_KEYS,)
    assert KEEP_TREES.replaced == ()


@pytest.mark.parametrize(
    ("ranges", "outside"),
    [
        ([], [(b"", None)]),
        ([(b"", None)], []),
        ([(b"", b"b")], [(b"b", None)]),
        ([(b"b", b"c"), (b"c", b"d")], [(b"", b"b"), (b"d", None)]),
        ([(b"b", b"c"), (b"e", None)], [(b"", b"b"), (b"c", b"e")]),
    ],
)
def test_ranges_outside(ranges: list[tuple[bytes, bytes | None]], outside: list[tuple[bytes, bytes | None]]) -> None:
    found = complement_ranges(KeyRange(*bounds) for bounds in ranges)
    assert found == tuple(KeyRange(*bounds) for bounds in outside)
