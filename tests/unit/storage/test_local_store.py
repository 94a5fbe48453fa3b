from __future__ import annotations

import errno
import gc
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from slatespark.errors import InvalidRequestError, UnavailableError
from slatespark.format.paths import numbered
from slatespark.ranges import ByteRange
from slatespark.storage import absolute_location, durable_files, mapped_files, open_store
from slatespark.storage.local_store import MAP_BYTES, MAP_OBJECT_BYTES, LocalStore
from slatespark.storage.mapped_files import MappedFiles
from slatespark.storage.object_store import ObjectStore
from tests.support.store_contract import StoreContract


class TestLocalStore(StoreContract):
    race_rounds = 60

    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return LocalStore(tmp_path / "root")


def no_link(number: int) -> Callable[..., None]:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return refuse


def test_no_temporary_file_is_left(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.create("a", b"1")
    with pytest.raises(FileExistsError):
        store.create("a", b"2")
    store.put("a", [b"3"])
    store.copy("a", "a")
    store.copy("a", "b")
    with pytest.raises(FileNotFoundError):
        store.copy("none", "c")
    with pytest.raises(TypeError):
        store.put("d", [b"x", "text"])  # type: ignore[list-item]
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]  # noqa: PTH208 - includes hidden names


def test_temporary_names_are_ignored_by_slatedb(tmp_path: Path) -> None:
    name = durable_files._temporary_name(tmp_path).name
    assert durable_files.is_temporary(name)
    assert not name.partition(".")[0]
    for extension in ("sst", "manifest", "compactions", "tmp"):
        assert numbered(name, extension) is None
    (tmp_path / name).write_bytes(b"left over by a crash")
    store = LocalStore(tmp_path)
    store.create("x", b"1")
    assert [meta.path for meta in store.list("")] == ["x"]


