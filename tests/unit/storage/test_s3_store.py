"""S3 through fsspec."""

from __future__ import annotations

import itertools
import socket
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from slatespark import SlateStore
from slatespark.errors import InvalidRequestError, TableNotFoundError, UnavailableError
from slatespark.ranges import ByteRange
from slatespark.storage import open_store, read_ahead, requests, s3_driver
from slatespark.storage.counted_store import CountedStore, RequestTally
from slatespark.storage.object_store import ObjectStore
from slatespark.storage.remote_store import RemoteStore
from slatespark.storage.retry import RetryPolicy
from tests.support.moto_server import KEY, SECRET, MotoServer
from tests.support.store_contract import StoreContract
from tests.unit.storage.faulty_proxy import PASSING, FaultyProxy

pytestmark = pytest.mark.s3

_names = itertools.count()

IMPATIENT = RetryPolicy(attempts=3, first_wait_s=0.001)


def fsspec_options(server: MotoServer) -> dict[str, str]:
    """What to give to `open_store`."""
    return {**server.options, "driver": "fsspec"}


@pytest.fixture
def bucket(moto_server: MotoServer) -> str:
    return moto_server.create_bucket(f"bucket-{next(_names)}")


@pytest.fixture
def store(moto_server: MotoServer, bucket: str) -> ObjectStore:
    return open_store(bucket, fsspec_options(moto_server))


