"""What every object store must do: subclass `StoreContract` and provide the fixture `store`."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

import pytest

from slatespark.errors import CorruptDataError, InvalidRequestError
from slatespark.ranges import ByteRange
from slatespark.storage.object_store import ObjectStore

UNUSUAL_NAMES = (
    "a b",
    "a%20b",
    "a+b&c=d",
    "ä-日本",
    "#1",
    "q?v=1",
    "[x]*",
    "{y}",
    "~",
    "..a",
    "a:b@c",
    "'\"",
    "\\",
)
SPAN_PAST_END = [ByteRange(0, 11), ByteRange(9, 11), ByteRange(10, 11), ByteRange(500, 600), ByteRange(11, 11)]


class StoreReadContract:
    """Reading. The fixture `store` holds what the fixture `fill` puts there."""

    names_are_flat = False  # an object may have the name of a folder
    unusual_names: tuple[str, ...] = UNUSUAL_NAMES

    @pytest.fixture
    def fill(self, store: ObjectStore) -> Callable[[str, bytes], None]:
        """Return how an object gets into the store; another one for stores that do not write."""
        return lambda path, data: store.put(path, [data])

    def test_whole_objects(self, store: ObjectStore, fill: Callable[[str, bytes], None]) -> None:
        for path, data in {
            "a/x": b"0123456789",
            "a/empty": b"",
            "top": b"1",
            "a/big": bytes(range(256)) * 4096,
        }.items():
            fill(path, data)
            assert bytes(store.get(path)) == data

    def test_missing_objects(self, store: ObjectStore, fill: Callable[[str, bytes], None]) -> None:
        fill("folder/x", b"1")
        for path in ("nothing", "folder", "folder/y", "no/folder"):
            for call in (
                lambda path: store.get(path),
                lambda path: store.get_range(path, ByteRange(0, 1)),
                lambda path: store.get_range(path, ByteRange(0, 0)),
                lambda path: store.get_ranges(path, [ByteRange(0, 1), ByteRange(1, 2)]),
                lambda path: store.head(path),
            ):
                with pytest.raises(FileNotFoundError, match=path):
                    call(path)

    def test_ranges(self, store: ObjectStore, fill: Callable[[str, bytes], None]) -> None:
        fill("x", b"0123456789")
        for start in range(11):
            for end in range(start, 11, 3):
                assert bytes(store.get_range("x", ByteRange(start, end))) == b"0123456789"[start:end]
        spans = [ByteRange(7, 9), ByteRange(0, 1), ByteRange(0, 10), ByteRange(10, 10), ByteRange(7, 9)]
        assert [bytes(part) for part in store.get_ranges("x", spans)] == [b"78", b"0", b"0123456789", b"", b"78"]
        assert store.get_ranges("x", []) == []

    def test_ranges_of_a_large_object(self, store: ObjectStore, fill: Callable[[str, bytes], None]) -> None:
        data = b"".join(number.to_bytes(4, "big") for number in range(3 << 18))  # 3 MiB
        fill("large", data)
        spans = [ByteRange(at, at + length) for at in (0, 1, 100_000, 2_500_000) for length in (1, 5000, 600_000)]
        spans += [ByteRange(0, len(data)), ByteRange(len(data) - 1, len(data))]
        for span, part in zip(reversed(spans), store.get_ranges("large", spans[::-1]), strict=True):
            assert part == data[span.start : span.end]
            assert store.get_range("large", span) == data[span.start : span.end]

    @pytest.mark.parametrize("span", SPAN_PAST_END)
    def test_range_past_the_end(self, store: ObjectStore, fill: Callable[[str, bytes], None], span: ByteRange) -> None:
        fill("some/object", b"0123456789")
        for call in (
            lambda: store.get_range("some/object", span),
            lambda: store.get_ranges("some/object", [ByteRange(0, 1), span]),
        ):
            with pytest.raises(CorruptDataError) as caught:
                call()
            assert "some/object" in str(caught.value)
            assert str(span.end) in str(caught.value)
            assert "10" in str(caught.value)

    def test_range_that_is_none(self, store: ObjectStore, fill: Callable[[str, bytes], None]) -> None:
        fill("x", b"0123456789")
        for span in (ByteRange(-2, 1), ByteRange(5, 3), ByteRange(1 << 64, (1 << 64) + 1), ByteRange(0, 1 << 63)):
            with pytest.raises(CorruptDataError):
                store.get_range("x", span)

    def test_range_of_an_empty_object(self, store: ObjectStore, fill: Callable[[str, bytes], None]) -> None:
        fill("empty", b"")
        assert store.get_range("empty", ByteRange(0, 0)) == b""
        with pytest.raises(CorruptDataError, match=r"\b0\b"):
            store.get_range("empty", ByteRange(0, 1))

    def test_head(self, store: ObjectStore, fill: Callable[[str, bytes], None]) -> None:
        fill("a/x", b"123")
        meta = store.head("a/x")
        assert (meta.path, meta.size) == ("a/x", 3)
        assert meta.modified_ms > 1_500_000_000_000
        (listed,) = store.list("a/")
        assert listed.path == "a/x"
        assert listed.size == 3
        assert abs(listed.modified_ms - meta.modified_ms) <= 1000  # S3 rounds one of them to seconds

    def test_list(self, store: ObjectStore, fill: Callable[[str, bytes], None]) -> None:
        for path in ("a/2", "a/1", "a/10", "a/b/3", "a-/4", "top", *(["a"] if self.names_are_flat else [])):
            fill(path, b"x")
        fill("ab/5", b"")
        assert [meta.path for meta in store.list("a/")] == ["a/1", "a/10", "a/2"]
        assert [meta.path for meta in store.list("a/", "a/1")] == ["a/10", "a/2"]
        assert [meta.path for meta in store.list("a/", "a/11")] == ["a/2"]
        assert store.list("a/", "a/2") == []
        assert [meta.path for meta in store.list("a/", "A")] == ["a/1", "a/10", "a/2"]
        assert store.list("a/", "b") == []
        assert store.list("none/") == []
        assert store.list("a/1/") == []
        assert [meta.size for meta in store.list("ab/")] == [0]

    def test_list_of_the_root(self, store: ObjectStore, fill: Callable[[str, bytes], None]) -> None:
        assert store.list("") == []
        fill("a/1", b"x")
        fill("top", b"x")
        assert [meta.path for meta in store.list("")] == ["top"]

    def test_list_below(self, store: ObjectStore, fill: Callable[[str, bytes], None]) -> None:
        paths = ["a-/4", "a/1", "a/b/3", "a/b/c/d/6", "a/b0", "ab/5", "top"]
        for path in paths:
            fill(path, b"x")
        assert [meta.path for meta in store.list_below("")] == paths
        assert [meta.path for meta in store.list_below("a/")] == ["a/1", "a/b/3", "a/b/c/d/6", "a/b0"]
        assert [(meta.path, meta.size) for meta in store.list_below("a/b/c/")] == [("a/b/c/d/6", 1)]
        assert list(store.list_below("none/")) == []
        assert list(store.list_below("a/1/")) == []

    def test_unusual_names(self, store: ObjectStore, fill: Callable[[str, bytes], None]) -> None:
        for name in self.unusual_names:
            fill(f"odd/{name}", name.encode())
            assert store.get(f"odd/{name}") == name.encode()
            assert store.get_range(f"odd/{name}", ByteRange(0, 1)) == name.encode()[:1]
            assert store.head(f"odd/{name}").size == len(name.encode())
        assert [meta.path for meta in store.list("odd/")] == sorted(f"odd/{name}" for name in self.unusual_names)

    @pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", ".", "a/./b", "a\0b"])
    def test_paths_stay_below_the_root(self, store: ObjectStore, path: str) -> None:
        for call in (store.get, store.head, store.delete):
            with pytest.raises(InvalidRequestError):
                call(path)

    @pytest.mark.parametrize("folder", ["a", "/", "../", "a//"])
    def test_folders_stay_below_the_root(self, store: ObjectStore, folder: str) -> None:
        with pytest.raises(InvalidRequestError):
            store.list(folder)

    def test_folders_to_list_below_stay_below_the_root(self, store: ObjectStore) -> None:
        for folder in ("a", "/", "../", "a//"):
            with pytest.raises(InvalidRequestError):
                store.list_below(folder)

    def test_pickled_store(self, store: ObjectStore, fill: Callable[[str, bytes], None]) -> None:
        fill("x", b"1")
        again: ObjectStore = pickle.loads(pickle.dumps(store))
        assert (again.get("x"), again.url, repr(again)) == (b"1", store.url, repr(store))

    def test_read_from_many_threads(self, store: ObjectStore, fill: Callable[[str, bytes], None]) -> None:
        data = bytes(range(256)) * 2000
        fill("x", data)

        def read(number: int) -> bool:
            spans = [ByteRange(number * 1000, number * 1000 + 200_000), ByteRange(number, number + 1)]
            return [bytes(part) for part in store.get_ranges("x", spans)] == [data[s.start : s.end] for s in spans]

        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(read, range(40)))

    # A forked child warns that the parent has threads; that is the very case that is tried.
    @pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
    def test_forked_child(self, store: ObjectStore, fill: Callable[[str, bytes], None]) -> None:
        fill("x", b"before")
        assert store.get("x") == b"before"  # the parent is connected
        ours, theirs = multiprocessing.Pipe()
        child = multiprocessing.get_context("fork").Process(target=_use_in_child, args=(store, theirs))
        child.start()
        assert ours.poll(20), "the child hangs"
        assert ours.recv() == b"before"
        child.join(10)
        assert child.exitcode == 0
        assert store.get("x") == b"before"


def _use_in_child(store: ObjectStore, answer: Connection) -> None:
    store.list("")
    answer.send(bytes(store.get("x")))


class StoreContract(StoreReadContract):
    """Reading and writing."""

    race_rounds = 30

    def test_put_replaces(self, store: ObjectStore) -> None:
        store.put("a/x", [b"old and long"])
        before = store.get("a/x")
        store.put("a/x", [b"ne", bytearray(b"w"), memoryview(b"!"), b""])
        assert (before, store.get("a/x")) == (b"old and long", b"new!")
        store.put("a/x", [])
        assert store.get("a/x") == b""

    def test_large_views_survive_what_happens_to_the_object(self, store: ObjectStore) -> None:
        data = bytes(range(256)) * 4096
        store.put("x", [data])
        whole, part = store.get("x"), store.get_range("x", ByteRange(1, len(data)))
        store.put("x", [b"z" * len(data)])
        assert (whole, part) == (data, data[1:])
        assert store.get("x") == b"z" * len(data)
        store.delete("x")
        assert (whole, part) == (data, data[1:])
        with pytest.raises(FileNotFoundError):
            store.get_range("x", ByteRange(1, len(data)))

    def test_prune_leaves_objects(self, store: ObjectStore) -> None:
        for path in ("a/b/x", "a/c/d/y"):
            store.put(path, [b"1"])
        store.delete("a/c/d/y")
        store.prune(["a/", "none/"])
        assert [meta.path for meta in store.list_below("")] == ["a/b/x"]
        store.delete("a/b/x")
        store.prune(["a/"])
        store.prune(["a/"])
        assert list(store.list_below("")) == []
        store.put("a/c/z", [b"2"])
        assert store.get("a/c/z") == b"2"

    def test_create(self, store: ObjectStore) -> None:
        store.create("a/b/x", b"first")
        with pytest.raises(FileExistsError, match="a/b/x"):
            store.create("a/b/x", b"second")
        assert store.get("a/b/x") == b"first"
        store.create("a/b/y", memoryview(b"view"))
        assert store.get("a/b/y") == b"view"
        store.delete("a/b/x")
        store.create("a/b/x", b"third")
        assert store.get("a/b/x") == b"third"

    def test_create_of_empty_objects(self, store: ObjectStore) -> None:
        store.create("fence", b"")
        for data in (b"", b"x"):
            with pytest.raises(FileExistsError):
                store.create("fence", data)
        assert store.get("fence") == b""
        store.put("full", [b"x"])
        with pytest.raises(FileExistsError):
            store.create("full", b"")

    def test_create_of_a_large_object(self, store: ObjectStore) -> None:
        data = bytes(range(256)) * 8192
        store.create("x", data)
        assert store.get("x") == data

    def test_create_race(self, store: ObjectStore) -> None:
        racers = 8
        start = threading.Barrier(racers)

        def race(racer: int) -> list[int]:
            won = []
            for number in range(self.race_rounds):
                start.wait()
                try:
                    store.create(f"race/{number:03}", b"%d" % racer * 1000)
                    won.append(number)
                except FileExistsError:
                    pass
                except BaseException:
                    start.abort()  # the others must not wait for ever
                    raise
            return won

        with ThreadPoolExecutor(racers) as threads:
            races = [threads.submit(race, racer) for racer in range(racers)]
        for error in [each.exception() for each in races]:
            if error is not None and not isinstance(error, threading.BrokenBarrierError):
                raise error
        wins = [each.result() for each in races]
        assert sorted(number for won in wins for number in won) == list(range(self.race_rounds))
        for racer, won in enumerate(wins):
            for number in won:
                assert store.get(f"race/{number:03}") == b"%d" % racer * 1000
        assert len(store.list("race/")) == self.race_rounds

    def test_replace(self, store: ObjectStore) -> None:
        store.put("a/x", [b"1"])
        store.replace("a/x", b"2", b"1")
        store.replace("a/x", memoryview(b"3"), bytearray(b"2"))
        for expected in (b"2", b"", b"33"):
            with pytest.raises(FileExistsError, match="a/x"):
                store.replace("a/x", b"4", expected)
        assert store.get("a/x") == b"3"
        for path in ("a/y", "none/x"):
            with pytest.raises(FileNotFoundError, match=path):
                store.replace(path, b"1", b"")
        assert [meta.path for meta in store.list("a/")] == ["a/x"]

    def test_replace_race(self, store: ObjectStore) -> None:
        store.put("counter", [b"0"])

        def count_up(times: int) -> None:
            while times:
                found = bytes(store.get("counter"))
                try:
                    # The name of the thread tells its own success from that of another one.
                    name = b" %d" % threading.get_ident()
                    store.replace("counter", b"%d" % (int(found.split()[0]) + 1) + name, found)
                except FileExistsError:
                    continue
                times -= 1

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(count_up, [self.race_rounds] * 4))
        assert int(bytes(store.get("counter")).split()[0]) == 4 * self.race_rounds

    def test_nothing_unfinished(self, store: ObjectStore) -> None:
        store.put("a/x", [b"1"])
        assert [*store.list_unfinished("a/"), *store.list_unfinished("none/")] == []

    def test_unusual_names_written(self, store: ObjectStore) -> None:
        for name in self.unusual_names:
            store.create(f"odd/{name}", b"1")
            store.copy(f"odd/{name}", f"copy/{name}")
            assert store.get(f"copy/{name}") == b"1"
            store.delete(f"odd/{name}")
        assert store.list("odd/") == []

    def test_copy(self, store: ObjectStore) -> None:
        store.put("a/x", [b"1"])
        for target in ("a/y", "b/c/x", "a/y", "a/x"):
            store.copy("a/x", target)
            assert store.get(target) == b"1"
        store.put("a/z", [b"2"])
        store.copy("a/x", "a/z")
        assert store.get("a/z") == b"1"
        store.put("a/x", [b"3"])
        store.delete("b/c/x")
        assert (store.get("a/x"), store.get("a/y"), store.get("a/z")) == (b"3", b"1", b"1")
        assert [meta.path for meta in store.list("a/")] == ["a/x", "a/y", "a/z"]
        with pytest.raises(FileNotFoundError, match="none"):
            store.copy("none", "a/w")
        with pytest.raises(InvalidRequestError):
            store.copy("a/x", "../x")

    def test_delete(self, store: ObjectStore) -> None:
        store.put("a/x", [b"1"])
        store.delete("a/x")
        store.delete("a/x")
        store.delete("none/x")
        assert store.list("a/") == []
        with pytest.raises(FileNotFoundError):
            store.head("a/x")

    def test_delete_many(self, store: ObjectStore) -> None:
        store.delete_many([])
        for name in "vwxyz":
            store.put(f"a/{name}", [b"1"])
        store.delete_many(["a/v", "none/x", "a/x", "a/missing", "a/z", "a/x"])
        assert [meta.path for meta in store.list("a/")] == ["a/w", "a/y"]
        with pytest.raises(InvalidRequestError):
            store.delete_many(["a/w", "../x"])

    def test_a_listing_is_never_stale(self, store: ObjectStore) -> None:
        other: ObjectStore = pickle.loads(pickle.dumps(store))
        for number in range(5):
            other.put(f"log/{number}", [b"x"])
            assert len(store.list("log/")) == number + 1
            assert store.head(f"log/{number}").size == 1
        other.delete("log/0")
        assert [meta.path for meta in store.list("log/")] == [f"log/{number}" for number in range(1, 5)]


class ObstoreContract(StoreContract):
    """The contract of any store, but for what obstore cannot do."""

    @pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
    def test_forked_child(self, store: ObjectStore, fill: Callable[[str, bytes], None]) -> None:
        fill("x", b"before")
        ours, theirs = multiprocessing.Pipe()
        child = multiprocessing.get_context("fork").Process(target=_error_in_child, args=(store, theirs))
        child.start()
        assert ours.recv() is InvalidRequestError  # a clear error; without the check it hangs
        child.join()
        assert store.get("x") == b"before"


def _error_in_child(store: ObjectStore, answer: Connection) -> None:
    try:
        store.list("")
    except Exception as exc:
        answer.send(type(exc))
