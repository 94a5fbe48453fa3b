"""Names that the client encodes: one path would mean two databases, of which each sees its own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from slatespark import InvalidRequestError, SlateStore, TableNotFoundError
from slatespark.storage.addressing import client_name
from tests.faults.jobs import table_of
from tests.support.client import Client, Location, read_rows
from tests.support.moto_server import MotoServer
from tests.support.moto_server import moto_server as moto_server

ROWS = table_of([(b"a", b"1")])


def made_by_client(location: Location) -> None:
    with Client.open(location) as client:
        client.put(b"a", b"1")


@pytest.mark.parametrize("name", ["plain name-1_.=:&+'$(),;!@", '\\{^}%`]">[~<#|*?', "\x01\x7f", "日本"])
def test_the_client_encodes_names_as_we_know_it(tmp_path: Path, name: str) -> None:
    made_by_client(Location.local(tmp_path / name))
    assert (tmp_path / client_name(name) / "manifest").is_dir()


@pytest.mark.parametrize(
    "create",
    [
        pytest.param(lambda plain, path: SlateStore.create(path), id="create"),
        pytest.param(lambda plain, path: plain.clone(path), id="clone"),
        pytest.param(lambda plain, path: plain.copyTo(path), id="copy"),
    ],
)
def test_no_table_is_created_beside_that_of_a_client(
    tmp_path: Path, create: Callable[[SlateStore, str], object]
) -> None:
    plain = SlateStore.create(str(tmp_path / "plain"))
    made_by_client(Location.local(tmp_path / "café"))
    with pytest.raises(InvalidRequestError, match="caf%C3%A9"):
        create(plain, str(tmp_path / "café"))
    assert not (tmp_path / "café").exists()


@pytest.mark.parametrize("folder", ["café", "é/orders"])
def test_what_is_not_found_may_be_elsewhere(tmp_path: Path, folder: str) -> None:
    made_by_client(Location(folder, directory=tmp_path))
    with pytest.raises(TableNotFoundError, match=f"keeps its database in .*{client_name(folder)}\\."):
        SlateStore.open(str(tmp_path / folder)).scan()


def test_a_client_finds_another_table_and_the_log_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "slatespark"):
        SlateStore.create(str(tmp_path / "café")).write(ROWS)
        (line,) = caplog.messages
        assert "caf%C3%A9" in line
        made_by_client(Location.local(tmp_path / "café"))
        assert SlateStore.open(str(tmp_path / "café")).write(ROWS), "both exist, and each goes on"
        caplog.clear()
        SlateStore.create(str(tmp_path / "é" / "orders")).write(ROWS)
        assert not caplog.messages
    assert len(read_rows(Location("orders", directory=tmp_path / "é"))) == 1, "the folders of a store are not encoded"


def test_a_bucket(moto_server: MotoServer, caplog: pytest.LogCaptureFixture) -> None:
    bucket = moto_server.create_bucket()
    made_by_client(moto_server.location(f"{bucket}/a#b/orders"))
    with pytest.raises(InvalidRequestError, match="a%23b/orders"):
        SlateStore.create(f"{bucket}/a#b/orders", **moto_server.options)
    SlateStore.create(f"{bucket}/a#b/items", **moto_server.options)
    assert "a%23b/items" in caplog.text
