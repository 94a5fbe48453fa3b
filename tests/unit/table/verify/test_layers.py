from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from slatespark.errors import CorruptDataError, SlateError, SnapshotExpiredError
from slatespark.format.info import SstInfo
from slatespark.format.row import Row, rows_to_columns
from slatespark.format.ulid import make_ulid
from slatespark.ranges import KeyRange
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.read.merge.cursor import LayerCursor, Window
from slatespark.table.read.planning.plan import FileSlice, Layer, SstFile, keep_slices
from slatespark.table.stores import TableStores
from slatespark.table.tasks import ONE_THREAD
from slatespark.table.verify import layers
from slatespark.table.verify.findings import Findings
from slatespark.table.verify.layers import (
    Inversion,
    check_layer_order,
    find_inversions,
    overlapping_pairs,
)


def part(number: int, start: bytes, end: bytes | None) -> FileSlice:
    info = SstInfo(start, end, 10, 5, 10, 0)
    return FileSlice(SstFile("", make_ulid(number, 0), info, 2), KeyRange(start, end))


def windows(rows: list[Row], size: int) -> Iterator[Window]:
    """Rows as windows of `size` rows, with the bounds that a cursor gives them."""
    for start in range(0, len(rows), size):
        piece = rows[start : start + size]
        last = piece[-1].key
        goes_on = start + size < len(rows) and rows[start + size].key == last
        alone = [row for row in piece if row.key == last]
        if goes_on and len(alone) < len(piece):
            head = piece[: -len(alone)]
            yield Window(rows_to_columns(head), 0, len(head), (head[-1].key, 1))
            piece = alone
        columns = rows_to_columns(piece)
        yield Window(columns, 0, len(piece), (last, 0 if goes_on else 1))


def inversions(*stored: list[tuple[bytes, int]], size: int = 100) -> list[Inversion]:
    cursors = [LayerCursor(windows([Row(key, seq) for key, seq in layer], size)) for layer in stored]
    return list(find_inversions(cursors))


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_layers_in_order_have_no_inversion(size: int) -> None:
    newest = [(b"a", 9), (b"a", 8), (b"c", 7)]
    middle = [(b"a", 5), (b"b", 20), (b"c", 6), (b"c", 5)]
    oldest = [(b"a", 2), (b"a", 1), (b"b", 19), (b"d", 30)]
    assert inversions(newest, middle, oldest, size=size) == []


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_an_older_version_above_a_newer_one(size: int) -> None:
    found = inversions([(b"a", 5), (b"b", 3)], [(b"b", 4), (b"c", 1)], size=size)
    assert found == [Inversion(b"b", 0, 1, 3, 4)]


@pytest.mark.parametrize("size", [1, 100])
def test_one_seq_in_two_layers(size: int) -> None:
    assert inversions([(b"a", 5)], [(b"a", 5)], size=size) == [Inversion(b"a", 0, 1, 5, 5)]


@pytest.mark.parametrize("size", [1, 2, 100])
def test_versions_that_interleave(size: int) -> None:
    found = inversions([(b"k", 9), (b"k", 3)], [(b"k", 5), (b"k", 1)], size=size)
    assert found
    assert {(item.newer_layer, item.older_layer) for item in found} == {(0, 1)}


def test_layers_keep_their_numbers_when_others_have_ended() -> None:
    found = inversions([(b"a", 9)], [(b"a", 8), (b"z", 1)], [(b"z", 2)])
    assert [(item.newer_layer, item.older_layer) for item in found] == [(1, 2)]


def test_random_layers_agree_with_a_plain_check() -> None:
    generator = np.random.default_rng(7)
    for _ in range(200):
        layers = []
        for _ in range(3):
            rows = {(b"k%d" % key, int(seq)) for key, seq in generator.integers(0, 6, (4, 2)).tolist()}
            layers.append(sorted(rows, key=lambda row: (row[0], -row[1])))
        expected = any(
            one_key == other_key and one_seq <= other_seq
            for at, one in enumerate(layers)
            for other in layers[at + 1 :]
            for one_key, one_seq in one
            for other_key, other_seq in other
        )
        for size in (1, 2, 100):
            assert bool(inversions(*layers, size=size)) is expected, layers


def test_pairs_are_those_that_share_keys_newer_first() -> None:
    top = Layer("L0", (part(1, b"c", b"f"),))
    run = Layer("run 1", (part(2, b"a", b"c"), part(3, b"c", b"d"), part(4, b"e", None)))
    low = Layer("run 0", (part(5, b"x", None),))
    [upper] = top.slices
    _, second, third = run.slices
    [lowest] = low.slices
    pairs = overlapping_pairs([top, run, low])
    assert pairs == {(upper, second), (upper, third), (third, lowest)}
    kept = keep_slices([top, run, low], {second, lowest}.__contains__)
    assert [(layer.name, layer.slices) for layer in kept] == [("run 1", (second,)), ("run 0", (lowest,))]


@pytest.mark.parametrize("error", [SnapshotExpiredError("a file is gone."), CorruptDataError("a block is damaged.")])
def test_what_was_found_before_an_error_is_listed(error: SlateError, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the layers, and the first key of each pair, in whatever part it was found."""

    def compared(*_: object, **__: object) -> Iterator[dict[tuple[int, int], Inversion]]:
        yield {(1, 2): Inversion(b"a", 1, 2, 3, 4)}
        yield {(0, 1): Inversion(b"k", 0, 1, 1, 2), (1, 2): Inversion(b"l", 1, 2, 3, 4)}
        raise error

    monkeypatch.setattr(layers, "compare_parts", compared)
    stores = TableStores(main=MemoryStore("inversions"), wal=MemoryStore("inversions"))
    found = Findings()
    names = [Layer(name, ()) for name in ("newest", "middle", "oldest")]
    check_layer_order(stores, names, found, ONE_THREAD, "manifest")
    damage = [item.what for item in found.items if item.section == "layer order" and "Key" in item.what]
    assert [what.split()[1] for what in damage] == [b"k".hex(), b"a".hex()]
    assert len(found.items) == 3
