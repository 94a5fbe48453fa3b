from __future__ import annotations

import itertools
import socket
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest

from slatespark.errors import InvalidRequestError, OptionError, TableNotFoundError, UnavailableError
from slatespark.ranges import ByteRange
from slatespark.storage import open_store, requests
from slatespark.storage.object_store import ObjectStore
from slatespark.storage.obstore_config import parse_url
from slatespark.storage.remote_store import RemoteStore
from slatespark.storage.retry import RetryPolicy
from tests.support.moto_server import SECRET, MotoServer
from tests.support.store_contract import ObstoreContract, StoreContract
from tests.unit.storage.faulty_proxy import PASSING, Fault, FaultyProxy

pytestmark = pytest.mark.s3

IMPATIENT = RetryPolicy(attempts=3, first_wait_s=0.001)

_names = itertools.count()


@pytest.fixture
def bucket(moto_server: MotoServer) -> str:
    return moto_server.create_bucket(f"obstore-{next(_names)}")


@pytest.fixture
def shaky(moto_server: MotoServer, bucket: str, proxy: FaultyProxy) -> ObjectStore:
    """A connected store behind the proxy."""
    options = {**moto_server.options, "endpoint_url": proxy.endpoint, "driver": "obstore"}
    store = RemoteStore(bucket, options, policy=IMPATIENT)
    store.create("first", b"1")
    proxy.requests.clear()
    return store


class TestS3(ObstoreContract):
    names_are_flat = True
    race_rounds = 12

    @pytest.fixture
    def store(self, moto_server: MotoServer, bucket: str) -> ObjectStore:
        open_store(bucket, moto_server.options).put("some/rooted", [b"outside"])
        return open_store(f"{bucket}/some/root/", {**moto_server.options, "driver": "obstore"})


class TestS3ByDefault(StoreContract):
    """As the users have it: a forked child goes through fsspec."""

    race_rounds = 3

    @pytest.fixture
    def store(self, moto_server: MotoServer, bucket: str) -> ObjectStore:
        return open_store(bucket.replace("s3:", "s3a:"), moto_server.options)


@pytest.mark.parametrize("fault", PASSING)
def test_transient_failures(shaky: ObjectStore, proxy: FaultyProxy, fault: Fault) -> None:
    proxy.fail(fault, "PUT", times=2)
    shaky.create("x", b"1")
    proxy.fail(fault, "GET", times=2)
    assert shaky.get("x") == b"1"
    proxy.fail(fault, "GET", times=2)
    assert [meta.path for meta in shaky.list("")] == ["first", "x"]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ((403, "AccessDenied"), InvalidRequestError),
        ((400, "ExpiredToken"), InvalidRequestError),
        ((301, "PermanentRedirect"), InvalidRequestError),
        ((409, "ExistingObjectIsDirectory"), InvalidRequestError),
        ((404, "NoSuchBucket"), TableNotFoundError),
        ((503, "SlowDown"), UnavailableError),
    ],
)
def test_lasting_failures(shaky: ObjectStore, proxy: FaultyProxy, fault: Fault, error: type[Exception]) -> None:
    proxy.fail(fault, "PUT", times=100)
    with pytest.raises(error) as caught:
        shaky.put("x", [b"1"])
    assert SECRET not in str(caught.value)


def test_an_unknown_access_key_is_no_missing_object(shaky: ObjectStore, proxy: FaultyProxy) -> None:
    """Versitygw answers 404 then, with a body unless the request is a HEAD."""
    proxy.decide = lambda method, path: (404, "XAdminUserNotFound")
    for call in (
        lambda: shaky.list(""),
        lambda: shaky.list("", "first"),
        lambda: shaky.list_below(""),
        lambda: shaky.get("first"),
        lambda: shaky.put("x", [b"1"]),
        lambda: shaky.delete("first"),
        lambda: shaky.delete_many(["first", "second"]),
    ):
        with pytest.raises(InvalidRequestError, match="credentials") as caught:
            call()
        assert "XAdminUserNotFound" in str(caught.value)


def test_https_of_a_server_that_speaks_http(moto_server: MotoServer, bucket: str) -> None:
    endpoint = moto_server.endpoint.replace("http:", "https:")
    store = RemoteStore(bucket, {**moto_server.options, "endpoint_url": endpoint, "driver": "obstore"})
    with pytest.raises(InvalidRequestError, match="https or http"):
        store.get("x")


def test_lost_responses(shaky: ObjectStore, proxy: FaultyProxy, moto_server: MotoServer) -> None:
    proxy.fail("lose answer", "PUT")
    shaky.create("x", b"mine")
    assert shaky.get("x") == b"mine"
    proxy.fail("lose answer", "PUT")
    shaky.replace("x", b"mine too", b"mine")
    open_store(shaky.url, moto_server.options).create("y", b"theirs")
    proxy.fail("lose answer", "PUT")
    with pytest.raises(FileExistsError):
        shaky.create("y", b"mine")


