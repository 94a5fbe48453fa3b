"""An option that no backend takes is refused, wherever it is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from slatespark import OptionError, SlateStore
from slatespark.storage import open_store
from slatespark.storage.known_options import constructor_options


@pytest.mark.parametrize("url", ["memory://known-options", "file:///tmp/known-options", "s3://bucket/known-options"])
@pytest.mark.parametrize(("name", "near"), [("columnwise", "Use one of"), ("endpoint_ulr", "endpoint_url")])
def test_an_unknown_option(url: str, name: str, near: str) -> None:
    with pytest.raises(OptionError, match=near):
        open_store(url, {name: "x"})


def test_an_unknown_option_of_any_other_driver() -> None:
    with pytest.raises(OptionError, match="skip_instance"):
        open_store("data://known-options", {"skip_instance_cachee": "x"}).list("")


def test_a_local_table_takes_the_options_of_the_bucket_beside_it(tmp_path: Path) -> None:
    open_store(str(tmp_path), {"key": "k", "secret": "s", "root": "/"})


def test_a_misspelt_property_is_no_storage_option(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="columnar"):
        SlateStore.create(str(tmp_path / "t"), columner="true")
    assert not (tmp_path / "t").exists()


class Base:
    def __init__(self, one: int, *rest: int, **more: int) -> None: ...


class Derived(Base):
    def __init__(self, two: int = 2) -> None: ...


def test_constructors_of_base_classes_count() -> None:
    assert constructor_options(Derived) == ["two", "one"]
