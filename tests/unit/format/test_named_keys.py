"""Which keys metadata names: bounds of views and jobs, first and last keys of files."""

from __future__ import annotations

import pytest

from slatespark.format.compactions import (
    Compaction,
    Compactions,
    CompactionStatus,
    Subcompaction,
    TieredContext,
    TieredSpec,
)
from slatespark.format.info import SstInfo
from slatespark.format.manifest import Manifest, Segment
from slatespark.format.named_keys import NamedKey, first_named, names_in_compactions, names_in_manifest
from slatespark.format.references import Bound, BoundType, BytesRange, SortedRun, SstHandle, SstMap, SstView
from slatespark.format.ulid import make_ulid
from slatespark.ranges import ALL_KEYS, KeyRange, point_range

RANGES = (KeyRange(b"b", b"d"), point_range(b"k"), KeyRange(b"x"))


@pytest.mark.parametrize(
    ("key", "as_bound", "as_key"),
    [
        (b"a", None, None),
        (b"b", b"b", b"b"),
        (b"c\0", b"c\0", b"c\0"),
        (b"d", b"d", None),
        (b"d\0", None, None),
        (b"k", b"k", b"k"),
        (b"k\0", b"k", None),
        (b"k\0\0", None, None),
        (b"zz", b"zz", b"zz"),
        (b"", None, None),
    ],
)
def test_a_name_within_ranges(key: bytes, as_bound: bytes | None, as_key: bytes | None) -> None:
    assert NamedKey(key).within(RANGES) == as_bound
    assert NamedKey(key, is_bound=False).within(RANGES) == as_key


def test_no_bound_names_every_key() -> None:
    assert NamedKey(b"").within((ALL_KEYS,)) is None
    assert first_named([NamedKey(b"d"), NamedKey(b"k"), NamedKey(b"q")], RANGES[1:]) == b"k"
    assert first_named([], RANGES) is None


def handle(number: int, first: bytes, last: bytes | None) -> SstHandle:
    return SstHandle(make_ulid(1, number), SstInfo(first, last, 100, 20, 100, 0))


def test_a_manifest_names_bounds_of_views_and_ends_of_files() -> None:
    whole, cut = handle(1, b"first", None), handle(2, b"a", b"z")
    bounds = BytesRange(Bound(BoundType.EXCLUDED, b"from"), Bound(BoundType.INCLUDED, b"to"))
    run = SortedRun(1, (SstView(cut.id, cut.id, bounds),))
    segment = Segment(b"prefix", None, (), ())
    manifest = Manifest(
        ssts=SstMap([whole, cut]), l0=(SstView(whole.id, whole.id),), compacted=(run,), segments=(segment,)
    )
    assert set(names_in_manifest(manifest)) == {
        NamedKey(b"prefix", is_bound=False),
        NamedKey(b"from"),
        NamedKey(b"to"),
        NamedKey(b"first", is_bound=False),
        NamedKey(b"a", is_bound=False),
        NamedKey(b"z", is_bound=False),
    }


def test_jobs_name_their_outputs_and_parts() -> None:
    part = Subcompaction(BytesRange.of(KeyRange(b"c", b"p")), (handle(2, b"d", b"e"),))
    spec = TieredSpec((), (3, 2), 2, b"s")
    running = Compaction(make_ulid(1, 3), spec, CompactionStatus.RUNNING, context=TieredContext((part,), 0))
    done = Compaction(make_ulid(1, 4), spec, CompactionStatus.COMPLETED, (handle(1, b"a", b"b"),))
    names = list(names_in_compactions(Compactions(1, (running, done))))
    assert {name.key for name in names if name.is_bound} == {b"c", b"p"}
    assert {name.key for name in names if not name.is_bound} == {b"a", b"b", b"d", b"e", b"s"}
