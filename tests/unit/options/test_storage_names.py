"""Options of the storage backend have the names of Spark's options, or the same without `storage.`."""

from __future__ import annotations

import pytest

from slatespark import OptionError, SlateStore


@pytest.mark.parametrize("prefix", ["", "storage.", "STORAGE."])
def test_both_names_mean_the_same(prefix: str) -> None:
    store = SlateStore._at("s3://bucket/table", None, {f"{prefix}region": "eu-west-1"})
    assert store._common.items() >= {f"{prefix or 'storage.'}region": "eu-west-1"}.items()
    assert "eu-west-1" not in repr(store)


def test_an_unknown_name_is_refused_with_either() -> None:
    for name in ("regoin", "storage.regoin"):
        with pytest.raises(OptionError, match=r"storage\.region"):
            SlateStore.open("s3://bucket/table", **{name: "eu-west-1"})


def test_an_argument_of_a_creation_in_another_spelling_is_no_storage_option() -> None:
    with pytest.raises(OptionError, match="keyColumns"):
        SlateStore.create("memory://no-table", "id BIGINT", key_columns="id")
