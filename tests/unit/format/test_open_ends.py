from __future__ import annotations

from dataclasses import replace

import pytest

from slatespark.errors import InternalError
from slatespark.format.invariants import check_manifest
from slatespark.format.manifest import Manifest, Segment
from slatespark.format.manifest_codec import decode_as_stored, decode_manifest, encode_manifest
from slatespark.format.open_ends import close_open_ends
from slatespark.format.references import Bound, BoundType, BytesRange, SortedRun, SstMap, SstView
from slatespark.ranges import KeyRange
from tests.support.older_databases import OLDER
from tests.unit.format.test_invariants import handle, view

ONE, TWO, THREE = handle(1, b"a", None), handle(2, b"f", None), handle(3, b"m", None)
RUN = SortedRun(4, (view(ONE.id), view(TWO.id), view(THREE.id)))


def manifest(*views: SstView) -> Manifest:
    return Manifest(ssts=SstMap([ONE, TWO, THREE]), compacted=(SortedRun(4, views),))


def spans(found: Manifest) -> list[KeyRange]:
    return [each.key_range(found.ssts[each.sst_id]) for each in found.compacted[0].views]


def test_each_view_ends_where_the_next_one_starts() -> None:
    found = close_open_ends(manifest(*RUN.views))
    assert spans(found) == [KeyRange(b"a", b"f\0"), KeyRange(b"f", b"m\0"), KeyRange(b"m", None)]
    assert [each.id for each in found.compacted[0].views] == [each.id for each in RUN.views]
    check_manifest(found, None, new_id=2, now_ms=None)


def test_what_a_view_hides_stays_hidden() -> None:
    shown = view(ONE.id, keys=KeyRange(b"c", None)), view(TWO.id, keys=KeyRange(b"g", b"h")), view(THREE.id)
    assert spans(close_open_ends(manifest(*shown))) == [
        KeyRange(b"c", b"g\0"),
        KeyRange(b"g", b"h"),
        KeyRange(b"m", None),
    ]


def test_two_parts_of_one_file_keep_their_gap() -> None:
    parts = view(ONE.id, keys=KeyRange(b"a", b"b")), view(ONE.id, handle(9).id, KeyRange(b"d", None)), view(TWO.id)
    found = close_open_ends(replace(manifest(*parts), ssts=SstMap([ONE, TWO])))
    assert spans(found) == [KeyRange(b"a", b"b"), KeyRange(b"d", b"f\0"), KeyRange(b"f", None)]


def test_views_out_of_order_are_still_refused() -> None:
    disordered = manifest(*RUN.views[::-1])
    assert close_open_ends(disordered) == disordered
    with pytest.raises(InternalError, match="views_in_a_run_ascend"):
        check_manifest(disordered, None, new_id=2, now_ms=None)


def test_l0_and_known_ends_stay() -> None:
    known = handle(7, b"a", b"c")
    l0 = replace(manifest(view(known.id), view(TWO.id)), ssts=SstMap([known, TWO, ONE]), l0=(view(ONE.id),))
    assert close_open_ends(l0) == l0
    assert close_open_ends(Manifest()) == Manifest()


def test_runs_of_segments_too() -> None:
    files = handle(1, b"a1", None), handle(2, b"a2", None)
    tree = Segment(b"a", None, (), (SortedRun(4, tuple(view(each.id) for each in files)),))
    [segment] = close_open_ends(Manifest(ssts=SstMap(files), segments=(tree,))).segments
    end = BytesRange(Bound(BoundType.UNBOUNDED), Bound(BoundType.INCLUDED, b"a2"))
    assert [each.visible_range for each in segment.compacted[0].views] == [end, None]


def test_a_manifest_of_an_old_client() -> None:
    data = max((OLDER / "0.10-runs" / "manifest").iterdir()).read_bytes()
    stored, found = decode_as_stored(data), decode_manifest(data)
    assert {each.visible_range for each in stored.views()} == {None}
    assert [run.id for run in found.compacted] == [run.id for run in stored.compacted]
    assert found == close_open_ends(stored) != stored
    assert decode_manifest(encode_manifest(stored)) == decode_manifest(encode_manifest(found)) == found
    check_manifest(found, None, new_id=40, now_ms=None)
    with pytest.raises(InternalError, match="views_in_a_run_ascend"):
        check_manifest(stored, None, new_id=40, now_ms=None)
