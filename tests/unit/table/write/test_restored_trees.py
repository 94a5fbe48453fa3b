"""RestoreTrees: the runs of an earlier version under new ids. Keys are letters; a file is named by its number."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from slatespark.errors import CommitConflictError
from slatespark.format.manifest import Checkpoint, ExternalDb
from slatespark.format.references import SstMap
from slatespark.format.ulid import Ulid
from slatespark.table.write.restored_trees import RestoreTrees
from tests.unit.table.commit.test_merge_runs import names, output
from tests.unit.table.commit.test_tree_edit import handle, manifest, view

NOW, THEN, BEFORE = handle(3, b"a", b"m"), handle(2, b"c", b"z"), handle(1, b"a", b"z")
BASE = manifest([NOW, BEFORE], [view(NOW)], [view(BEFORE)])  # runs 2 and 1
OLDEST_FIRST = ((view(BEFORE),), (view(THEN),))


def test_runs_get_ids_that_were_never_used() -> None:
    after = RestoreTrees(OLDEST_FIRST, SstMap([THEN, BEFORE])).apply(BASE)
    assert names(after) == [(4, [2]), (3, [1])], "newest first, above the present runs"
    assert set(after.ssts) == {THEN.id, BEFORE.id}


def test_rows_of_the_wal_are_above_all_runs_and_empty_runs_take_no_id() -> None:
    flushed = (output(8, b"a", b"b"), output(9, b"c", b"d"))
    edit = RestoreTrees(((), *OLDEST_FIRST, ()), SstMap([THEN, BEFORE]), files=flushed)
    after = edit.apply(BASE)
    assert names(after) == [(5, [8, 9]), (4, [2]), (3, [1])]
    assert {sst_id.low for sst_id in after.ssts} == {1, 2, 8, 9}
    assert edit.files == flushed
    assert edit.with_files(flushed[:1]).files == flushed[:1]


def test_an_empty_version() -> None:
    assert names(RestoreTrees(()).apply(BASE)) == []
    assert names(RestoreTrees(OLDEST_FIRST[:1], SstMap([BEFORE])).apply(manifest([]))) == [(0, [1])]


def test_a_checkpoint_must_keep_the_version() -> None:
    edit = RestoreTrees(OLDEST_FIRST, SstMap([THEN, BEFORE]), version=7)
    kept = replace(BASE, checkpoints=(Checkpoint(UUID(int=1), 6, 0, 0), Checkpoint(UUID(int=2), 7, 0, 0)))
    assert names(edit.apply(kept)) == [(4, [2]), (3, [1])]
    for points in ((), kept.checkpoints[:1]):
        with pytest.raises(CommitConflictError, match="version 7"):
            edit.apply(replace(BASE, checkpoints=points))


def database(path: str, final: int | None, *files: int) -> ExternalDb:
    ids = tuple(Ulid(number) for number in files)
    return ExternalDb(path, UUID(int=9), None if final is None else UUID(int=final), ids)


@pytest.mark.parametrize(
    ("present", "restored", "joined"),
    [
        ([], [database("p", 1, 5)], [database("p", 1, 5)]),
        ([database("p", 1, 5)], [], [database("p", 1, 5)]),
        ([database("p", 1, 5, 6)], [database("p", 1, 6, 4)], [database("p", 1, 5, 6, 4)]),
        ([database("p", 1, 5)], [database("p", 2, 5)], [database("p", 1, 5), database("p", 2, 5)]),
        ([database("p", None, 5)], [database("q", None, 5)], [database("p", None, 5), database("q", None, 5)]),
    ],
)
def test_parent_databases_of_both(
    present: list[ExternalDb], restored: list[ExternalDb], joined: list[ExternalDb]
) -> None:
    base = replace(BASE, external_dbs=tuple(present))
    assert RestoreTrees((), external_dbs=tuple(restored)).apply(base).external_dbs == tuple(joined)
