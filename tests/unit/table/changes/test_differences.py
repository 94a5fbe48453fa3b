"""Which parts of files two versions share."""

from __future__ import annotations

from slatespark.format.row import Row
from slatespark.ranges import KeyRange
from slatespark.table.changes.differences import compare_layers
from slatespark.table.read.planning.plan import FileSlice, Layer
from tests.unit.table.layers import new_stores, put_file


def of(part: FileSlice, start: bytes, end: bytes | None) -> FileSlice:
    return FileSlice(part.file, KeyRange(start, end).intersect(part.keys))


def shown(layers: tuple[Layer, ...]) -> list[tuple[str, list[FileSlice]]]:
    return [(layer.name, list(layer.slices)) for layer in layers]


def test_files_that_move_or_are_cut() -> None:
    stores = new_stores()
    kept, cut, gone, come = (put_file(stores, [Row(b"%c" % key, seq) for key in b"abcdef"]) for seq in (1, 2, 3, 4))
    old = (Layer("L0", (cut,)), Layer("L0", (kept,)), Layer("run 1", (gone,)))
    new = (
        Layer("L0", (come,)),
        Layer("run 3", (of(cut, b"", b"b"), of(cut, b"d", None))),
        Layer("run 2", (kept,)),
    )
    found = compare_layers(old, new)
    assert shown(found.old_only) == [("L0", [of(cut, b"b", b"d")]), ("run 1", [gone])]
    assert shown(found.new_only) == [("L0", [come])]
    assert shown(found.shared) == [("run 3", list(new[1].slices)), ("run 2", [kept])]


def test_the_same_and_nothing() -> None:
    layers = (Layer("run 1", (put_file(new_stores(), [Row(b"a", 1), Row(b"b", 1)]),)),)
    same = compare_layers(layers, layers)
    assert (same.old_only, same.new_only, same.shared) == ((), (), layers)
    first = compare_layers((), layers)
    assert (first.old_only, first.new_only, first.shared) == ((), layers, ())