def test_a_large_object_is_uploaded_in_parts(shaky: ObjectStore, proxy: FaultyProxy) -> None:
    parts = [bytes(range(251)) * 8000] * 17 + [b"end"]
    shaky.put("large", parts)
    data = b"".join(parts)
    assert len(data) > 2 * requests.PART_BYTES
    assert len([path for method, path in proxy.requests if "partNumber" in path]) == -(
        -len(data) // requests.PART_BYTES
    )
    assert shaky.get("large") == data
    assert shaky.get_ranges("large", [ByteRange(5, 9), ByteRange(20 << 20, (20 << 20) + 7)]) == [
        data[5:9],
        data[20 << 20 : (20 << 20) + 7],
    ]


def test_a_server_without_conditional_writes(shaky: ObjectStore, proxy: FaultyProxy, moto_server: MotoServer) -> None:
    proxy.forgotten_headers = {"if-none-match", "If-None-Match"}
    url = moto_server.create_bucket(f"careless-{next(_names)}")
    options = {**moto_server.options, "endpoint_url": proxy.endpoint, "driver": "obstore"}
    with pytest.raises(InvalidRequestError, match="If-None-Match"):
        open_store(url, options).create("x", b"1")
    assert open_store(url, options).list("") == []


def test_threads_wait_for_one_proof(proxy: FaultyProxy, moto_server: MotoServer) -> None:
    url = moto_server.create_bucket(f"busy-{next(_names)}")
    store = open_store(url, {**moto_server.options, "endpoint_url": proxy.endpoint, "driver": "obstore"})
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: store.create(f"x{number}", b"1"), range(8)))
    assert [method for method, _ in proxy.requests].count("PUT") == 2 + 8


def test_a_proof_whose_object_the_server_lost(proxy: FaultyProxy, moto_server: MotoServer) -> None:
    """As versitygw may, if the last other object of the folder is deleted at the same moment."""
    url = moto_server.create_bucket(f"forgetful-{next(_names)}")
    store = open_store(url, {**moto_server.options, "endpoint_url": proxy.endpoint, "driver": "obstore"})
    proxy.fail((412, "PreconditionFailed"), "PUT", times=1)
    store.create("x", b"1")
    assert [meta.path for meta in store.list("")] == ["x"]


def test_a_silent_server_times_out(moto_server: MotoServer, bucket: str, proxy: FaultyProxy) -> None:
    proxy.delay_s = 3
    options = {**moto_server.options, "endpoint_url": proxy.endpoint, "driver": "obstore", "read_timeout": "0.2"}
    with pytest.raises(UnavailableError, match="read"):
        RemoteStore(bucket, options, policy=RetryPolicy(attempts=1)).get("x")


def test_connection_refused(moto_server: MotoServer, bucket: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
        options = {**moto_server.options, "endpoint_url": endpoint, "driver": "obstore"}
        with pytest.raises(UnavailableError, match=f"{bucket}/x") as caught:
            RemoteStore(bucket, options, policy=RetryPolicy(attempts=1)).get("x")
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_number_of_requests(shaky: ObjectStore, proxy: FaultyProxy) -> None:
    for call, expected in (
        (lambda: shaky.create("x", b"0123456789"), ["PUT"]),
        (lambda: shaky.get("x"), ["GET"]),
        (lambda: shaky.get_ranges("x", [ByteRange(0, 2), ByteRange(5, 9)]), ["GET"]),
        (lambda: shaky.head("x"), ["HEAD"]),
        (lambda: shaky.list(""), ["GET"]),
        (lambda: shaky.list("wal/", "wal/1"), ["GET"]),
        (lambda: shaky.put("y", [b"1", b"2"]), ["PUT"]),
        (lambda: shaky.delete("y"), ["POST"]),
    ):
        proxy.requests.clear()
        call()
        assert [method for method, _ in proxy.requests] == expected


def test_credentials_from_the_environment(
    moto_server: MotoServer, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(bucket, moto_server.options).put("x", [b"1"])
    for name, value in moto_server.environment.items():
        monkeypatch.setenv(name, value)
    assert open_store(bucket, {"driver": "obstore"}).get("x") == b"1"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://bucket", ("s3", "bucket", "", None)),
        ("gcs://bucket/a/b", ("gs", "bucket", "a/b", None)),
        ("az://container/a", ("az", "container", "a", None)),
        ("abfss://container@account.dfs.core.windows.net/a", ("az", "container", "a", "account")),
    ],
)
def test_urls(url: str, expected: tuple[object, ...]) -> None:
    found = parse_url(url)
    assert (found.provider, found.name, found.root, found.account) == expected


def test_a_panic_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "two\nlines")
    store = open_store("az://container/t", {"account_key": "a2V5"})
    with pytest.raises(InvalidRequestError, match="PanicException"):
        store.list("")


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("az://container/t", {}),  # which account?
        ("az://container/t", {"account_name": "a", "acount_key": "k"}),
        ("gs://bucket/t", {"driver": "obstore", "service_acount": "k"}),
        ("s3://bucket/t", {"driver": "obstor"}),
        ("ftp://host/t", {"driver": "obstore"}),
        ("az://container/t", {"account_name": "a", "read_timeout": "0"}),
    ],
)
def test_wrong_options(url: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING", raising=False)
    with pytest.raises(OptionError):
        open_store(url, options)
