"""Options of a stream into a table."""

from __future__ import annotations

import pytest

from slatespark import OptionError
from slatespark.options import WriteOptions
from slatespark.options.streaming import StreamWriteOptions


def test_options_of_spark_are_no_options_of_the_table() -> None:
    given = {"path": "/t", "checkpointlocation": "/c", "queryName": "q", "ttl": "7d", "storage.key": "k"}
    options = StreamWriteOptions.parse(given)
    assert options.name is None
    assert options.write.ttl_ms == 604_800_000
    assert options.write.storage == {"key": "k"}
    assert options.write.txn is None


def test_the_name_of_a_stream_needs_no_number() -> None:
    assert StreamWriteOptions.parse({"path": "/t", "TXNAPPID": "orders"}).name == "orders"
    assert StreamWriteOptions.parse({"path": "/t", "txnAppId": None}).name is None


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("txnVersion", "txnVersion"),
        ("ifExists", "ifExists"),
        ("if_last_seq", "ifLastSeq"),
        ("chekpointLocation", "chekpointLocation"),
    ],
)
def test_what_a_stream_does_not_take_is_refused(given: str, shown: str) -> None:
    with pytest.raises(OptionError, match=shown):
        StreamWriteOptions.parse({"path": "/t", given: "1"})


@pytest.mark.parametrize("name", ["", "stream:other"])
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match="txnAppId"):
        StreamWriteOptions.parse({"path": "/t", "txnAppId": name})
    with pytest.raises(OptionError, match="txnAppId"):
        WriteOptions.parse({"path": "/t", "txnAppId": name, "txnVersion": 1})