@pytest.mark.parametrize("name", ["01ARZ3NDEKTSV4RRFFQ69G5FAV.sst#1", "00000000000000000007.sst#12"])
def test_uploads_of_a_client_are_unfinished(name: str, tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for path in (f"wal/{name}", f"wal/{name}x", "wal/#", "wal/a#b"):
        store.put(path, [b"half"])
    assert [meta.path for meta in store.list("wal/")] == sorted([f"wal/{name}x", "wal/#", "wal/a#b"])
    assert [meta.path for meta in store.list_unfinished("wal/")] == [f"wal/{name}"]
    store.delete(f"wal/{name}")
    assert not store.list_unfinished("wal/")


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    LocalStore(tmp_path).create("x", b"1")
    plain = tmp_path / "plain"
    plain.touch()
    assert (tmp_path / "x").stat().st_mode == plain.stat().st_mode


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done on the disk, below an empty folder `root`."""
    (tmp_path / "root").mkdir()
    done: list[str] = []
    fsync = os.fsync

    def noted_fsync(descriptor: int) -> None:
        done.append("sync " + Path(f"/proc/self/fd/{descriptor}").readlink().name.partition("-")[0])
        fsync(descriptor)

    def noted(word: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*arguments: Any, **options: Any) -> Any:
            found = act(*arguments, **options)
            done.append(word)
            return found

        return noting

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "link", noted("link", os.link))
    for word, name in (("rename", "replace"), ("mkdir", "mkdir"), ("unlink", "unlink")):
        monkeypatch.setattr(Path, name, noted(word, getattr(Path, name)))
    return done


CREATED = ["sync .slatespark", "link", "unlink", "sync root"]
REPLACED = ["sync .slatespark", "rename", "sync root"]


def test_content_is_on_disk_before_the_name(steps: list[str], tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "root")
    store.create("x", b"1")
    assert steps == CREATED
    steps.clear()
    store.put("x", [b"2"])
    assert steps == REPLACED


@pytest.mark.parametrize("has_links", [True, False])
def test_a_copy_is_on_disk_with_its_name(
    has_links: bool, steps: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path / "root")
    store.put("x", [b"1"])
    steps.clear()
    if not has_links:
        monkeypatch.setattr(os, "link", no_link(errno.EPERM))
    store.copy("x", "y")
    assert [step for step in steps if step != "unlink"] == ["link" if has_links else "sync .slatespark", *REPLACED[1:]]


def test_new_folders_are_on_disk_with_their_names(steps: list[str], tmp_path: Path) -> None:
    LocalStore(tmp_path / "root").put("one/two/x", [b"1"])
    assert steps == ["mkdir", "sync root", "mkdir", "sync one", "sync .slatespark", "rename", "sync two"]


def test_a_deletion_is_on_disk(steps: list[str], tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "root")
    for path in "xyz":
        store.put(path, [b"1"])
    steps.clear()
    store.delete("x")
    assert steps == ["unlink", "sync root"]
    store.delete_many(["y", "z"])
    assert steps == 3 * ["unlink", "sync root"]


def test_a_link_repeated_by_the_file_system_is_a_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def repeated(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", repeated)
    store = LocalStore(tmp_path)
    store.create("x", b"1")
    assert store.get("x") == b"1"


def test_no_create_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", no_link(errno.EOPNOTSUPP))
    store = LocalStore(tmp_path)
    with pytest.raises(InvalidRequestError, match="links"):
        store.create("x", b"1")
    assert store.list("") == []
    store.put("x", [b"1"])
    store.copy("x", "y")
    store.put("x", [b"2"])
    assert store.get("y") == b"1"


def test_errors_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    store.put("file", [b"1"])
    with pytest.raises(InvalidRequestError, match=str(tmp_path)):
        store.create("file/below", b"")
    with pytest.raises(InvalidRequestError, match=str(tmp_path)):
        store.put("n" * 300, [b""])
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidRequestError):
        store.put("folder", [b""])
    monkeypatch.setattr(os, "link", no_link(errno.ENOSPC))
    with pytest.raises(UnavailableError, match="space") as caught:
        store.create("x", b"1")
    assert caught.value.todo
    monkeypatch.setattr(os, "listdir", no_link(errno.EACCES))
    with pytest.raises(InvalidRequestError, match="permissions"):
        store.list("")


@pytest.mark.parametrize("folder", ["link", "link/below"])
def test_nothing_is_stored_below_a_link_to_nowhere(folder: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    store = LocalStore(tmp_path / folder)
    with pytest.raises(InvalidRequestError, match="Choose another path"):
        store.create("x", b"1")
    with pytest.raises(InvalidRequestError, match="Choose another path"):
        store.put("a/x", [b"1"])
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_large_ranges_are_not_copied(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    data = bytes(range(256)) * (MAP_BYTES // 128)
    store.put("x", [data])
    one, two = store.get_ranges("x", [ByteRange(0, len(data)), ByteRange(5, 5 + MAP_BYTES)])
    assert isinstance(one, memoryview)
    assert isinstance(two, memoryview)
    assert one.readonly
    assert one.obj is two.obj
    assert isinstance(store.get_range("x", ByteRange(0, 100)), bytes)
    store.put("y", [bytes(MAP_OBJECT_BYTES)])
    assert isinstance(store.get("y"), memoryview)
    assert isinstance(store.get("x"), bytes)


def test_the_map_cache_is_bounded_and_views_outlive_it(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store._maps = MappedFiles(capacity=2)
    views = []
    for number in range(6):
        store.put(f"{number}", [bytes([number]) * MAP_BYTES])
        views.append(store.get_range(f"{number}", ByteRange(0, MAP_BYTES)))
    assert len(store._maps._maps) == 2
    store._maps._maps.clear()
    del store
    gc.collect()
    assert [view[-1] for view in views] == list(range(6))


def test_a_deleted_or_replaced_file_is_no_longer_mapped_once_another_one_is(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for name in "abc":
        store.put(name, [name.encode() * MAP_BYTES])
        store.get_range(name, ByteRange(0, MAP_BYTES))
    store.delete("a")
    LocalStore(tmp_path).put("b", [b"B" * MAP_BYTES])
    held = store._maps._maps
    assert len(held) == 3
    store.put("d", [b"d" * MAP_BYTES])
    store.get_range("d", ByteRange(0, MAP_BYTES))
    assert sorted(path.name for _, path in held.values()) == ["c", "d"]
    assert bytes(store.get_range("b", ByteRange(0, MAP_BYTES))[-1:]) == b"B"


def test_all_stores_of_a_process_share_a_bound_of_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    monkeypatch.setattr(mapped_files, "MAX_KEPT_MAPS", 4 * (len(mapped_files._living) + 1))

    def kept(store: LocalStore) -> int:
        for number in range(6):
            assert len(store.get_range(f"{number}", ByteRange(0, MAP_BYTES))) == MAP_BYTES
        return len(store._maps._maps)

    first = LocalStore(tmp_path)
    for number in range(6):
        first.put(f"{number}", [bytes(MAP_BYTES)])
    assert kept(first) == 4
    others = [LocalStore(tmp_path) for _ in range(len(mapped_files._living))]
    assert len(first._maps._maps) == 2, "it shrinks at once"
    assert kept(others[0]) == kept(first) == 2
    others += [LocalStore(tmp_path) for _ in range(4 * len(mapped_files._living))]
    assert kept(first) == 0
    del others
    gc.collect()
    assert kept(first) == 4


@pytest.mark.parametrize("size", [MAP_BYTES, MAP_OBJECT_BYTES])
def test_a_file_changed_in_place_is_mapped_again(tmp_path: Path, size: int) -> None:
    store = LocalStore(tmp_path)
    store.put("x", [b"a" * size])
    whole, part = store.get("x"), store.get_range("x", ByteRange(0, size))
    with (tmp_path / "x").open("ab") as file:
        file.write(b"b" * size)
    assert store.get("x") == store.get_range("x", ByteRange(0, 2 * size)) == b"a" * size + b"b" * size
    assert whole == part == b"a" * size


def test_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    urls = [
        str(tmp_path / "t"),
        "t",
        "./t",
        f"file://{tmp_path}/t",
        f"file:{tmp_path}/t",
        f"file://localhost{tmp_path}/t/",
    ]
    stores = [open_store(url, {"root": "ignored"}) for url in urls]
    assert {store.url for store in stores} == {f"file://{tmp_path}/t"}
    with pytest.raises(InvalidRequestError, match="file:///data/t"):
        open_store("file://data/t")


@pytest.mark.parametrize("url", ["file://", "file:", "local://", "file://localhost", "FILE:// "])
def test_a_url_without_a_folder_is_not_the_working_folder(url: str) -> None:
    with pytest.raises(InvalidRequestError):
        open_store(url)


def test_a_relative_path_in_a_folder_that_is_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    calls: list[Callable[[str], object]] = [open_store, absolute_location]
    for call in calls:
        with pytest.raises(InvalidRequestError, match="some/table"):
            call("some/table")
    assert open_store(str(tmp_path)).list("") == []


def test_a_local_table_loads_no_driver() -> None:
    code = "import sys; from slatespark.storage import open_store; open_store('/x').list(''); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "slatespark.storage.local_store" in loaded
    assert not {"fsspec", "s3fs", "asyncio", "numpy"} & set(loaded)


def test_files_of_a_killed_writer(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a/x", [b"1"])
    left = tmp_path / "a" / ".slatespark-123-4.tmp"
    left.write_bytes(b"half")
    assert [meta.path for meta in store.list("a/")] == ["a/x"]
    store.put("a/b/y", [b"1"])
    (tmp_path / "a" / "b" / ".slatespark-123-5.tmp").write_bytes(b"")
    found, below = store.list_unfinished("a/")
    assert (found.path, found.size) == ("a/.slatespark-123-4.tmp", 4)
    assert below.path == "a/b/.slatespark-123-5.tmp"
    assert [*store.list_unfinished("a/b/")] == [below]
    store.delete(found.path)
    assert not left.exists()


def test_prune_removes_empty_folders_alone(tmp_path: Path) -> None:
    root = tmp_path / "root"
    store = LocalStore(root)
    store.put("a/b/x", [b"1"])
    for folder in ("a/c/d", "other/empty", "e"):
        (root / folder).mkdir(parents=True)
    (root / "e" / "link").symlink_to(tmp_path / "elsewhere")
    store.prune(["a/", "e/"])
    assert sorted(path.name for path in root.iterdir()) == ["a", "e", "other"]
    assert sorted(path.name for path in (root / "a").iterdir()) == ["b"]
    assert (root / "other" / "empty").exists(), "nobody asked for it"
    store.delete("a/b/x")
    (root / "e" / "link").unlink()
    store.prune(["a/", "e/", "other/"])
    assert not root.exists()
    assert tmp_path.exists()


def test_nothing_is_listed_behind_a_link(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "root")
    store.put("a/x", [b"1"])
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "y").write_bytes(b"2")
    (tmp_path / "root" / "a" / "link").symlink_to(tmp_path / "elsewhere")
    assert [meta.path for meta in store.list_below("a/")] == ["a/x"]


def test_a_folder_that_cannot_be_listed_is_not_passed_over(tmp_path: Path) -> None:
    # Its path is too long: missing permissions would keep nobody away who runs the tests as root.
    (tmp_path / "a").mkdir()
    above = os.open(tmp_path / "a", os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=above)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=above)
        os.close(above)
        above = below
    os.close(above)
    store = LocalStore(tmp_path)
    for call in (store.list_below, store.list_unfinished):
        with pytest.raises(InvalidRequestError):
            call("a/")


def test_an_absolute_location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    here = str(tmp_path / "a")
    for given in ("a", "./a", here, f"file:{here}", f"file://{here}", f"file://localhost{here}"):
        assert absolute_location(given) == here
    assert absolute_location("~/a") == "/home/me/a"
    for kept in ("s3://bucket/a", "memory://a", "s3:/bucket/a", "", "  "):
        assert absolute_location(kept) == kept


@pytest.mark.parametrize("is_there", [False, True])
def test_an_interrupt_as_a_file_is_created_leaves_nothing(
    is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = Path.open

    def interrupted(file: Path, *arguments: Any, **options: Any) -> None:
        if is_there:
            create(file, *arguments, **options).close()
        raise KeyboardInterrupt

    store = LocalStore(tmp_path)
    monkeypatch.setattr(Path, "open", interrupted)
    for write in (partial(store.create, "x", b"1"), partial(store.put, "x", [b"1"])):
        with pytest.raises(KeyboardInterrupt):
            write()
        assert not list(tmp_path.iterdir())


def test_a_forked_process_that_gets_our_pid_later_repeats_no_temporary_name(tmp_path: Path) -> None:
    def names() -> set[str]:
        made = {durable_files._temporary_name(tmp_path).name for _ in range(100)}
        return {name.replace(str(os.getpid()), "pid", 1) for name in made}

    processes = multiprocessing.get_context("fork")
    queue = processes.SimpleQueue()
    child = processes.Process(target=lambda: queue.put(names()))
    child.start()
    theirs = queue.get()
    child.join()
    assert not theirs & names()
