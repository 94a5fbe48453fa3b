"""A wrong `walPath` is refused by everything that writes, before it touches that WAL, and by reads where it shows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import InvalidRequestError, SlateStore, SstWriter

_numbers = count()


def rows(*keys: bytes) -> pa.Table:
    return pa.table({"key": list(keys), "value": list(keys)})


def folder_state(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file())


def ingest(store: SlateStore) -> object:
    path = f"memory://wal-place/{next(_numbers)}.sst"
    SstWriter(path).write(rows(b"i"))
    return store.ingest(path)


CHANGES: dict[str, Callable[[SlateStore], object]] = {
    "write": lambda store: store.write(rows(b"n")),
    "overwrite": lambda store: store.write(rows(b"n"), mode="overwrite"),
    "delete": lambda store: store.delete("key = X'61'"),
    "delete a range": lambda store: store.deleteRange(startKey="61"),
    "ingest": ingest,
    "restore": lambda store: store.restoreToVersion(1),
    "compact": lambda store: store.compact(full=True),
    "begin": lambda store: store.begin(),
    "vacuum": lambda store: store.vacuum(),
}


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A database whose WAL has other numbers."""
    store = SlateStore.create(tmp_path / "other")
    store.write(rows(b"precious"))
    return tmp_path / "other"


@pytest.mark.parametrize("has_manifests", [True, False], ids=["a whole database", "only its WAL"])
@pytest.mark.parametrize("change", CHANGES)
def test_the_wal_of_another_table(change: str, has_manifests: bool, other: Path, tmp_path: Path) -> None:
    right = {"walPath": str(tmp_path / "wal of t")}
    table = SlateStore.create(tmp_path / "t", autoCompact=False, **right)
    for key in (b"a", b"b", b"c"):
        table.write(rows(key))
    if not has_manifests:
        (other / "manifest").rename(tmp_path / "manifest")
    data = tmp_path / "t" / "compacted"
    before = folder_state(other), folder_state(data), table.detail().last_seq
    with pytest.raises(InvalidRequestError, match="walPath"):
        CHANGES[change](SlateStore.open(tmp_path / "t", walPath=str(other)))
    assert (folder_state(other), folder_state(data), table.detail().last_seq) == before
    CHANGES[change](table)


@pytest.mark.parametrize("change", CHANGES)
def test_the_wal_of_the_parent_of_a_clone(change: str, tmp_path: Path) -> None:
    """It has the file behind which the clone began, which the clone's own WAL never has."""
    parents = {"walPath": str(tmp_path / "wal")}
    parent = SlateStore.create(tmp_path / "parent", autoCompact=False, **parents)
    parent.write(rows(b"a"))
    parent.write(rows(b"b"))
    clone = parent.clone(tmp_path / "clone")
    before = folder_state(tmp_path / "wal")
    with pytest.raises(InvalidRequestError, match="walPath"):
        CHANGES[change](SlateStore.open(tmp_path / "clone", **parents))
    assert folder_state(tmp_path / "wal") == before
    parent.write(rows(b"later"))
    with pytest.raises(InvalidRequestError, match="walPath"):
        SlateStore.open(tmp_path / "clone", **parents).scan()
    clone.write(rows(b"c"))
    CHANGES[change](SlateStore.open(tmp_path / "clone"))


def test_reads_with_a_wal_that_lacks_the_place_of_replay(other: Path, tmp_path: Path) -> None:
    table = SlateStore.create(tmp_path / "t", autoCompact=False, walPath=str(tmp_path / "wal"))
    for key in (b"a", b"b", b"c"):
        table.write(rows(key))
    for wrong in (tmp_path / "empty", other):
        with pytest.raises(InvalidRequestError, match="walPath"):
            SlateStore.open(tmp_path / "t", walPath=str(wrong)).scan()


def test_a_clone_with_a_wal_apart(tmp_path: Path) -> None:
    SlateStore.create(tmp_path / "parent").write(rows(b"a"))
    SlateStore.open(tmp_path / "parent").clone(tmp_path / "clone")
    own = {"walPath": str(tmp_path / "wal of the clone")}
    for key in (b"b", b"c"):
        SlateStore.open(tmp_path / "clone", **own).write(rows(key))
    SlateStore.open(tmp_path / "clone", **own).vacuum()
    assert SlateStore.open(tmp_path / "clone", **own).scan().read_all()["key"].to_pylist() == [b"a", b"b", b"c"]


def test_a_table_is_not_created_over_the_wal_of_another(tmp_path: Path) -> None:
    SlateStore.create(tmp_path / "other")
    with pytest.raises(InvalidRequestError, match="database"):
        SlateStore.create(tmp_path / "t", walPath=tmp_path / "other")
    assert not (tmp_path / "t").exists()
