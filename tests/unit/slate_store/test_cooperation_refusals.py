"""What a live client cannot commit is refused by name, with what to use instead, and nothing is written before."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from slatespark import CommitConflictError, OptionError, Reaper, SlateStore, SstWriter, TableNotFoundError
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectMeta

_names = itertools.count()

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
ROWS = pa.table({"id": [1, 2], "name": ["a", "b"]}, SCHEMA)
COOPERATE: dict[str, Any] = {"ifClientActive": "cooperate"}


def table(**properties: Any) -> tuple[SlateStore, MemoryStore]:
    url = f"memory://refusals/{next(_names)}"
    store = SlateStore.create(url, SCHEMA, "id", **properties)
    timestamp: dict[str, Any] = {"timestamp": 5} if properties.get("history") else {}
    store.write(ROWS, **timestamp)
    return store, MemoryStore(url.removeprefix("memory://"))


def ingest(store: SlateStore) -> object:
    file = f"memory://refusals/files/{next(_names)}.sst"
    SstWriter(file, keyColumns="id").write(ROWS)
    return store.ingest([file], **COOPERATE)


REFUSED: dict[str, Callable[[SlateStore], object]] = {
    "overwrite": lambda store: store.write(ROWS, mode="overwrite", **COOPERATE),
    "replacement": lambda store: store.write(ROWS, mode="overwrite", replaceWhere="id < 9", **COOPERATE),
    "ifLastSeq": lambda store: store.write(ROWS, ifLastSeq=5, **COOPERATE),
    "timestampColumn": lambda store: store.write(ROWS, timestampColumn="id", **COOPERATE),
    "delete": lambda store: store.delete("name = 'a'", **COOPERATE),
    "does not list keys": lambda store: store.delete("id > 1", **COOPERATE),
    "update": lambda store: store.update("id = 1", {"name": "c"}, **COOPERATE),
    "deleteRange": lambda store: store.deleteRange("id = 1", **COOPERATE),
    "ingest": ingest,
    "transaction": lambda store: store.begin(**COOPERATE),
    "restore": lambda store: store.restoreToVersion(1, **COOPERATE),
    "reap": lambda store: store.reap(**COOPERATE),
    "Reaper": lambda store: Reaper([store.url], options=COOPERATE),
}


def objects(store: MemoryStore) -> list[ObjectMeta]:
    return store.list("")


@pytest.mark.parametrize("name", REFUSED)
def test_calls_that_a_client_cannot_commit(name: str) -> None:
    store, inner = table(retention="1d")
    before = objects(inner)
    with pytest.raises(OptionError, match="ifClientActive=fail or fence"):
        REFUSED[name](store)
    assert objects(inner) == before


def test_a_segment_is_not_dropped_for_a_client_if_that_depends_on_a_read() -> None:
    url = f"memory://refusals/{next(_names)}"
    store = SlateStore.create(url, segmentExtractor="fixed1", segmentPrefixLength=1)
    store.write(pa.table({"key": [b"a1"], "value": [b"1"]}))
    inner = MemoryStore(url.removeprefix("memory://"))
    before = objects(inner)
    with pytest.raises(OptionError, match="ifLastSeq does not take it"):
        store.deleteRange(keyPrefix=b"a", ifLastSeq=store.resolve().seq, **COOPERATE)
    assert objects(inner) == before


def replaced(store: SlateStore, rows: pa.Table, **keys: Any) -> str:
    """The refusal of a replacement of these keys."""
    with pytest.raises(OptionError, match="a replacement of intervals does not take it") as refused:
        store.write(rows, mode="overwrite", **keys, **COOPERATE)
    return str(refused.value)


def test_a_replacement_of_one_segment_names_what_drops_it() -> None:
    raw = SlateStore.create(f"memory://refusals/{next(_names)}", segmentExtractor="fixed1", segmentPrefixLength=1)
    rows = pa.table({"key": [b"a1"], "value": [b"1"]})
    raw.write(rows)
    assert "call deleteRange(keyPrefix=...)." in replaced(raw, rows, keyPrefix=b"a")
    assert "deleteRange" not in replaced(raw, rows, keyPrefix=b"a1")
    rows = pa.table({"day": pa.array([20_000], pa.date32()), "id": [1]})
    url = f"memory://refusals/{next(_names)}"
    typed = SlateStore.create(url, rows.schema, "day,id", segmentExtractor="day", segmentPrefixLength=3)
    typed.write(rows)
    assert "call deleteRange(\"day = '2024-10-04'\")." in replaced(typed, rows, replaceWhere="day = '2024-10-04'")
    assert "deleteRange" not in replaced(typed, rows, replaceWhere="day >= '2024-10-04'")
    assert "deleteRange" not in replaced(table()[0], ROWS, replaceWhere="id < 9")
    assert "deleteRange" not in replaced(table()[0], ROWS, replaceWhere="no condition")


HISTORY: dict[str, Callable[[SlateStore], object]] = {
    "write": lambda store: store.write(ROWS, **COOPERATE),
    "deleteRange": lambda store: store.deleteRange("id = 1", **COOPERATE),
    "trimHistory": lambda store: store.trimHistory(5, **COOPERATE),
}


@pytest.mark.parametrize("name", HISTORY)
def test_history_tables(name: str) -> None:
    store, inner = table(history="true")
    before = objects(inner)
    with pytest.raises(OptionError, match="ifClientActive=fail or fence"):
        HISTORY[name](store)
    assert objects(inner) == before


def test_a_table_that_no_client_has_made() -> None:
    url = f"memory://refusals/{next(_names)}"
    with pytest.raises(TableNotFoundError):
        SlateStore.open(url).write(ROWS, **COOPERATE)
    assert objects(MemoryStore(url.removeprefix("memory://"))) == []


@pytest.mark.parametrize("option", [{"clientTimeout": "soon"}, {"unflushedRows": "lose"}, {"ifClientActive": "help"}])
def test_values_of_the_options(option: dict[str, str]) -> None:
    store, _ = table()
    with pytest.raises(OptionError, match=next(iter(option))):
        store.write(ROWS, **option)


def test_a_write_without_rows_needs_no_client() -> None:
    store, inner = table()
    version = store.detail().version
    assert store.write(ROWS.slice(0, 0), **COOPERATE) == version
    assert [meta.path for meta in objects(inner) if "leases" in meta.path] == []


def test_a_load_that_no_client_takes_leaves_the_schema() -> None:
    store, _ = table()
    more = ROWS.append_column("more", pa.array([1, 2], pa.int32()))
    with pytest.raises(CommitConflictError):
        store.write(more, mergeSchema=True, clientTimeout="1s", **COOPERATE)
    assert store.definition.schema == SCHEMA
