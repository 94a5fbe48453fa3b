"""A pair is known by the manifest of its commit as long as it has no record."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore, UnavailableError
from slatespark.table.commit import idempotence

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
_names = itertools.count(1)


@pytest.mark.parametrize("app", ["app", "a/7/b", "a\nb", "a b", "é"])
def test_a_pair_without_a_record_is_not_written_again(monkeypatch: pytest.MonkeyPatch, app: str) -> None:
    store = SlateStore.create(f"memory://idempotence/{next(_names)}", SCHEMA, "id", autoCompact=False)

    def failing(*_: Any) -> None:
        raise UnavailableError("the store does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(idempotence, "publish_txn_record", failing)
        version = store.write(pa.table({"id": [1], "n": [1]}), txnAppId=app, txnVersion=3)
    store.write(pa.table({"id": [1], "n": [2]}), txnAppId=app, txnVersion=3)
    assert store.get(1) == {"id": 1, "n": 1}
    assert store.write(pa.table({"id": [2], "n": [1]}), txnAppId=app, txnVersion=2) > version
    store.write(pa.table({"id": [1], "n": [2]}), txnAppId=app, txnVersion=3)
    assert store.get(1) == {"id": 1, "n": 1}, "it has a record now"
