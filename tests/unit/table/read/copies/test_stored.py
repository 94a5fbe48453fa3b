"""Footers of copies: how they are fetched, and what is said of those that cannot be used."""

from __future__ import annotations

import logging

import pytest

from slatespark.format.paths import COLUMNS_DIR
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.read.copies import stored
from slatespark.table.read.copies.choice import USED
from slatespark.table.read.copies.stored import fetch_footer, footers, warn_unusable
from tests.unit.table.read.copies.copied_table import ROWS, SCHEMA, Place


@pytest.mark.parametrize(("end_bytes", "requests"), [(64, 2), (32 << 10, 1), (1 << 20, 1)])
def test_a_footer_is_found_whatever_part_of_the_copy_is_fetched_at_first(
    place: Place, monkeypatch: pytest.MonkeyPatch, end_bytes: int, requests: int
) -> None:
    """Less than the footer, more than it, and more than the copy has."""
    monkeypatch.setattr(stored, "_END_BYTES", end_bytes)
    footers.clear()
    meta = place.store.head(place.path)
    assert 32 << 10 < meta.size < 1 << 20
    place.fetched.clear()
    footer = fetch_footer(place.store, meta)
    assert footer.label.rows == footer.metadata.num_rows == ROWS
    assert set(SCHEMA.names) <= set(footer.schema.names)
    assert len(place.fetched) == requests
    assert place.bytes_of(COLUMNS_DIR) <= meta.size
    assert place.check(columns="c1") == {USED: 1}


def test_each_copy_is_warned_of_once_and_not_all_are_kept_in_mind(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stored, "_MAX_WARNED", 2)
    monkeypatch.setattr(stored, "_warned", set())
    store = MemoryStore("warnings-of-copies")
    for path in ("a", "b", "c", "d"):
        store.put(path, [b"x"])
    with caplog.at_level(logging.WARNING):
        for path in ("a", "a", "b", "b", "c", "d"):
            warn_unusable(store, store.head(path), f"{path} is damaged.")
            assert len(stored._warned) <= 2
    told = [record.getMessage() for record in caplog.records]
    assert told == [f"{path} is damaged. The SST is read instead." for path in "abcd"]
