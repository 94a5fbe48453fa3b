"""Which paths, folders and byte ranges a store accepts."""

from __future__ import annotations

import pytest

from slatespark.errors import CorruptDataError, InvalidRequestError
from slatespark.ranges import ByteRange
from slatespark.storage.addressing import check_folder, check_path, check_span


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
