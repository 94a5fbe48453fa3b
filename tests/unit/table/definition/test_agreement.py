"""Table properties as options of a write to an existing table: they must be those that it has, given or by default."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from slatespark import OptionError, SchemaError, SlateStore

ROWS = pa.table({"key": [b"a"], "value": [b"1"]})
_numbers = count()


@pytest.fixture
def store() -> SlateStore:
    return SlateStore.create(f"memory://agreement/{next(_numbers)}")


@pytest.mark.parametrize(
    ("name", "same", "other"),
    [
        ("autoCompact", "true", "false"),
        ("clock", "system", "custom"),
        ("columnar", "false", "true"),
        ("defaultTtl", "none", "7d"),
        ("history", "false", "true"),
        ("retention", "none", "7d"),
    ],
)
def test_a_default_is_what_the_table_has(store: SlateStore, name: str, same: str, other: str) -> None:
    store.write(ROWS, **{name: same})
    with pytest.raises(OptionError, match=name):
        store.write(ROWS, **{name: other})
    if name in ("autoCompact", "defaultTtl", "retention"):
        store.setProperties(**{name: other})
        store.write(ROWS, **{name: other})
        with pytest.raises(OptionError, match=name):
            store.write(ROWS, **{name: same})


@pytest.mark.parametrize("keys", [None, "id"], ids=["raw", "typed"])
@pytest.mark.parametrize(
    ("name", "same", "other"),
    [("versionRetention", {None: "none", "id": "7d"}, "1d"), ("periodicCompactionInterval", "none", "1d")],
)
def test_defaults_that_say_when_files_go(keys: str | None, name: str, same: Any, other: str) -> None:
    url = f"memory://agreement/{next(_numbers)}"
    store = SlateStore.create(url, None if keys is None else "id BIGINT, name STRING", keys)
    rows = ROWS if keys is None else pa.table({"id": [1], "name": ["a"]})
    store.write(rows, **{name: same[keys] if isinstance(same, dict) else same})
    with pytest.raises(OptionError, match=name):
        store.write(rows, **{name: other})


def test_a_name_of_a_key_column_may_contain_a_comma() -> None:
    one, two = (f"memory://agreement/{next(_numbers)}" for _ in range(2))
    row = pa.table({"a,b": [1], "n": [2]})
    store = SlateStore.create(one, row.schema, keyColumns=["a,b"])
    store.write(row, keyColumns=["A,b"])
    assert store.get(1) == {"a,b": 1, "n": 2}
    with pytest.raises(SchemaError, match="keyColumns"):
        store.write(row, keyColumns="a,b")
    store = SlateStore.create(two, "a INT, b INT", ["a", "b"])
    with pytest.raises(SchemaError, match="keyColumns"):
        store.write(pa.table({"a": [1], "b": [1]}), keyColumns=["a,b"])
