"""Each store on a real server of its kind: the contract, tables, and what SlateDB's client reads there."""

from __future__ import annotations

import pytest

from slatespark.errors import InvalidRequestError, TableNotFoundError
from slatespark.ranges import ByteRange
from slatespark.storage import open_store
from slatespark.storage.object_store import ObjectStore
from slatespark.storage.requests import PART_BYTES
from tests.support.azurite import Azurite
from tests.support.google_server import GoogleServer
from tests.support.s3_process import S3Process
from tests.support.servers import Server
from tests.support.servers import azurite as azurite
from tests.support.servers import google_server as google_server
from tests.support.servers import minio as minio
from tests.support.servers import server as server
from tests.support.servers import versitygw as versitygw
from tests.support.store_contract import UNUSUAL_NAMES, ObstoreContract, StoreContract

pytestmark = [pytest.mark.s3, pytest.mark.xdist_group("servers")]  # each server starts once


class TestVersitygw(ObstoreContract):
    race_rounds = 12

    @pytest.fixture
    def store(self, versitygw: S3Process) -> ObjectStore:
        return open_store(f"{versitygw.create_bucket()}/some/root", {**versitygw.options, "driver": "obstore"})


class TestVersitygwThroughFsspec(StoreContract):
    race_rounds = 12

    @pytest.fixture
    def store(self, versitygw: S3Process) -> ObjectStore:
        return open_store(f"{versitygw.create_bucket()}/some/root", {**versitygw.options, "driver": "fsspec"})


class TestMinio(ObstoreContract):
    race_rounds = 12

    @pytest.fixture
    def store(self, minio: S3Process) -> ObjectStore:
        return open_store(f"{minio.create_bucket()}/some/root", {**minio.options, "driver": "obstore"})


class TestMinioThroughFsspec(StoreContract):
    race_rounds = 12

    @pytest.fixture
    def store(self, minio: S3Process) -> ObjectStore:
        return open_store(f"{minio.create_bucket()}/some/root", {**minio.options, "driver": "fsspec"})


class TestGoogle(ObstoreContract):
    names_are_flat = True
    race_rounds = 12

    @pytest.fixture
    def store(self, google_server: GoogleServer) -> ObjectStore:
        return open_store(f"{google_server.create_bucket()}/some/root", google_server.options)


class TestAzure(ObstoreContract):
    names_are_flat = True
    unusual_names = tuple(name for name in UNUSUAL_NAMES if "\\" not in name)  # Azure makes it a slash
    race_rounds = 12

    @pytest.fixture
    def store(self, azurite: Azurite) -> ObjectStore:
        return open_store(f"{azurite.create_bucket()}/some/root", azurite.options)


def test_a_bucket_that_does_not_exist(server: Server) -> None:
    scheme = server.create_bucket().partition("://")[0]
    store = open_store(f"{scheme}://no-such-bucket/t", server.options)
    for call in (lambda: store.list(""), lambda: store.put("x", [b""]), lambda: store.create("x", b"")):
        with pytest.raises(TableNotFoundError):
            call()


@pytest.mark.parametrize("driver", ["obstore", "fsspec"])
@pytest.mark.parametrize("wrong", [{"key": "nobody-key-id"}, {"secret": "wrong-secret-key"}])
def test_wrong_credentials(versitygw: S3Process, wrong: dict[str, str], driver: str) -> None:
    store = open_store(f"{versitygw.create_bucket()}/t", {**versitygw.options, **wrong, "driver": driver})
    for call in (
        lambda: store.list(""),
        lambda: store.list_below(""),
        lambda: store.get("x"),
        lambda: store.put("x", [b""]),
        lambda: store.delete("x"),
    ):
        with pytest.raises(InvalidRequestError, match="credentials"):
            call()


def test_a_listing_tells_contents_apart(server: Server) -> None:
    bucket = server.create_bucket()
    drivers: list[dict[str, str]] = [{"driver": "obstore"}, {"driver": "fsspec"}] if bucket.startswith("s3:") else [{}]
    for number, driver in enumerate(drivers):
        store = open_store(f"{bucket}/{number}", {**server.options, **driver})
        tags: list[int] = []
        for content in (b"1", b"2"):
            store.put("x", [content])
            [meta] = store.list("")
            assert meta.is_unchanged(*store.list(""))
            tags.append(meta.tag)
        assert 0 not in tags
        assert tags[0] != tags[1]


def test_a_large_object_is_uploaded_in_parts(server: Server) -> None:
    store = open_store(f"{server.create_bucket()}/t", server.options)
    parts = [bytes(range(251)) * 8000] * 17 + [b"end"]
    data = b"".join(parts)
    assert len(data) > 2 * PART_BYTES
    store.put("large", parts)
    assert store.get("large") == data
    assert store.get_ranges("large", [ByteRange(5, 9), ByteRange(20 << 20, (20 << 20) + 7)]) == [
        data[5:9],
        data[20 << 20 : (20 << 20) + 7],
    ]
    assert [(meta.path, meta.size) for meta in store.list("")] == [("large", len(data))]
