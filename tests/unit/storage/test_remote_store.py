from __future__ import annotations

import itertools
import os
import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import fsspec
import pytest

from slatespark.errors import CorruptDataError, InvalidRequestError, UnavailableError
from slatespark.ranges import ByteRange
from slatespark.storage import open_store
from slatespark.storage.addressing import PROVIDERS
from slatespark.storage.fsspec_driver import FsspecDriver
from slatespark.storage.object_store import Buffer, ObjectMeta, ObjectStore
from slatespark.storage.remote_store import MAX_GAP_BYTES, MAX_MERGED_BYTES, RemoteStore
from slatespark.storage.retry import RetryPolicy
from slatespark.storage.s3_driver import JoinedParts, s3_arguments
from tests.support.store_contract import StoreReadContract

_names = itertools.count()


class TestOtherFileSystem(StoreReadContract):
    """The contract for any fsspec driver, tested with fsspec's memory file system."""

    @pytest.fixture
    def store(self) -> ObjectStore:
        return RemoteStore(f"memory://other-{next(_names)}/root")

    @pytest.fixture
    def fill(self, store: ObjectStore) -> Callable[[str, bytes], None]:
        files = fsspec.filesystem("memory")
        return lambda path, data: files.pipe_file(f"{store.url}/{path}", data)

    def test_create_is_refused(self, store: ObjectStore) -> None:
        with pytest.raises(InvalidRequestError, match="memory://"):
            store.create("x", b"1")
        assert store.list("") == []

    def test_put_copy_delete(self, store: ObjectStore) -> None:
        store.put("x", [b"1", b"2"])
        store.copy("x", "y")
        store.copy("x", "x")
        store.delete("x")
        store.delete("x")
        assert [(meta.path, meta.size) for meta in store.list("")] == [("y", 2)]


def test_missing_drivers() -> None:
    with pytest.raises(InvalidRequestError, match="nosuch"):
        open_store("nosuch://host/x").list("")


def test_an_archive_that_is_not_there() -> None:
    store = open_store("zip://nosuch.zip")
    for call in (lambda: store.list(""), lambda: store.get("x")):
        with pytest.raises(InvalidRequestError, match="nosuch"):
            call()


