"""The log beside the record of a load that was handed to a client by a job which is gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slatespark.format.manifest import Manifest
from slatespark.format.paths import manifest_path
from slatespark.table.changes.log.commits import fetch_logged_commits
from slatespark.table.records.handed_loads import HandedLoad, publish_handed_load
from slatespark.table.stores import TableStores
from tests.unit.table.commit.test_handed_loads import BEFORE, FLUSHED, L0_LOAD, L0_PART, MERGED, SHOWN, versions


def left_behind(load: HandedLoad, *later: Manifest) -> TableStores:
    """A table with the record of a load after version 1; versions 2 and 3 were collected."""
    stores = versions(*later)
    publish_handed_load(stores.main, load)
    for number in (2, 3):
        stores.main.delete(manifest_path(number))
    return stores


def test_a_load_of_unknown_fate_ends_where_its_sources_are_gone() -> None:
    stores = left_behind(L0_LOAD, FLUSHED, SHOWN, MERGED, MERGED)
    told = fetch_logged_commits(stores, 1, 5).untold
    assert list(told) == [5]
    assert L0_LOAD.path in told[5]
    assert "2 versions since were collected" in told[5], "the reason, and what to do, are handed on"
    assert fetch_logged_commits(stores, 4, 5).untold == {}, "it lies before version 4, or never comes"


def test_it_may_lie_in_any_version_where_nothing_tells() -> None:
    stores = left_behind(L0_LOAD, FLUSHED, SHOWN, MERGED, MERGED)
    assert list(fetch_logged_commits(stores, 3, 5).untold) == [5], "version 3 does not exist any more"
    deletions = replace(L0_LOAD, parts=(replace(L0_PART, l0_views=(), run_files=()),))
    stores = left_behind(deletions, FLUSHED, FLUSHED, BEFORE, MERGED)
    assert list(fetch_logged_commits(stores, 4, 5).untold) == [5], "it has no sources"


@pytest.mark.parametrize(("after", "found"), [(1, [3]), (2, [3]), (3, [])])
def test_a_load_of_known_fate_is_refused_in_its_version(after: int, found: list[int]) -> None:
    stores = versions(FLUSHED, SHOWN, MERGED)
    publish_handed_load(stores.main, L0_LOAD)
    assert list(fetch_logged_commits(stores, after, 4).untold) == found