@pytest.fixture
def shaky(moto_server: MotoServer, bucket: str, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """A connected store behind the proxy, without retries of botocore, so requests can be counted."""
    arguments = s3_driver.s3_arguments

    def without_repetition(options: dict[str, str]) -> dict[str, object]:
        changed = arguments(options)
        changed["config_kwargs"]["retries"]["total_max_attempts"] = 1
        return changed

    monkeypatch.setattr(s3_driver, "s3_arguments", without_repetition)
    store = RemoteStore(bucket, {**fsspec_options(moto_server), "endpoint_url": proxy.endpoint}, policy=IMPATIENT)
    store.create("first", b"1")
    proxy.requests.clear()
    return store


class TestS3Store(StoreContract):
    names_are_flat = True
    race_rounds = 12


class TestS3StoreBelowAPath(StoreContract):
    race_rounds = 3

    @pytest.fixture
    def store(self, moto_server: MotoServer, bucket: str) -> ObjectStore:
        open_store(bucket, fsspec_options(moto_server)).put("some/rooted", [b"outside"])
        return open_store(bucket.replace("s3:", "s3a:") + "/some/root/", fsspec_options(moto_server))


def test_listings_of_several_pages(moto_server: MotoServer, store: ObjectStore) -> None:
    paths = [f"wal/{number:020}.sst" for number in range(1, 1021)]
    with ThreadPoolExecutor(4) as threads:
        bucket = store.url.removeprefix("s3://")
        list(threads.map(lambda path: moto_server.request("PUT", f"/{bucket}/{path}", b"x"), paths))
    assert [meta.path for meta in store.list("wal/")] == paths
    assert [meta.path for meta in store.list("wal/", paths[10])] == paths[11:]
    assert [meta.path for meta in store.list("wal/", paths[-2])] == paths[-1:]


def test_a_large_object_is_uploaded_in_parts(store: ObjectStore) -> None:
    block = bytes(range(251)) * 8000
    parts = [block] * 17 + [b"end"]
    store.put("large", parts)
    assert store.head("large").size == 17 * len(block) + 3 > 2 * requests.PART_BYTES
    assert store.get("large") == b"".join(parts)
    spans = [ByteRange(at, at + 3_000_000) for at in range(0, 30_000_000, 3_000_000)]
    assert b"".join(read_ahead(store, "large", spans)) == b"".join(parts)[:30_000_000]


def test_settings_from_the_environment(
    moto_server: MotoServer, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("x", [b"1"])
    for name, value in moto_server.environment.items():
        monkeypatch.setenv(name, value)
    assert open_store(store.url, {"driver": "fsspec"}).get("x") == b"1"


def test_first_use_by_many_threads(moto_server: MotoServer, bucket: str) -> None:
    fresh = open_store(
        bucket, {**fsspec_options(moto_server), "read_timeout": "29"}
    )  # does not share connections with other tests
    start = threading.Barrier(8)

    def use(number: int) -> bytes:
        start.wait()
        fresh.put(f"{number}", [b"%d" % number])
        return bytes(fresh.get(f"{number}"))

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(use, range(8))) == [b"%d" % number for number in range(8)]


def test_missing_bucket(moto_server: MotoServer) -> None:
    store = open_store("s3://no-such-bucket/t", fsspec_options(moto_server))
    for call in (
        lambda: store.list(""),
        lambda: store.get("x"),
        lambda: store.put("x", [b""]),
        lambda: store.create("x", b""),
    ):
        with pytest.raises(TableNotFoundError, match="no-such-bucket"):
            call()


def test_number_of_requests(shaky: ObjectStore, proxy: FaultyProxy) -> None:
    for call, expected in (
        (lambda: shaky.create("x", b"0123456789"), ["PUT"]),
        (lambda: shaky.get("x"), ["GET"]),
        (lambda: shaky.get_ranges("x", [ByteRange(0, 2), ByteRange(5, 9)]), ["GET"]),
        (lambda: shaky.head("x"), ["HEAD"]),
        (lambda: shaky.list(""), ["GET"]),
        (lambda: shaky.put("y", [b"1", b"2"]), ["PUT"]),
        (lambda: shaky.delete("y"), ["DELETE"]),
    ):
        proxy.requests.clear()
        call()
        assert [method for method, _ in proxy.requests] == expected


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.get("first"),
        lambda store: store.head("first"),
        lambda store: store.get_range("first", ByteRange(0, 1)),
        lambda store: store.get_range("first", ByteRange(1, 1)),
        lambda store: store.get_ranges("large", [ByteRange(at, at + 10) for at in (0, 5, 2 << 20, 20 << 20, 3 << 20)]),
        lambda store: store.get_ranges("large", [ByteRange(0, 9 << 20), ByteRange(9 << 20, 10 << 20), ByteRange(7, 7)]),
        lambda store: store.list("folder/"),
        lambda store: store.list("nothing/"),
        lambda store: store.list_unfinished("folder/"),
        lambda store: store.create("new", b"2"),
        lambda store: store.create("first", b"2"),
        lambda store: store.replace("first", b"22", b"1"),
        lambda store: store.put("new", [b"1", b"2"]),
        lambda store: store.put("new", [bytes(33 << 20)]),
        lambda store: store.put("new", [bytes(20 << 20), bytes(28 << 20)]),
        lambda store: store.copy("first", "new"),
        lambda store: store.delete("first"),
        lambda store: store.delete("nothing"),
        lambda store: store.delete_many([]),
        lambda store: store.delete_many(["first", "nothing"]),
        lambda store: store.delete_many([f"{number}" for number in range(1001)]),
    ],
    ids=lambda call: "",
)
def test_a_counted_store_counts_what_the_server_sees(
    call: Callable[[ObjectStore], object], shaky: ObjectStore, proxy: FaultyProxy, store: ObjectStore
) -> None:
    store.put("large", [bytes(24 << 20)])
    store.put("folder/x", [b"1"])
    shaky.replace("first", b"1", b"1")  # the process checks once what the server can do
    tally = RequestTally()
    proxy.requests.clear()
    with suppress(FileExistsError):
        call(CountedStore(shaky, tally))
    kinds = Counter(kind_of(*request) for request in proxy.requests)
    found = tally.total
    assert (found.get, found.put, found.list, found.delete) == tuple(kinds[name] for name in KINDS)


KINDS = ("get", "put", "list", "delete")


def kind_of(method: str, path: str) -> str:
    """How S3 bills a request."""
    if method == "GET" and "list-type=2" in path:
        return "list"
    if method == "POST" and path.endswith("?delete"):
        return "delete"
    return {"HEAD": "get", "POST": "put"}.get(method, method.lower())


