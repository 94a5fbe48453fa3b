from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore, TableNotFoundError
from slatespark.table.history.timeline import VersionFacts, list_versions
from slatespark.table.records import COMMITS_DIR
from slatespark.table.stores import TableStores, open_stores
from tests.support.fixture_databases import FIXTURES


def stores_at(path: Path) -> TableStores:
    return open_stores(str(path), storage={})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    store = SlateStore.create(str(tmp_path / "t"))
    store.write(pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"]}))
    store.write(pa.table({"key": [b"a"]}), operation="delete")
    return tmp_path / "t"


def test_versions_of_ours_say_what_they_did(table: Path) -> None:
    found = list_versions(stores_at(table))
    assert [facts.version for facts in found] == [5, 4, 3, 2, 1]
    assert [facts.operation for facts in found] == ["write", "claim", "write", "claim", "create"]
    newest, _, older, _, first = found
    assert (newest.rows["delete"], older.rows["put"], older.files) == (1, 2, 1)
    assert (older.first_seq, newest.first_seq) == (1, 2)
    assert {facts.engine for facts in found} == {"slatespark"}
    assert first.committed_ms <= older.committed_ms <= newest.committed_ms
    assert newest.write_id is not None


def test_a_limit_takes_the_newest(table: Path) -> None:
    assert [facts.version for facts in list_versions(stores_at(table), 2)] == [5, 4]
    assert list_versions(stores_at(table), 0) == ()


def test_of_a_client_only_the_time_is_known() -> None:
    found = list_versions(stores_at(FIXTURES / "l0_basic"))
    assert found[0] == VersionFacts(found[0].version, found[0].committed_ms)
    assert found[0].committed_ms > 0


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"manifest_id": 5}'])
def test_a_damaged_record_says_nothing(table: Path, content: bytes) -> None:
    path = max((table / COMMITS_DIR).iterdir())
    path.write_bytes(content)
    assert list_versions(stores_at(table))[0].operation is None


def test_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        list_versions(stores_at(tmp_path))
