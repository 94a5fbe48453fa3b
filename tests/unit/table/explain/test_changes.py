"""The explanation of a change feed: which files are searched, and what it requests at least and at most."""

from __future__ import annotations

import pyarrow as pa

from slatespark import SlateStore

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int32())])


def rows(ids: range, n: int) -> pa.Table:
    return pa.table({"id": list(ids), "n": [n] * len(ids)}, SCHEMA)


def test_files_in_both_versions_are_not_searched() -> None:
    store = SlateStore.create("memory://explain-changes", SCHEMA, "id", autoCompact=False)
    for number in range(3):
        store.write(rows(range(1000 * number, 1000 * number + 1000), 0))
    version = store.write(rows(range(500, 1500), 1))
    found = store.explain("changes", startingVersion=version, analyze=True)
    assert (found.operation, found.version, found.files) == ("changes", version, 4)
    assert dict(found.skipped) == {"in both versions": 3}
    assert [(layer.name, layer.files, layer.used) for layer in found.layers] == [
        ("only in the later version", 1, 1),
        ("only in the earlier version", 0, 0),
        ("in both versions", 3, 0),
    ]
    assert found.rows == 2000
    assert found.measured is not None
    assert found.measured in found.estimated
    assert "in both versions" in str(found)
    nothing = store.explain("changes", startingVersion=version, filter="id > 5000")
    assert dict(nothing.skipped) == {"in both versions": 3, "outside the keys": 1}
