"""What becomes of damaged copies, and of those that go while they are read."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from slatespark import SlateStore
from slatespark.format.copy_chunks import chunk_range
from slatespark.format.paths import COLUMNS_DIR
from slatespark.format.ulid import Ulid
from slatespark.ranges import ByteRange
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.columns.read import fetch_copy
from slatespark.table.read.copies import windows as copy_windows
from slatespark.table.read.copies.stored import footers
from slatespark.table.read.fetch import indexes
from slatespark.table.read.merge.cursor import Window, layer_windows
from slatespark.table.read.planning.plan import Layer
from slatespark.table.stores import TableStores
from tests.unit.table.read.copies.copied_table import NAMES, ROWS, SCHEMA, Place, rows


@pytest.mark.parametrize("kind", ["page", "footer", "cut", "empty", "foreign", "later"])
@pytest.mark.parametrize("above", [False, True])
def test_a_damaged_copy_is_passed_over(place: Place, caplog: pytest.LogCaptureFixture, kind: str, above: bool) -> None:
    other = SlateStore.create(f"memory://copies-in-scans-{next(NAMES)}/db", SCHEMA, "tenant, id", columnar=True)
    other.write(rows(range(ROWS), add=1))
    other.compact(full=True)
    if above:
        place.table.write(rows(range(50, 60), add=77))
    wanted = place.scan(useCopies=False)
    data = bytearray(place.store.get(place.path))
    if kind == "page":
        data[len(data) // 2] ^= 0x10
    elif kind == "footer":
        data[-200] ^= 0x10
    elif kind == "cut":
        del data[len(data) // 3 :]
    elif kind == "empty":
        data.clear()
    elif kind == "foreign":
        [meta] = other._stores.main.list(COLUMNS_DIR)
        data = bytearray(other._stores.main.get(meta.path))
    elif kind == "later":
        data = data.replace(b'"format": 1', b'"format": 9')
    place.store.put(place.path, [bytes(data)])
    footers.clear()
    with caplog.at_level(logging.WARNING):
        assert place.scan() == wanted
    assert len(caplog.records) == 1
    assert place.path in caplog.text


def test_a_copy_that_goes_while_it_is_read(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    wanted = place.scan(useCopies=False, columns="id, c1")
    batches = place.table.scan(columns="id, c1", readBuffer="4k", parallelism=1)
    place.store.delete(place.path)
    with caplog.at_level(logging.WARNING):
        assert batches.read_all().to_pylist() == wanted
    assert len(caplog.records) == 1


def test_a_copy_that_is_written_anew_while_it_is_read(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The chunks of another copy of the same SST may lie where the footer says, and be of other columns."""
    wanted = place.scan(useCopies=False, columns="id, c1")
    place.scan(columns="id, c1")
    plain = MemoryStore.get_ranges
    anew: list[int] = []

    def changing(store: MemoryStore, path: str, spans: list[ByteRange]) -> Any:
        found = plain(store, path, spans)
        if path.startswith(COLUMNS_DIR) and not anew:
            anew.append(1)
            place.table.compact(columnar="seq")
        return found

    monkeypatch.setattr(MemoryStore, "get_ranges", changing)
    with caplog.at_level(logging.WARNING):
        assert place.table.scan(columns="id, c1").read_all().to_pylist() == wanted
    assert anew
    assert len(caplog.records) == 1


def damage(place: Place, group: int) -> None:
    """Damage a row group of the copy, and not the footer."""
    data = bytearray(place.store.get(place.path))
    footer = fetch_copy(place.store, Ulid.parse(place.path.split("/")[-1].split(".")[0])).footer
    span = chunk_range(footer.metadata, group, SCHEMA.names.index("c1"))
    data[(span.start + span.end) // 2] ^= 1
    place.store.put(place.path, [bytes(data)])
    indexes.clear()


def test_the_rest_comes_from_the_sst_when_a_later_row_group_is_damaged(
    place: Place, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = place.scan(useCopies=False, columns="id, c1")
    damage(place, 6)
    for options in ({}, {"readBuffer": "64k"}, {"splitSize": "16k"}):
        with caplog.at_level(logging.WARNING):
            assert place.scan(columns="id, c1", **options) == wanted
    assert caplog.records
    assert place.scan(columns="id, c1", filter="tenant = 'a'") == [row for row in wanted if row["id"] < ROWS // 2]

    def small_windows(stores: TableStores, layer: Layer, *_: Any, **__: Any) -> Iterator[Window]:
        return layer_windows(stores, layer, 4096)

    monkeypatch.setattr(copy_windows, "layer_windows", small_windows)
    assert place.scan(columns="id, c1") == wanted


@pytest.mark.parametrize("damaged_group", range(1, 6))
def test_an_sst_that_takes_over_in_one_of_several_slices_shows_no_older_rows(place: Place, damaged_group: int) -> None:
    """A window of the SST may reach into the next slice, whose rows the layers above are still to hide."""
    place.table.write(rows(range(0, ROWS, 40), add=77))
    place.table.write(rows(range(20, ROWS, 40)), operation="delete")
    place.table.deleteRange("tenant = 'a' AND id >= 600 AND id < 603")
    damage(place, damaged_group)
    conditions = "id >= 0", "id <> 700 AND id <> 1500", "tenant IN ('a', 'b') AND id >= 3", "c0 > 0 AND id <> 900"
    for condition in conditions:
        place.check(columns="id, c1", filter=condition)
        place.check(columns="id, c1", filter=condition, splitSize="16k")
