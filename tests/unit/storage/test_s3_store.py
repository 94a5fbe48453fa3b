from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from slatespark.storage import open_store
from slatespark.storage.object_store import ObjectStore
from tests.support.moto_server import MotoServer
from tests.support.store_contract import StoreContract

pytestmark = pytest.mark.s3

_names = itertools.count()


@pytest.fixture
def bucket(moto_server: MotoServer) -> str:
    return moto_server.create_bucket(f"bucket-{next(_names)}")


@pytest.fixture
def store(moto_server: MotoServer, bucket: str) -> ObjectStore:
    return open_store(bucket, moto_server.options)


class TestS3Store(StoreContract):
    race_rounds = 12


class TestS3StoreBelowAPath(StoreContract):
    race_rounds = 3

    @pytest.fixture
    def store(self, moto_server: MotoServer, bucket: str) -> ObjectStore:
        open_store(bucket, moto_server.options).put("some/rooted", [b"outside"])
        return open_store(bucket.replace("s3:", "s3a:") + "/some/root/", moto_server.options)


def test_more_objects_than_a_page_holds(store: ObjectStore) -> None:
    paths = [f"wal/{number:020}.sst" for number in range(1, 1051)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(partial(store.put, parts=[b"x"]), paths))
    assert [meta.path for meta in store.list("wal/")] == paths
    assert [meta.path for meta in store.list("wal/", paths[20])] == paths[21:]
    assert [meta.path for meta in store.list("wal/", paths[-2])] == paths[-1:]
