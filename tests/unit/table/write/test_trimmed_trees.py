"""TrimTrees: new files replace views and the WAL. Keys are letters; a file is named by its number."""

from __future__ import annotations

import pytest

from slatespark.errors import CommitConflictError
from slatespark.format.manifest import Manifest
from slatespark.table.write.trimmed_trees import TrimTrees
from tests.unit.table.commit.test_merge_runs import names, output
from tests.unit.table.commit.test_tree_edit import handle, manifest, view

NEW, OLD = handle(2, b"a", b"m"), handle(1, b"a", b"z")
BASE = manifest([NEW, OLD], [view(NEW)], [view(OLD)])
TRIMMED, FROM_WAL = output(8, b"a", b"k"), (output(9, b"a", b"b"), output(10, b"c", b"d"))


def trim(base: Manifest = BASE, **changes: object) -> TrimTrees:
    return TrimTrees(frozenset(base.views()), {view(OLD): (TRIMMED,)}, **changes)  # type: ignore[arg-type]


def test_views_are_replaced_in_place() -> None:
    after = trim().apply(BASE)
    assert names(after) == [(2, [2]), (1, [8])]
    assert {sst_id.low for sst_id in after.ssts} >= {2, 8}


def test_rows_of_the_wal_become_the_newest_run() -> None:
    after = trim(from_wal=FROM_WAL).apply(BASE)
    assert names(after) == [(3, [9, 10]), (2, [2]), (1, [8])]
    assert {sst_id.low for sst_id in after.ssts} >= {2, 8, 9, 10}
    empty = manifest([])
    assert names(TrimTrees(frozenset(), from_wal=FROM_WAL).apply(empty)) == [(0, [9, 10])]


@pytest.mark.parametrize(
    "changed",
    [
        manifest([NEW, OLD], [view(NEW)]),
        manifest([NEW, OLD], [view(NEW)], [view(OLD, b"b")]),
        manifest([NEW, OLD, handle(3, b"a", b"b")], [view(handle(3, b"a", b"b"))], [view(NEW)], [view(OLD)]),
    ],
    ids=["fewer views", "another view", "more views"],
)
def test_changed_files(changed: Manifest) -> None:
    with pytest.raises(CommitConflictError, match="changed"):
        trim().apply(changed)


def test_files_under_new_ids_stay_in_their_places() -> None:
    edit = trim(from_wal=FROM_WAL)
    assert edit.files == (TRIMMED, *FROM_WAL)
    fresh = (output(18, b"a", b"k"), output(19, b"a", b"b"), output(20, b"c", b"d"))
    assert edit.with_files(fresh) == TrimTrees(edit.planned_on, {view(OLD): fresh[:1]}, fresh[1:])
    only_trees = trim()
    assert only_trees.with_files(fresh[:1]) == TrimTrees(edit.planned_on, {view(OLD): fresh[:1]})
