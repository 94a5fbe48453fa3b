"""What a copy under newer rows is taken for: to merge with it pays less than to merge with an SST that is at hand."""

from __future__ import annotations

from typing import Any

import pytest

from slatespark.format.paths import COLUMNS_DIR, COMPACTED_DIR
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.columns import write as copy_writing
from slatespark.table.read.copies import choice
from slatespark.table.read.copies.choice import USED
from tests.unit.table.read.copies.copied_table import ROWS, Place, rows

FACTOR = 12  # all columns of these rows are a fifth of the SST, one is a thirtieth


@pytest.fixture(autouse=True)
def factor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "MERGE_FACTOR", FACTOR)


def with_newer_rows(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Place:
    place = Place(monkeypatch)
    place.table.write(rows(range(ROWS)))
    place.table.compact(full=True, **options)
    place.table.write(rows(range(0, ROWS, 100), add=1000))
    return place


def test_under_newer_rows_a_copy_serves_few_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    place = with_newer_rows(monkeypatch)
    assert place.check(columns="c1") == {USED: 1}
    assert USED not in place.check()


def test_without_newer_rows_it_serves_all_columns(place: Place) -> None:
    assert place.check() == {USED: 1}


@pytest.mark.parametrize("is_remote", [False, True])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_it_serves_all_columns_where_the_sst_takes_time_to_fetch_or_decompress(
    monkeypatch: pytest.MonkeyPatch, compression: str, is_remote: bool
) -> None:
    monkeypatch.setattr(MemoryStore, "is_remote", is_remote)
    place = with_newer_rows(monkeypatch, compression=compression)
    assert (place.check() == {USED: 1}) == (is_remote or compression == "zstd")


def test_a_few_rows_of_a_row_group_come_from_the_sst(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_writing, "GROUP_ROWS", ROWS)
    place = Place(monkeypatch)
    place.load()
    few = {"filter": "tenant = 'a' AND id >= 100 AND id < 103"}
    assert USED not in place.check(**few)
    place.scan(**few)
    assert place.bytes_of(COLUMNS_DIR) == 0
    assert 0 < place.bytes_of(COMPACTED_DIR) <= 3 * 4096, "some blocks"
    assert place.check(filter="tenant = 'a'", columns="c1") == {USED: 1}, "half of the row group"