def test_create_with_a_lost_response(shaky: ObjectStore, proxy: FaultyProxy, store: ObjectStore) -> None:
    proxy.fail("lose answer", "PUT")
    shaky.create("x", b"mine")
    assert store.get("x") == b"mine"
    proxy.fail("lose answer", "PUT", times=100)
    shaky.create("y", b"mine")
    assert store.get("y") == b"mine"


def test_create_that_never_arrived(shaky: ObjectStore, proxy: FaultyProxy, store: ObjectStore) -> None:
    proxy.fail("drop", "PUT")
    shaky.create("x", b"mine")
    assert store.get("x") == b"mine"
    proxy.fail("drop", "PUT", times=100)
    with pytest.raises(UnavailableError, match="/y"):
        shaky.create("y", b"mine")
    assert [meta.path for meta in store.list("", "x")] == []


def test_create_with_a_lost_race_and_response(shaky: ObjectStore, proxy: FaultyProxy, store: ObjectStore) -> None:
    store.create("x", b"theirs")
    store.create("fence", b"")
    for path, data in (("x", b"mine"), ("fence", b"")):
        proxy.fail("lose answer", "PUT")
        with pytest.raises(FileExistsError):
            shaky.create(path, data)
    assert store.get("x") == b"theirs"


def test_a_fence_with_a_lost_response(shaky: ObjectStore, proxy: FaultyProxy, store: ObjectStore) -> None:
    proxy.fail("lose answer", "PUT")
    with pytest.raises(FileExistsError):
        shaky.create("fence", b"")
    assert store.get("fence") == b""


@pytest.mark.parametrize("fault", PASSING)
def test_transient_failures(shaky: ObjectStore, proxy: FaultyProxy, fault: tuple[int, str]) -> None:
    proxy.fail(fault, "PUT", times=2)
    shaky.create("x", b"1")
    proxy.fail(fault, "GET", times=2)
    assert shaky.get("x") == b"1"
    proxy.fail(fault, "GET", times=2)
    assert [meta.path for meta in shaky.list("")] == ["first", "x"]
    assert len([method for method, _ in proxy.requests if method == "PUT"]) == 3


@pytest.mark.parametrize("fault", ["drop", "lose answer", (503, "SlowDown"), (200, "InternalError")])
def test_deleting_many_is_repeated(
    shaky: ObjectStore, proxy: FaultyProxy, store: ObjectStore, fault: tuple[int, str]
) -> None:
    store.put("second", [b"2"])
    proxy.fail(fault, "POST", times=2)
    shaky.delete_many(["first", "second"])
    assert [method for method, _ in proxy.requests] == ["POST"] * 3
    assert store.list("") == []


def test_deleting_many_without_permission(shaky: ObjectStore, proxy: FaultyProxy) -> None:
    proxy.fail((200, "AccessDenied"), "POST", times=100)
    with pytest.raises(InvalidRequestError):
        shaky.delete_many(["first", "second"])
    assert len(proxy.requests) == 1


def test_a_server_that_cannot_delete_many(shaky: ObjectStore, proxy: FaultyProxy, store: ObjectStore) -> None:
    store.put("second", [b"2"])
    proxy.fail((501, "NotImplemented"), "POST", times=100)
    shaky.delete_many(["first", "second"])
    assert store.list("") == []


@pytest.mark.parametrize("fault", [(409, "InvalidBucketState"), (301, "PermanentRedirect")])
def test_lasting_failures_are_not_retried(shaky: ObjectStore, proxy: FaultyProxy, fault: tuple[int, str]) -> None:
    proxy.fail(fault, "PUT", times=100)
    with pytest.raises(InvalidRequestError):
        shaky.put("x", [b"1"])
    assert [method for method, _ in proxy.requests].count("PUT") < IMPATIENT.attempts  # botocore follows redirects


