"""Which paths, folders and byte ranges a store accepts."""

from __future__ import annotations

import pytest

from slatespark.errors import CorruptDataError, InvalidRequestError
from slatespark.ranges import ByteRange
from slatespark.storage import open_store
from slatespark.storage.addressing import check_folder, check_path, check_span, client_name, client_urls


@pytest.mark.parametrize("path", ["a", "a/b", "a/.b", "a/..b", "a/b..", "a b/%2e", "ä/\n"])
def test_paths(path: str) -> None:
    assert check_path(path) == path
    assert check_folder(f"{path}/") == f"{path}/"


@pytest.mark.parametrize("path", ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a/.", "a\0b"])
def test_what_is_no_path(path: str) -> None:
    with pytest.raises(InvalidRequestError):
        check_path(path)
    with pytest.raises(InvalidRequestError):
        check_folder(f"{path}/")


@pytest.mark.parametrize("protocol", ["az", "abfs", "abfss"])
def test_azure_has_no_backslashes(protocol: str) -> None:
    with pytest.raises(InvalidRequestError):
        open_store(f"{protocol}://container/a\\b", {"account_name": "a"})
    assert open_store("s3://bucket/a\\b").url == "s3://bucket/a\\b"


def test_folders() -> None:
    assert check_folder("") == "", "the root"
    with pytest.raises(InvalidRequestError, match="folder"):
        check_folder("a")


@pytest.mark.parametrize("span", [(0, 0), (0, 10), (10, 10), (3, 4)])
def test_bytes_of_an_object(span: tuple[int, int]) -> None:
    check_span("p", ByteRange(*span), 10)


@pytest.mark.parametrize("span", [(-1, 5), (5, 4), (0, 11), (11, 11), (-2, -1)])
def test_bytes_beyond_an_object(span: tuple[int, int]) -> None:
    with pytest.raises(CorruptDataError) as raised:
        check_span("p", ByteRange(*span), 10)
    assert raised.value.path == "p"


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("café", "caf%C3%A9"),
        ("a%20b~", "a%2520b%7E"),
        ("a[0]/b", "a%5B0%5D/b"),
        ("\x7f\n", "%7F%0A"),
        ("Plain name-1_.=:&+'$(),;!@", "Plain name-1_.=:&+'$(),;!@"),
    ],
)
def test_names_of_the_client(name: str, encoded: str) -> None:
    assert client_name(name) == encoded


def test_a_name_that_is_not_utf8_is_none_of_the_client() -> None:
    assert client_urls("file:///caf\udce9/b") == []


@pytest.mark.parametrize(
    ("url", "places"),
    [
        ("s3://bucket/a/b", []),
        ("s3://bucket", []),
        ("memory://é/x", []),
        ("az://$web/a#", ["az://$web/a%23"]),
        ("file:///é/b", ["file:///%C3%A9/b"]),
        ("s3://bucket/é/b/~c", ["s3://bucket/é/b/%7Ec", "s3://bucket/%C3%A9/b/%7Ec"]),
    ],
)
def test_places_of_the_client(url: str, places: list[str]) -> None:
    """Names below the root of its store are encoded, and it may be rooted anywhere."""
    assert client_urls(url) == places
