from __future__ import annotations

import itertools
from pathlib import Path
from uuid import UUID

import pytest

from slatespark.errors import OptionError, TableNotFoundError
from slatespark.format.manifest import ExternalDb
from slatespark.format.paths import sst_path
from slatespark.format.ulid import Ulid
from slatespark.storage import open_store
from slatespark.table.stores import OWN_ROOT, open_stores, resolve_external

_names = itertools.count()


def reference(path: str, *sst_ids: Ulid) -> ExternalDb:
    return ExternalDb(path, UUID(int=1), UUID(int=2), sst_ids)


def test_a_wal_in_another_location(tmp_path: Path) -> None:
    one = open_stores(str(tmp_path / "db"), storage={})
    assert one.wal is one.main
    assert (one.url, one.wal_is_apart) == (f"file://{tmp_path}/db", False)
    two = open_stores(str(tmp_path / "db"), storage={}, wal_path=str(tmp_path / "wals"))
    assert (two.wal.url, two.wal_is_apart) == (f"file://{tmp_path}/wals", True)


def test_other_roots_are_opened_once() -> None:
    stores = open_stores("memory://stores/one", storage={"root": "memory://stores"})
    assert stores.at(OWN_ROOT) is stores.main
    other = stores.at("memory://stores/two")
    assert other.url == "memory://stores/two"
    assert stores.at("memory://stores/two") is other


def test_no_secret_is_shown() -> None:
    stores = open_stores("s3://bucket/db", storage={"key": "some-key", "secret": "hidden-secret", "region": "x"})
    assert "hidden" not in repr(stores)
    assert "hidden" not in stores.url


@pytest.mark.parametrize(
    ("parent", "external"),
    [
        ("memory://external-{}/data/parent", "parent"),
        ("memory://external-{}/parent", "parent"),
        ("memory://external-{}/other/deep/parent", "other/deep/parent"),
    ],
)
def test_a_parent_is_found_below_an_ancestor(parent: str, external: str) -> None:
    number = next(_names)
    open_store(parent.format(number)).put("manifest/1.manifest", [b"x"])
    child = open_stores(f"memory://external-{number}/data/clones/child", storage={})
    assert resolve_external(child, reference(external)) == parent.format(number)


def test_a_local_parent(tmp_path: Path) -> None:
    (tmp_path / "parent" / "manifest").mkdir(parents=True)
    (tmp_path / "parent" / "manifest" / "1.manifest").write_bytes(b"x")
    child = open_stores(str(tmp_path / "a" / "child"), storage={})
    assert resolve_external(child, reference("parent")) == f"file://{tmp_path}/parent"


def test_a_given_root_is_the_only_location() -> None:
    number = next(_names)
    open_store(f"memory://external-{number}/parent").put("manifest/1.manifest", [b"x"])
    rooted = {"root": f"memory://external-{number}/elsewhere/"}
    child = open_stores(f"memory://external-{number}/child", storage=rooted)
    with pytest.raises(TableNotFoundError, match=f"parent.*external-{number}/elsewhere"):
        resolve_external(child, reference("parent"))
    open_store(f"memory://external-{number}/elsewhere/parent").put("manifest/1.manifest", [b"x"])
    assert resolve_external(child, reference("parent")) == f"memory://external-{number}/elsewhere/parent"


def test_the_holder_of_a_file_is_preferred_to_a_nearer_database_of_that_name() -> None:
    root, file = f"memory://external-{next(_names)}", Ulid.parse("01M8CHTAX2PYVVNPXVZWFMQX1R")
    for parent in (f"{root}/parent", f"{root}/near/parent"):
        open_store(parent).put("manifest/1.manifest", [b"x"])
    child = open_stores(f"{root}/near/child", storage={})
    assert resolve_external(child, reference("parent")) == f"{root}/near/parent"
    open_store(f"{root}/parent").put(sst_path(file), [b"x"])
    assert resolve_external(child, reference("parent", file)) == f"{root}/parent"


def test_a_relative_root_is_resolved_when_the_table_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for name in ("one", "two"):
        open_store(str(tmp_path / name / "parent")).put("manifest/1.manifest", [b"x"])
        monkeypatch.chdir(tmp_path / name)
        found.append(open_stores("child", storage={"root": "."}))
    monkeypatch.chdir(tmp_path)
    parents = [open_store(resolve_external(stores, reference("parent"))).url for stores in found]
    assert parents == [f"file://{tmp_path}/{name}/parent" for name in ("one", "two")]


def test_a_root_that_is_no_location_is_refused(tmp_path: Path) -> None:
    assert open_stores(str(tmp_path), storage={"root": tmp_path}).storage == {"root": str(tmp_path)}  # type: ignore[dict-item]
    with pytest.raises(OptionError):
        open_stores(str(tmp_path), storage={"root": 5})  # type: ignore[dict-item]
