"""MergeRuns: merged files replace views. Keys are letters; files are named by numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slatespark.errors import CommitConflictError
from slatespark.format.manifest import Manifest
from slatespark.format.references import SstHandle
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.table.commit.publication import without_l0
from slatespark.table.commit.tree_edit import CutViews, MergeRuns
from slatespark.table.rows.sst_upload import NewFile
from tests.unit.table.commit.test_publication import new_file
from tests.unit.table.commit.test_tree_edit import cut, handle, manifest, shown, view

NEW, MIDDLE, OLD = handle(3, b"a", b"m"), handle(2, b"c", b"z"), handle(1, b"a", b"z")
THREE = manifest([NEW, MIDDLE, OLD], [view(NEW)], [view(MIDDLE)], [view(OLD)])
PROPERTIES = new_file(1, "a", "b").properties


def output(number: int, first: bytes, last: bytes) -> NewFile:
    return NewFile(handle(number, first, last), PROPERTIES, 100)


def merge(*sources: SstHandle, keys: KeyRange = ALL_KEYS, outputs: tuple[NewFile, ...] = ()) -> MergeRuns:
    return MergeRuns(tuple((view(each),) for each in sources), (keys,), 7, outputs)


def names(base: Manifest) -> list[tuple[int, list[int]]]:
    """Runs, and the numbers of the files that they show."""
    return [(run.id, [item.sst_id.low for item in run.views]) for run in base.compacted]


def test_merge_of_whole_runs() -> None:
    after = merge(NEW, MIDDLE, outputs=(output(9, b"a", b"k"), output(10, b"l", b"z"))).apply(THREE)
    assert names(after) == [(2, [9, 10]), (1, [1])], "in the lowest run of the sources, in key order"
    assert {sst_id.low for sst_id in after.ssts} >= {1, 9, 10}


def test_a_merge_without_output_drops_the_run() -> None:
    assert names(merge(NEW, MIDDLE, OLD).apply(THREE)) == []


def test_merge_of_an_interval_of_all_runs() -> None:
    after = merge(NEW, MIDDLE, OLD, keys=KeyRange(b"d", b"g"), outputs=(output(9, b"d", b"f"),)).apply(THREE)
    assert names(after) == [(3, [3, 3]), (2, [2, 2]), (1, [1, 9, 1])]
    assert shown(after) == [
        [(b"a", b"d"), (b"g", b"m\0")],
        [(b"c", b"d"), (b"g", b"z\0")],
        [(b"a", b"d"), (b"d", b"f\0"), (b"g", b"z\0")],
    ]


def test_merges_of_intervals_of_one_run_in_turn() -> None:
    """Both were planned on the same views; the second one finds them cut outside its keys."""
    first = merge(NEW, MIDDLE, OLD, keys=KeyRange(b"d", b"g"), outputs=(output(9, b"d", b"f"),))
    second = merge(NEW, MIDDLE, OLD, keys=KeyRange(b"g", b"k"), outputs=(output(10, b"g", b"j"),))
    after = second.apply(first.apply(THREE))
    assert shown(after)[2] == [(b"a", b"d"), (b"d", b"f\0"), (b"g", b"j\0"), (b"k", b"z\0")]
    assert shown(first.apply(second.apply(THREE))) == shown(after)


def test_merge_of_several_intervals() -> None:
    keys = (KeyRange(b"b", b"d"), KeyRange(b"p", None))
    edit = MergeRuns(((view(OLD),),), keys, 1, (output(9, b"b", b"c"), output(10, b"q", b"z")))
    assert shown(edit.apply(manifest([OLD], [view(OLD)]))) == [
        [(b"a", b"b"), (b"b", b"c\0"), (b"d", b"p"), (b"q", b"z\0")]
    ]


def test_runs_above_and_between_the_sources_stay() -> None:
    """Another commit adds runs above; a run between two sources has other keys."""
    other, above = handle(4, b"0", b"9"), handle(5, b"a", b"z")
    base = manifest([above, NEW, other, OLD], [view(above)], [view(NEW)], [view(other)], [view(OLD)])
    after = merge(NEW, OLD, outputs=(output(9, b"a", b"z"),), keys=KeyRange(b"a", None)).apply(base)
    assert names(after) == [(4, [5]), (2, [4]), (1, [9])]


def test_l0_views_moved_into_runs_are_found() -> None:
    base = Manifest(ssts=THREE.ssts, l0=(view(NEW), view(MIDDLE)), compacted=(replace(THREE.compacted[2], id=0),))
    edit = merge(NEW, MIDDLE, outputs=(output(9, b"a", b"z"),))
    assert names(edit.apply(without_l0(base))) == [(1, [9]), (0, [1])], "the number that the plan said"


@pytest.mark.parametrize(
    "base",
    [
        pytest.param(manifest([NEW, OLD], [view(NEW)], [view(OLD)]), id="gone"),
        pytest.param(cut(THREE, (b"e", b"f")), id="cut"),
        pytest.param(manifest([NEW, OLD, MIDDLE], [view(NEW)], [view(OLD)], [view(MIDDLE)]), id="something in between"),
    ],
)
def test_changed_sources_are_a_conflict(base: Manifest) -> None:
    with pytest.raises(CommitConflictError, match="merged"):
        merge(NEW, MIDDLE, outputs=(output(9, b"a", b"z"),)).apply(base)


def test_a_cut_outside_the_keys_is_not_a_conflict() -> None:
    base = cut(THREE, (b"p", b"r"))
    edit = merge(NEW, MIDDLE, OLD, keys=KeyRange(b"d", b"g"), outputs=(output(9, b"d", b"f"),))
    assert shown(edit.apply(base))[2] == [(b"a", b"d"), (b"d", b"f\0"), (b"g", b"p"), (b"r", b"z\0")]


def test_a_new_file_below_dropped_tombstones_is_a_conflict() -> None:
    edit = replace(merge(NEW, MIDDLE, outputs=(output(9, b"a", b"z"),)), is_lowest=True)
    with pytest.raises(CommitConflictError, match="below"):
        edit.apply(THREE)
    assert names(edit.apply(manifest([NEW, MIDDLE], [view(NEW)], [view(MIDDLE)]))) == [(1, [9])]


def test_a_new_file_above_rows_dropped_by_retention_is_a_conflict() -> None:
    edit = replace(merge(MIDDLE, OLD, outputs=(output(9, b"a", b"z"),)), known_above=frozenset())
    with pytest.raises(CommitConflictError, match="above"):
        edit.apply(THREE)
    assert names(replace(edit, known_above=frozenset([NEW.id])).apply(THREE)) == [(3, [3]), (1, [9])]
    assert edit.forbids_new_operands
    assert not replace(edit, known_above=None).forbids_new_operands


def test_ranges_that_a_merge_removes() -> None:
    edit = merge(NEW, keys=KeyRange(b"d", b"g"))
    assert edit.keeps_wal
    assert edit.replaced == () == edit.removed
    assert replace(edit, drops_visible_rows=True).removed == (KeyRange(b"d", b"g"),)
    assert CutViews((KeyRange(b"d", b"g"),), 1).replaced == (KeyRange(b"d", b"g"),)
    renamed = replace(edit, files=(output(9, b"d", b"f"),)).with_files((output(10, b"d", b"f"),))
    assert [file.handle.id.low for file in renamed.files] == [10]


def test_versions_of_a_key_in_two_files_of_a_run() -> None:
    """The newer versions end a file, the older ones begin the next; both are merged with that key."""
    newer, older = handle(1, b"a", b"k"), handle(2, b"k", b"z")
    base = manifest([newer, older], [view(newer), view(older)])
    edit = MergeRuns(((view(newer), view(older)),), (KeyRange(b"g", b"k\0"),), 1, (output(9, b"h", b"k"),))
    assert shown(edit.apply(base)) == [[(b"a", b"g"), (b"h", b"k\0"), (b"k\0", b"z\0")]]


def test_cut_views_have_new_ids() -> None:
    after = merge(OLD, keys=KeyRange(b"d", b"g")).apply(manifest([OLD], [view(OLD)]))
    ids = [item.id for run in after.compacted for item in run.views]
    assert len(set(ids)) == 2
    assert {each.timestamp_ms for each in ids} == {OLD.id.timestamp_ms}