def test_https_of_a_server_that_speaks_http(moto_server: MotoServer, bucket: str) -> None:
    endpoint = moto_server.endpoint.replace("http:", "https:")
    store = RemoteStore(bucket, {**fsspec_options(moto_server), "endpoint_url": endpoint})
    with pytest.raises(InvalidRequestError, match="https or http"):
        store.get("x")


@pytest.mark.parametrize(
    "code", ["AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "RequestTimeTooSkewed"]
)
def test_no_permission(shaky: ObjectStore, proxy: FaultyProxy, code: str) -> None:
    for method, call in (("PUT", lambda: shaky.put("x", [b"1"])), ("GET", lambda: shaky.list(""))):
        proxy.requests.clear()
        proxy.fail((403, code), method, times=100)
        with pytest.raises(InvalidRequestError, match="credentials") as caught:
            call()
        assert len(proxy.requests) == 1
        printed = "".join(traceback.format_exception(caught.value))
        assert KEY not in printed
        assert SECRET not in printed


def test_no_credentials(moto_server: MotoServer, store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    bare = open_store(store.url, {"endpoint_url": moto_server.endpoint, "driver": "fsspec", "read_timeout": "28"})
    with pytest.raises(InvalidRequestError, match="credentials"):
        bare.list("")


@pytest.mark.parametrize(
    ("header", "write"),
    [
        ("If-None-Match", lambda store: store.create("new", b"2")),
        ("If-None-Match", lambda store: store.create("x", b"2")),
        ("If-Match", lambda store: store.replace("x", b"2", b"1")),
    ],
)
def test_a_server_without_conditional_writes(
    header: str,
    write: Callable[[ObjectStore], object],
    moto_server: MotoServer,
    bucket: str,
    proxy: FaultyProxy,
    store: ObjectStore,
) -> None:
    store.put("x", [b"1"])
    proxy.forgotten_headers = {header}
    careless = open_store(f"{bucket}/", {**fsspec_options(moto_server), "endpoint_url": proxy.endpoint})
    assert careless.get("x") == b"1"
    proxy.requests.clear()
    for _ in range(2):
        with pytest.raises(InvalidRequestError, match=header):
            write(careless)
    assert all("/slatespark/leases/" in path for method, path in proxy.requests if method == "PUT")
    assert [meta.path for meta in store.list("")] == ["x"]
    assert store.list("slatespark/leases/") == []


def test_what_a_killed_proof_leaves_goes_with_a_vacuum(
    moto_server: MotoServer, bucket: str, proxy: FaultyProxy
) -> None:
    proxy.fail((403, "AccessDenied"), "DELETE", times=1)
    table = SlateStore.create(f"{bucket}/t", **{**fsspec_options(moto_server), "endpoint_url": proxy.endpoint})
    (left,) = [meta.path for meta in open_store(f"{bucket}/t", fsspec_options(moto_server)).list("slatespark/leases/")]
    assert left.endswith("-conditional-write")
    table.vacuum("0s", force=True)
    assert open_store(f"{bucket}/t", fsspec_options(moto_server)).list("slatespark/leases/") == []


def test_connection_refused(bucket: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
        options = {"endpoint_url": endpoint, "key": "some-key-id", "secret": "hidden-secret", "driver": "fsspec"}
        with pytest.raises(UnavailableError, match=f"{bucket}/x") as caught:
            RemoteStore(bucket, options, policy=RetryPolicy(attempts=1)).get("x")
    assert "hidden-secret" not in "".join(traceback.format_exception(caught.value))


def test_a_silent_server_times_out(moto_server: MotoServer, bucket: str, proxy: FaultyProxy) -> None:
    proxy.is_silent = True
    options = {
        **fsspec_options(moto_server),
        "endpoint_url": proxy.endpoint,
        "connect_timeout": "0.2",
        "read_timeout": "0.2",
    }
    store = RemoteStore(bucket, options, policy=RetryPolicy(attempts=1))
    with pytest.raises(UnavailableError, match="write"):
        store.put("x", [b"1"])