@pytest.mark.parametrize("url", ["s3://", "s3:///key", "gs:///", "simplecache::s3://b/x", "https://host/x?sig=hidden"])
def test_invalid_urls(url: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        open_store(url)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("s3:/lake/x", "s3://lake/x"),
        ("s3:lake/x", "s3://lake/x"),
        ("S3A:/lake/x", "s3a://lake/x"),
        ("gs:/lake/x", "gs://lake/x"),
        ("az:lake", "az://lake"),
        ("abfss:/c@a.dfs.core.windows.net/x", "abfss://c@a.dfs.core.windows.net/x"),
        ("dbfs:/tables/x", "dbfs://tables/x"),
        ("memory:/m2", "memory://m2"),
        ("memory:m3", "memory://m3"),
        ("https:/host/x", "https://host/x"),
        (str(Path("s3://lake/x")), "s3://lake/x"),
    ],
)
def test_a_url_without_its_slashes(path: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidRequestError, match=f"Give {meant} "):
        open_store(path).put("x", [b"1"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["data:1/x", "./s3:/lake", "s3/lake", "s3", "s3x:/lake", "memory", "gs-1:/x"])
def test_other_local_paths(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_store(path).put("x", [b"1"])
    assert (tmp_path / path / "x").read_bytes() == b"1"


def test_credentials_in_a_url_without_its_slashes() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        open_store("s3:/me:hidden@lake/x")
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("name", ["la ke", "la\nke", "la<ke", "laé", "la%20ke", "la?x", "la#x", "..", ".", "a" * 256])
@pytest.mark.parametrize("protocol", ["s3", "s3a", "gs", "az", "abfss"])
def test_what_is_no_name_of_a_bucket(protocol: str, name: str) -> None:
    for driver in ("obstore", "fsspec"):
        with pytest.raises(InvalidRequestError, match="not a bucket"):
            open_store(f"{protocol}://{name}/t", {"driver": driver})


@pytest.mark.parametrize(
    "url", ["s3://La_ke.1-x/a b", "gs://la_ke.x/é", "az://$root/t", "abfss://la-ke@acme.dfs.core.windows.net/t"]
)
def test_names_of_buckets(url: str) -> None:
    assert open_store(url, {"account_name": "acme"} if url.startswith("az:") else {}).url == url


@pytest.mark.parametrize("driver", ["obstore", "fsspec"])
@pytest.mark.parametrize("root", ["/x", "//x/y", "a//b", "./a", "a/./b", "a/..", "../a", "a\0b"])
@pytest.mark.parametrize("bucket", ["s3://bucket", "gs://bucket", "abfss://lake@acme.dfs.core.windows.net"])
def test_a_root_that_drivers_would_read_differently(bucket: str, root: str, driver: str) -> None:
    with pytest.raises(InvalidRequestError, match="an empty part"):
        open_store(f"{bucket}/{root}", {"driver": driver})


@pytest.mark.parametrize("root", ["/", "//", "a/", "a//", ".a/b..", "a b/..."])
def test_a_root_with_slashes_at_the_end(root: str) -> None:
    for driver in ("obstore", "fsspec"):
        assert open_store(f"s3://bucket/{root}", {"driver": driver}).url == f"s3://bucket/{root}".rstrip("/")


def test_urls() -> None:
    assert open_store("s3a://bucket/a/b/").url == "s3://bucket/a/b"
    assert open_store("S3://bucket").url == "s3://bucket"
    assert repr(open_store("s3a://bucket", {"anon": "true"})) == "RemoteStore('s3://bucket', BackendOptions(anon))"


class FakeDriver:
    """One object, with failures in the given order."""

    def __init__(self, data: bytes, *failures: Exception | None) -> None:
        self.data, self.failures = data, list(failures)
        self.asked: list[ByteRange] = []

    def _fail(self) -> None:
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure

    def read(self, path: str) -> bytes:
        self._fail()
        return self.data

    def read_span(self, path: str, span: ByteRange) -> bytes:
        self.asked.append(span)
        self._fail()
        return self.data[span.start : span.end]

    def read_spans(self, path: str, spans: Sequence[ByteRange]) -> list[bytes | BaseException]:
        answers: list[bytes | BaseException] = []
        for span in spans:
            try:
                answers.append(self.read_span(path, span))
            except Exception as exc:
                answers.append(exc)
        return answers

    def head(self, path: str) -> ObjectMeta:
        return ObjectMeta(path, len(self.data), 0)

    def list(self, prefix: str, start_after: str) -> list[ObjectMeta]:
        self._fail()
        return []

    def list_below(self, prefix: str) -> Sequence[ObjectMeta]:
        raise NotImplementedError

    def create(self, path: str, data: bytes) -> None:
        self.data = self.data or data
        self._fail()

    def delete_many(self, paths: Sequence[str]) -> bool:
        return False

    def replace(self, path: str, data: bytes, expected: bytes) -> None:
        self.data = data
        self._fail()

    def write(self, path: str, parts: Sequence[Buffer]) -> None:
        self._fail()

    def copy(self, source: str, target: str) -> None:
        self._fail()

    def delete(self, path: str) -> None:
        self._fail()


def store_on(driver: FakeDriver, attempts: int = 3) -> RemoteStore:
    store = RemoteStore("gs://fake", policy=RetryPolicy(attempts, sleep=lambda _: None))
    store._driver, store._pid = driver, os.getpid()
    return store


class UnreliableDriver(FakeDriver):
    """Deletes no object at the first attempt, and not several with one request."""

    def __init__(self) -> None:
        super().__init__(b"")
        self.attempts: Counter[str] = Counter()

    def delete(self, path: str) -> None:
        self.attempts[path] += 1
        if self.attempts[path] == 1:
            raise ConnectionResetError


def test_each_of_many_objects_is_tried_again_by_itself() -> None:
    driver, paths = UnreliableDriver(), [f"{number}" for number in range(50)]
    store_on(driver, attempts=2).delete_many(paths)
    assert driver.attempts == dict.fromkeys(paths, 2)


def test_near_ranges_are_read_together() -> None:
    mib = 1 << 20
    driver = FakeDriver(bytes(20 * mib))
    store = store_on(driver)
    near = [ByteRange(0, 10), ByteRange(10 + MAX_GAP_BYTES, 2 * mib), ByteRange(5, 6)]
    far = [ByteRange(4 * mib, 5 * mib), ByteRange(5 * mib, 4 * mib + MAX_MERGED_BYTES + 1)]
    parts = store.get_ranges("x", near + far)
    assert [len(part) for part in parts] == [len(span) for span in near + far]
    assert driver.asked == [ByteRange(0, 2 * mib), *far]


def test_a_failed_range_is_requested_again() -> None:
    mib = 1 << 20
    driver = FakeDriver(bytes(range(256)) * (20 * mib // 256), None, TimeoutError(), ConnectionResetError())
    spans = [ByteRange(at * 4 * mib + at, at * 4 * mib + at + 5) for at in range(4)]
    parts = store_on(driver).get_ranges("x", spans)
    assert [bytes(part) for part in parts] == [driver.data[span.start : span.end] for span in spans]
    assert driver.asked == [*spans, spans[1], spans[2]]


def test_a_truncated_response_is_requested_again() -> None:
    class Short(FakeDriver):
        def read_span(self, path: str, span: ByteRange) -> bytes:
            data = super().read_span(path, span)
            return data if len(self.asked) == 2 else data[:-1]

    driver = Short(b"0123456789")
    assert store_on(driver).get_range("x", ByteRange(2, 8)) == b"234567"
    driver.data = b"0123"
    with pytest.raises(CorruptDataError, match=r"up to 8 .* has 4"):
        store_on(driver).get_range("x", ByteRange(2, 8))


def test_a_server_that_ignores_ranges_is_refused() -> None:
    class Whole(FakeDriver):
        def read_span(self, path: str, span: ByteRange) -> bytes:
            return self.data

    with pytest.raises(InvalidRequestError, match="part of an object"):
        store_on(Whole(b"0123456789")).get_range("x", ByteRange(2, 8))


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.get("x"),
        lambda store: store.get_range("x", ByteRange(0, 1)),
        lambda store: store.list("a/"),
        lambda store: store.put("x", []),
        lambda store: store.copy("x", "y"),
        lambda store: store.delete("x"),
    ],
)
def test_every_request_is_retried(call: Callable[[ObjectStore], Any]) -> None:
    call(store_on(FakeDriver(b"0", TimeoutError(), TimeoutError())))
    with pytest.raises(UnavailableError, match="gs://fake/"):
        call(store_on(FakeDriver(b"0", *[TimeoutError()] * 4), attempts=2))


def test_lost_responses_to_create() -> None:
    store = store_on(FakeDriver(b"", TimeoutError(), FileExistsError()))
    store.create("x", b"mine")  # the first request succeeded, the retry found it
    store = store_on(FakeDriver(b"", TimeoutError(), TimeoutError(), TimeoutError()))
    store.create("x", b"mine")  # no response at all, but the object exists
    for data in (b"theirs", b"mine but longer"):
        with pytest.raises(FileExistsError):
            store_on(FakeDriver(data, TimeoutError(), FileExistsError())).create("x", b"mine")
    with pytest.raises(FileExistsError):
        store_on(FakeDriver(b"", TimeoutError(), FileExistsError())).create("x", b"")


def test_protocols_with_conditional_creation() -> None:
    assert {"s3", "gs", "abfss"} <= PROVIDERS.keys()
    assert not {"memory", "ftp", "sftp", "hdfs", "webhdfs", "http", "local", "smb", "dbfs"} & PROVIDERS.keys()


class PipeAsGoogle:
    async_impl = True

    def __init__(self) -> None:
        self.seen: dict[str, object] = {}

    def pipe_file(self, path: str, data: bytes, chunksize: int = 1, mode: str = "overwrite") -> None:
        self.seen = {"mode": mode}


class PipeAsAzure(PipeAsGoogle):
    def pipe_file(self, path: str, value: bytes, overwrite: bool = True, **kwargs: object) -> None:  # type: ignore[override]
        self.seen = {"overwrite": overwrite, **kwargs}


class PipeAsLongAgo(PipeAsGoogle):
    def pipe_file(self, path: str, value: bytes, **kwargs: object) -> None:  # type: ignore[override]
        self.seen = kwargs


def driver_on(files: PipeAsGoogle) -> FsspecDriver:
    driver = FsspecDriver.__new__(FsspecDriver)
    driver._protocol, driver._fs, driver._root = "gs", files, "bucket"
    return driver


def test_arguments_of_conditional_creation() -> None:
    google, azure, old = PipeAsGoogle(), PipeAsAzure(), PipeAsLongAgo()
    driver_on(google).create("x", b"")
    driver_on(azure).create("x", b"")
    assert (google.seen, azure.seen) == ({"mode": "create"}, {"overwrite": False})
    with pytest.raises(InvalidRequestError, match="too old"):
        driver_on(old).create("x", b"")
    assert not old.seen


def test_joined_parts() -> None:
    parts: list[Buffer] = [b"", b"0123", memoryview(b"456"), b"", bytearray(b"789")]
    joined = JoinedParts(parts)
    assert (len(joined), joined[:]) == (10, b"0123456789")
    assert all(joined[low:high] == b"0123456789"[low:high] for low in range(12) for high in range(12))
    assert (len(JoinedParts([])), JoinedParts([])[:]) == (0, b"")


def test_arguments_of_s3fs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    assert "endpoint_url" not in s3_arguments({})
    monkeypatch.setenv("AWS_ENDPOINT", "http://minio:9000")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    arguments = s3_arguments({"anon": "TRUE", "verify": "false", "kms_key_id": "k", "addressing_style": "path"})
    assert arguments["endpoint_url"] == "http://minio:9000"
    assert arguments["anon"] is True
    assert arguments["client_kwargs"] == {"region_name": "eu-west-1", "verify": False}
    assert arguments["config_kwargs"]["s3"] == {"addressing_style": "path"}
    assert arguments["s3_additional_kwargs"] == {"SSEKMSKeyId": "k"}
    assert s3_arguments({"endpoint_url": "http://other", "region": "r"})["endpoint_url"] == "http://other"


def test_the_policy_is_pickled() -> None:
    again = pickle.loads(pickle.dumps(RemoteStore("s3://b", policy=RetryPolicy(attempts=2))))
    assert again._policy.attempts == 2
